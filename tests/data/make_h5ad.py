#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the small .h5ad files of this folder: every layout that the reader must know, and the damaged ones that it must refuse.

    python make_h5ad.py [FOLDER]

Needs anndata >= 0.12 and h5py. What current anndata writes is written by it; layouts of older versions, and damage, by hand.
Values are value(i, j) = (7 i + 13 j) mod 101 / 8 - 5: exact in half precision, and known to the tests.
"""
import os
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp

N, D = 60, 3
LETTERS = np.array(list("zam"))
i, j = np.arange(N)[:, None], np.arange(D)[None, :]
WHOLE = (7 * i + 13 * j) % 101
VALUES = WHOLE / 8 - 5
SPARSE = np.where((i + j) % 3 == 0, VALUES, 0)
NAMES = pd.Index([f"cell_{k}" for k in range(N)])
LABEL = LETTERS[np.arange(N) % 3]  # z a m z a m ...

anndata.settings.allow_write_nullable_strings = True


def columns():
    k = np.arange(N)
    obs = pd.DataFrame(index=NAMES)
    obs["cat"] = pd.Categorical(LABEL, categories=["z", "unused", "a", "m"])
    obs["cat_missing"] = pd.Categorical([None if n == 4 else v for n, v in enumerate(LABEL)], categories=["a", "m", "z"])
    obs["cat_ordered"] = pd.Categorical(LABEL, categories=["m", "z", "a"], ordered=True)
    obs["cat_int"] = pd.Categorical(k % 3 + 9, categories=[11, 9, 10])
    obs["cat_bool"] = pd.Categorical(k % 2 == 0)
    obs["cat_float"] = pd.Categorical(k % 2 + 0.5)
    obs["text"] = LABEL.astype(object)
    obs["text_number"] = np.array([str(n % 3 + 9) for n in k], dtype=object)
    obs["text_unicode"] = np.array([f"E {n % 49}.5, rep#2 \u00e9\U0001f9ec" for n in k], dtype=object)
    obs["text_empty"] = np.array(["" if n % 2 else "x" for n in k], dtype=object)
    obs["text_nullable"] = pd.array([None if n == 4 else v for n, v in enumerate(LABEL)], dtype="string")
    obs["int"] = k % 3 + 9
    obs["uint8"] = (k % 3 + 9).astype("u1")
    obs["uint64"] = np.uint64(2**63) + (k % 2).astype("u8")
    obs["int_negative"] = k % 3 - 1
    obs["int_nullable"] = pd.array([None if n == 4 else n % 3 + 9 for n in k], dtype="Int64")
    obs["bool"] = k % 2 == 0
    obs["bool_nullable"] = pd.array([None if n == 4 else n % 2 == 0 for n in k], dtype="boolean")
    obs["float_whole"] = np.where(k == 4, np.nan, k % 3 + 9.0)
    obs["S.score"] = np.where(k < 2, 1.0, k / 8 + 0.125)
    return obs


def layouts(path):
    with h5py.File(path, "w") as f:
        f.attrs["encoding-type"], f.attrs["encoding-version"] = "anndata", "0.1.0"
        write = anndata.io.write_elem
        write(f, "obs", columns())
        write(f, "var", pd.DataFrame(index=pd.Index(["g1", "g2"])))
        write(f, "X", sp.csr_matrix(np.eye(N, 2, dtype="f4")))
        for empty in ("layers", "obsp", "varm", "varp"):
            write(f, empty, {})
        write(f, "uns", {"title": "made", "neighbors": {"params": {"n": 15}, "name": np.array(["a", "b"], dtype=object)}})
        obsm = f.create_group("obsm")
        obsm.attrs["encoding-type"], obsm.attrs["encoding-version"] = "dict", "0.1.0"
        write(obsm, "X_pca", VALUES.astype("f4"))
        write(obsm, "X_f8", VALUES)
        write(obsm, "X_f2", VALUES.astype("f2"))
        write(obsm, "X_f2_big", VALUES.astype(">f2"))
        write(obsm, "X_f4_big", VALUES.astype(">f4"))
        write(obsm, "X_i2", WHOLE.astype("i2"))
        write(obsm, "X_u8", WHOLE.astype("u8"))
        write(obsm, "X_gzip", VALUES.astype("f4"), dataset_kwargs=dict(chunks=(17, 2), compression="gzip", shuffle=True))
        write(obsm, "X_chunked", VALUES, dataset_kwargs=dict(chunks=(60, 1)))
        write(obsm, "X_frame", pd.DataFrame(VALUES, index=NAMES, columns=["u", "v", "w"]).astype({"u": "f4"}))
        write(obsm, "X_frame_nullable", pd.DataFrame({"u": pd.array([None if k == 4 else k for k in range(N)], dtype="Int64"),
                                                      "v": np.arange(N, dtype="u1")}, index=NAMES))
        write(obsm, "X_frame_text", pd.DataFrame({"u": VALUES[:, 0], "who": np.array(["x"] * N, dtype=object)}, index=NAMES))
        write(obsm, "X_frame_cat", pd.DataFrame({"u": pd.Categorical(LABEL)}, index=NAMES))
        write(obsm, "X_csr", sp.csr_matrix(SPARSE))
        write(obsm, "X_csc", sp.csc_matrix(SPARSE.astype("f4")))
        write(obsm, "X_bool", VALUES > 0)
        write(obsm, "X_one_axis", VALUES[:, 0])
        write(obsm, "X_three_axes", VALUES.reshape(N, D, 1))
        write(obsm, "X_empty", np.zeros((N, 0), "f4"))
        # strings of a fixed length, as other programs write them
        fixed = f["obs"].create_dataset("text_fixed", data=np.array([v * 3 for v in LABEL], dtype="S5"))
        fixed.attrs["encoding-type"], fixed.attrs["encoding-version"] = "string-array", "0.2.0"
        f["obs"].attrs["column-order"] = list(f["obs"].attrs["column-order"]) + ["text_fixed"]


def older_07(path):
    """anndata 0.7: codes are datasets that refer to obs/__categories; sparse matrices by attributes of their own."""
    with h5py.File(path, "w") as f:
        obs = f.create_group("obs")
        obs.attrs["encoding-type"], obs.attrs["encoding-version"] = "dataframe", "0.1.0"
        obs.attrs["_index"], obs.attrs["column-order"] = "index", ["batch", "loose"]
        obs.create_dataset("index", data=NAMES.to_numpy(dtype=object), dtype=h5py.string_dtype())
        kept = obs.create_group("__categories")
        for name in ("batch", "loose"):
            kept.create_dataset(name, data=np.array(["z", "unused", "a", "m"], dtype=object), dtype=h5py.string_dtype())
            codes = np.array([0, 2, 3])[np.arange(N) % 3].astype("i1")
            codes[4] = -1
            obs.create_dataset(name, data=codes)
        obs["batch"].attrs["categories"] = kept["batch"].ref  # "loose" has no reference: only its name tells
        obsm = f.create_group("obsm")
        obsm.create_dataset("X_pca", data=VALUES.astype("f4"))
        old = obsm.create_group("X_old_csr")
        m = sp.csr_matrix(SPARSE)
        old.attrs["h5sparse_format"], old.attrs["h5sparse_shape"] = "csr", m.shape
        for part in ("data", "indices", "indptr"):
            old.create_dataset(part, data=getattr(m, part))


def older_06(path):
    """anndata 0.6: obs and obsm are one dataset of records each, categories are in uns."""
    with h5py.File(path, "w") as f:
        obs = np.zeros(N, dtype=[("index", "S10"), ("batch", "i1"), ("n", "i8"), ("who", "S4"), ("score", "f4")])
        obs["index"] = NAMES.to_numpy().astype("S10")
        obs["batch"] = np.array([0, 2, 3])[np.arange(N) % 3]
        obs["batch"][4] = -1
        obs["n"], obs["who"], obs["score"] = np.arange(N) % 3 + 9, LABEL.astype("S4"), np.arange(N) / 7
        f.create_dataset("obs", data=obs)
        obsm = np.zeros(N, dtype=[("X_pca", "f4", (D,)), ("X_umap", "f8", (2,))])
        obsm["X_pca"], obsm["X_umap"] = VALUES, VALUES[:, :2]
        f.create_dataset("obsm", data=obsm)
        uns = f.create_group("uns")
        uns.create_dataset("batch_categories", data=np.array(["z", "unused", "a", "m"], dtype="S6"))


def virtual(obsm, path):
    layout = h5py.VirtualLayout((N, D), "f4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (N, D))
    obsm.create_virtual_dataset("X_virtual", layout)


def damaged(path):
    """Whole as HDF5, wrong as AnnData."""
    with h5py.File(path, "w") as f:
        obs = f.create_group("obs")
        obs.attrs["_index"], obs.attrs["encoding-type"] = "_index", "dataframe"
        obs.create_dataset("_index", data=NAMES.to_numpy(dtype=object), dtype=h5py.string_dtype())

        def categorical(name, codes, categories):
            g = obs.create_group(name)
            g.attrs["encoding-type"] = "categorical"
            g.create_dataset("codes", data=codes)
            g.create_dataset("categories", data=np.array(categories, dtype=object), dtype=h5py.string_dtype())

        codes = (np.arange(N) % 2).astype("i1")
        codes[5] = 7
        categorical("code_7", codes, ["a", "b"])
        categorical("code_below", np.full(N, -2, "i2"), ["a", "b"])
        categorical("twice", np.zeros(N, "i1"), ["a", "b", "a"])
        categorical("codes_float", np.zeros(N), ["a", "b"])
        obs.create_group("unknown").attrs["encoding-type"] = "awkward-array"
        obs.create_group("nothing")
        obs.create_dataset("two_axes", data=np.zeros((N, 2)))
        g = obs.create_group("short_mask")
        g.attrs["encoding-type"] = "nullable-integer"
        g.create_dataset("values", data=np.arange(N))
        g.create_dataset("mask", data=np.zeros(N - 1, bool))
        obs.create_dataset("lzf", data=np.zeros(N, "i1"), compression="lzf")
        obs.create_dataset("complex", data=np.zeros(N, "c16"))

        obsm = f.create_group("obsm")
        obsm.create_dataset("X_lzf", data=VALUES, compression="lzf", chunks=(20, 3))
        obsm.create_dataset("X_short", data=VALUES[:-1])
        obsm.create_dataset("X_unwritten", shape=(10**9, 50), dtype="f4")
        obsm.create_dataset("X_huge", shape=(10**11, 50), dtype="f4", chunks=(1000, 50), compression="gzip")
        obsm.create_dataset("X_huger", shape=(2**62, 2**40), dtype="f4", chunks=(1000, 50), compression="gzip")
        obsm.create_dataset("X_holes", shape=(10**9, 50), dtype="f4", chunks=(1000, 50))
        obsm.create_group("X_unknown").attrs["encoding-type"] = "awkward-array"
        virtual(obsm, path)

        def sparse(name, indptr, indices, data, shape):
            g = obsm.create_group(name)
            g.attrs["encoding-type"], g.attrs["shape"] = "csr_matrix", shape
            for part, values in (("indptr", indptr), ("indices", indices), ("data", data)):
                g.create_dataset(part, data=values)

        whole = np.arange(N + 1)
        sparse("X_index", whole, np.full(N, 3), np.ones(N), (N, 3))
        sparse("X_negative", whole, np.full(N, -1), np.ones(N), (N, 3))
        falls = whole.copy()
        falls[7] = 3
        sparse("X_falls", falls, np.zeros(N, int), np.ones(N), (N, 3))
        sparse("X_indptr_short", whole[:-1], np.zeros(N, int), np.ones(N), (N, 3))
        sparse("X_indptr_end", np.minimum(whole, N - 1), np.zeros(N, int), np.ones(N), (N, 3))
        sparse("X_indices_short", whole, np.zeros(N - 1, int), np.ones(N), (N, 3))
        frame = obsm.create_group("X_frame_gone")
        frame.attrs["encoding-type"], frame.attrs["column-order"] = "dataframe", ["u"]


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, make in (("layouts", layouts), ("older_07", older_07), ("older_06", older_06), ("damaged", damaged)):
        make(os.path.join(folder, name + ".h5ad"))
