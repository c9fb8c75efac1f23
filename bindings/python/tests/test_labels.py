# SPDX-License-Identifier: BSD-3-Clause
"""Labels of every kind, and what is wrong with labels."""

import numpy as np
import pytest
import unisono
from conftest import alternating, made, several
from unisono import _labels

pd = pytest.importorskip("pandas")


def run(Z, labels, **options):
    return unisono.harmonize(Z, labels, clusters=2, **options).embedding.tobytes()


def arrow(values):
    pa = pytest.importorskip("pyarrow")
    return pa.array(values)


TEXTS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda v: np.array(v, object),
    "bytes": lambda v: np.array(v, "S"),
    "series": pd.Series,
    "categorical": pd.Categorical,
    "category series": lambda v: pd.Series(v, dtype="category"),
    "unused categories": lambda v: pd.Categorical(v, categories=["a", "aa", "b", "zz"]),
    "ordered": lambda v: pd.Categorical(v, categories=["a", "b"], ordered=True),
    "string": lambda v: pd.Series(v, dtype="string"),
    "index": pd.Index,
    "column": lambda v: np.array(v).reshape(-1, 1),
    "frame": lambda v: pd.DataFrame({"batch": v}),
    "dict": lambda v: {"batch": v},
    "masked": lambda v: np.ma.masked_array(np.array(v, object), np.zeros(len(v), bool)),
    "arrow": lambda v: arrow(v),
    "arrow dictionary": lambda v: arrow(v).dictionary_encode(),
    "arrow series": lambda v: pd.Series(v, dtype=_arrow_text()),
}


def _arrow_text():
    pytest.importorskip("pyarrow")
    return "string[pyarrow]"


@pytest.mark.parametrize("kind", TEXTS)
def test_p31_p33_every_kind_gives_the_same_bytes(Z, labels, kind):
    assert run(Z, TEXTS[kind](labels)) == run(Z, labels)


NUMBERS = {
    "list": list,
    **{t: (lambda v, t=t: np.array(v, t)) for t in ("i1", "i8", "u2", "u8", "f4", "f8", ">i4")},
    "texts": lambda v: [str(x) for x in v],
    "objects": lambda v: np.array(v, object),
    "nullable": lambda v: pd.Series(v, dtype="Int64"),
    "category": lambda v: pd.Series(v, dtype="category"),
    "category of texts": lambda v: pd.Categorical([str(x) for x in v], ["2", "10", "30"]),
    "torch-like": lambda v: type(
        "T", (), {"__array__": lambda s, *a, **k: np.array(v), "__len__": lambda s: len(v)}
    )(),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_p32_whole_numbers_are_labels(Z, kind):
    numbers = [(2, 10, 30)[i % 3] for i in range(60)]
    assert run(Z, NUMBERS[kind](numbers)) == run(Z, numbers)


def test_p32_levels_are_in_order_of_value():
    assert _labels.encode([10, 2, 30, 2]).names == ["2", "10", "30"]
    assert _labels.encode(["10", "2", "x"]).names == ["10", "2", "x"]
    assert _labels.encode(np.array([2**40, -5, 2**40])).names == ["-5", str(2**40)]
    assert _labels.encode(np.array([2**64 - 1, 0], "u8")).level.tolist() == [1, 0]
    assert _labels.encode(np.array([], "i8")).names == []


@pytest.mark.parametrize(
    "kind", [list, np.array, pd.Series, lambda v: pd.Series(v, dtype="boolean")]
)
def test_p33_booleans_are_labels(Z, kind):
    truth = [i % 2 == 0 for i in range(60)]
    assert run(Z, kind(truth)) == run(Z, ["True" if t else "False" for t in truth])


def test_p34_p33_any_text(Z):
    Z = made(490, 4)
    names = [f"E {10 + i / 2}, rep#{i} é日本" for i in range(49)]
    result = unisono.harmonize(Z, [names[i % 49] for i in range(490)])
    assert sorted(result.levels[0]) == sorted(names) and np.isfinite(result.embedding).all()


def test_times_are_labels(Z):
    days = np.array(["2024-01-01", "2024-01-02"], "M8[ns]")[np.arange(60) % 2]
    assert run(Z, days) == run(Z, alternating(60))
    days[4] = np.datetime64("NaT")
    with pytest.raises(ValueError, match="1 missing label"):
        run(Z, days)


MISSING = {
    "None": lambda v: [*v[:4], None, *v[5:]],
    "NaN": lambda v: [*v[:4], float("nan"), *v[5:]],
    "pandas.NA": lambda v: pd.Series([*v[:4], pd.NA, *v[5:]], name="batch"),
    "NaT": lambda v: [*v[:4], pd.NaT, *v[5:]],
    "string": lambda v: pd.Series([*v[:4], None, *v[5:]], dtype="string"),
    "code -1": lambda v: pd.Categorical.from_codes(
        [-1 if i == 4 else "ab".index(x) for i, x in enumerate(v)], ["a", "b"]
    ),
    "category": lambda v: pd.Series([*v[:4], None, *v[5:]], dtype="category"),
    "masked": lambda v: np.ma.masked_array(np.array(v, object), np.arange(60) == 4),
    "arrow": lambda v: arrow([*v[:4], None, *v[5:]]),
    "float array": lambda v: np.array(
        [*("ab".index(x) for x in v[:4]), np.nan, *("ab".index(x) for x in v[5:])]
    ),
}


@pytest.mark.parametrize("kind", MISSING)
def test_p29_p30_missing_is_one_error(Z, labels, kind):
    given = MISSING[kind](labels)
    with pytest.raises(ValueError) as caught:
        run(Z, given)
    sentence = " ".join(str(caught.value).split())
    assert sentence.startswith('"batch" has 1 missing label, at cell 5 (from 1)')
    level = unisono.harmonize(Z, given, missing="level", clusters=2)
    assert level.n_levels == 3 and level.levels[0][-1] == "(missing)" and level.O.shape == (3, 2)
    skip = unisono.harmonize(Z.astype("f"), given, missing="skip", clusters=2)
    assert skip.n_skipped == 1 and np.array_equal(skip.embedding[4], Z[4].astype("f"))
    assert (skip.R[4] == 0).all() and skip.blocks[4] == -1


def test_p30_the_text_na_is_a_label(Z):
    assert unisono.harmonize(Z, ["NA" if i % 2 else "nan" for i in range(60)]).n_levels == 2


def test_all_missing(Z):
    with pytest.raises(ValueError, match="60 missing labels"):
        run(Z, [None] * 60)


def test_p41_order_of_categories_is_not_the_result_s(Z):
    labels = ["abc"[i % 3] for i in range(60)]
    other = pd.Categorical(labels, categories=["c", "a", "b"])
    a, b = (unisono.harmonize(Z, v, clusters=1).embedding for v in (labels, other))
    assert np.allclose(a, b, atol=1e-6)
    assert unisono.harmonize(Z, other).levels == [["c", "a", "b"]]


def test_p04_p05_a_level_for_every_cell(Z):
    with pytest.raises(ValueError, match="60 levels for 60 cells"):
        run(Z, [f"cell {i}" for i in range(60)])
    with pytest.warns(unisono.UnisonoWarning, match="single cell"):
        assert np.isfinite(unisono.harmonize(Z, range(60), force=True).embedding).all()


def test_p06_continuous(Z):
    with pytest.raises(ValueError, match=r'"score" holds numbers that are not whole.*continuous'):
        unisono.harmonize(Z, pd.Series(np.arange(1, 61) / 60, name="score"))
    halves = np.repeat([0.5, 1.5], 30)
    assert run(Z, halves, force=True) == run(Z, ["0.5"] * 30 + ["1.5"] * 30)
    with pytest.raises(ValueError, match="continuous"):
        run(Z, list(halves))


def test_p37_labels_are_put_in_order_by_name(Z, labels):
    names = [f"c{i}" for i in range(60)]
    frame, series = pd.DataFrame(Z, names), pd.Series(labels, names, name="batch")
    expected = unisono.harmonize(frame, series, clusters=2).embedding
    turned = unisono.harmonize(frame, series[::-1], clusters=2).embedding
    assert expected.equals(turned)
    table = series.to_frame()[::-1]
    assert expected.equals(unisono.harmonize(frame, table, clusters=2).embedding)
    foreign = series.rename({"c7": "x7"})
    with pytest.raises(ValueError, match="'c7'"):
        unisono.harmonize(frame, foreign)
    twice = pd.Series(labels, ["c0", "c0", *names[2:]])
    with pytest.raises(ValueError, match="'c0' twice"):
        unisono.harmonize(frame, twice)
    # row numbers are no names
    assert (
        unisono.harmonize(Z, series, clusters=2).embedding.tobytes()
        == expected.to_numpy().tobytes()
    )
    assert expected.equals(unisono.harmonize(frame, pd.Series(labels), clusters=2).embedding)


def test_p46_combine(Z):
    x, y = np.arange(60) % 2, np.arange(60) // 30
    joint = [f"{i} | {j}" for i, j in zip(x, y)]
    result = unisono.harmonize(Z, {"x": x, "y": y}, combine=True, clusters=2)
    # in the order of their first cells, as the library numbers them
    assert result.levels == [["0 | 0", "1 | 0", "0 | 1", "1 | 1"]] and result.variables == ["x | y"]
    for row, name in enumerate(result.levels[0]):
        cells = np.array(joint) == name
        assert np.allclose(result.O[row], result.R[cells].sum(0), rtol=1e-4)
    assert result.embedding.tobytes() == run(Z, joint)
    assert run(Z, np.stack([x, y], 1), combine=True) == run(Z, joint)
    assert run(Z, {"x": x}, combine=True) == run(Z, x)
    gone = pd.DataFrame({"x": x, "y": pd.Series(y, dtype="Int64").where(np.arange(60) != 3)})
    with pytest.raises(ValueError, match=r'"y" has 1 missing label, at cell 4'):
        run(Z, gone, combine=True)


def test_p46_several_variables_are_several_or_an_error(Z):
    x, y = np.arange(60) % 2, np.arange(60) // 30
    try:
        result = unisono.harmonize(Z, {"x": x, "y": y})
    except ValueError as error:
        assert '2 batch variables ("x", "y")' in str(error)
    else:
        assert result.variables == ["x", "y"] and result.O.shape[0] == 4


@several
def test_p47_theta_per_variable(Z):
    project, sample = np.arange(60) % 2, np.arange(60) % 6
    result = unisono.harmonize(Z, {"project": project, "sample": sample}, theta=(2, 0.1))
    assert result.theta.tolist() == [2, 2] + [0.1] * 6


@pytest.mark.parametrize(
    ("bad", "error", "word"),
    [
        ("batch", TypeError, "one label per cell"),
        (3, TypeError, "one label per cell"),
        (None, TypeError, "one label per cell"),
        ([["a", "b"]] * 60, TypeError, "list as label"),
        (np.zeros((60, 2, 2)), ValueError, "one axis"),
        ({}, ValueError, "no batch variable"),
        (pd.DataFrame(index=range(60)), ValueError, "no batch variable"),
        ([], ValueError, "0 labels"),
    ],
)
def test_what_are_no_labels(Z, bad, error, word):
    with pytest.raises(error, match=word):
        run(Z, bad)
