# SPDX-License-Identifier: BSD-3-Clause
"""Options: the library's table and judgement, reached from Python."""

import numpy as np
import pytest
import unisono
from conftest import alternating, made, several


def refused(Z, labels, word, **options):
    with pytest.raises(ValueError, match=word):
        unisono.harmonize(Z, labels, **options)


def test_table():
    names = [option.name for option in unisono.options()]
    assert len(set(names)) == len(names) and {"theta", "lambda_", "max_rounds"} <= set(names)
    for option in unisono.options():
        assert option.help and option.range
        assert (
            option.name in unisono.harmonize.__doc__
            and option.help[1:] in unisono.harmonize.__doc__
        )
        assert bool(option.choices) == (option.kind == "choice")


def test_defaults_are_recorded_and_explicit_defaults_change_nothing(Z, labels):
    plain = unisono.harmonize(Z, labels, clusters=2)
    given = {o.name: o.default for o in unisono.options()}
    explicit = unisono.harmonize(Z, labels, **{**given, "clusters": 2})
    assert plain.parameters == explicit.parameters and list(given) == list(plain.parameters)
    assert plain.embedding.tobytes() == explicit.embedding.tobytes()
    nothing = unisono.harmonize(Z, labels, **{**dict.fromkeys(given), "clusters": 2})
    assert nothing.embedding.tobytes() == plain.embedding.tobytes()


@pytest.mark.parametrize("sigma", [0, -0.1, float("nan"), float("inf")])
def test_p49_sigma(Z, labels, sigma):
    refused(Z, labels, "sigma is", sigma=sigma)


def test_p49_sigma_per_cluster(Z, labels):
    refused(Z, labels, "sigma has 3 values for 4 clusters", sigma=[0.1] * 3, clusters=4)
    refused(Z, labels, "sigma is 0 for cluster 2", sigma=np.array([0.1, 0]), clusters=2)
    one = unisono.harmonize(Z, labels, sigma=0.2, clusters=2)
    each = unisono.harmonize(Z, labels, sigma=(0.2, 0.2), clusters=2)
    assert one.embedding.tobytes() == each.embedding.tobytes()
    assert each.sigma.tolist() == [0.2, 0.2]


@pytest.mark.parametrize("theta", [-3, float("nan"), "much", np.inf])
def test_p50_theta(Z, labels, theta):
    refused(Z, labels, "theta is", theta=theta)


@pytest.mark.parametrize(
    ("option", "value"),
    [("alpha", 0), ("alpha", -1), ("alpha", np.inf), ("alpha", np.nan), ("cutoff", -0.1),
    ("cutoff", 1.1),
     ("block_size", 0), ("block_size", 2), ("lambda_", 0), ("lambda_", -1), ("max_rounds", -1),
     ("max_rounds", 1.5),
     ("sweeps", 0), ("clusters", -1), ("clusters", 2.5), ("threads", 0), ("threads", -1),
     ("threads", 1.5),
     ("seed", -1), ("stop", "never"), ("backend", "gpu"), ("missing", "drop"), ("tau", -1)],
)  # fmt: skip
def test_p51_p79_out_of_range(Z, labels, option, value):
    refused(Z, labels, f"{option.strip('_').replace('_', '-')} is", **{option: value})


def test_p43_values_per_variable(Z, labels):
    refused(Z, labels, "theta has 3 values for 1 batch variable", theta=(2, 1, 3))
    refused(Z, labels, "lambda has 2 values for 1 batch variable", lambda_=[1, 1])
    one = unisono.harmonize(Z, labels, theta=[1.5], clusters=2)
    assert one.theta.tolist() == [1.5, 1.5] and one.parameters["theta"] == "1.5"


@several
def test_p43_two_variables(Z, labels):
    both = {"x": labels, "y": [i // 30 for i in range(60)]}
    refused(Z, both, "3 values for 2 batch variables", theta=(2, 1, 3))
    assert unisono.harmonize(Z, both, theta=2).theta.tolist() == [2] * 4


def test_p77_tau():
    Z = made(60, 3)
    r = unisono.harmonize(Z, alternating(60), clusters=2, theta=2, tau=10)
    assert np.allclose(r.theta, 1.789202, atol=1e-6)


@pytest.mark.parametrize(
    "value", [3, 3.0, np.int32(3), np.float64(3), np.array(3), "3", np.uint8(3)]
)
def test_kinds_of_numbers(Z, labels, value):
    assert unisono.harmonize(Z, labels, clusters=value).n_clusters == 3


def test_no_digit_is_lost(Z, labels):
    from unisono._options import Settings

    assert Settings(sigma=0.1 + 1e-16, alpha=1 / 3, seed=2**53).c.sigma == 0.1 + 1e-16
    assert Settings(alpha=np.float32(0.2)).c.alpha == float(np.float32(0.2))
    assert Settings(seed=2**53).c.seed == 2**53


def test_unknown_and_of_another_kind(Z, labels):
    with pytest.raises(TypeError, match="'max_round'.*'max_rounds'"):
        unisono.harmonize(Z, labels, max_round=3)
    with pytest.raises(TypeError, match="no option 'zzz'"):
        unisono.harmonize(Z, labels, zzz=3)
    with pytest.raises(TypeError, match="alpha is a list"):
        unisono.harmonize(Z, labels, alpha=[1, 2])
    with pytest.raises(TypeError, match="alpha is a dict"):
        unisono.harmonize(Z, labels, alpha={})


def test_backend_not_in_this_build(Z, labels):
    if any(b.name == "cuda" and b.usable for b in unisono.backends()):
        pytest.skip("this machine has it")
    with pytest.raises(RuntimeError, match="cuda"):
        unisono.harmonize(Z, labels, backend="cuda")


def test_p114_centroids(Z, labels):
    first = unisono.harmonize(Z, labels, clusters=3)
    again = unisono.harmonize(Z, labels, centroids=first.Y_start.astype(float))
    assert again.n_clusters == 3 and np.allclose(again.embedding, first.embedding, atol=1e-4)
    refused(Z, labels, "centroids have 2 dimensions, the embedding 3", centroids=np.ones((3, 2)))
    refused(Z, labels, "clusters x dimensions", centroids=np.ones(3))
    refused(Z, labels, "clusters is 2, but 3", centroids=first.Y_start, clusters=2)
    with pytest.raises(ValueError, match="all zeros"):
        unisono.harmonize(Z, labels, centroids=np.zeros((2, 3)))


def test_p01_plan(labels):
    plan = unisono.plan(40, np.arange(100_000) % 10, clusters=100)
    assert (plan.n_cells, plan.n_dims, plan.n_levels, plan.n_clusters) == (100_000, 40, 10, 100)
    assert 0.3 * 100_000 * 500 < plan.bytes < 1e9 and plan.backend == "cpu"
    assert plan.bytes_card == 0 and plan.note == ""
    with pytest.raises(ValueError, match="theta"):
        unisono.plan(3, labels, theta=-1)


def test_p03_expression_matrix(labels):
    with pytest.warns(unisono.UnisonoWarning, match="600 dimensions") as caught:
        result = unisono.harmonize(np.random.default_rng(0).normal(size=(60, 600)), labels)
    assert caught[0].filename == __file__ and result.warnings == [str(caught[0].message)]
