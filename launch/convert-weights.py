#!/usr/bin/env python3
"""Converts PyTorch weights (.pth, .pt, .tar, .ckpt, .bin) to safetensors.

usage: convert-weights.py IN OUT.safetensors [--from NAME]

It reads what torch.save() writes for torchvision, timm and Lightning, and needs nothing but Python. Such a file is a
pickle, which is a program; nothing of it is run here: whatever is no tensor, number, string or collection becomes an
object without meaning. --from: the network of a checkpoint that holds several, such as `state_dict_ema`.
"""
import argparse
import array
import collections
import json
import math
import os
import pickle
import struct
import sys
import tempfile
import zipfile

# torch's name of a storage: safetensors' name of the type, bytes of an element
TYPES = {"DoubleStorage": ("F64", 8), "FloatStorage": ("F32", 4), "HalfStorage": ("F16", 2),
         "BFloat16Storage": ("BF16", 2), "LongStorage": ("I64", 8), "IntStorage": ("I32", 4),
         "ShortStorage": ("I16", 2), "CharStorage": ("I8", 1), "ByteStorage": ("U8", 1), "BoolStorage": ("BOOL", 1)}
# Where checkpoints hold the weights; the first that is there counts.
PLACES = ["state_dict", "model_state_dict", "model", "module", "state_dict_ema", "model_ema"]
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
ARRAY_TYPES = {8: "Q", 4: "I", 2: "H", 1: "B"}


class Refused(Exception):
    """A file that cannot be converted; the message says why."""


class Storage:
    def __init__(self, type_name, key, elements):
        if type_name not in TYPES:
            raise Refused(f"a tensor has the type {type_name}, which safetensors does not have")
        self.dtype, self.size = TYPES[type_name]
        self.key, self.elements, self.data = key, elements, None


class Tensor:
    def __init__(self, storage, offset, shape, stride):
        self.storage, self.offset, self.shape, self.stride = storage, offset, tuple(shape), tuple(stride)

    def contiguous_bytes(self):
        """The elements in the order of the shape."""
        elements = array.array(ARRAY_TYPES[self.storage.size], self.storage.data)
        if 0 in self.shape:
            return b""
        last = self.offset + sum((extent - 1) * step for extent, step in zip(self.shape, self.stride))
        if self.offset < 0 or min(self.stride, default=0) < 0 or last >= len(elements):
            raise Refused("a tensor reaches beyond its storage: the file is damaged")
        expected, dense = 1, True
        for extent, step in zip(reversed(self.shape), reversed(self.stride)):
            dense &= extent == 1 or step == expected
            expected *= extent
        if dense:
            return elements[self.offset:self.offset + expected].tobytes()
        gathered = array.array(elements.typecode)

        def gather(dimension, at):
            extent, step = self.shape[dimension], self.stride[dimension]
            if dimension + 1 < len(self.shape):
                for i in range(extent):
                    gather(dimension + 1, at + i * step)
            elif step == 0:
                gathered.extend(elements[at:at + 1] * extent)
            else:
                gathered.extend(elements[at:at + (extent - 1) * step + 1:step])

        gather(0, self.offset)
        return gathered.tobytes()


class Inert:
    """Stands for an object of another program. Takes whatever the pickle gives it, and does nothing."""

    def __init__(self, *_arguments, **_named):
        pass

    def __setstate__(self, _state):
        pass

    def __setitem__(self, _key, _value):
        pass

    def append(self, _value):
        pass

    def extend(self, _values):
        pass

    def add(self, _value):
        pass

    def __hash__(self):
        return id(self)


class Reader(pickle.Unpickler):
    def __init__(self, file, storage_of):
        super().__init__(file, encoding="utf-8")
        self.storage_of = storage_of

    def find_class(self, module, name):
        if module == "collections" and name in ("OrderedDict", "defaultdict"):
            return collections.OrderedDict if name == "OrderedDict" else lambda *_: collections.OrderedDict()
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            return name  # the text stands for the type
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, stride, *_: Tensor(storage, offset, shape, stride)
        if module == "torch._utils" and name.startswith("_rebuild_parameter"):
            return lambda data, *_: data
        return Inert

    def persistent_load(self, identity):
        if not isinstance(identity, tuple) or len(identity) < 5 or identity[0] != "storage":
            raise Refused("the file names an object outside of it")
        return self.storage_of(*identity[1:5])


def read_zip(path):
    """What torch.save() writes since PyTorch 1.6."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        inner = next((name for name in names if name.endswith("/data.pkl") or name == "data.pkl"), None)
        if inner is None:
            raise Refused("it is an archive without data.pkl: not a file of torch.save()")
        folder = inner[:-len("data.pkl")]
        if folder + "byteorder" in names and archive.read(folder + "byteorder") != b"little":
            raise Refused("its numbers are big-endian")
        storages = {}

        def storage_of(type_name, key, _device, elements):
            if key not in storages:
                storage = Storage(type_name, key, elements)
                storage.data = archive.read(f"{folder}data/{key}")[:elements * storage.size]
                storages[key] = storage
            return storages[key]

        with archive.open(inner) as file:
            return Reader(file, storage_of).load()


def read_legacy(path):
    """What torch.save() wrote before PyTorch 1.6: four pickles, and the storages behind them."""
    with open(path, "rb") as file:
        storages = {}

        def storage_of(type_name, key, _device, elements):
            return storages.setdefault(key, Storage(type_name, key, elements))

        if Reader(file, storage_of).load() != LEGACY_MAGIC:
            raise Refused("it is no file of torch.save()")
        for _ in range(2):  # the version of the format, and sizes of C types
            Reader(file, storage_of).load()
        content = Reader(file, storage_of).load()
        for key in Reader(file, storage_of).load():
            (elements,) = struct.unpack("<q", file.read(8))
            storage = storages[key]
            storage.data = file.read(elements * storage.size)
            if len(storage.data) != elements * storage.size:
                raise Refused("it ends too early")
        return content


def tensors_of(content):
    if not isinstance(content, dict):
        return {}
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def choose(content, wanted):
    """The tensors of the network, and the names of other networks in the file."""
    if isinstance(content, Inert):
        raise Refused("it holds a whole network as a program; save its state_dict() with PyTorch")
    found = {place: tensors_of(content[place]) for place in content if tensors_of(content[place])} \
        if isinstance(content, dict) else {}
    if wanted is not None:
        if wanted not in found:
            raise Refused(f"it has no tensors in `{wanted}`; there are: {', '.join(map(str, found)) or 'none'}")
        return found[wanted], []
    place = next((place for place in PLACES if place in found), None)
    if place is None and tensors_of(content):
        return tensors_of(content), []
    if place is None:
        raise Refused("no weights were found" + (f"; give one of these with --from: {', '.join(map(str, found))}"
                                                if found else ""))
    return found[place], [str(other) for other in found if other != place]


def write(tensors, path):
    header, data, at = {}, [], 0
    for name, tensor in tensors.items():
        content = tensor.contiguous_bytes()
        if len(content) != math.prod(tensor.shape) * tensor.storage.size:
            raise Refused(f"tensor `{name}` is shorter than its shape says")
        header[name] = {"dtype": tensor.storage.dtype, "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(content)]}
        data.append(content)
        at += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, part = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path), suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for content in data:
                file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def convert(source, target, wanted):
    try:
        content = read_zip(source) if zipfile.is_zipfile(source) else read_legacy(source)
        tensors, others = choose(content, wanted)
        write(tensors, target)
    except (pickle.UnpicklingError, zipfile.BadZipFile, EOFError, KeyError, ValueError, TypeError, AttributeError,
            IndexError, OverflowError, RecursionError, struct.error, ImportError) as error:
        raise Refused(f"it cannot be read as a file of torch.save() ({type(error).__name__}: {error})") from error
    print(f"{target}: {len(tensors)} tensors" +
          (f"; {source} also holds {', '.join(others)}, see --from" if others else ""))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("source", metavar="IN")
    options.add_argument("target", metavar="OUT.safetensors")
    options.add_argument("--from", dest="wanted", metavar="NAME", help="for example state_dict_ema")
    given = options.parse_args()
    try:
        convert(given.source, given.target, given.wanted)
    except (Refused, OSError) as error:
        sys.exit(f"convert-weights.py: {given.source}: {error}")


if __name__ == "__main__":
    main()
