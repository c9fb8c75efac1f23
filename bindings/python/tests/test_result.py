# SPDX-License-Identifier: BSD-3-Clause
"""What a result holds."""

import copy
import pickle

import numpy as np
import pytest
import unisono

ARRAYS = ("R", "Y", "Y_start", "O", "E", "lambda_", "W", "theta", "sigma", "blocks")


@pytest.fixture(scope="module")
def result(blobs):
    return unisono.harmonize(*blobs, terms=True)


def test_p101_accessors(result, blobs):
    N, d, K, B = 1200, 8, result.n_clusters, 3
    shapes = {
        "R": (N, K),
        "Y": (K, d),
        "Y_start": (K, d),
        "O": (B, K),
        "E": (B, K),
        "lambda_": (B, K),
    }
    shapes |= {"W": (B, K, d), "theta": (B,), "sigma": (K,), "blocks": (N,), "embedding": (N, d)}
    assert {name: getattr(result, name).shape for name in shapes} == shapes
    assert (
        result.n_cells,
        result.n_dims,
        result.n_levels,
        result.n_variables,
        result.n_skipped,
    ) == (N, d, B, 1, 0)
    assert result.levels == [["0", "1", "2"]] and result.variables == ["batch"]
    assert (
        result.converged and result.reason == "converged" and result.version == unisono.__version__
    )
    assert result.n_rounds == len(result.rounds) and result.threads >= 1 and result.bytes > 0
    assert result.backend.startswith("cpu") and {"open", "run", "seed", "sweep"} <= set(
        result.seconds
    )
    assert result.rounds[0]["sweeps"] == 4 and result.objectives[0]["round"] == 0
    assert "1200 cells x 8 dimensions" in repr(result)


def test_p100_p62_what_the_arrays_are(result, blobs):
    Z, batch = blobs
    assert np.abs(result.R.sum(1) - 1).max() < 1e-6
    one_hot = np.eye(3)[batch]
    assert np.allclose(result.O, one_hot.T @ result.R, atol=1e-3 * len(Z))
    assert np.allclose(result.E, np.outer(one_hot.mean(0), result.O.sum(0)), atol=1e-6 * len(Z))
    assert np.allclose(np.linalg.norm(result.Y, axis=1), 1, atol=1e-5)
    rebuilt = Z - np.einsum("nk,nkd->nd", result.R, result.W[batch])
    assert np.allclose(rebuilt, result.embedding, atol=1e-4 * np.abs(Z).max())


def test_p111_lambda(result):
    kept = result.lambda_ > 0
    assert kept.any() and np.allclose(result.lambda_[kept], 0.2 * result.E[kept])


def test_heavy_arrays_are_made_once_when_asked_for(blobs):
    result = unisono.harmonize(*blobs)
    assert not set(ARRAYS) & set(vars(result))
    assert result.R is result.R and "R" in vars(result)
    result.close()
    result.close()
    assert result.R.shape == (1200, result.n_clusters)
    with pytest.raises(RuntimeError, match="closed"):
        result.Y  # noqa: B018


def test_context(blobs):
    with unisono.harmonize(*blobs) as result:
        Y = result.Y
    assert result.Y is Y and np.isfinite(result.embedding).all()


def test_p100_save_and_load(result, tmp_path):
    result.save_model(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as model:
        assert sorted(model) == ["E", "O", "R", "W", "Y", "Y_start", "lambda", "sigma", "theta"]
        for name in model:
            mine = getattr(result, "lambda_" if name == "lambda" else name)
            assert model[name].tobytes() == mine.tobytes()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_hold_everything(blobs, way):
    result = unisono.harmonize(*blobs)
    other = way(result)
    result.close()
    for name in ("embedding", *ARRAYS):
        assert getattr(other, name).tobytes() == getattr(result, name).tobytes()
    assert other.parameters == result.parameters and repr(other) == repr(result)


def test_a_copy_of_a_run_without_rounds(Z, labels):
    result = unisono.harmonize(Z, labels, max_rounds=0)
    assert pickle.loads(pickle.dumps(result)).reason == result.reason
    with pytest.raises(ValueError, match="no model"):
        result.model()


def test_as_array(result):
    assert np.asarray(result) is result.embedding
    assert np.asarray(result, np.float64).dtype == np.float64
    assert np.array(result) is not result.embedding


def test_result_outlives_its_input(Z, labels):
    result = unisono.harmonize(Z.copy(), list(labels), centroids=np.ones((1, 3)))
    del labels
    assert result.R.shape == (60, 1)


@pytest.mark.parametrize("terms", [False, True])
def test_plot_convergence(blobs, terms):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    result = unisono.harmonize(*blobs, terms=terms)
    ax = unisono.plot_convergence(result)
    x, y = ax.lines[0].get_data()
    assert list(x) == list(range(result.n_rounds + 1))
    assert list(y)[1:] == [r["objective"] for r in result.rounds]
    pyplot.close("all")
    with pytest.raises(ValueError, match="no rounds"):
        unisono.plot_convergence(unisono.harmonize(*blobs, max_rounds=0))
