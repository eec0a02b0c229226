#!/usr/bin/env bash
# OpenVINO's average pool of quantized values counts the padding as code 0, not as the value 0, so the borders are wrong where
# the zero point is another one.
#
# Versions: openvino 2026.4.1, onnx 1.23.2.
# Documented: the ONNX operator AveragePool with count_include_pad=1 includes "pad pixels when calculating values for the
#   edges", and those are zeros. onnx.reference computes so.
# Seen: convolution -> quantize -> AveragePool 3x3 with padding 1 -> quantize, all with one scale. With zero point 0 every
#   code is that of onnx.reference. With zero point 128 (signed values as uint8, what ONNX Runtime's and PyTorch's tools
#   write) the codes inside are equal, and those at the border differ by up to 71 of 255.
# For deployment: networks with padded average pools, such as Inception's, are wrong at all borders if their values have a sign.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 numpy==2.4.6
cd "$work"
venv/bin/python - <<'P'
import numpy as np
import onnx
import openvino
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

print("openvino", openvino.__version__)


def model(zero):
    constants = {"scale": np.float32(0.02), "zero": np.uint8(zero), "codes": 100 * np.eye(4, dtype=np.int8).reshape(4, 4, 1, 1),
                 "scales": np.full(4, 0.01, np.float32), "zeros": np.zeros(4, np.int8)}
    make, value = helper.make_node, helper.make_tensor_value_info

    def rounded(name):
        return [make("QuantizeLinear", [name, "scale", "zero"], [name + "q"]), make("DequantizeLinear", [name + "q", "scale", "zero"], [name + "d"])]
    nodes = [*rounded("x"), make("DequantizeLinear", ["codes", "scales", "zeros"], ["w"], axis=0), make("Conv", ["xd", "w"], ["c"]), *rounded("c"),
             make("AveragePool", ["cd"], ["p"], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], count_include_pad=1), *rounded("p")]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 4, 6, 6])], [value("pd", TensorProto.FLOAT, [1, 4, 6, 6])],
                              [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


x = np.random.default_rng(0).uniform(-1.2, 1.2, (1, 4, 6, 6)).astype(np.float32)
seen = {}
for zero in (0, 128):
    images = abs(x) if zero == 0 else x
    made = model(zero)
    onnx.save(made, "model.onnx")
    expected = ReferenceEvaluator(made).run(None, {"x": images})[0]
    got = openvino.Core().compile_model("model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(images)[0]
    codes = np.round(abs(got - expected) / 0.02)
    seen[zero] = (codes[:, :, 1:-1, 1:-1].max() <= 1, codes.max() > 30)
    print(f"zero point {zero}: codes differ by up to {codes[:, :, 1:-1, 1:-1].max():.0f} inside and {codes.max():.0f} at the border")
raise SystemExit(0 if seen == {0: (True, False), 128: (True, True)} else "the behaviour has changed")
P
