#!/usr/bin/env bash
# ONNX Runtime turns the float bias of a quantized convolution into int32 by itself. Where the weight's scale is small the
# bias overflows, and the channel's output is wrong, without a word.
#
# Versions: onnxruntime 1.32.0, onnx 1.23.2.
# Documented: the ONNX standard says what the file computes, and has an evaluator, onnx.reference; a bias may be float.
# Seen: one weight of code 1, a bias of 1.0, an input of 0.5. With a weight scale of 1e-6 the output is 1.0 in all. With 1e-7
#   and below, the bias in units of (input scale x weight scale) exceeds 2^31: without optimizations and by onnx.reference
#   the output is 1.0, with the default optimizations 0.0.
# For deployment: channels that training has switched off have such scales, per-channel quantizers write them, and their
#   bias is all that such a channel says.
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
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__)


def model(weight_scale):
    constants = {"xs": np.float32(1 / 255), "ys": np.float32(2 / 255), "zero": np.uint8(0), "codes": np.ones((1, 1, 1, 1), np.int8),
                 "scale": np.array([weight_scale], np.float32), "zeros": np.zeros(1, np.int8), "bias": np.ones(1, np.float32)}
    make, value = helper.make_node, helper.make_tensor_value_info
    nodes = [make("QuantizeLinear", ["x", "xs", "zero"], ["xq"]), make("DequantizeLinear", ["xq", "xs", "zero"], ["xd"]),
             make("DequantizeLinear", ["codes", "scale", "zeros"], ["w"], axis=0), make("Conv", ["xd", "w", "bias"], ["y"]),
             make("QuantizeLinear", ["y", "ys", "zero"], ["yq"]), make("DequantizeLinear", ["yq", "ys", "zero"], ["out"])]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 1, 2, 2])], [value("out", TensorProto.FLOAT, [1, 1, 2, 2])],
                              [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


def run(made, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return float(session.run(None, {"x": x})[0][0, 0, 0, 0])


x = np.full((1, 1, 2, 2), 0.5, np.float32)
levels = onnxruntime.GraphOptimizationLevel
seen = {}
for scale in (1e-6, 1e-7, 1e-8):
    made = model(scale)
    seen[scale] = [round(value, 1) for value in (float(ReferenceEvaluator(made).run(None, {"x": x})[0][0, 0, 0, 0]),
                                                 run(made, levels.ORT_DISABLE_ALL), run(made, levels.ORT_ENABLE_ALL))]
    print(f"weight scale {scale}: onnx.reference {seen[scale][0]}, without optimizations {seen[scale][1]}, by default {seen[scale][2]}")
raise SystemExit(0 if seen == {1e-6: [1, 1, 1], 1e-7: [1, 1, 0], 1e-8: [1, 1, 0]} else "the behaviour has changed")
P
