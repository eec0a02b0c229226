#!/usr/bin/env python3
"""Compares a file of `octet export --for onnxruntime` with octet, layer by layer: the samples of --check-with say what octet makes
of images.

usage: bench/peers/exported.py FILE.onnx DIR [--json FILE]
Prints the operations that ONNX Runtime makes of the file, and for each tensor how many codes differ from octet's: computed by
the standard's own evaluator (onnx.reference) on octet's inputs of that layer, and by ONNX Runtime on the same inputs.
Fails if a convolution is not QLinearConv or the matrix not QGemm; if a code of ONNX Runtime differs by more than 1; or if one of
onnx.reference differs although the real value is not within 1e-4 of the middle between two codes.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

PROVIDERS = ["CPUExecutionProvider"]


def operations(file):
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.log_severity_level = 3
        onnxruntime.InferenceSession(file, options, providers=PROVIDERS)
        return collections.Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


class Layers:
    """The file cut at its codes: each layer reads codes and writes codes."""

    def __init__(self, model):
        self.model = model
        self.constants = {of.name: of for of in model.graph.initializer}
        self.producer = {node.output[0]: node for node in model.graph.node}
        self.codes = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]

    def zero(self, codes):
        return int(numpy_helper.to_array(self.constants[self.producer[codes].input[2]]))

    def dtype(self, codes):
        return numpy_helper.to_array(self.constants[self.producer[codes].input[2]]).dtype

    def nodes_of(self, end):
        """From the codes that the layer reads to those that it writes, in order; the inputs."""
        wanted, inputs, todo = set(), set(), [end]
        while todo:
            name = todo.pop()
            node = self.producer.get(name)
            if node is None or node.output[0] in wanted:
                continue
            wanted.add(name)
            for of in node.input:
                if of in self.codes:
                    inputs.add(of)
                elif of not in self.constants:
                    todo.append(of)
        return [node for node in self.model.graph.node if node.output[0] in wanted], sorted(inputs)

    def layer(self, end, with_real):
        """A model of one layer, whose outputs are its codes and, if asked for, what they are rounded from."""
        nodes, inputs = self.nodes_of(end)
        names = {of for node in nodes for of in node.input}
        value = helper.make_tensor_value_info
        kind = {np.dtype("uint8"): TensorProto.UINT8, np.dtype("int8"): TensorProto.INT8}
        outputs = [value(end, kind[self.dtype(end)], None)]
        if with_real:
            outputs.append(value(self.producer[end].input[0], TensorProto.FLOAT, None))
        graph = helper.make_graph(nodes, "layer", [value(name, kind[self.dtype(name)], None) for name in inputs], outputs,
                                  [of for name, of in self.constants.items() if name in names])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("--json")
    options = parser.parse_args()
    model = onnx.load(options.file)
    onnx.checker.check_model(model, full_check=True)
    counts = operations(options.file)
    kinds = collections.Counter(node.op_type for node in model.graph.node)
    print(f"ONNX Runtime {onnxruntime.__version__}: {dict(counts)}")
    passed = counts["QLinearConv"] == kinds["Conv"] and counts["QGemm"] == kinds["Gemm"]

    layers, rows = Layers(model), []
    octet = {}
    for codes in layers.codes:
        name = codes.removesuffix(".codes").replace("coded_images", "images")
        octet[codes] = (np.load(options.samples / f"codes/{name}.npy") + layers.zero(codes)).astype(layers.dtype(codes))
    print("| tensor | codes | onnx.reference: other | farther than 1e-4 from a half | ONNX Runtime: other | by more than 1 |")
    print("|---|---|---|---|---|---|")
    for end in layers.codes[1:]:
        cut, inputs = layers.layer(end, True)
        values = {name: octet[name] for name in inputs}
        codes, real = ReferenceEvaluator(cut).run(None, values)
        scale = float(numpy_helper.to_array(layers.constants[layers.producer[end].input[1]]))
        fraction = np.abs(real / scale - np.floor(real / scale) - 0.5)
        other = codes != octet[end]
        cut, _ = layers.layer(end, False)
        theirs = onnxruntime.InferenceSession(cut.SerializeToString(), providers=PROVIDERS).run(None, values)[0]
        apart = np.abs(theirs.astype(int) - octet[end].astype(int))
        rows.append({"tensor": end.removesuffix(".codes"), "codes": int(other.size), "reference_other": int(other.sum()),
                     "reference_far": int((other & (fraction > 1e-4)).sum()), "runtime_other": int((apart > 0).sum()),
                     "runtime_far": int((apart > 1).sum())})
        passed &= rows[-1]["reference_far"] == 0 and rows[-1]["runtime_far"] == 0
        print("| " + " | ".join(map(str, rows[-1].values())) + " |")
    images, expected = (np.load(options.samples / f"{name}.npy") for name in ("images", "logits"))
    logits = onnxruntime.InferenceSession(options.file, providers=PROVIDERS).run(None, {"images": images})[0]
    same = int((logits.argmax(1) == expected.argmax(1)).sum())
    print(f"the whole file: {same} of {len(images)} images have octet's class; logits differ by at most "
          f"{np.abs(logits - expected).max():.4f} of {np.abs(expected).max():.2f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"operations": counts, "layers": rows}, indent=1) + "\n")
    print("pass" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
