# SPDX-License-Identifier: BSD-3-Clause
"""What users of Harmony have reported (docs/user-pain-status.md), where no other test has it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import unisono
from conftest import alternating, close, closed_form, made

pd = pytest.importorskip("pandas")


def words(text: str) -> str:
    return " ".join(text.split())


def refusal(program, *arguments) -> str:
    done = subprocess.run(
        [program, "integrate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    return words(done.stderr)


def test_p30_p51_one_sentence_from_everywhere(program, tmp_path, Z, labels):
    anndata = pytest.importorskip("anndata")
    np.save(tmp_path / "Z.npy", Z.astype("f"))
    missing = [None if i in (4, 9) else label for i, label in enumerate(labels)]
    table = pd.DataFrame({"donor": missing}, [f"c{i}" for i in range(60)])
    table.to_csv(tmp_path / "m.tsv", sep="\t", index_label="cell")
    obs = table.assign(donor=table["donor"].astype("category"))
    adata = anndata.AnnData(np.zeros((60, 1), "f"), obs=obs, obsm={"X_pca": Z})
    adata.write_h5ad(tmp_path / "in.h5ad")
    out = ["--batch", "donor", "-o", tmp_path / "out.npy"]
    said = [
        refusal(program, tmp_path / "Z.npy", "--meta", tmp_path / "m.tsv", *out),
        refusal(program, tmp_path / "in.h5ad", *out),
    ]
    for call in (
        lambda: unisono.harmonize(Z, obs),
        lambda: unisono.pp.harmony_integrate(adata, "donor"),
        lambda: unisono.run_harmony(Z, obs, ["donor"]),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        said.append(words(str(caught.value)))
    assert all('"donor" has 2 missing labels, the first at cell 5 (from 1)' in s for s in said)
    assert not (tmp_path / "out.npy").exists()


def test_p06_scores_among_the_variables_are_named(Z, labels):
    scores = pd.DataFrame({"batch": labels, "S.Score": np.sin(range(60))})
    with pytest.raises(
        ValueError, match=r'"S\.Score" holds numbers that are not whole.*continuous'
    ):
        unisono.harmonize(Z, scores)


def test_p36_one_level_of_a_subset(blobs):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"batch": pd.Categorical([f"d{b}" for b in blobs[1]])})
    obs.index = obs.index.astype(str)
    whole = anndata.AnnData(np.zeros((1200, 1), "f"), obs=obs, obsm={"X_pca": blobs[0]})
    part = whole[(whole.obs["batch"] == "d1").to_numpy()].copy()
    with pytest.warns(unisono.UnisonoWarning, match="only one batch level"):
        unisono.pp.harmony_integrate(part, "batch")
    assert part.obsm["X_pca_harmony"].tobytes() == part.obsm["X_pca"].tobytes()


def test_p52_groups_of_one_cluster_are_their_closed_forms():
    Z, labels = made(80, 3), alternating(80)
    group = np.array(["case", "control"])[np.arange(80) // 30 % 2]
    result = unisono.harmonize(Z, labels, within=group, clusters=1)
    for name in ("case", "control"):
        cells = np.flatnonzero(group == name)
        expected = closed_form(Z[cells], [labels[i] for i in cells])
        assert close(result.embedding[cells], expected, Z)


@pytest.mark.parametrize("precision", ["half", "single"])
def test_p72_p73_p78_the_record_says_how(blobs, precision):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"batch": blobs[1].astype(str)}, [f"c{i}" for i in range(1200)])
    adata = anndata.AnnData(np.zeros((1200, 1), "f"), obs=obs, obsm={"X_pca": blobs[0]})
    unisono.pp.harmony_integrate(adata, "batch", precision=precision, compat="r-2.0.4", seed=3)
    record = adata.uns["X_pca_harmony"]
    assert record["version"] == unisono.__version__ and record["seed"] == 3
    params = record["params"]
    assert params["precision"] == precision and params["compat"] == "r-2.0.4"
    asked = {o.name.strip("_").replace("_", "-") for o in unisono.options()}
    assert asked <= set(params)  # every option, the defaults included
    with pytest.raises(ValueError, match='compat is "r-1.2.0"'):
        unisono.harmonize(*blobs, compat="r-1.2.0")
    with pytest.raises(ValueError, match='precision is "double"'):
        unisono.harmonize(*blobs, precision="double")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the names of Linux's libraries")
def test_p81_no_blas_of_the_machine_is_needed(tmp_path):
    for name in ("libblas.so.3", "liblapack.so.3", "libopenblas.so.0", "libmkl_rt.so.2"):
        (tmp_path / name).write_text("not a library")
    text = """
        import numpy as np, unisono
        labels = {"x": np.arange(60) % 2, "y": np.arange(60) // 30}
        print(np.isfinite(unisono.harmonize(np.eye(60), labels, threads=2).embedding).all())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_p88_auto_is_the_cpu_where_there_is_no_card(blobs):
    if any(b.name == "cuda" and b.usable for b in unisono.backends()):
        pytest.skip("this machine has one")
    assert unisono.harmonize(*blobs, backend="auto").backend.startswith("cpu")


def test_p92_p84_nothing_of_another_package_s_objects_is_needed():
    text = """
        import sys, numpy as np, unisono
        unisono.harmonize(np.eye(60), np.arange(60) % 2)
        print(sorted({"anndata", "scanpy", "pandas", "scipy", "rpy2"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[]\n", done.stderr


def test_p97_a_sparse_embedding_is_made_dense_with_a_note(Z, labels, caplog):
    sparse = pytest.importorskip("scipy.sparse")
    with caplog.at_level("INFO", logger="unisono"):
        result = unisono.harmonize(sparse.csr_matrix(Z), labels, clusters=1)
    assert close(result.embedding, closed_form(Z, labels), Z)
    assert any("sparse" in record.getMessage() for record in caplog.records)
