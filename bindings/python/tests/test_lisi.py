# SPDX-License-Identifier: BSD-3-Clause
"""LISI beside harmonypy's own values, its code, and the program."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version

import numpy as np
import pytest
import unisono
import unisono as hm
from conftest import SHARED, alternating, made


def points():
    if not (SHARED / "lisi" / "x.npy").exists():
        pytest.skip("the reference data set lisi is not beside the checkout")
    rows = [r.split("\t") for r in (SHARED / "lisi/meta.tsv").read_text().splitlines()]
    meta = {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
    return (
        np.load(SHARED / "lisi/x.npy"),
        meta,
        np.loadtxt(SHARED / "lisi/expected.tsv", skiprows=1),
    )


def test_harmonypy_s_own_test():
    X, meta, expected = points()
    found = hm.compute_lisi(X, meta, list(meta), 30)
    assert isinstance(found, np.ndarray) and found.shape == expected.shape
    assert found.dtype == np.float64 and np.allclose(found, expected)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(meta)
    again = hm.compute_lisi(pd.DataFrame(X), frame, frame.columns, 30)
    assert again.tobytes() == found.tobytes()


def test_beside_harmonypy(blobs):
    """harmonypy before 2 to rounding; 2 takes one neighbour more."""
    harmonypy = pytest.importorskip("harmonypy")
    major = int(version("harmonypy").split(".")[0])
    pd = pytest.importorskip("pandas")
    meta = pd.DataFrame({"batch": blobs[1], "half": np.arange(1200) % 2})
    for X in (blobs[0], blobs[0].astype(float)):
        theirs = harmonypy.compute_lisi(X, meta, ["batch", "half"], 20)
        ours = hm.compute_lisi(X, meta, ["batch", "half"], 20)
        assert np.allclose(ours, theirs, rtol=1e-6 if major < 2 else 0.02)


def test_p118_one_label_and_two_on_a_line():
    result = unisono.lisi(np.arange(500.0)[:, None], {"two": alternating(500), "one": ["x"] * 500})
    assert result.names == ["two", "one"] and result.values.shape == (500, 2)
    assert (result.values[:, 0] > 1.9).all() and np.allclose(result.values[:, 1], 1)
    assert result.scores[0].ilisi == pytest.approx(result.scores[0].median - 1)
    assert result.scores[0].clisi == pytest.approx(2 - result.scores[0].median)
    assert np.isnan(result.scores[1].ilisi)


def test_a_sample_and_threads(blobs):
    every = unisono.lisi(*blobs, sample=0, threads=1)
    assert every.values.tobytes() == unisono.lisi(*blobs, sample=0, threads=3).values.tobytes()
    some = unisono.lisi(*blobs, sample=300, seed=4)
    assert len(some.cells) == 300 and (np.diff(some.cells) > 0).all()
    assert np.array_equal(some.values, every.values[some.cells])
    assert every.scores[0].standard_error == 0 < some.scores[0].standard_error
    assert abs(some.scores[0].mean - every.scores[0].mean) < 5 * some.scores[0].standard_error
    assert some.scores[0].mean == pytest.approx(some.values.mean())
    assert not np.array_equal(some.cells, unisono.lisi(*blobs, sample=300, seed=5).cells)


def test_p117_few_cells_are_told():
    with pytest.warns(unisono.UnisonoWarning, match=r"perplexity 30 takes 90 cells"):
        result = unisono.lisi(made(20, 3), alternating(20))
    assert result.perplexity == pytest.approx(19 / 3) and result.n_neighbours == 18
    assert ((result.values >= 1) & (result.values <= 2)).all()


def test_missing_labels_are_told(blobs):
    labels = [None if i == 7 else b for i, b in enumerate(blobs[1].tolist())]
    with pytest.warns(unisono.UnisonoWarning, match="1 of 1200 cells have no label"):
        assert unisono.lisi(blobs[0], labels).scores[0].n_missing == 1


def test_p94_layouts(blobs):
    Z, batch = blobs
    expected = unisono.lisi(Z, batch).values.tobytes()
    others = np.asfortranarray(Z), Z.astype(float), Z[::-1].copy()[::-1], np.repeat(Z, 2, 1)[:, ::2]
    for other in others:
        assert unisono.lisi(other, batch).values.tobytes() == expected


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda Z, b: unisono.lisi(Z, b[:-1]), "1199 labels for an embedding of 1200x8"),
        (lambda Z, b: unisono.lisi(Z.T, b), "transpose"),
        (lambda Z, b: unisono.lisi(Z, b, perplexity=1), "perplexity is 1"),
        (lambda Z, b: unisono.lisi(Z, b, perplexity="x"), "perplexity is 'x'"),
        (lambda Z, b: unisono.lisi(Z, b, sample=2.5), "whole number"),
        (lambda Z, b: unisono.lisi(Z, b, sample=-1), "sample is -1"),
        (lambda Z, b: unisono.lisi(Z[:4], b[:4]), "at least 5"),
        (lambda Z, b: unisono.lisi(Z * np.nan, b), "non-finite"),
        (lambda Z, b: hm.compute_lisi(Z, {"batch": b}, ["Batch"]), 'has no column "Batch"'),
    ],
)
def test_p120_bad_input(blobs, call, word):
    with pytest.raises(ValueError, match=word):
        call(*blobs)


def test_ctrl_c_ends_it():
    Z = np.random.default_rng(0).normal(size=(400_000, 30)).astype("f")
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        unisono.lisi(Z, np.arange(len(Z)) % 3, sample=0, threads=1)
    timer.cancel()
    assert time.monotonic() - start < 60  # all of it would take many minutes
    assert unisono.lisi(Z[:100], np.arange(100) % 3).values.shape == (100, 1)


def test_as_the_program(blobs, tmp_path):
    program = os.environ.get("UNISONO_PROGRAM")
    if not program:
        pytest.skip("UNISONO_PROGRAM does not name the program")
    np.save(tmp_path / "z.npy", blobs[0])
    (tmp_path / "m.tsv").write_text("batch\n" + "\n".join(f"b{b}" for b in blobs[1]) + "\n")
    out = subprocess.run(
        [program, "score", "z.npy", "--meta", "m.tsv", "--batch=batch", "--sample=200", "--json"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    theirs, ours = json.loads(out)["scores"][0], unisono.lisi(*blobs, sample=200).scores[0]
    for name in ("mean", "median", "standard_error"):
        assert theirs[name] == pytest.approx(getattr(ours, name), rel=1e-10)
    assert theirs["scaled"] == pytest.approx(ours.ilisi, rel=1e-10)


def test_a_card_is_asked_for_by_the_work_there_is(tmp_path):
    """By a process of its own, for the plugin, here a file that is none, is opened once."""
    (tmp_path / "plugin.so").write_text("no plugin")
    program = """if True:
        import warnings, numpy as np, unisono
        X = np.arange(2_000_000.0, dtype=np.float32).reshape(-1, 1)
        for sample, given in ((499, {}), (500, {}), (500, {"backend": "cpu"})):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = unisono.lisi(X, np.arange(len(X)) % 2, sample=sample, **given)
            print(sample, given, [str(w.message)[:47] for w in caught], found.values.shape)
    """
    environment = dict(os.environ, UNISONO_CUDA_PLUGIN=str(tmp_path / "plugin.so"))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "499 {} [] (499, 1)",
        "500 {} ['backend cuda cannot be used, so the CPU is: the'] (500, 1)",
        "500 {'backend': 'cpu'} [] (500, 1)",
    ]
