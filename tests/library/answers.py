"""What tests/integration/test_library.py asks of the Python module, in a folder with mine.yaml, a.ppm, b.ppm and the runs
`whole` and `detector`. Prints one JSON object."""

import json
import os
import signal
import threading
import time

import numpy
import octet

FILES = ["a.ppm", "b.ppm"]


def pixels(file):
    with open(file, "rb") as stream:
        assert stream.readline() == b"P6\n"
        width, height = map(int, stream.readline().split())
        stream.readline()
        return numpy.frombuffer(stream.read(), numpy.uint8).reshape(height, width, 3)


def best(predictions):
    return [[of.name, round(of.probability, 5)] for of in predictions]


def stopped_by(on_step):
    """How the training of the run `stopped` ends; it is continued where there is one."""
    try:
        result = octet.train("mine.yaml", on_step=on_step, run="stopped", resume=os.path.exists("stopped"))
        return [result.run, result.finished, result.steps], result
    except BaseException as error:
        return [type(error).__name__, str(error)], None


def raise_at_5(at):
    if at.step == 5:
        raise ValueError("at 5")


def interrupt_at_8(at):
    if at.step == 8:
        os.kill(os.getpid(), signal.SIGINT)


def message(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def count_meanwhile(stop, counted):
    while not stop.is_set():
        counted.append(1)
        time.sleep(0.001)


def main():
    network = octet.load("whole")
    arrays = [pixels(file) for file in FILES]
    views = [numpy.ascontiguousarray(array[:, ::-1])[:, ::-1] for array in arrays]  # of negative strides
    got = {"files": best(network.predict(FILES)), "arrays": best(network.predict(arrays)), "views": best(network.predict(views)),
           "input": [network.input_size, len(network.classes), network.finds_objects]}
    assert network.predict(arrays)[0].probabilities.shape == (10,)
    got["objects"] = [[of.name, [round(length, 2) for length in of.box], round(of.score, 5)]
                      for answer in octet.load("detector", score=0).predict(arrays) for of in answer.objects]
    stop, counted = threading.Event(), []
    thread = threading.Thread(target=count_meanwhile, args=(stop, counted))
    thread.start()
    ends = [stopped_by(on_step) for on_step in (lambda at: at.step < 3, raise_at_5, interrupt_at_8, None)]
    stop.set()
    thread.join()
    figures = ends[-1][1].figures
    got |= {"stops": [end for end, _ in ends], "figures": [figures["top1"], next(iter(figures))], "counted": len(counted)}
    recipe = {"data": {"samples": 64, "batch": 32}, "train": {"lrr": 1}}
    got["errors"] = [message(call) for call in (
        lambda: octet.load("nowhere"), lambda: octet.train(recipe), lambda: network.predict(arrays[0]),
        lambda: network.predict([arrays[0] / 255]), lambda: network.predict(["a.ppm", arrays[0]]),
        lambda: octet.weights("mine.yaml"), lambda: network.predict(["mine.yaml"]))]
    print(json.dumps(got))


main()
