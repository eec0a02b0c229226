#!/usr/bin/env python3
"""Faults that are injected into trainings: the short run of tests/faults/run.sh, which prints one line for each."""

import os
import pathlib

if __name__ == "__main__":
    script = str(pathlib.Path(__file__).resolve().parents[1] / "faults/run.sh")
    os.execv(script, [script, "--quick"])
