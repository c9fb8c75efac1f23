# SPDX-License-Identifier: BSD-3-Clause
"""What the diagnostics measure on good runs and on bad ones: the numbers behind docs/diagnostics.md.

python bench/diagnostics_ranges.py [SHARED]: SHARED holds the reference data sets. Needs the Python package.
"""

import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import unisono

REAL = {"cell_lines": "dataset", "cell_lines_small": "dataset", "pbmc_stim": "stim", "pbmc_3500": "donor"}


def real(folder, name):
    rows = [line.split("\t") for line in (folder / name / "meta.tsv").read_text().splitlines()]
    columns = {c: [row[i] for row in rows[1:]] for i, c in enumerate(rows[0])}
    return np.load(folder / name / "pcs.npy"), columns[REAL[name]], columns.get("cell_type")


def atlas(seed, n=20000, d=30, batches=8, types=25, shift=1.0, own=0.3, skew=1.0, only=()):
    """Types from a fifth of the cells to 0.3 %, a shift of every batch and a smaller one of every type in it; only: types that
    are in some batches alone."""
    random = np.random.default_rng(seed)
    scale = 4.5 / np.sqrt(1 + 0.5 * np.arange(d))
    centre = scale * random.normal(size=(types, d))
    common = 0.25 * shift * scale * random.normal(size=(batches, d))
    each = 0.27 * own * scale * random.normal(size=(types, batches, d))
    share = 0.2 * (0.003 / 0.2) ** (np.arange(types) / (types - 1))
    size = skew ** np.arange(batches)
    kind = random.choice(types, n, p=share / share.sum())
    batch = random.choice(batches, n, p=size / size.sum())
    for t, where in only:
        cells = np.flatnonzero(kind == t)
        batch[cells] = random.choice(where, len(cells))
    Z = centre[kind] + common[batch] + each[kind, batch] + random.normal(size=(n, d))
    return Z.astype(np.float32), [f"b{b}" for b in batch], [f"t{t:02d}" for t in kind]


def lone(random):
    """Row P109: a type of batch a alone beside one of both that is shifted in b."""
    at = np.repeat([[3, 0, 0, 0], [3, 0, 0.6, 0], [3, 2.4, 0, 0]], 200, axis=0)
    return at + 0.3 * random.normal(size=(600, 4)), ["a"] * 200 + ["b"] * 200 + ["a"] * 200, ["both"] * 400 + ["lone"] * 200


def merged_with_own(seed):
    """Batch b7 has one type, and no other has it."""
    Z, batch, kind = atlas(seed)
    here = np.array(batch) == "b7"
    Z[here] = Z[here].mean(0) + np.random.default_rng(seed).normal(size=(here.sum(), Z.shape[1]))
    return Z, batch, ["own" if h else k for h, k in zip(here, kind)]


def thirds(seed):
    return atlas(seed, only=[(t, [t % 8, (t + 1) % 8, (t + 3) % 8]) for t in range(0, 25, 2)])


def confounded(seed):
    return atlas(seed, only=[(t, [t % 8]) for t in range(25)])


class Ranges:
    def __init__(self):
        self.low, self.high, self.kinds, self.runs, self.silent = {}, {}, Counter(), 0, 0

    def see(self, name, values):
        values = np.asarray(values, float)
        values = values[np.isfinite(values)]
        if len(values):
            self.low[name] = min(self.low.get(name, np.inf), values.min())
            self.high[name] = max(self.high.get(name, -np.inf), values.max())

    def add(self, Z, batch, kind, **options):
        result = unisono.harmonize(Z, batch, **options)
        found = result.diagnose(kind)
        levels, types = found.levels, found.types
        if len(levels["cells"]) > 2:
            self.see("distance / median", levels["distance"] / np.median(levels["distance"]))
        self.see("99.9 % / rms", levels["length_999"] / levels["length_rms"])
        self.see("spread kept", levels["spread_kept"])
        self.see("thin mass", levels["thin_mass"])
        if kind is not None:
            self.see("variance removed", types["removed"])
            self.see("distance of types kept", types["nearest_after"] / types["nearest_before"])
            alone = types["levels"][:, 0] == 1
            self.see("lone type: length / spread", (types["length_median"] / types["spread"])[alone])
        self.runs += 1
        self.silent += not found.findings
        self.kinds.update({f["kind"] for f in found.findings})

    def show(self, title):
        print(f"{title}: {self.runs} runs, {self.silent} without a warning; {dict(self.kinds)}")
        for name in self.low:
            print(f"    {name:28s} {self.low[name]:8.3f} to {self.high[name]:.3f}")


def main():
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    settings = [{"seed": s} for s in range(5)] + [
        {"lambda_": 1.0}, {"theta": 1}, {"theta": 4}, {"sigma": 0.2}, {"clusters": 5}, {"tau": 5}
    ]  # fmt: skip
    if folder.exists():
        good, strong = Ranges(), Ranges()
        for name in REAL:
            for options in settings:
                good.add(*real(folder, name), **options)
        for name in ("cell_lines", "cell_lines_small"):
            strong.add(*real(folder, name), theta=20)
        good.show("real data, usual settings")
        strong.show("the cell lines, theta 20")
    made = Ranges()
    for seed in range(5):
        for options in ({}, {"skew": 0.6}, {"batches": 50, "n": 30000}, {"own": 0.6}, {"shift": 2}, {"n": 2000, "batches": 3}):
            made.add(*atlas(seed, **options))
    made.show("made-up, every type in every batch")
    rows = {
        "half of the types in three of eight batches": [(thirds(s), o) for s in range(5) for o in ({},)],
        "the same, theta 20": [(thirds(s), {"theta": 20}) for s in range(5)],
        "the same, lambda 1e-6": [(thirds(s), {"lambda_": 1e-6}) for s in range(5)],
        "every type in one batch": [(confounded(s), {}) for s in range(5)],
        "a batch with one type of its own": [(merged_with_own(s), {}) for s in range(5)],
        "a big type (8 %) in one batch, theta 20": [(atlas(s, only=[(3, [2])]), {"theta": 20}) for s in range(5)],
        "a rare type (0.5 %) in one batch, theta 20": [(atlas(s, only=[(20, [2])]), {"theta": 20}) for s in range(5)],
        "P109": [(lone(np.random.default_rng(s)), {"clusters": 10}) for s in range(5)],
        "P109, lambda 1e-6": [(lone(np.random.default_rng(s)), {"clusters": 10, "lambda_": 1e-6}) for s in range(5)],
        "40 batches of 75 cells, 100 clusters": [(atlas(s, n=3000, batches=40), {"clusters": 100}) for s in range(5)],
    }
    for title, runs in rows.items():
        ranges = Ranges()
        for data, options in runs:
            ranges.add(*data, **options)
        ranges.show(title)


if __name__ == "__main__":
    main()
