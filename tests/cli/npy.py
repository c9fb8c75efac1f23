# SPDX-License-Identifier: BSD-3-Clause
"""Reads .npy and .npz without numpy, for the checks of the cases."""
import ast
import io
import struct
import sys
import zipfile


def parse(data):
    """shape and flat list of values, C order"""
    f = io.BytesIO(data)
    assert f.read(6) == b"\x93NUMPY", "no .npy"
    major = f.read(2)[0]
    size = struct.unpack("<H", f.read(2))[0] if major == 1 else struct.unpack("<I", f.read(4))[0]
    header = ast.literal_eval(f.read(size).decode("latin1"))
    assert f.tell() % 16 == 0 and not header["fortran_order"]
    letter = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}[header["descr"]]
    body = f.read()
    count = 1
    for n in header["shape"]:
        count *= n
    assert len(body) == count * struct.calcsize(letter), "size of the data"
    return header["shape"], list(struct.unpack("<%d%s" % (count, letter), body))


def load(path):
    if path.endswith(".npz"):
        with zipfile.ZipFile(path) as z:
            assert z.testzip() is None
            return {n[:-4]: parse(z.read(n)) for n in z.namelist()}
    with open(path, "rb") as f:
        return parse(f.read())


def save(path, shape, values, letter="f"):
    descr = {"f": "<f4", "d": "<f8"}[letter]
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, repr(tuple(shape)))
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        f.write(struct.pack("<%d%s" % (len(values), letter), *values))


if __name__ == "__main__":
    found = load(sys.argv[1])
    for name, (shape, values) in sorted(found.items()) if isinstance(found, dict) else [("", found)]:
        print(name, shape)
