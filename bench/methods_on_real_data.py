# SPDX-License-Identifier: BSD-3-Clause
"""What overcorrection gains, and how near the method of 2019 is to what its authors published: tables of docs/numerics.md.

python bench/methods_on_real_data.py SHARED [SEEDS]: SHARED holds the reference data sets. Needs the Python package.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import unisono
from diagnostics_ranges import REAL, atlas, real

FACTORS = 1, 1.25, 1.5, 1.75


def overcorrected(Z, batch, types, seeds):
    """Rounds, iLISI, objective and cLISI, by factor; then those of ten rounds."""
    at_defaults, ten = [], []
    for factor in FACTORS:
        for rows, options in (at_defaults, {}), (ten, {"tol": -1}):
            runs = []
            for seed in range(seeds):
                result = unisono.harmonize(Z, batch, overcorrect=factor, seed=seed, **options)
                labels = {"batch": batch} | ({"type": types} if types else {})
                scores = unisono.lisi(result.embedding, labels, sample=3000).scores
                runs.append([result.n_rounds, scores[0].mean, result.rounds[-1]["objective"], scores[1].mean if types else np.nan])
            rows.append(np.mean(runs, axis=0))
    return np.array(at_defaults), np.array(ten)


def print_overcorrection(folder, seeds):
    print(f"Mean of {seeds} seeds; factors {', '.join(map(str, FACTORS))}; LISI of 3,000 cells\n")
    print("| data | rounds | iLISI | objective | cLISI | objective after ten rounds |\n|---|---|---|---|---|---|")
    sets = {name: real(folder, name) for name in REAL} | {"made up, 20,000 cells": atlas(0)}
    for name, (Z, batch, types) in sets.items():
        defaults, ten = overcorrected(Z, batch, types, seeds)
        columns = (defaults[:, 0], 1), (defaults[:, 1], 4), (defaults[:, 2], 1), (defaults[:, 3], 4), (ten[:, 2], 1)
        cells = [" / ".join(f"{value:.{digits}f}" for value in column) for column, digits in columns]
        print(f"| {name} | {' | '.join(cells).replace('nan', '')} |")


def print_2019(folder, seeds):
    Z, batch, _ = real(folder, "pbmc_3500")
    published = np.load(folder / "pbmc_3500" / "ref-harmony-v1" / "zcorr.npy")
    print("\npbmc_3500: least correlation of a column with the published result, iLISI; by seed\n\n| | |\n|---|---|")
    for name, options in ("defaults", {}), ("lambda 1", {"lambda_": 1}), ("harmony1", {"flavor": "harmony1"}):
        runs = []
        for seed in range(seeds):
            Z_corrected = unisono.harmonize(Z, batch, seed=seed, **options).embedding
            least = min(np.corrcoef(a, b)[0, 1] for a, b in zip(Z_corrected.T, published.T))
            runs.append(f"{least:.4f}, {unisono.lisi(Z_corrected, batch).scores[0].mean:.4f}")
        print(f"| {name} | {'; '.join(runs)} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder, seeds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 6
    print_overcorrection(folder, seeds)
    print_2019(folder, min(seeds, 3))
