# SPDX-License-Identifier: BSD-3-Clause
"""Data that several tests share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import unisono

CHECKOUT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("UNISONO_SHARED", CHECKOUT.parent / "shared" / "data"))


def made(n: int, d: int) -> np.ndarray:
    """G(n, d) of the reference data, cells and dimensions from 1."""
    i, j = np.mgrid[1 : n + 1, 1 : d + 1].astype(float)
    return np.sin(0.7 * i * j + 0.3 * j) + np.cos(1.3 * i + j)


def alternating(n: int) -> list[str]:
    return ["ab"[i % 2] for i in range(n)]


def closed_form(Z: np.ndarray, *labels, alpha: float = 0.2, lam: float | None = None) -> np.ndarray:
    """What one cluster must give: Z - P W with the intercept's row of W set to 0."""
    Z = np.asarray(Z, float)
    columns, penalty = [np.ones(len(Z))], [0.0]
    for variable in labels:
        for level in sorted(set(variable)):
            one = np.array([v == level for v in variable], float)
            columns.append(one)
            penalty.append(alpha * one.sum() if lam is None else lam)
    P = np.stack(columns, 1)
    W = np.linalg.solve(P.T @ P + np.diag(penalty), P.T @ Z)
    W[0] = 0
    return Z - P @ W


def close(a, b, Z) -> bool:
    return np.abs(np.asarray(a, float) - np.asarray(b, float)).max() <= 1e-5 * np.abs(Z).max()


def correlations(a, b) -> np.ndarray:
    """Per dimension."""
    return np.array([np.corrcoef(x, y)[0, 1] for x, y in zip(np.asarray(a).T, np.asarray(b).T)])


def several_variables_work() -> bool:
    try:
        unisono.plan(2, {"x": ["a", "b"] * 4, "y": ["c", "c", "d", "d"] * 2})
    except ValueError:
        return False
    return True


several = pytest.mark.skipif(
    not several_variables_work(), reason="the library corrects for one variable so far"
)


@pytest.fixture
def Z() -> np.ndarray:
    return made(60, 3)


@pytest.fixture
def labels() -> list[str]:
    return alternating(60)


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """1200 cells of three types in three batches that are shifted."""
    random = np.random.default_rng(1)
    kind, batch = random.integers(0, 3, 1200), random.integers(0, 3, 1200)
    Z = random.normal(size=(3, 8))[kind] * 3 + random.normal(size=(3, 8))[batch]
    return (Z + 0.3 * random.normal(size=(1200, 8))).astype(np.float32), batch


@pytest.fixture(scope="session")
def program() -> str:
    path = os.environ.get("UNISONO_PROGRAM", str(CHECKOUT / "build" / "unisono"))
    if not os.access(path, os.X_OK):
        pytest.skip("the program is not built; make builds it, UNISONO_PROGRAM names another")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if unisono.__version__ not in version.stdout:
        pytest.skip(f"the program is of another version: {version.stdout.strip()}")
    return path


def shared(name: str) -> tuple[np.ndarray, dict[str, list[str]]]:
    """A reference data set: embedding and columns of its table."""
    folder = SHARED / name
    if not (folder / "pcs.npy").exists():
        pytest.skip(f"the reference data set {name} is not beside the checkout")
    rows = [line.split("\t") for line in (folder / "meta.tsv").read_text().splitlines()]
    return np.load(folder / "pcs.npy"), {c: [r[i] for r in rows[1:]] for i, c in enumerate(rows[0])}
