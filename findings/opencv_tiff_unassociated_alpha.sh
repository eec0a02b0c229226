#!/usr/bin/env bash
# OpenCV multiplies the colours of a TIFF file by its alpha, though the file says that they are not multiplied.
#
# Versions: opencv-python-headless 5.0.0.93, tifffile 2026.3.3, pillow 13.0.0.
# Documented: cv::IMREAD_COLOR "always convert image to the 3 channel BGR color image"; TIFF 6.0, ExtraSamples: 2 is
#   unassociated alpha, whose colours are stored as they are.
# Seen: an orange of (200, 100, 50) with an alpha of 51 of 255 is read as (40, 20, 10), and with alpha 0 as black. Pillow
#   gives (200, 100, 50). The same picture as PNG is (200, 100, 50) in OpenCV too.
# For training: photographs of tools that write TIFF with masks become dark or black, without a word.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet opencv-python-headless==5.0.0.93 tifffile==2026.3.3 pillow==13.0.0 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import cv2, numpy as np, tifffile
from PIL import Image
print("OpenCV", cv2.__version__)
as_expected = True
for alpha, seen in ((255, (200, 100, 50)), (51, (40, 20, 10)), (0, (0, 0, 0))):
    rgba = np.full((16, 16, 4), (200, 100, 50, alpha), np.uint8)
    tifffile.imwrite("a.tif", rgba, photometric="rgb", extrasamples=["unassalpha"])
    Image.fromarray(rgba).save("a.png")
    tiff, png = (tuple(int(v) for v in cv2.imread(name, cv2.IMREAD_COLOR)[8, 8, ::-1]) for name in ("a.tif", "a.png"))
    pillow = Image.open("a.tif").convert("RGB").getpixel((8, 8))
    print(f"alpha {alpha}: OpenCV TIFF {tiff}, OpenCV PNG {png}, Pillow TIFF {pillow}")
    as_expected &= tiff == seen and png == pillow == (200, 100, 50)
raise SystemExit(0 if as_expected else "the behaviour has changed")
P
