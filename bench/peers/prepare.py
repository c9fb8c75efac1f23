# SPDX-License-Identifier: BSD-3-Clause
"""prepare.py CELLS.npy CHEMISTRIES: the labels in CELLS.tsv as codes, for lisi.py: batch.npy, cell_type.npy beside it.

With two chemistries or more a second batch variable is made and its effect added to the cells: a share of every donor's cells, its
own, has each chemistry, which shifts all of them by one vector and each type by a further one, as long as the donors' are.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

SHIFT, TYPE_SHIFT = 1.0, 0.5  # what unisono simulate has for the donors


def add_chemistry(path: Path, meta: pd.DataFrame, chemistries: int) -> None:
    random = np.random.default_rng(1)
    donor, kind = meta["batch"].cat.codes.to_numpy(), meta["cell_type"].cat.codes.to_numpy()
    share = random.dirichlet(np.full(chemistries, 0.5), donor.max() + 1).cumsum(axis=1)
    chemistry = (random.random(len(donor))[:, None] > share[donor][:, :-1]).sum(axis=1)
    cells = np.load(path)
    for length, rows in ((SHIFT, chemistry), (TYPE_SHIFT, chemistry * (kind.max() + 1) + kind)):
        vectors = random.normal(size=(rows.max() + 1, cells.shape[1]))
        vectors *= length / np.linalg.norm(vectors, axis=1, keepdims=True)
        cells += vectors.astype(np.float32)[rows]
    np.save(path, cells)
    meta["chemistry"] = pd.Categorical.from_codes(chemistry, [f"v{i + 1}" for i in range(chemistries)])
    meta.to_csv(path.with_suffix(".tsv"), sep="\t", index=False)


path, chemistries = Path(sys.argv[1]), int(sys.argv[2])
meta = pd.read_csv(path.with_suffix(".tsv"), sep="\t", dtype="category")
if chemistries > 1:
    add_chemistry(path, meta, chemistries)
for column in meta.columns[1:]:
    np.save(path.with_name(f"{column}.npy"), meta[column].cat.codes.to_numpy(np.int32))
