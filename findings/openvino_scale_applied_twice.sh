#!/usr/bin/env bash
# OpenVINO multiplies the result of an int8 convolution twice by its scale where a Transpose and something else read it, if the
# number of images is free in the file. With a fixed number it is right.
#
# Versions: openvino 2026.4.1, onnx 1.23.2.
# Documented: shapes may be dynamic; results do not depend on that. onnx.reference gives the expected values.
# Seen: quantize (scale 0.02) -> convolution with int8 weights (scale 0.002) -> Transpose to channels last, with the convolution and
#   the Transpose as outputs. Input N x 3 x 8 x 8: an output is 0.02 * 0.002 times the right values, for N of 1, too. Input
#   1 x 3 x 8 x 8: both are right. The same network in float32 is right with either. No message.
# For deployment: the heads of detectors are convolutions and transposes, and exporters leave N free. Fix it by
#   model.reshape(...) before compile_model, or compare with another runtime.
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
random = np.random.default_rng(0)
codes = random.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
images = random.random((1, 3, 8, 8), np.float32)


def model(batch, quantized):
    constants = {"scale": np.float32(0.02), "zero": np.uint8(0), "codes": codes, "scales": np.full(4, 0.002, np.float32),
                 "zeros": np.zeros(4, np.int8), "reals": codes * np.float32(0.002)}
    make, value = helper.make_node, helper.make_tensor_value_info
    first = [make("QuantizeLinear", ["images", "scale", "zero"], ["q"]), make("DequantizeLinear", ["q", "scale", "zero"], ["x"]),
             make("DequantizeLinear", ["codes", "scales", "zeros"], ["w"], axis=0)] if quantized else []
    nodes = [*first, make("Conv", ["x", "w"] if quantized else ["images", "reals"], ["planes"], pads=[1, 1, 1, 1]),
             make("Transpose", ["planes"], ["pixels"], perm=[0, 2, 3, 1])]
    graph = helper.make_graph(nodes, "g", [value("images", TensorProto.FLOAT, [batch, 3, 8, 8])],
                              [value("planes", TensorProto.FLOAT, [batch, 4, 8, 8]), value("pixels", TensorProto.FLOAT, [batch, 8, 8, 4])],
                              [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


seen = {}
for batch in ("N", 1):
    for quantized in (False, True):
        made = model(batch, quantized)
        onnx.save(made, "model.onnx")
        expected = ReferenceEvaluator(made).run(None, {"images": images})
        compiled = openvino.Core().compile_model("model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        got = [compiled(images)[output] for output in compiled.outputs]
        seen[batch, quantized] = [all(np.allclose(a, factor * b, rtol=1e-4, atol=1e-6 * factor) for a, b in zip(got, expected))
                                  for factor in (1, 0.02 * 0.002)]
        ratios = [f"{abs(a).max() / abs(b).max():.3g}" for a, b in zip(got, expected)]
        print(f"batch {batch}, {'int8' if quantized else 'float32'}: the outputs are {' and '.join(ratios)} times the right values")
right, twice = [True, False], [False, True]
raise SystemExit(0 if seen == {("N", False): right, ("N", True): twice, (1, False): right, (1, True): right}
                 else "the behaviour has changed")
P
