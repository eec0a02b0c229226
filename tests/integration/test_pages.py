#!/usr/bin/env python3
"""The HTML pages in a headless browser, as wide as a telephone, in light and dark: nothing is cut off at the side, text
can be read, and images and charts have a text for those who do not see them."""

import html
import json
import re
import shutil
import subprocess

from harness import RECIPE, ROOT, Case, main, with_settings, write_png

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTH, HEIGHT = 420, 30000  # high, since elementsFromPoint() finds what the frame shows
# The browser's window cannot be so narrow, but a frame in it can.
FRAME = """<!doctype html><html style="color-scheme:light dark"><body style="margin:0">
<iframe style="border:0;width:{}px;height:{}px" srcdoc="{}"></iframe></body></html>"""

# Writes what it finds into the page around the frame. A text is compared with what is painted below its middle: backgrounds of HTML
# elements and rectangles of charts, over each other.
SCRIPT = """<script>addEventListener('load', () => {
  document.querySelectorAll('details').forEach(element => element.open = true);
  const channels = text => { const found = text.match(/[\\d.]+/g); return found && found.length >= 3 ? found.map(Number) : null; };
  const light = rgb => rgb.slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const paint = element => {
    const style = getComputedStyle(element), box = element.tagName === 'rect';
    const color = channels(box ? style.fill : element instanceof SVGElement ? '' : style.backgroundColor);
    return color && [...color.slice(0, 3), (color[3] ?? 1) * (box ? style.fillOpacity * style.opacity : 1)];
  };
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = {width: innerWidth, content: document.scrollingElement.scrollWidth, texts: 0, pale: [], small: [],
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    images: document.images.length, charts: document.querySelectorAll('svg').length,
    silent: [...document.images].filter(image => !image.alt.trim()).length +
      [...document.querySelectorAll('svg')].filter(svg => !(svg.getAttribute('aria-label') || '').trim()).length,
    cut: [...document.querySelectorAll('.card:has(svg):not(.scrolled)')].filter(card => card.scrollWidth > card.clientWidth + 1)
      .map(card => card.querySelector('svg').getAttribute('aria-label')),
    dashes: [...document.querySelectorAll('table')].flatMap(table => [...table.rows[0].cells].map((_, column) =>
      [...table.rows].slice(1).every(row => row.cells[column]?.textContent === '-'))).filter(Boolean).length};
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement, range = document.createRange();
    if (!node.data.trim() || ['STYLE', 'SCRIPT', 'title'].includes(element.tagName)) continue;
    range.selectNodeContents(node);
    const box = range.getClientRects()[0];
    if (!box) continue;
    const stack = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2), own = stack.indexOf(element);
    if (own < 0) continue;  // scrolled out of its card
    const below = stack.slice(own).map(paint).filter(Boolean).reverse()
      .reduce((under, over) => under.map((c, i) => c * (1 - over[3]) + over[i] * over[3]), [255, 255, 255]);
    const style = getComputedStyle(element), svg = element.closest('svg');
    const lights = [channels(svg ? style.fill : style.color), below].map(light).sort((a, b) => b - a);
    const contrast = (lights[0] + 0.05) / (lights[1] + 0.05);
    found.texts++;
    if (contrast < 4.5) found.pale.push(`${node.data.trim()}: ${contrast.toFixed(2)}`);
    const size = parseFloat(style.fontSize) * (svg ? svg.clientWidth / svg.viewBox.baseVal.width : 1);
    if (size < 10) found.small.push(`${node.data.trim()}: ${size.toFixed(1)}`);
  }
  const findings = document.createElement('pre');
  findings.id = 'findings';
  findings.textContent = JSON.stringify(found);
  parent.document.body.append(findings);
});</script>"""

SMALL = {"data.samples": 160, "data.batch": 32, "data.workers": 1, "backend.threads": 1, "train.log_every_steps": 1}
STUDY = f"""title: the title of a study that is longer than a telephone is wide
base: {RECIPE}
set: {{data.samples: 64, data.batch: 32, train.steps: 2, backend.threads: 1, data.workers: 1}}
grid:
  policy:
    fp32: {{policy.name: fp32}}
    int8_with_a_long_name_of_its_row: {{policy.name: unified_int8}}
    lost: {{model.initial_weights: nowhere.safetensors}}
"""


class Pages(Case):
    def setUp(self):
        if BROWSER is None:
            self.skipTest("there is no chromium (launch/setup.sh --browser installs it)")
        super().setUp()

    def findings(self, page, dark):
        examined = self.directory / "examined.html"
        examined.write_text(FRAME.format(WIDTH, HEIGHT, html.escape(page.read_text().replace("</body>", SCRIPT + "</body>"))))
        # 0 is dark, 1 is light. In a container the browser has neither the rights for its sandbox nor a large /dev/shm.
        job = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                              f"--user-data-dir={self.directory / 'browser'}", f"--window-size={2 * WIDTH},{HEIGHT}",
                              f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom",
                              examined.as_uri()], capture_output=True, text=True, timeout=120)
        found = re.search(r'(?s)<pre id="findings">(.*?)</pre>', job.stdout[job.stdout.rfind("</iframe>"):])
        self.assertTrue(found, job.stderr[-2000:])
        return json.loads(html.unescape(found[1]))

    def examine(self, page, texts, images=0, charts=0):
        for dark in False, True:
            with self.subTest(page=page.name, dark=dark):
                found = self.findings(page, dark)
                self.assertEqual((found["width"], found["dark"]), (WIDTH, dark))  # the browser did as it was told
                self.assertLessEqual(found["content"], WIDTH, found)
                self.assertGreaterEqual((found["texts"] >= texts, found["images"], found["charts"]), (True, images, charts), found)
                for fault in "pale", "small", "cut":
                    self.assertEqual(found[fault], [], found)
                self.assertEqual((found["silent"], found["dashes"]), (0, 0), found)

    def test_classifier_and_predictions(self):
        run = self.run_path("a_run_of_a_classifier_whose_name_is_rather_long_for_a_telephone")
        self.octet("train", RECIPE, "--run", run, *with_settings({**SMALL, "train.epochs": 3,
                                                                   "policy.clip.record_histograms": "true"}))
        self.octet("inspect", run)
        text = (run / "inspect.html").read_text()
        for words in "<dt>command</dt><dd>", "<dt>host</dt>", "UTC</dd>", "What is normal?", "at the end of an epoch":
            self.assertTrue(words in text, words)
        rates = [record["learning_rate"] for record in self.metrics(run) if record["kind"] == "epoch"]
        self.assertEqual(len(rates), 3)
        self.examine(run / "inspect.html", texts=100, images=1, charts=8)

        pictures = self.directory / "pictures"
        pictures.mkdir()
        for shade in 40, 200:
            write_png(pictures / f"{shade}.png", 64, shade)
        (pictures / "broken.png").write_bytes(b"no image")
        page = self.directory / "predictions.html"
        self.octet("predict", run, pictures, "--html", page, code=1)
        text = page.read_text()
        self.assertIn(f"<dt>run</dt><dd>{run}</dd>", text)
        self.assertIn(f"<li>{pictures / 'broken.png'}</li>", text)
        self.assertEqual(text.count('<tr class="first">'), 2)
        self.assertNotIn(">0.0\u00a0%<", text)
        self.examine(page, texts=8, images=2)

    def test_detector(self):
        run = self.run_path("detector")
        settings = {**SMALL, "data.samples": 64, "data.batch": 8, "data.image_size": 64, "train.steps": 8,
                    "model.neck_channels": 16, "model.head_depth": 1}
        self.octet("train", ROOT / "configs/shapes_detection_retinanet_unified_int8.yaml", "--run", run, *with_settings(settings))
        self.octet("inspect", run)
        titles = re.findall(r'aria-label="([^"]*)"', (run / "inspect.html").read_text())
        self.assertEqual(sorted(titles), sorted(set(titles)), "no chart comes twice")
        self.examine(run / "inspect.html", texts=50, images=2, charts=6)

    def test_study(self):
        study, out = self.directory / "study.yaml", self.directory / "out"
        study.write_text(STUDY)
        self.octet("study", study, "--directory", out, code=1)
        self.examine(out / "study.html", texts=20, charts=3)


if __name__ == "__main__":
    main()
