# SPDX-License-Identifier: BSD-3-Clause
"""Flavors, weights, covariates, runs within levels, joint levels: as the library has them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import unisono
from conftest import close

pd = pytest.importorskip("pandas")


def run(Z, labels, **options) -> bytes:
    return unisono.harmonize(Z, labels, **options).embedding.tobytes()


def test_p78_flavor_and_compat_come_first(blobs):
    one = unisono.harmonize(*blobs, flavor="harmony1", sweeps=7)
    other = unisono.harmonize(*blobs, sweeps=7, flavor="harmony1")
    assert one.embedding.tobytes() == other.embedding.tobytes()
    assert one.parameters["sweeps"] == "7" and one.parameters["tol"] == "0.0001"
    both = unisono.harmonize(*blobs, compat="r-2.0.4", flavor="harmony1").parameters
    assert both == unisono.harmonize(*blobs, flavor="harmony1", compat="r-2.0.4").parameters
    assert (both["tol"], both["sweeps"], both["compat"]) == ("0.0001", "20", "r-2.0.4")


@pytest.mark.parametrize(
    "options",
    [{"flavor": "harmony1"}, {"compat": "r-2.0.4"}, {"update": "jacobi"}, {"overcorrect": 1.5}],
    ids=str,
)
def test_every_method_runs_and_is_another(blobs, options):
    result = unisono.harmonize(*blobs, **options)
    assert np.isfinite(result.embedding).all()
    assert result.embedding.tobytes() != run(*blobs)
    assert np.allclose(result.R.sum(1), 1, atol=1e-4)


def test_weight_2_is_the_cell_twice(Z, labels):
    weights = np.where(np.arange(60) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(60), weights)
    weighted = unisono.harmonize(Z, labels, clusters=1, weights=weights)
    doubled = unisono.harmonize(Z[twice], [labels[i] for i in twice], clusters=1)
    first = np.searchsorted(twice, np.arange(60))
    assert close(weighted.embedding, doubled.embedding[first], Z)
    assert weighted.O.sum() == pytest.approx(80)
    assert not close(weighted.embedding, unisono.harmonize(Z, labels, clusters=1).embedding, Z)


def test_one_cluster_with_a_covariate_is_the_closed_form(Z, labels):
    depth = np.cos(np.arange(60.0)) * 3 + 7
    result = unisono.harmonize(Z, labels, clusters=1, covariates=pd.Series(depth, name="depth"))
    x = (depth - depth.mean()) / depth.std()
    one = np.array([[label == "a", label == "b"] for label in labels], float)
    P = np.column_stack([np.ones(60), one, x])
    penalty = np.diag([0, *0.2 * one.sum(0), 0.2 * 60])
    W = np.linalg.solve(P.T @ P + penalty, P.T @ Z)
    W[0] = 0
    assert close(result.embedding, Z - P @ W, Z)
    assert result.covariates == ["depth"] and result.slopes.shape == (1, 1, 3)
    assert np.allclose(result.slopes[0, 0], W[3], atol=1e-5)
    assert np.allclose(pickle.loads(pickle.dumps(result)).model()["slopes"][0, 0], W[3], atol=1e-5)


def test_spellings_of_covariates(blobs):
    a, b = np.cos(np.arange(1200.0)), np.sin(np.arange(1200.0) / 7)
    table = pd.DataFrame({"a": a, "b": b})
    expected = run(*blobs, covariates=np.column_stack([a, b]))
    for given in (table, {"a": a, "b": b.tolist()}, table.astype("Float64")):
        assert run(*blobs, covariates=given) == expected
    assert run(*blobs, covariates=a) == run(*blobs, covariates=table[["a"]])
    assert unisono.harmonize(*blobs, covariates=table).covariates == ["a", "b"]
    assert unisono.harmonize(*blobs).slopes.shape == (0, 40, 8)
    shuffled = table.set_axis([f"c{i}" for i in range(1200)]).sample(frac=1, random_state=1)
    frame = pd.DataFrame(blobs[0], index=[f"c{i}" for i in range(1200)])
    assert run_frame(frame, blobs[1], shuffled) == expected


def run_frame(frame, labels, covariates) -> bytes:
    return unisono.harmonize(frame, labels, covariates=covariates).embedding.to_numpy().tobytes()


@pytest.mark.parametrize(
    "bad, sentence",
    [
        (["deep"] * 60, "holds 'deep' at cell 1"),
        (["1.5"] * 60, "holds '1.5' at cell 1"),
        ([1.0, None, *range(58)], "has no number at cell 2"),
        ([1.0, float("nan"), *range(58)], "has no number at cell 2"),
        ([1.0, float("inf"), *range(58)], "inf at cell 2"),
        ([3.0] * 60, "nothing to regress out"),
        (range(59), "59 values for 60 cells"),
        (np.zeros((60, 2, 2)), "must be one number per cell"),
    ],
)
def test_covariates_that_cannot_be_used(Z, labels, bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        unisono.harmonize(Z, labels, covariates=bad)


def test_weights_that_cannot_be_used(Z, labels):
    with pytest.raises(ValueError, match="the weight of cell 3 .* is 0"):
        unisono.harmonize(Z, labels, weights=[1, 1, 0] * 20)
    with pytest.raises(ValueError, match="59 weights for 60 cells"):
        unisono.harmonize(Z, labels, weights=[1] * 59)
    with pytest.raises(TypeError, match="weights is a float"):
        unisono.harmonize(Z, labels, weights=2.0)


def test_a_continuous_label_names_the_way_out(Z):
    with pytest.raises(ValueError, match="covariates="):
        unisono.harmonize(Z, np.arange(60) / 7)


@pytest.fixture
def tissue() -> np.ndarray:
    names = np.array(["gut", "skin", "blood"])[np.arange(1200) % 3].astype(object)
    names[5] = "eye"
    return names


def test_p52_within_is_a_run_for_every_level(blobs, tissue):
    Z, batch = blobs
    x = np.cos(np.arange(1200.0))
    with pytest.warns(unisono.UnisonoWarning, match='"eye": it has fewer than two cells'):
        results = unisono.harmonize(Z, batch, within=pd.Series(tissue, name="tissue"), covariates=x)
    assert list(results.runs) == ["blood", "gut", "skin"] and results.unchanged == ["eye"]
    for name, result in results.runs.items():
        cells = tissue == name
        alone = unisono.harmonize(Z[cells], batch[cells], covariates=x[cells])
        assert results.embedding[cells].tobytes() == alone.embedding.tobytes()
        assert np.array_equal(result.R, alone.R)
    assert results.embedding[5].tobytes() == Z[5].tobytes()
    assert results.n_skipped == 1 and results.within == "tissue"
    assert np.asarray(results).shape == Z.shape


def test_within_one_batch_or_one_number(blobs, tissue):
    Z, batch = blobs
    batch, x = batch.copy(), np.cos(np.arange(1200.0))
    tissue[5] = "blood"
    batch[tissue == "gut"], x[tissue == "skin"] = 0, 2.0
    with pytest.warns(unisono.UnisonoWarning) as caught:
        results = unisono.harmonize(Z, batch, within=tissue, covariates=x)
    texts = [str(w.message) for w in caught]
    assert any('"gut": only one batch level' in text for text in texts)
    assert any('"skin": covariate is the same for all its cells' in text for text in texts)
    assert results.embedding[tissue == "gut"].tobytes() == Z[tissue == "gut"].tobytes()


def test_within_missing_labels(blobs, tissue):
    Z, batch = blobs
    tissue[5] = "blood"
    tissue[::10] = None
    with pytest.raises(ValueError, match='"within" has 120 missing labels, the first at cell 1'):
        unisono.harmonize(Z, batch, within=tissue)
    skipped = unisono.harmonize(Z, batch, within=tissue, missing="skip")
    assert skipped.embedding[::10].tobytes() == Z[::10].tobytes() and skipped.n_skipped == 120
    level = unisono.harmonize(Z, batch, within=tissue, missing="level")
    assert "(missing)" in level.runs
    assert np.array_equal(level.embedding[::10], run_part(Z, batch, slice(None, None, 10)))


def run_part(Z, batch, cells) -> np.ndarray:
    return unisono.harmonize(Z[cells], batch[cells]).embedding


def test_within_progress_says_which(blobs, tissue):
    tissue[5] = "blood"
    seen = []
    unisono.harmonize(*blobs, within=tissue, progress=lambda p: seen.append(p.level))
    assert list(dict.fromkeys(seen)) == ["blood", "gut", "skin"]


def test_within_errors_name_the_level(blobs, tissue):
    tissue[5] = "blood"
    Z = blobs[0].copy()
    Z[1, 2] = np.nan
    with pytest.raises(ValueError, match='within "skin": .*non-finite'):
        unisono.harmonize(Z, blobs[1], within=tissue)
    with pytest.raises(ValueError, match="60 labels for 1200 cells"):
        unisono.harmonize(*blobs, within=["a", "b"] * 30)


def test_combine_with_missing_levels(blobs):
    Z, batch = blobs
    half = np.where(np.arange(1200) % 5 == 0, None, (np.arange(1200) % 2).astype(str))
    result = unisono.harmonize(Z, {"b": batch, "h": half}, combine=True, missing="level")
    assert result.O.shape[0] == len(result.levels[0]) == 9
    label = [f"{b} | {'(missing)' if h is None else h}" for b, h in zip(batch, half)]
    for row, name in enumerate(result.levels[0]):
        cells = np.array(label) == name
        assert np.allclose(result.O[row], result.R[cells].sum(0), rtol=1e-3, atol=1e-3)


def test_plan_counts_covariates():
    labels, x = ["a", "b"] * 5000, np.arange(10000.0)
    assert unisono.plan(50, labels, covariates=x).bytes > unisono.plan(50, labels).bytes


def test_anndata_columns(blobs, tissue):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.zeros((1200, 1), np.float32))
    adata.obsm["X_pca"] = blobs[0]
    adata.obs["batch"] = pd.Categorical(blobs[1])
    tissue[5] = "blood"
    adata.obs["tissue"], adata.obs["depth"] = tissue, np.cos(np.arange(1200.0))
    adata.obs["w"] = 1.0 + np.arange(1200) % 2
    unisono.pp.harmony_integrate(
        adata, "batch", covariates="depth", weights="w", within="tissue", flavor="harmony1"
    )
    expected = unisono.harmonize(
        *blobs, covariates=np.cos(np.arange(1200.0)), weights=adata.obs["w"].to_numpy(),
        within=tissue, flavor="harmony1",
    )  # fmt: skip
    assert adata.obsm["X_pca_harmony"].tobytes() == expected.embedding.tobytes()
    uns = adata.uns["X_pca_harmony"]
    assert (uns["within"], uns["regress"], uns["weights"]) == ("tissue", "depth", "w")
    assert uns["method"] == "harmony1" and uns["runs"]["level"] == "blood\ngut\nskin"
    assert uns["runs"]["cells"].tolist() == [400, 400, 400]
    assert len(uns["rounds"]["run"]) == uns["n_rounds"]
    with pytest.raises(ValueError, match='obs has no column "deepth"; nearest: depth'):
        unisono.pp.harmony_integrate(adata, "batch", covariates=["deepth"])
    unisono.pp.harmony_integrate(adata, "batch", flavor="harmony1", ridge_lambda=2.0)
    assert adata.uns["X_pca_harmony"]["params"]["lambda"] == "2"


def test_run_harmony_takes_them_too(blobs):
    table = pd.DataFrame({"batch": blobs[1], "half": np.arange(1200) % 2, "x": np.arange(1200.0)})
    ho = unisono.run_harmony(
        blobs[0], table, ["batch", "half"], combine=True, flavor="harmony1", covariates="x"
    )
    assert ho.B == 6 and ho.run.covariates == ["x"]
    assert np.allclose(ho.O.sum(0), ho.N_b, rtol=1e-3)
    assert np.allclose(ho.Phi.T @ ho.R, ho.O.T, rtol=1e-3, atol=1e-2)
