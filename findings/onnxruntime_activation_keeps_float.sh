#!/usr/bin/env bash
# ONNX Runtime computes a quantized convolution in float32 if the codes behind its ReLU or ReLU6 could stand for other values than
# the activation lets through. Files with symmetric int8 activations, as TensorRT wants them, are such files.
#
# Versions: onnxruntime 1.32.0, onnx 1.23.2.
# Documented: "QDQ" models hold QuantizeLinear and DequantizeLinear around float operations, which the CPU provider fuses into
#   QLinearConv.
# Seen: QuantizeLinear, DequantizeLinear -> Conv with int8 weights -> Relu or Clip(0, 6) -> QuantizeLinear, DequantizeLinear.
#   QLinearConv, with the activation in it, if the last codes begin at 0 exactly (uint8 with zero point 0, int8 with -128) and behind
#   Clip end at 6 or below. Else Conv and activation stay one float32 operation (FusedConv) between the conversions: int8 with zero
#   point 0 behind Relu, uint8 with zero point 1 or 128, and a range of 6.1 behind Clip. No message.
# For deployment: such a file gives the right answers at the speed of float32. Ranges of a ReLU6 that were measured, or grow by a
#   margin, must be cut at 6. Count QLinearConv in the optimized model (SessionOptions.optimized_model_filepath).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

print("onnxruntime", onnxruntime.__version__)
codes = np.random.default_rng(0).integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)


def operations(activation, scale, zero):
    """What is left of the file when onnxruntime has optimized it."""
    constants = {"scale": np.float32(0.02), "zero": np.uint8(0), "codes": codes, "scales": np.full(8, 0.002, np.float32),
                 "zeros": np.zeros(8, np.int8), "least": np.float32(0), "most": np.float32(6), "out_scale": np.float32(scale),
                 "out_zero": zero}
    make, value = helper.make_node, helper.make_tensor_value_info
    nodes = [make("QuantizeLinear", ["images", "scale", "zero"], ["q"]), make("DequantizeLinear", ["q", "scale", "zero"], ["x"]),
             make("DequantizeLinear", ["codes", "scales", "zeros"], ["w"], axis=0), make("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
             make("Relu", ["y"], ["z"]) if activation == "Relu" else make("Clip", ["y", "least", "most"], ["z"]),
             make("QuantizeLinear", ["z", "out_scale", "out_zero"], ["p"]),
             make("DequantizeLinear", ["p", "out_scale", "out_zero"], ["out"])]
    used = {name for node in nodes for name in node.input}
    shape = [1, 8, 16, 16]
    graph = helper.make_graph(nodes, "g", [value("images", TensorProto.FLOAT, shape)], [value("out", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items() if name in used])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = "optimized.onnx", 3
    onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load("optimized.onnx").graph.node]


cases = [("Relu", 6 / 255, np.uint8(0), True), ("Relu", 6 / 127, np.int8(-128), True), ("Relu", 6 / 127, np.int8(0), False),
         ("Relu", 6 / 255, np.uint8(1), False), ("Relu", 6 / 127, np.uint8(128), False), ("Clip", 6 / 255, np.uint8(0), True),
         ("Clip", 5.9 / 255, np.uint8(0), True), ("Clip", 6.1 / 255, np.uint8(0), False)]
held = True
for activation, scale, zero, integers in cases:
    left = operations(activation, scale, zero)
    print(f"{activation}, {zero.dtype} with zero point {zero}, scale {scale:.5f}: {' '.join(left)}")
    held &= ("QLinearConv" in left) == integers and ("FusedConv" in left) != integers
raise SystemExit(0 if held else "the behaviour has changed")
P
