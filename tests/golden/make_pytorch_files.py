#!/usr/bin/env python3
"""Writes files as PyTorch, timm and Lightning write them, for tests/integration/test_weight_files.py.

usage: make_pytorch_files.py DIR    needs: pip install torch==2.15.0 lightning numpy
"""
import argparse
import json
import pathlib
import sys

import lightning
import numpy
import torch

out = pathlib.Path(sys.argv[1])


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.fc = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.bn1(self.conv1(x)).mean((2, 3)))


class Module(lightning.LightningModule):
    def __init__(self, path, options):
        super().__init__()
        self.save_hyperparameters()
        self.model = network

    def training_step(self, batch, _):
        return self.model(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.0)


torch.manual_seed(1)
network = Network()
namespace = argparse.Namespace(lr=0.1, output=pathlib.Path("runs"))
module = Module(pathlib.Path("images"), namespace)
trainer = lightning.Trainer(max_steps=1, logger=False, enable_checkpointing=False, accelerator="cpu",
                            enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, torch.utils.data.DataLoader([torch.zeros(3, 8, 8)] * 2))
trainer.save_checkpoint(out / "lightning.ckpt")
state = network.state_dict()
half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
bf16 = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
torch.save(state, out / "plain.pth")
torch.save(state, out / "legacy.pth", _use_new_zipfile_serialization=False)
torch.save({name: tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
            for name, tensor in state.items()}, out / "channels_last.pth")
torch.save({"state_dict": half, "state_dict_ema": state, "arch": "none", "args": namespace, "epoch": 3},
           out / "timm.pth.tar")
torch.save({"model": bf16, "model_ema": state, "optimizer": torch.optim.SGD(network.parameters(), 0.1).state_dict(),
            "args": namespace, "device": torch.device("cpu"), "best": numpy.float64(3), "random": torch.get_rng_state()},
           out / "torchvision.pth")
torch.save(network, out / "whole.pth")
expected = {name: tensor.flatten().tolist() for name, tensor in state.items()}
(out / "expected.json").write_text(json.dumps(expected) + "\n")
