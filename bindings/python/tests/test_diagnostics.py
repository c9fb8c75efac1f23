# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics: numbers against NumPy, warnings, and how they travel."""

import copy
import pickle

import numpy as np
import pytest
import unisono
from conftest import closed_form, made, shared


def lone(rng):
    """A type that only batch a has, beside one of both whose cells in b are shifted."""
    centres = np.array([[3, 0, 0, 0], [3, 0, 0.6, 0], [3, 2.4, 0, 0]])
    Z = np.repeat(centres, 200, axis=0) + 0.3 * rng.normal(size=(600, 4))
    return Z, np.repeat(["a", "b", "a"], 200), np.repeat(["both", "both", "lone"], 200)


def test_lengths_and_tables(Z, labels):
    result = unisono.harmonize(Z, {"donor": labels}, clusters=1)
    found = result.diagnostics
    lengths = np.linalg.norm(closed_form(Z, labels) - Z, axis=1)
    here = np.array(labels) == "a"
    assert list(found.levels["name"]) == ["a", "b"]
    assert list(found.levels["variable"]) == ["donor", "donor"]
    assert list(found.levels["cells"]) == [30, 30]
    assert found.levels["length_max"][0] == pytest.approx(lengths[here].max(), rel=1e-4)
    assert found.length_rms == pytest.approx(np.sqrt((lengths**2).mean()), rel=1e-4)
    assert np.array_equal(found.observed, result.O)
    assert np.array_equal(found.expected, result.E)
    assert np.array_equal(found.lambda_, result.lambda_)
    assert np.allclose(found.length, np.linalg.norm(result.W, axis=2))
    assert found.clusters["mass"] == pytest.approx([60])
    assert found.types["cells"].size == 0
    assert found is result.diagnostics


def test_a_lone_type_is_named():
    Z, batch, kind = lone(np.random.default_rng(3))
    result = unisono.harmonize(Z, {"donor": batch}, clusters=10)
    found = result.diagnose(kind)
    assert [f["kind"] for f in found.findings].count("lone_type") == 1
    assert any("lone: all of its 200 cells are in donor a" in w for w in found.warnings)
    row = list(found.types["name"]).index("lone")
    moved = (np.asarray(result) - Z)[kind == "lone"].mean(0)
    assert found.types["moved"][row] == pytest.approx(np.linalg.norm(moved), rel=1e-4)
    assert found.types["levels"][row] == [1]
    assert "warning" in repr(found)


def test_real_data_raise_no_alarm():
    Z, columns = shared("pbmc_3500")
    assert unisono.harmonize(Z, {"donor": columns["donor"]}).diagnostics.warnings == []


def test_an_embedding_of_any_other_method():
    Z, batch, kind = lone(np.random.default_rng(3))
    found = unisono.diagnose(Z, 0.5 * Z, batch, kind)
    assert found.observed is None and found.clusters["mass"].size == 0
    assert {f["kind"] for f in found.findings} >= {"level_shrunk", "type_shrunk", "types_merged"}
    assert found.levels["spread_kept"] == pytest.approx([0.5, 0.5], rel=1e-4)


def test_tables_are_data_frames_and_follow_the_cells_names():
    pandas = pytest.importorskip("pandas")
    Z, batch, kind = lone(np.random.default_rng(3))
    names = [f"c{i}" for i in range(600)]
    frame = pandas.DataFrame(Z, index=names)
    result = unisono.harmonize(frame, pandas.Series(batch, index=names), clusters=10)
    order = np.random.default_rng(1).permutation(600)
    found = result.diagnose(pandas.Series(kind, index=names, name="kind").iloc[order])
    plain = result.diagnose(kind)
    table = pandas.DataFrame(found.levels)
    assert list(table["cells"]) == [400, 200]
    assert np.array_equal(found.types["moved"], plain.types["moved"])
    with pytest.raises(ValueError, match="600 cells|600"):
        result.diagnose(kind[:-1])


def test_they_travel_with_a_result(Z, labels):
    result = unisono.harmonize(Z, labels, clusters=2)
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert other.diagnostics.length_median == result.diagnostics.length_median
        with pytest.raises(RuntimeError, match="closed"):
            other.diagnose(labels)
    kept = result.diagnostics
    result.close()
    assert result.diagnostics is kept


def test_unchanged_and_missing():
    Z = made(60, 3)
    one = unisono.harmonize(Z, ["a"] * 60).diagnostics
    assert one.length_max == 0 and one.observed is None
    labels = [None if i % 10 == 3 else "ab"[i % 2] for i in range(60)]
    skipped = unisono.harmonize(Z, labels, missing="skip").diagnostics
    assert skipped.levels["cells"].sum() == 54
    level = unisono.harmonize(Z, labels, missing="level").diagnostics
    assert list(level.levels["name"]) == ["a", "b", "(missing)"]
    assert list(level.levels["cells"])[-1] == 6
