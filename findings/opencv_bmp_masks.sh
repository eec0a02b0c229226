#!/usr/bin/env bash
# OpenCV ignores the colour masks of a BMP file with 32 bits a pixel, so its channels are moved.
#
# Versions: opencv-python-headless 5.0.0.93, pillow 13.0.0.
# Documented: BITMAPINFOHEADER, BI_BITFIELDS: three masks say which bits of a pixel are red, green and blue.
# Seen: a red of (200, 100, 50), stored with the masks 0xFF000000, 0x00FF0000, 0x0000FF00, is read as (100, 50, 0).
#   Pillow gives (200, 100, 50).
# For training: such files, as some screen and microscope tools write them, train with wrong colours.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet opencv-python-headless==5.0.0.93 pillow==13.0.0 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import cv2, struct
from PIL import Image
print("OpenCV", cv2.__version__)
side, masks = 8, (0xFF000000, 0x00FF0000, 0x0000FF00)
pixels = bytes((0, 50, 100, 200)) * side * side
head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 32, 3, len(pixels), 2835, 2835, 0, 0) + struct.pack("<3I", *masks)
start = 14 + len(head)
open("a.bmp", "wb").write(b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + head + pixels)
opencv = tuple(int(v) for v in cv2.imread("a.bmp", cv2.IMREAD_COLOR)[4, 4, ::-1])
pillow = Image.open("a.bmp").convert("RGB").getpixel((4, 4))
print("OpenCV", opencv, "Pillow", pillow)
raise SystemExit(0 if opencv == (100, 50, 0) and pillow == (200, 100, 50) else "the behaviour has changed")
P
