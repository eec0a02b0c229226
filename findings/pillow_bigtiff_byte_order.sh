#!/usr/bin/env bash
# Pillow reads BigTIFF files whose lowest byte comes first, and cannot open the same file with the highest byte first.
#
# Versions: pillow 13.0.0, tifffile 2026.3.3.
# Documented: libtiff's description of BigTIFF: a file begins with "II" or "MM", by its byte order, and 43, where TIFF has 42.
# Seen: tifffile reads both; Pillow raises an error for "MM".
# For training: large scans of microscopes in this order are taken for damaged images by loaders that rest on Pillow.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pillow==13.0.0 numpy==2.4.6 tifffile==2026.3.3
cd "$work"
venv/bin/python - <<'P'
import numpy, PIL, tifffile
from PIL import Image
print("Pillow", PIL.__version__, "tifffile", tifffile.__version__)
pixels = numpy.arange(16 * 16 * 3, dtype=numpy.uint8).reshape(16, 16, 3)
seen = {}
for order in "<", ">":
    name = "low.tif" if order == "<" else "high.tif"
    tifffile.imwrite(name, pixels, bigtiff=True, byteorder=order, photometric="rgb")
    assert (tifffile.imread(name) == pixels).all()
    try:
        seen[order] = bool((numpy.asarray(Image.open(name)) == pixels).all())
    except Exception as error:
        seen[order] = type(error).__name__
print(seen)
raise SystemExit(0 if seen["<"] is True and seen[">"] not in (True, False) else "the behaviour has changed")
P
