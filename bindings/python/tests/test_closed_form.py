# SPDX-License-Identifier: BSD-3-Clause
"""Against the closed form for one cluster, which knows no random number and no order."""

import numpy as np
import pytest
import unisono
from conftest import alternating, close, closed_form, made, several


def test_reference_numbers(Z, labels):
    one = unisono.harmonize(Z, labels, clusters=1).embedding
    assert np.allclose(one[0], (0.160350, -0.078929, -0.245771), atol=2e-6)
    fixed = unisono.harmonize(Z, labels, clusters=1, lambda_=1).embedding
    assert np.allclose(fixed[0], (0.157956, -0.079049, -0.243528), atol=2e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.2, 5])
def test_automatic_penalty(Z, labels, alpha):
    result = unisono.harmonize(Z, labels, clusters=1, alpha=alpha)
    assert close(result.embedding, closed_form(Z, labels, alpha=alpha), Z)


@pytest.mark.parametrize("dims", [1, 3, 7, 29, 50])
def test_p25_any_dimension(dims):
    Z = made(60, dims)
    result = unisono.harmonize(Z, alternating(60), clusters=1)
    assert result.embedding.shape == (60, dims)
    assert close(result.embedding, closed_form(Z, alternating(60)), Z)


def test_p16_ten_cells():
    runs = [unisono.harmonize(made(10, 2), alternating(10), clusters=2) for _ in range(2)]
    assert np.isfinite(runs[0].embedding).all()
    assert runs[0].embedding.tobytes() == runs[1].embedding.tobytes()


@pytest.mark.parametrize("n", [2, 5, 6, 12, 15, 16, 28, 39, 40])
def test_p17_p18_small_with_defaults(n):
    Z, labels = made(n, 3), alternating(n)
    result = unisono.harmonize(Z, labels)
    assert result.n_clusters == 1 and result.sigma.shape == (1,)
    assert close(result.embedding, closed_form(Z, labels), Z)


def test_p19_more_clusters_than_cells():
    with pytest.warns(unisono.UnisonoWarning, match="20 clusters"):
        result = unisono.harmonize(made(10, 3), alternating(10), clusters=20)
    assert result.n_clusters <= 10 and result.R.shape == (10, result.n_clusters)


def test_p20_fewer_distinct_cells_than_clusters():
    Z = np.tile(made(50, 4), (40, 1))
    with pytest.warns(unisono.UnisonoWarning, match="66 clusters"):
        r = unisono.harmonize(Z, np.random.default_rng(0).integers(0, 3, 2000), clusters=66)
    K = r.n_clusters
    assert (r.R.shape, r.Y.shape, r.O.shape, r.E.shape) == ((2000, K), (K, 4), (3, K), (3, K))


def test_p21_one_level_is_the_input(Z):
    with pytest.warns(unisono.UnisonoWarning, match="nothing to integrate") as caught:
        result = unisono.harmonize(Z.astype("f"), ["x"] * 60)
    assert len(caught) == 1 and not result.converged and result.unchanged
    assert result.embedding.tobytes() == Z.astype("f").tobytes()
    with pytest.raises(ValueError, match="no round"):
        result.R  # noqa: B018


def test_p22_batch_of_one_cell(Z, labels):
    labels[0] = "solo"
    with pytest.warns(unisono.UnisonoWarning, match="solo"):
        result = unisono.harmonize(Z, labels, clusters=1)
    assert np.allclose(result.embedding[0], (0.018819, -0.015833, -0.035766), atol=2e-6)


def test_p23_cell_of_zeros(Z, labels):
    Z[4] = 0
    assert np.isfinite(unisono.harmonize(Z, labels, clusters=2).embedding).all()


def test_p24_not_finite(Z, labels):
    Z[4, 1], Z[6, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"2 non-finite values.*row 5, column 2"):
        unisono.harmonize(Z, labels)


def test_p58_what_is_left_shrinks():
    Z, labels = np.repeat([[0.0], [1.0]], 30, 0), ["a"] * 30 + ["b"] * 30
    once = unisono.harmonize(Z, labels, clusters=1).embedding
    twice = unisono.harmonize(once, labels, clusters=1).embedding
    assert np.isclose(once[-1, 0] - once[0, 0], 1 / 6, atol=1e-6)
    assert np.isclose(twice[-1, 0] - twice[0, 0], 1 / 36, atol=1e-6)


def test_p68_float32_and_float64(blobs):
    Z, batch = blobs
    a = unisono.harmonize(Z, batch, clusters=1).embedding
    assert close(a, unisono.harmonize(Z.astype(float), batch, clusters=1).embedding, Z)
    assert close(a, closed_form(Z, batch), Z)


@several
def test_p42_p44_nested_variables():
    donor = np.repeat([0, 1, 2, 3], 10)
    Z = np.stack(
        [np.array([0, 1, 4, 7])[donor] + np.tile(np.arange(10) / 10 - 0.45, 4), np.ones(40)], 1
    )
    site = np.array(list("AABB"))[donor]
    one = unisono.harmonize(Z, {"donor": donor, "site": site}, clusters=1).embedding[:, 0]
    means = [one[donor == d].mean() for d in range(4)]
    assert np.allclose(means, (2.689394, 2.856061, 2.977273, 3.477273), atol=1e-5)
    swapped = unisono.harmonize(Z, {"site": site, "donor": donor}, clusters=1).embedding[:, 0]
    assert close(one, swapped, Z)
    for penalty in (1, (1, 1)):
        fixed = unisono.harmonize(Z, {"donor": donor, "site": site}, clusters=1, lambda_=penalty)
        means = [fixed.embedding[donor == d, 0].mean() for d in range(4)]
        assert np.allclose(means, (2.873899, 2.964809, 2.944283, 3.217010), atol=1e-5)


def test_p42_donor_only():
    donor = np.repeat([0, 1, 2, 3], 10)
    Z = np.stack(
        [np.array([0, 1, 4, 7])[donor] + np.tile(np.arange(10) / 10 - 0.45, 4), np.ones(40)], 1
    )
    one = unisono.harmonize(Z, donor, clusters=1).embedding[:, 0]
    means = [one[donor == d].mean() for d in range(4)]
    assert np.allclose(means, (2.5, 2.666667, 3.166667, 3.666667), atol=1e-5)
