#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_seeds.py FOLDER: small valid inputs for the fuzz targets but h5ad, a folder of each. Standard library only."""
import gzip
import os
import struct
import sys

ROWS = [["cell", "batch", "PC1", "PC2"], ["c1", "a", "1.5", "-2"], ["c2", "b", "0.25", "1e-3"], ["c3", "a", "nan", "3"]]


def npy(descr, shape, order, payload, version=1):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)
    length = len(head) + 1 + (-(len(head) + 11 + (2 if version > 1 else 0)) % 16)
    size = struct.pack("<H" if version == 1 else "<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + (head.ljust(length - 1) + "\n").encode() + payload


def npys():
    yield "float32", npy("<f4", "(3, 2)", "False", struct.pack("<6f", *range(6)))
    yield "float64", npy("<f8", "(3, 2)", "True", struct.pack("<6d", *range(6)), 2)
    yield "half", npy("<f2", "(2, 2)", "False", struct.pack("<4e", *range(4)), 3)
    yield "big", npy(">i4", "(2, 2)", "True", struct.pack(">4i", *range(4)))
    yield "bytes", npy("|u1", "(4, 2)", "False", bytes(range(8)))
    yield "many", npy("<i8", "(700, 2)", "False", bytes(700 * 16))
    yield "vector", npy("<f4", "(3,)", "False", bytes(12))
    yield "words", npy("<i2", "(2L, 3L)", "False", bytes(12))
    yield "records", npy("[('a', '<f4')]", "(2, 1)", "False", bytes(8))


def tables():
    for kind, ending in enumerate(["tsv", "csv", "tsv_gz", "csv_gz"]):
        comma = "," if kind % 2 else "\t"
        numbers = [[row[0]] + row[2:] for row in ROWS]
        texts = {"numbers": numbers, "plain": [row[2:] for row in ROWS], "labels": ROWS, "r": [numbers[0][1:]] + numbers[1:]}
        for name, rows in texts.items():
            text = "\n".join(comma.join(row) for row in rows).encode() + b"\n"
            body = gzip.compress(text, mtime=0) if kind >= 2 else text
            yield ending + "_" + name, bytes([kind, 4 + 16 * kind]) + body
            if kind >= 2:
                yield ending + "_packed_" + name, bytes([kind | 8, 2]) + text
        quoted = ['"ce""ll"', '"a%sb"' % comma, "x"]
        body = "\r\n".join([comma.join(quoted), comma.join(['"c\n1"', "1", " 2 "]), "", comma.join(["c2", "-inf", "+3e5"])]).encode()
        yield ending + "_quoted", bytes([kind & 1, 7]) + b"\xef\xbb\xbf" + body
        yield ending + "_long", bytes([kind & 1, 4]) + text.split(b"\n")[0] + b"\n" + (text.split(b"\n")[1] + b"\n") * 400


def command_lines():
    lines = ["integrate s.h5ad --batch batch -o o.h5ad", "integrate s.npy --meta m.tsv --batch batch -o o.npy -q",
             "integrate s.npy --meta m.tsv --batch=batch --batch donor -o o.tsv.gz --theta 2,1 --max-rounds 3",
             "integrate s.h5ad --batch batch --in-place -f --trace t.json --model m.npz --threads 2",
             "integrate s.h5ad --batch batch --dry-run --n-clusters 100000 --memory 1e9", "integrate --help", "--version", "help integrate",
             "integrate s.npy --meta m.tsv --batch score --force -o o.npy --model folder/ -v", "backends",
             "simulate -o x.h5ad --cells 50 --dims 4 --levels 3", "simulate -o x.npy --meta-out y.tsv --cells 40 --rare 1 -q",
             "compare s.h5ad --batch batch --basis X_pca --label batch", "integrat s.h5ad", "integrate s.h5ad --bach batch -o o.npy",
             "integrate s.npy --meta m.tsv --batch batch -o o.npy --centroids s.npy", "score s.h5ad --batch batch", "report s.h5ad"]
    for i, line in enumerate(lines):
        yield "line%02d" % i, line.replace(" ", "\n").encode()


def runs():
    yield "usual", b""
    for i in range(24):
        yield "run%02d" % i, bytes((i * 37 + k * (2 * i + 1) * 29) % 256 for k in range(48))


def problems():
    for i in range(16):
        yield "problem%02d" % i, struct.pack("<4Q", *((i * 2654435761 + k * 40503) * 0x9E3779B97F4A7C15 % 2**64 for k in range(4)))


if __name__ == "__main__":
    for target, seeds in (("npy", npys()), ("table", tables()), ("arguments", command_lines()), ("library", runs()), ("h5ad_objects", runs()), ("oracle", problems())):
        os.makedirs(os.path.join(sys.argv[1], target), exist_ok=True)
        for name, content in seeds:
            with open(os.path.join(sys.argv[1], target, name), "wb") as file:
                file.write(content)
