#!/usr/bin/env python3
"""Every recipe in configs/ has a network, a policy, data and memory that fit together: `octet plan` computes its plans."""

import re

from harness import OCTET, ROOT, Case, main

# Where a recipe leaves the number of classes to data that are not here.
CLASSES = {f"coco8_{name}_resnet18_unified_int8.yaml": 80 for name in ("retinanet", "faster_rcnn", "rfcn")}


class Recipes(Case):
    def planned(self, recipe, *settings):
        """The plan for two images. Its exit code says whether this machine has the memory."""
        job = self.launch([OCTET, "plan", recipe, "--set", "data.batch=2", *settings])
        job.wait()
        self.assertIn(job.process.poll(), (0, 1), job)
        self.assertRegex(job.out, r"2 of \d+x\d+ images per rank", job)
        return job.out

    def test_every_recipe_can_be_planned(self):
        for recipe in sorted((ROOT / "configs").glob("*.yaml")):
            with self.subTest(recipe.name):
                classes = CLASSES.get(recipe.name)
                self.planned(recipe, *(["--set", f"model.classes={classes}"] if classes else []))

    def test_each_canvas_has_a_plan(self):
        """The largest counts: the arena is that of the canvas with the largest one."""
        out = self.planned(ROOT / "configs/voc_retinanet_resnet18_unified_int8.yaml")
        arenas = [float(arena) for arena in re.findall(r"(?m)^  \d+x\d+ +arena (\S+) MB, of evaluation \S+ MB$", out)]
        self.assertEqual(len(arenas), 4, out)
        self.assertRegex(out, r"2 of (608x1024|1024x608) images")
        self.assertEqual(float(re.search(r"parameters; .* arena ([0-9.]+),", out)[1]), max(arenas))

    def test_open_classes_are_those_of_the_data(self):
        recipe = ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml"
        open_classes, named = (re.sub(r"(data set|program|takes) [0-9.]+", "", self.planned(recipe, *settings))
                               for settings in (["--set", "model.classes=0"], []))  # a process' memory differs a little
        self.assertEqual(open_classes, named)
        job = self.octet("plan", ROOT / "configs/coco8_retinanet_resnet18_unified_int8.yaml", code=2)
        self.assertRegex(job.err, "data.root is `data/coco8`: no such file or folder(?s:.*)fix: ")


if __name__ == "__main__":
    main()
