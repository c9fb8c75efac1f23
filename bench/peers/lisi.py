# SPDX-License-Identifier: BSD-3-Clause
"""LISI with exact neighbours of a sample of cells, in NumPy.

    lisi.py EMBEDDING.npy LABELS.npy ... [--sample N]     prints {"LABELS": mean, ...} as JSON
    lisi.py --check FOLDER                                against x.npy, meta.tsv and expected.tsv of harmonypy's own test

The inverse Simpson index of the labels around a cell (Korsunsky et al. 2019): perplexity 30, the 89 nearest other cells, a kernel of
the plain distance whose width is found by bisection. The candidates are found in float32, twenty more than needed; their distances,
which decide, are float64.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process for every CPU instead

import numpy as np  # noqa: E402

PERPLEXITY = 30
NEIGHBOURS = 3 * PERPLEXITY - 1
SPARE = 20  # candidates beyond NEIGHBOURS, so that float32 distances lose none
QUERIES = 512  # cells looked for at once
CHUNK = 32  # rows whose least distance is looked at first
ROWS = 8192  # rows of the embedding multiplied at once


def tighten(found: list, keep: int) -> tuple[list, np.ndarray]:
    """The nearest `keep` candidates of every query, and their largest distance. found: (query, row, distance) arrays."""
    query, row, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(distance, kind="stable")
    order = order[np.argsort(query[order], kind="stable")]
    query, row, distance = query[order], row[order], distance[order]
    near = np.arange(len(query)) - np.searchsorted(query, query) < keep
    query, row, distance = query[near], row[near], distance[near]
    last = np.searchsorted(query, np.arange(query[-1] + 1), side="right") - 1
    return [(query, row, distance)], distance[last]


def squares(X: np.ndarray, start: int, middle: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """|x|^2 - 2 x.q for ROWS rows of X from start: (chunks, CHUNK, queries). Rows past the end are infinitely far."""
    rows = X[start : start + ROWS] - middle
    count, d = rows.shape
    R = np.zeros((-(-count // CHUNK) * CHUNK, d + 1), np.float32)
    R[:count, :d] = rows
    R[:count, d] = np.einsum("ij,ij->i", rows, rows)
    R[count:, d] = np.inf
    return (R @ Q).reshape(-1, CHUNK, Q.shape[1])


def candidates(X: np.ndarray, queries: np.ndarray, seek: int) -> np.ndarray:
    """The rows nearest to X[queries] in float32: (queries, seek)."""
    n, d = X.shape
    middle = X[queries].mean(axis=0)
    Q = np.ones((d + 1, len(queries)), np.float32)
    Q[:d] = -2 * (X[queries] - middle).T
    limit = np.full(len(queries), np.inf, np.float32)
    found: list = []
    fresh = 0
    for start in range(0, n, ROWS):
        D = squares(X, start, middle, Q)
        if start == 0 and n >= ROWS:  # the first rows give a first limit
            limit = np.partition(np.ascontiguousarray(D.reshape(-1, len(queries)).T), seek - 1, axis=1)[:, seek - 1]
        chunk, query = np.nonzero(D.min(axis=1) <= limit)
        near = D[chunk, :, query]
        at, inside = np.nonzero((near <= limit[query, None]) & np.isfinite(near))
        found.append((query[at], start + chunk[at] * CHUNK + inside, near[at, inside]))
        fresh += len(at)
        if start + ROWS >= n or (fresh > len(queries) * seek and start + ROWS >= seek):
            found, limit = tighten(found, seek)
            fresh = 0
    return found[0][1].reshape(len(queries), seek)


def nearest(X: np.ndarray, queries: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of X nearest to X[queries], themselves left out, and their distances, in order: (queries, keep) each."""
    row = candidates(X, queries, min(keep + 1 + SPARE, len(X)))
    exact = np.empty(row.shape)
    for i, cell in enumerate(queries):
        exact[i] = np.square(X[row[i]].astype(np.float64) - X[cell].astype(np.float64)).sum(axis=1)
        exact[i][row[i] == cell] = -1  # the cell itself comes first, and is dropped
    order = np.argsort(exact, axis=1, kind="stable")[:, 1 : keep + 1]
    return np.take_along_axis(row, order, axis=1), np.sqrt(np.take_along_axis(exact, order, axis=1))


def kernel(distance: np.ndarray) -> np.ndarray:
    """Weights exp(-beta distance), normalised, with the entropy of an even spread over PERPLEXITY cells: 50 bisections or 1e-5."""
    count = len(distance)
    beta, low, high = np.ones(count), np.full(count, -np.inf), np.full(count, np.inf)
    weight = np.empty_like(distance)
    going = np.arange(count)
    for _ in range(51):
        w = np.exp(-beta[going, None] * distance[going])
        total = w.sum(axis=1)
        safe = np.where(total > 0, total, 1)
        entropy = np.where(total > 0, np.log(safe) + beta[going] * (distance[going] * w).sum(axis=1) / safe, 0)
        weight[going] = w / safe[:, None]
        off = entropy - np.log(PERPLEXITY)
        going, off = going[np.abs(off) >= 1e-5], off[np.abs(off) >= 1e-5]
        if not len(going):
            break
        wide, narrow = going[off > 0], going[off <= 0]
        low[wide], high[narrow] = beta[wide], beta[narrow]
        beta[wide] = np.where(np.isinf(high[wide]), 2 * beta[wide], (beta[wide] + high[wide]) / 2)
        beta[narrow] = np.where(np.isinf(low[narrow]), beta[narrow] / 2, (beta[narrow] + low[narrow]) / 2)
    return weight


def lisi(X: np.ndarray, labels: list[np.ndarray], cells: np.ndarray) -> np.ndarray:
    """LISI of the cells for every labelling: (labellings, cells)."""
    row, distance = nearest(X, cells, min(NEIGHBOURS, len(X) - 1))
    weight = kernel(distance)
    out = np.empty((len(labels), len(cells)))
    for label, index in zip(labels, out, strict=True):
        near = label[row]
        for i in range(len(cells)):
            share = np.bincount(np.unique(near[i], return_inverse=True)[1], weights=weight[i])
            index[i] = 1 / np.square(share).sum() if share.any() else np.nan
    return out


def part(paths: list[Path], cells: np.ndarray) -> np.ndarray:
    return lisi(np.load(paths[0], mmap_mode="r"), [np.load(path) for path in paths[1:]], cells)


def sample(n: int, size: int) -> np.ndarray:
    """The same cells for every program."""
    return np.sort(np.random.default_rng(0).permutation(n)[: min(n, size)])


def check(folder: Path) -> int:
    X = np.load(folder / "x.npy")
    meta = np.genfromtxt(folder / "meta.tsv", dtype=str, skip_header=1)
    expected = np.loadtxt(folder / "expected.tsv", skiprows=1)
    labels = [np.unique(column, return_inverse=True)[1] for column in meta.T]
    found = lisi(X, labels, np.arange(len(X))).T
    worst = float(np.max(np.abs(found / expected - 1)))
    print(f"largest relative difference {worst:.2e} (at most 1e-5)")
    return int(worst > 1e-5)


def main() -> int:
    parser = argparse.ArgumentParser(description="LISI with exact neighbours")
    parser.add_argument("embedding", type=Path, nargs="?")
    parser.add_argument("labels", type=Path, nargs="*")
    parser.add_argument("--sample", type=int, default=10000, help="cells that are looked at [10000]")
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.check:
        return check(given.check)
    paths = [given.embedding, *given.labels]
    cells = sample(len(np.load(given.embedding, mmap_mode="r")), given.sample)
    parts = [cells[i : i + QUERIES] for i in range(0, len(cells), QUERIES)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = np.concatenate(list(pool.map(part, [paths] * len(parts), parts)), axis=1)
    print(json.dumps(dict(zip([path.stem for path in given.labels], found.mean(axis=1).tolist(), strict=True))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
