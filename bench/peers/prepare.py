# SPDX-License-Identifier: BSD-3-Clause
"""prepare.py META.tsv BATCH.npy CELL_TYPE.npy: the labels as codes, for lisi.py."""

import sys

import numpy as np
import pandas as pd

meta = pd.read_csv(sys.argv[1], sep="\t", usecols=["batch", "cell_type"], dtype="category")
np.save(sys.argv[2], meta["batch"].cat.codes.to_numpy(np.int32))
np.save(sys.argv[3], meta["cell_type"].cat.codes.to_numpy(np.int32))
