#!/usr/bin/env python3
"""Converts a file of PyTorch weights (.pth, .pt, .bin) to safetensors: convert-weights.py IN.pth OUT.safetensors
Needs: pip install 'torch>=2.6' safetensors
Before 2.6 a file could run code although weights_only was set (CVE-2025-32434)."""
import sys

import torch
from safetensors.torch import save_file

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
    sys.exit(f"convert-weights.py: PyTorch {torch.__version__} may run code that a file of weights holds;"
             " fix: pip install 'torch>=2.6'")
content = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
weights = content.get("state_dict", content.get("model", content))
save_file({name: tensor.contiguous() for name, tensor in weights.items()}, sys.argv[2])
