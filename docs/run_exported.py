#!/usr/bin/env python3
"""Runs a file that `octet export` wrote: names the classes of photographs, or the objects on them, or checks the file with the
images of --check-with.

usage: run_exported.py FILE [--openvino] PHOTOGRAPH...          FILE: an ONNX file, or FILE.tflite for LiteRT
       run_exported.py FILE [--openvino] --check DIR
needs: numpy, pillow, and onnxruntime or openvino or ai-edge-litert
"""
import json
import os
import sys

try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError as missing:
    sys.exit(f"run_exported.py: {missing}; install it: pip install numpy pillow onnxruntime")


def imported(name):
    try:
        return __import__(name)
    except ImportError as missing:
        sys.exit(f"run_exported.py: {missing}; install it: pip install {name}")


def open_onnx(file):
    onnxruntime = imported("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI, sums of 16 bits would saturate
    session = onnxruntime.InferenceSession(file, options)
    return session.get_modelmeta().custom_metadata_map, lambda images: session.run(None, {"images": images})


def open_openvino(file):
    openvino = imported("openvino")
    core = openvino.Core()
    model = core.read_model(file)
    metadata = {key: model.get_rt_info(["framework", key]).astype(str) for key in ("classes", "preprocessing")}
    compiled = {}
    def run(images):
        if images.shape not in compiled:
            model.reshape(images.shape)  # with any number of images, OpenVINO 2026.4.1 is wrong about some networks
            compiled[images.shape] = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})  # else bf16
        network = compiled[images.shape]
        return [network(images)[output] for output in network.outputs]
    return metadata, run


def open_litert(file):
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(file)
    source, output = (details()[0]["index"] for details in (interpreter.get_input_details, interpreter.get_output_details))
    content = open(file, "rb").read()
    metadata = content[content.index(b'{"classes"'):].decode(errors="ignore")  # a buffer of the file
    def run(images):
        pixels = np.round(255 * images).astype(np.uint8).transpose(0, 2, 3, 1)
        interpreter.resize_tensor_input(source, pixels.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(source, pixels)
        interpreter.invoke()
        return [interpreter.get_tensor(output)]
    return json.JSONDecoder().raw_decode(metadata)[0], run


def open_file(file, openvino=False):
    """The metadata, and a function from images (N x 3 x H x W) to the outputs."""
    return open_openvino(file) if openvino else open_litert(file) if file.endswith(".tflite") else open_onnx(file)


def photograph(path, steps):
    """3 x H x W, red, green and blue in [0, 1], as octet prepares a photograph; and of a detector how much it was shrunk."""
    image = Image.open(path)
    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off above 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if steps["orientation"] != "as stored":
        image = ImageOps.exif_transpose(image)
    return (placed if "canvas" in steps else cropped)(image.convert("RGB"), steps)


def as_array(image):
    return np.asarray(image, np.float32).transpose(2, 0, 1) / 255


def cropped(image, steps):
    shorter, side = steps["resize_shorter_side"], steps["crop_middle"]
    image = image.resize([shorter * length // min(image.size) for length in image.size], Image.Resampling.BILINEAR)
    left, top = (round((length - side) / 2) for length in image.size)
    return as_array(image.crop((left, top, left + side, top + side))), None


def placed(image, steps):
    """At the left and the top of a detector's canvas."""
    width, height = image.size
    short, long = steps["resize_shorter_side"], steps["resize_longer_side"]
    up, down = (short, min(width, height)) if short else (1, 1)
    if long and max(width, height) * up > long * down:
        up, down = long, max(width, height)
    high, wide = steps["canvas"]
    if width * up // down > wide or height * up // down > high:
        up, down = (wide, width) if wide * height <= high * width else (high, height)
    size = [max(1, length * up // down) for length in image.size]
    canvas = np.empty((3, high, wide), np.float32)
    canvas[:] = np.array(steps["fill"], np.float32)[:, None, None]
    canvas[:, :size[1], :size[0]] = as_array(image.resize(size, Image.Resampling.BILINEAR))
    return canvas, [size[0] / width, size[1] / height] * 2


def objects(outputs, shrunk, least=0.0):
    """Of one photograph: boxes (left, top, right, bottom) in its pixels, scores and labels."""
    boxes, scores, labels = (output[0] for output in outputs)
    found = scores > least
    return boxes[found] / shrunk, scores[found], labels[found]


def check(run, folder):
    images = np.load(f"{folder}/images.npy")
    if os.path.exists(f"{folder}/logits.npy"):
        expected, (logits,) = np.load(f"{folder}/logits.npy"), run(images)
        same = int((logits.argmax(1) == expected.argmax(1)).sum())
        print(f"{same} of {len(images)} images have octet's class; logits differ by at most {abs(logits - expected).max():.4f}")
        return
    found = all_objects = 0
    for image, expected in zip(images, np.load(f"{folder}/objects.npy")):
        boxes, scores, labels = (output[0] for output in run(image[None]))
        for *box, score, label in expected[expected[:, 4] > 0.3]:
            near = (labels == label) & (abs(boxes - box).max(1) < 4) & (abs(scores - score) < 0.1)
            found, all_objects = found + near.any(), all_objects + 1
    print(f"{found} of {all_objects} objects of octet with a score above 0.3 are found, to within 4 pixels and 0.1")


def main(*words):
    if len(words) < 2 or words[-1] == "--check":
        sys.exit(__doc__)
    file, *words = words
    metadata, run = open_file(file, "--openvino" in words)
    words = [word for word in words if word != "--openvino"]
    classes, steps = json.loads(metadata["classes"]), json.loads(metadata["preprocessing"])
    if words[0] == "--check":
        return check(run, words[1])
    for path in words:
        pixels, shrunk = photograph(path, steps)
        outputs = run(pixels[None])
        if shrunk:
            for box, score, label in zip(*objects(outputs, shrunk, least=0.3)):
                print(f"{path}: {classes[label]} {100 * score:.1f} % at {' '.join(f'{side:.0f}' for side in box)}")
            continue
        logits = outputs[0][0]
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        best = int(logits.argmax())
        print(f"{path}: {classes[best]} {100 * probabilities[best]:.1f} %")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"run_exported.py: {error}")
