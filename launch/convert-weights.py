#!/usr/bin/env python3
"""Converts a file of PyTorch weights (.pth, .pt, .bin) to safetensors: convert-weights.py IN.pth OUT.safetensors
Needs: pip install torch safetensors"""
import sys

import torch
from safetensors.torch import save_file

content = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
weights = content.get("state_dict", content.get("model", content))
save_file({name: tensor.contiguous() for name, tensor in weights.items()}, sys.argv[2])
