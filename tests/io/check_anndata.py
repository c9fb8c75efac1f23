#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opens what io wrote with anndata and h5py.

    check_anndata.py ORIGINAL WRITTEN KEY       all but obsm/KEY and uns/KEY is unchanged; those are as anndata has them
    check_anndata.py --tool IO_TOOL --data DIR  all of that, on files that io_tool writes from those of tests/data
"""
import os
import subprocess
import sys
import tempfile
import zipfile

import anndata
import h5py
import numpy as np
import scipy.sparse as sp


def same(a, b):
    """Two values as h5py reads them; references lead to objects of the same name."""
    if isinstance(a, h5py.Reference):
        return isinstance(b, h5py.Reference)
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() if a.dtype.kind != "O" else bool(np.all(a == b))


def describe(file):
    """Everything in a file: path -> (kind, type, values, attributes)."""
    found = {}

    def add(path, thing):
        attributes = {k: thing.attrs[k] for k in thing.attrs}
        if isinstance(thing, h5py.Dataset):
            found[path] = ("dataset", thing.id.get_type(), thing.shape, thing.chunks, thing.compression, thing[()], attributes)
        else:
            found[path] = ("group", None, None, None, None, None, attributes)

    add("/", file)
    file.visititems(add)
    return found


def check_unchanged(original, written, key):
    with h5py.File(original) as a, h5py.File(written) as b:
        before, after = describe(a), describe(b)
    mine = {f"obsm/{key}", f"uns/{key}"}
    ours = [p for p in after if p in mine or any(p.startswith(m + "/") for m in mine)]
    made = {p for p in ("obsm", "uns") if p not in before}
    assert set(after) - set(ours) - made == set(before) - mine - {p for p in before if any(p.startswith(m + "/") for m in mine)}, \
        "objects came or went"
    for path, old in before.items():
        if path in mine or any(path.startswith(m + "/") for m in mine):
            continue
        new = after[path]
        assert old[:1] == new[:1] and old[2:5] == new[2:5], f"{path} changed its form"
        assert old[1] is None or old[1].equal(new[1]), f"{path} changed its type"
        assert old[5] is None or same(old[5], new[5]), f"{path} changed its values"
        assert old[6].keys() == new[6].keys(), f"{path} changed its attributes"
        for name in old[6]:
            assert same(old[6][name], new[6][name]), f"{path} changed its attribute {name}"
    assert mine <= set(after), f"obsm/{key} or uns/{key} is missing"


def check_encodings(written, key):
    with h5py.File(written) as f:
        x = f[f"obsm/{key}"]
        assert x.dtype == np.dtype("<f4") and x.ndim == 2
        assert (x.attrs["encoding-type"], x.attrs["encoding-version"]) == ("array", "0.2.0")

        def look(path, thing):
            pair = thing.attrs["encoding-type"], thing.attrs["encoding-version"]
            if isinstance(thing, h5py.Group):
                assert pair == ("dict", "0.1.0"), path
            elif h5py.check_string_dtype(thing.dtype):
                assert pair == ("string", "0.2.0") and thing.shape == (), path
                assert h5py.check_string_dtype(thing.dtype).encoding == "utf-8", path
            else:
                assert pair == (("array" if thing.ndim else "numeric-scalar"), "0.2.0"), path
                assert thing.dtype in (np.dtype("<f8"), np.dtype("<i8")), path

        look(f"uns/{key}", f[f"uns/{key}"])
        f[f"uns/{key}"].visititems(look)


def check_records_became_a_group(original, written, key):
    """obsm of anndata before 0.7: in the copy a group of what were the fields, as current anndata writes it; the rest as it was."""
    with h5py.File(original) as a, h5py.File(written) as b:
        before, after = describe(a), describe(b)
        records, group = a["obsm"][()], b["obsm"]
        assert (group.attrs["encoding-type"], group.attrs["encoding-version"]) == ("dict", "0.1.0")
        assert set(group) == {*records.dtype.names, key}
        for name in set(records.dtype.names) - {key}:
            assert same(records[name], group[name][()]), f"obsm/{name} changed its type or values"
            assert dict(group[name].attrs) == {"encoding-type": "array", "encoding-version": "0.2.0"}

    def rest(found):
        return {path: (*old[:1], *old[2:5]) for path, old in found.items() if path.split("/")[0] != "obsm" and not f"{path}/".startswith(f"uns/{key}/")}

    assert rest(before) == rest(after), "objects came, went or changed their form"
    for path in rest(before):
        old, new = before[path], after[path]
        assert old[1] is None or old[1].equal(new[1]), f"{path} changed its type"
        assert old[5] is None or same(old[5], new[5]), f"{path} changed its values"
        assert old[6].keys() == new[6].keys() and all(same(old[6][k], new[6][k]) for k in old[6]), f"{path} changed its attributes"
    check_read_alike(anndata.read_h5ad(original), anndata.read_h5ad(written), key)


def alike(a, b):
    """Two values as anndata reads them."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if sp.issparse(a):
        return a.shape == b.shape and a.dtype == b.dtype and not (a != b).nnz
    if hasattr(a, "equals"):
        return a.equals(b)
    return same(a, b)


def check_read_alike(a, b, key):
    assert alike(a.obs, b.obs) and alike(a.var, b.var), "obs or var is read as something else"
    assert (a.X is None) == (b.X is None) and (a.X is None or alike(a.X, b.X)), "X is read as something else"
    assert (a.raw is None) == (b.raw is None) and (a.raw is None or alike(a.raw.X, b.raw.X) and alike(a.raw.var, b.raw.var))
    for place in ("obsm", "uns", "varm", "obsp", "varp", "layers"):
        x, y = dict(getattr(a, place)), dict(getattr(b, place))
        for each in (x, y) if place in ("obsm", "uns") else ():
            each.pop(key, None)
        assert alike(x, y), f"{place} is read as something else"


def check_written(original, written, key):
    with h5py.File(original) as file:
        records = isinstance(file.get("obsm"), h5py.Dataset)
    (check_records_became_a_group if records else check_unchanged)(original, written, key)
    check_encodings(written, key)
    result = anndata.read_h5ad(written)
    assert result.obsm[key].shape[0] == result.n_obs
    assert isinstance(result.uns[key], dict)
    with tempfile.TemporaryDirectory() as folder:  # and anndata can write what it read
        anndata.settings.allow_write_nullable_strings = True
        result.write_h5ad(os.path.join(folder, "again.h5ad"))
    return result


def check_entries(result, key):
    assert np.array_equal(result.obsm[key], result.obsm["X_pca"] + np.float32(1))
    uns = result.uns[key]
    assert uns["version"] == "0.1.0 \u00e9" and isinstance(uns["version"], str)
    assert uns["theta"] == 0.5 and uns["seed"] == 7 and np.issubdtype(type(uns["seed"]), np.integer)
    assert uns["lambda"].tolist() == [0.5, 1.5]
    assert uns["trace"]["objective"].tolist() == [0.5, 1.5, 2.5]
    assert uns["trace"]["sweep"].tolist() == [1, 2, 3] and uns["trace"]["sweep"].dtype == np.int64


def check_created(path):
    made = anndata.read_h5ad(path)
    assert made.shape == (60, 0) and made.X is None
    assert made.obs_names[0] == "cell1" and made.obs_names[59] == "cell60"
    assert list(made.obs.columns) == ["batch", "type"]
    assert list(made.obs["type"].cat.categories) == ["t1", "t2, \u00e9", "t3"] and not made.obs["type"].cat.ordered
    assert made.obs["type"].isna().tolist() == [i == 7 for i in range(60)]
    assert made.obs["batch"].tolist() == ["b1", "b2"] * 30
    assert np.array_equal(made.obsm["X_pca"], np.arange(180, dtype="f4").reshape(60, 3))
    with tempfile.TemporaryDirectory() as folder:
        made.write_h5ad(os.path.join(folder, "again.h5ad"))


def check_npz(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with np.load(path) as npz:
        assert sorted(npz.files) == ["a", "b", "c"]
        assert npz["a"].dtype == np.float32 and np.array_equal(npz["a"], np.arange(6).reshape(2, 3))
        assert npz["b"].dtype == np.float64 and np.array_equal(npz["b"], np.arange(4))
        assert npz["c"].dtype == np.int32 and np.array_equal(npz["c"], np.arange(8).reshape(2, 2, 2))


def with_tool(tool, data):
    def run(*arguments):
        subprocess.run([tool, *arguments], check=True)

    with tempfile.TemporaryDirectory() as folder:
        def place(name):
            return os.path.join(folder, name)

        for name, libver in (("layouts", None), ("older_07", None), ("older_06", None), ("new_libver", "latest")):
            source = os.path.join(data, name + ".h5ad")
            if libver:  # written with the newest structures that HDF5 has (the superblock, groups, attributes)
                source = place("new_libver.h5ad")
                with h5py.File(os.path.join(data, "layouts.h5ad")) as old, h5py.File(source, "w", libver=("v110", "v110")) as new:
                    for k in old.attrs:
                        new.attrs[k] = old.attrs[k]
                    for k in old:
                        old.copy(k, new)
            out = place("out.h5ad")
            run("add", source, out, "X_pca_harmony")
            check_entries(check_written(source, out, "X_pca_harmony"), "X_pca_harmony")
            run("add", out, out, "X_pca_harmony")  # in place, over itself
            check_entries(check_written(source, out, "X_pca_harmony"), "X_pca_harmony")
            print(f"{name}: unchanged but for what was added" + (", and records that are a group now" if name == "older_06" else ""))
        run("create", place("new.h5ad"))
        check_created(place("new.h5ad"))
        run("add", place("new.h5ad"), place("added.h5ad"), "K")
        check_entries(check_written(place("new.h5ad"), place("added.h5ad"), "K"), "K")
        print("a new file: as anndata has it")
        run("npz", place("a.npz"))
        check_npz(place("a.npz"))
        print("npz: as numpy has it")


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--tool" and sys.argv[3] == "--data":
        with_tool(sys.argv[2], sys.argv[4])
    elif len(sys.argv) == 4:
        check_written(*sys.argv[1:])
        print(f"{sys.argv[2]}: unchanged but for obsm/{sys.argv[3]} and uns/{sys.argv[3]}")
    else:
        sys.exit(__doc__)
