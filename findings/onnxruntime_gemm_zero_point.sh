#!/usr/bin/env bash
# ONNX Runtime computes a quantized matrix in floats if the weight's DequantizeLinear leaves its zero point out; a quantized
# convolution becomes integers all the same.
#
# Versions: onnxruntime 1.32.0, onnx 1.23.2.
# Documented: the ONNX operator DequantizeLinear: x_zero_point is optional, "Zero point is 0 when it's not specified". So a
#   file with a zero point of 0 and one without say the same.
# Seen: the optimized graph of quantize -> Gemm -> quantize has QGemm with a zero point of 0, and Gemm in floats, behind two
#   DequantizeLinear, without it. The same graph with Conv has QLinearConv in both cases.
# For deployment: a classifier's last layer stays float, and in a network of matrices all layers do, without a word.
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


def model(kind, zero):
    random = np.random.default_rng(0)
    pixels = [] if kind == "Gemm" else [1, 1]
    constants = {"scale": np.float32(0.02), "zero": np.uint8(0), "codes": random.integers(-127, 128, [8, 16, *pixels]).astype(np.int8),
                 "scales": np.full(8, 0.01, np.float32), "zeros": np.zeros(8, np.int8), "bias": random.integers(-500, 500, 8).astype(np.int32),
                 "units": np.full(8, 0.0002, np.float32)}
    make = helper.make_node
    nodes = [make("QuantizeLinear", ["x", "scale", "zero"], ["xq"]), make("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
             make("DequantizeLinear", ["codes", "scales"] + ["zeros"] * zero, ["w"], axis=0),
             make("DequantizeLinear", ["bias", "units"], ["b"], axis=0),
             make(kind, ["xd", "w", "b"], ["y"], **({"transB": 1} if kind == "Gemm" else {})),
             make("QuantizeLinear", ["y", "scale", "zero"], ["yq"]), make("DequantizeLinear", ["yq", "scale", "zero"], ["out"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 16, *pixels])], [value("out", TensorProto.FLOAT, [1, 8, *pixels])],
                              [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


seen = {}
for kind in ("Gemm", "Conv"):
    for zero in (True, False):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = "optimized.onnx"
        options.log_severity_level = 3
        onnxruntime.InferenceSession(model(kind, zero).SerializeToString(), options, providers=["CPUExecutionProvider"])
        (seen[kind, zero],) = [n.op_type for n in onnx.load("optimized.onnx").graph.node if "Gemm" in n.op_type or "Conv" in n.op_type]
        print(f"{kind} {'with' if zero else 'without'} a zero point of its weight: {seen[kind, zero]}")
expected = {("Gemm", True): "QGemm", ("Gemm", False): "Gemm", ("Conv", True): "QLinearConv", ("Conv", False): "QLinearConv"}
raise SystemExit(0 if seen == expected else "the behaviour has changed")
P
