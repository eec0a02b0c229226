#!/usr/bin/env bash
# OpenCV reads binary PGM and PPM files as if their maximum were 255 or 65535, whatever maximum they name.
#
# Versions: opencv-python-headless 5.0.0.93, pillow 13.0.0.
# Documented: netpbm's pgm(5): values are "proportional to the intensity", and "zero is black and the maximum value is
#   white"; the maximum is named in the file's header.
# Seen: white in a PPM file of maximum 1023 is 3 of 255 with cv2.imread, 15 with a maximum of 4095, and 100 with a maximum
#   of 100. Pillow gives 255.
# For training: pictures of scientific cameras, whose values have 10 or 12 bits, are read almost black.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet opencv-python-headless==5.0.0.93 pillow==13.0.0 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import cv2
from PIL import Image
print("OpenCV", cv2.__version__)
seen = {}
for maximum in (100, 1023, 4095, 65535):
    white = maximum.to_bytes(2 if maximum > 255 else 1, "big")
    open("a.ppm", "wb").write(b"P6\n8 8\n%d\n" % maximum + white * 3 * 64)
    opencv = int(cv2.imread("a.ppm", cv2.IMREAD_COLOR)[4, 4, 0])
    pillow = Image.open("a.ppm").convert("RGB").getpixel((4, 4))[0]
    print(f"white of a maximum of {maximum}: OpenCV {opencv}, Pillow {pillow}")
    seen[maximum] = (opencv, pillow)
raise SystemExit(0 if seen == {100: (100, 255), 1023: (3, 255), 4095: (15, 255), 65535: (255, 255)} else "the behaviour has changed")
P
