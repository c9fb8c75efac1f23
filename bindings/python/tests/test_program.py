# SPDX-License-Identifier: BSD-3-Clause
"""The same bytes as the program `unisono` on the same file."""

import subprocess

import numpy as np
import pytest
import unisono
from conftest import shared

DATA = ["cell_lines", "pbmc_3500"]


def _integrate(program, *arguments):
    subprocess.run(
        [program, "integrate", *map(str, arguments), "-q", "-f"], check=True, timeout=300
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", DATA)
def test_p75_arrays(program, tmp_path, name, threads):
    Z, meta = shared(name)
    key = list(meta)[1]
    np.save(tmp_path / "Z.npy", Z)
    lines = ["\t".join(row) for row in zip(*([c, *v] for c, v in meta.items()))]
    (tmp_path / "meta.tsv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out.npy"
    _integrate(
        program,
        tmp_path / "Z.npy",
        "--meta",
        tmp_path / "meta.tsv",
        "--batch",
        key,
        "-o",
        out,
        "--threads",
        2,
    )
    assert (
        np.load(out).tobytes()
        == unisono.harmonize(Z, meta[key], threads=threads).embedding.tobytes()
    )


@pytest.mark.parametrize("name", DATA)
def test_p75_anndata(program, tmp_path, name):
    anndata = pytest.importorskip("anndata")
    Z, meta = shared(name)
    key = list(meta)[1]
    adata = anndata.AnnData(np.zeros((len(Z), 1), "f"), obsm={"X_pca": Z.astype(np.float64)})
    adata.obs[key] = meta[key]
    adata.obs["number"] = np.arange(len(Z)) % 11 + 5
    for column in (key, "number"):
        adata.write_h5ad(tmp_path / "in.h5ad")
        _integrate(
            program,
            tmp_path / "in.h5ad",
            "--batch",
            column,
            "-o",
            tmp_path / "out.h5ad",
            "--theta",
            "1.5",
        )
        theirs = anndata.read_h5ad(tmp_path / "out.h5ad")
        unisono.pp.harmony_integrate(adata, column, theta=1.5)
        assert theirs.obsm["X_pca_harmony"].tobytes() == adata.obsm["X_pca_harmony"].tobytes()
        _same_record(theirs.uns["X_pca_harmony"], adata.uns["X_pca_harmony"])


def _same_record(theirs, ours):
    """Everything that the program writes about a run is written here too, and is equal."""
    assert set(theirs) == set(ours)
    for name, value in theirs.items():
        if isinstance(value, dict):
            _same_record(value, ours[name])
        else:
            assert np.array_equal(value, ours[name]), name


def test_columns(program, tmp_path, blobs):
    anndata = pytest.importorskip("anndata")
    Z, batch = blobs
    i = np.arange(len(Z))
    adata = anndata.AnnData(np.zeros((len(Z), 1), "f"), obsm={"X_pca": Z})
    adata.obs["batch"], adata.obs["half"] = batch.astype(str), np.where(i % 2, "x", "y")
    adata.obs["depth"], adata.obs["w"] = np.cos(i), 1.0 + i % 3
    tissue = np.array(["gut", "skin", "blood"], object)[i % 3]
    tissue[5], adata.obs.loc[tissue == "gut", "depth"] = "eye", 2.0
    adata.obs["tissue"] = tissue
    adata.write_h5ad(tmp_path / "in.h5ad")
    words = "--batch batch --batch half --combine --regress depth --weights w --within tissue"
    words += " --compat r-2.0.4 --max-rounds 3 --missing level"
    _integrate(program, tmp_path / "in.h5ad", *words.split(), "-o", tmp_path / "out.h5ad")
    theirs = anndata.read_h5ad(tmp_path / "out.h5ad")
    with pytest.warns(unisono.UnisonoWarning):
        unisono.pp.harmony_integrate(
            adata, ["batch", "half"], combine=True, covariates="depth", weights="w",
            within="tissue", compat="r-2.0.4", max_rounds=3, missing="level",
        )  # fmt: skip
    assert theirs.obsm["X_pca_harmony"].tobytes() == adata.obsm["X_pca_harmony"].tobytes()
    _same_record(theirs.uns["X_pca_harmony"], adata.uns["X_pca_harmony"])
