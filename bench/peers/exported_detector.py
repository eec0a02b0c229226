#!/usr/bin/env python3
"""What a detector that `octet export` wrote finds in another program on a list of images, in COCO's results format, and how many
images a second.

usage: bench/peers/exported_detector.py FILE.onnx LIST FOLDER OUTPUT.json [--openvino] [--post-training LIST]
  LIST             a file with an image's name in each line, without ending (VOC's ImageSets/Main/test.txt); the first has the id 1
  FOLDER           of the images, NAME.jpg
  --post-training  FILE has real numbers (`--for float`): ONNX Runtime quantizes its layers first, on these images
Then `octet eval RUN --detections OUTPUT.json` judges them, as it judges its own.
Images are prepared as docs/run_exported.py does, with Pillow. Needs: numpy, pillow, onnxruntime or openvino
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))

from run_exported import objects, open_file, photograph


def images_of(names, folder, steps):
    for name in pathlib.Path(names).read_text().split():
        yield photograph(pathlib.Path(folder) / f"{name}.jpg", steps)


def quantized(file, names, folder, output):
    """After training: per channel, activations u8, weights s8. Boxes and scores stay real."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static

    model = onnx.load(file)
    steps = json.loads({entry.key: entry.value for entry in model.metadata_props}["preprocessing"])

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.images = images_of(names, folder, steps)

        def get_next(self):
            image = next(self.images, None)
            return None if image is None else {"images": image[0][None]}

    after = [node.name for node in model.graph.node if node.name.startswith("detector.") or node.op_type in ("TopK", "Div")]
    quantize_static(file, output, Reader(), per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                    calibrate_method=CalibrationMethod.MinMax, nodes_to_exclude=after,
                    op_types_to_quantize=["Conv", "Add", "Relu", "MaxPool", "Resize"])
    made = onnx.load(output)
    del made.metadata_props[:]
    made.metadata_props.extend(model.metadata_props)
    onnx.save(made, output)


def main():
    parser = argparse.ArgumentParser()
    for name in "file", "names", "folder", "output":
        parser.add_argument(name)
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--post-training", metavar="LIST")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        file = options.file
        if options.post_training:
            file = f"{temporary}/quantized.onnx"
            quantized(options.file, options.post_training, options.folder, file)
        metadata, run = open_file(file, options.openvino)
    found, seconds = [], []
    for image, (pixels, shrunk) in enumerate(images_of(options.names, options.folder, json.loads(metadata["preprocessing"])), 1):
        started = time.perf_counter()
        outputs = run(pixels[None])
        seconds.append(time.perf_counter() - started)
        for (left, top, right, bottom), score, label in zip(*objects(outputs, shrunk)):
            box = [float(of) for of in (left, top, right - left, bottom - top)]
            found.append({"image_id": image, "category_id": int(label) + 1, "bbox": box, "score": float(score)})
    pathlib.Path(options.output).write_text(json.dumps(found))
    print(f"{len(found)} objects on {len(seconds)} images, {1 / sorted(seconds)[len(seconds) // 2]:.1f} images/s by the median")


main()
