# SPDX-License-Identifier: BSD-3-Clause
"""run_harmony as code written for harmonypy calls it, and beside harmonypy itself."""

import inspect

import numpy as np
import pytest
import unisono
import unisono as hm
from conftest import correlations, shared

NAMES = (
    "data_mat", "meta_data", "vars_use", "theta", "lamb", "sigma", "nclust", "tau",
    "block_size", "max_iter_harmony",
    "max_iter_kmeans", "epsilon_cluster", "epsilon_harmony", "alpha", "batch_prop_cutoff",
    "verbose", "random_state",
    "ncores",
)  # fmt: skip


@pytest.fixture(scope="module")
def table(blobs):
    return {"batch": blobs[1], "half": np.arange(len(blobs[1])) % 2}


@pytest.fixture(scope="module")
def ho(blobs, table):
    return hm.run_harmony(blobs[0], table, ["batch"])


def test_signature():
    parameters = list(inspect.signature(hm.run_harmony).parameters.values())
    assert tuple(p.name for p in parameters[: len(NAMES)]) == NAMES
    assert all(p.kind == p.POSITIONAL_OR_KEYWORD for p in parameters[: len(NAMES)])
    assert all(p.kind == p.KEYWORD_ONLY for p in parameters[len(NAMES) :])


def test_p60_defaults_are_harmonypy_s(blobs, table, ho):
    """Its defaults, said aloud, change nothing; but for the rule that ends a run."""
    said = hm.run_harmony(
        blobs[0], table, "batch", theta=2, lamb=None, sigma=0.1, tau=0, block_size=0.05,
        max_iter_harmony=10,
        max_iter_kmeans=4, epsilon_cluster=1e-3, alpha=0.2, batch_prop_cutoff=1e-5,
        random_state=0, ncores=0,
    )  # fmt: skip
    assert said.Z_corr.tobytes() == ho.Z_corr.tobytes()


def test_attributes(blobs, ho):
    N, d, K, B = 1200, 8, ho.K, 3
    shapes = {
        "Z_corr": (N, d),
        "Z_orig": (N, d),
        "Z_cos": (N, d),
        "R": (N, K),
        "Y": (d, K),
        "O": (K, B),
        "E": (K, B),
    }
    shapes |= {
        "Phi": (N, B),
        "Phi_moe": (N, B + 1),
        "Pr_b": (B,),
        "N_b": (B,),
        "theta": (B,),
        "sigma": (K,),
        "lamb": (K, B),
    }
    assert {name: getattr(ho, name).shape for name in shapes} == shapes
    assert np.array_equal(ho.result(), ho.Z_corr) and np.array_equal(ho.Z_orig, blobs[0])
    assert np.allclose(np.linalg.norm(ho.Z_cos, axis=1), 1, atol=1e-6)
    assert np.allclose(ho.Phi.T @ ho.R, ho.O.T, atol=1) and np.allclose(ho.Pr_b.sum(), 1)
    assert (ho.Phi.sum(1) == 1).all() and np.array_equal(ho.Phi[:, 1], blobs[1] == 1)
    assert ho.K == 40 and (ho.N, ho.d, ho.B) == (N, d, B)


def test_p57_objectives(ho):
    assert len(ho.objective_harmony) == 1 + len(ho.kmeans_rounds)
    assert len(ho.objective_kmeans) == 1 + sum(ho.kmeans_rounds)
    parts = np.add(
        np.add(ho.objective_kmeans_dist, ho.objective_kmeans_entropy), ho.objective_kmeans_cross
    )
    assert np.allclose(parts, ho.objective_kmeans)
    ends = np.cumsum([0, *ho.kmeans_rounds])
    assert [ho.objective_kmeans[e] for e in ends] == ho.objective_harmony


def test_recording_every_sweep_changes_nothing(blobs, ho):
    assert ho.Z_corr.tobytes() == hm.harmonize(*blobs).embedding.tobytes()


def test_p46_spellings(blobs, table):
    spellings = ["batch", ["batch"], ("batch",), np.array(["batch"])]
    assert len({hm.run_harmony(blobs[0], table, v).Z_corr.tobytes() for v in spellings}) == 1
    joint = hm.run_harmony(blobs[0], table, ["batch", "half"], combine=True)
    assert joint.B == 6
    with pytest.raises(ValueError, match="named twice"):
        hm.run_harmony(blobs[0], table, ["batch", "batch"])


def test_p35_wrong_key(blobs, table):
    with pytest.raises(ValueError, match='meta_data has no column "Batch"; nearest: batch'):
        hm.run_harmony(blobs[0], table, "Batch")


def test_options_arrive(blobs, table):
    call = {
        "theta": 1,
        "lamb": 3,
        "sigma": 0.2,
        "nclust": 7,
        "tau": 2,
        "block_size": 0.1,
        "max_iter_harmony": 3,
    }
    call |= {
        "max_iter_kmeans": 6,
        "epsilon_cluster": 0.01,
        "epsilon_harmony": -np.inf,
        "alpha": 0.3,
    }
    p = hm.run_harmony(
        blobs[0], table, "batch", batch_prop_cutoff=0.01, random_state=5, ncores=1, **call
    ).run.parameters
    expected = {
        "theta": "1",
        "lambda_": "3",
        "sigma": "0.2",
        "clusters": "7",
        "tau": "2",
        "block_size": "0.1",
    }
    expected |= {
        "max_rounds": "3",
        "sweeps": "6",
        "sweep_tol": "0.01",
        "tol": "-inf",
        "alpha": "0.3",
        "cutoff": "0.01",
    }
    expected |= {"seed": "5", "threads": "1", "stop": "objective"}
    assert {name: p[name] for name in expected} == expected


@pytest.mark.parametrize("lamb", [None, -1, [-1], np.array([-1.0])])
def test_automatic_lambda(blobs, table, ho, lamb):
    assert (
        hm.run_harmony(blobs[0], table, "batch", lamb=lamb).Z_corr.tobytes() == ho.Z_corr.tobytes()
    )


def test_one_value_per_batch(blobs, table, ho):
    for theta in ([2], [2, 2, 2], np.full((3, 1), 2.0)):
        assert (
            hm.run_harmony(blobs[0], table, "batch", theta=theta).Z_corr.tobytes()
            == ho.Z_corr.tobytes()
        )
    fixed = hm.run_harmony(blobs[0], table, "batch", lamb=1).Z_corr.tobytes()
    for lamb in ([1], [1, 1, 1], [0, 1, 1, 1]):
        assert hm.run_harmony(blobs[0], table, "batch", lamb=lamb).Z_corr.tobytes() == fixed
    with pytest.raises(NotImplementedError, match="theta with different values"):
        hm.run_harmony(blobs[0], table, "batch", theta=[2, 1, 2])
    with pytest.raises(NotImplementedError, match="intercept"):
        hm.run_harmony(blobs[0], table, "batch", lamb=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="2 values for 1"):
        hm.run_harmony(blobs[0], table, "batch", theta=[2, 2])


def test_generators(blobs, table):
    def run(state):
        return hm.run_harmony(blobs[0], table, "batch", random_state=state).Z_corr.tobytes()

    assert run(None) == run(0)
    assert run(np.random.default_rng(3)) == run(np.random.default_rng(3)) != run(0)
    assert run(np.random.RandomState(3)) == run(np.random.RandomState(3))


def test_data_frames(blobs, ho):
    pd = pytest.importorskip("pandas")
    names = [f"c{i}" for i in range(1200)]
    frame = pd.DataFrame(blobs[0], names).rename(columns=str)
    meta = pd.DataFrame({"batch": blobs[1]}, names)
    assert hm.run_harmony(frame, meta[::-1], "batch").Z_corr.tobytes() == ho.Z_corr.tobytes()
    with pytest.warns(unisono.UnisonoWarning, match="cell_type"):
        other = hm.run_harmony(frame.assign(cell_type="x"), meta, "batch")
    assert isinstance(other.Z_corr, np.ndarray) and other.Z_corr.tobytes() == ho.Z_corr.tobytes()


def test_p31_unused_categories_have_no_column(blobs, ho):
    pd = pytest.importorskip("pandas")
    batch = pd.Categorical([str(b) for b in blobs[1]], ["0", "00", "1", "2", "9"])
    other = hm.run_harmony(blobs[0], {"batch": batch}, "batch")
    assert other.B == 3 and other.O.shape == ho.O.shape and np.array_equal(other.Phi, ho.Phi)
    assert other.Z_corr.tobytes() == ho.Z_corr.tobytes()


def test_p39_p49_never_turned_around(blobs, table):
    with pytest.raises(ValueError, match="transpose"):
        hm.run_harmony(blobs[0].T, table, "batch")


@pytest.mark.parametrize("name", ["pbmc_3500", "cell_lines", "pbmc_stim"])
def test_p75_p76_beside_harmonypy(name):
    harmonypy = pytest.importorskip("harmonypy")
    Z, meta = shared(name)
    key = list(meta)[1]
    theirs = harmonypy.run_harmony(Z, meta, key, verbose=False)
    ours = hm.run_harmony(Z, meta, key)
    assert correlations(theirs.Z_corr, ours.Z_corr).min() >= 0.995
    for attribute in ("Z_corr", "Z_orig", "Z_cos", "R", "Y"):
        assert np.shape(getattr(theirs, attribute)) == np.shape(getattr(ours, attribute)), attribute
    for attribute in ("K", "kmeans_rounds", "objective_harmony", "objective_kmeans"):
        assert type(getattr(theirs, attribute)) is type(getattr(ours, attribute))
    assert np.isclose(theirs.objective_harmony[-1], ours.objective_harmony[-1], rtol=0.03)
    lacking = {a for a in dir(theirs) if not a.startswith("_")} - set(dir(ours))
    assert not lacking


def test_p76_public_data_set_with_harmonypy_s_own_threshold():
    """harmonypy's public test asks that every dimension correlates at least 0.9 with R's result."""
    Z, meta = shared("pbmc_3500")
    from conftest import SHARED

    ho = hm.run_harmony(Z, meta, ["donor"])
    assert (
        correlations(ho.Z_corr, np.load(SHARED / "pbmc_3500/ref-harmony-v1/zcorr.npy")).min() >= 0.9
    )
    assert (
        correlations(ho.Z_corr, np.load(SHARED / "pbmc_3500/ref-dynamic/zcorr.npy")).min() >= 0.99
    )
