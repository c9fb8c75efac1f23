# SPDX-License-Identifier: BSD-3-Clause
"""One run of a peer as a Python program: imports, reads, calls, writes. The call alone is timed inside.

    call.py PROGRAM IN.npy META.tsv OUT.npy REPORT.json THREADS defaults|rounds COLUMN,COLUMN
    call.py PROGRAM --probe                                    prints its version, or fails with the reason

The report: {"call": seconds, "rounds": N, "objective": value or null}.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.metadata import version

logging.disable(logging.INFO)


def forced(mode: str, name: str) -> dict:
    """The option that never lets a run stop before its ten rounds; nothing at the program's defaults."""
    return {name: float("-inf")} if mode == "rounds" else {}


class Harmonypy:
    def __init__(self):
        import harmonypy

        self.run = harmonypy.run_harmony
        self.version = version("harmonypy")

    def prepare(self, Z, meta):
        return Z, meta

    def call(self, Z, meta, threads, mode):
        ran = self.run(Z, meta, list(meta.columns), verbose=False, ncores=threads, **forced(mode, "epsilon_harmony"))
        return ran.Z_corr, len(ran.objective_harmony) - 1, float(ran.objective_harmony[-1])


class Scanpy:
    def __init__(self):
        import scanpy

        self.integrate = scanpy.external.pp.harmony_integrate
        self.version = f"{version('scanpy')} with harmonypy {version('harmonypy')}"

    def prepare(self, Z, meta):
        import anndata
        import numpy as np

        meta.index = meta.index.astype(str)
        adata = anndata.AnnData(np.zeros((len(Z), 1), np.float32), obs=meta)
        adata.obsm["X_pca"] = Z
        return adata, meta

    def call(self, adata, meta, threads, mode):
        self.integrate(adata, "batch", verbose=False, **forced(mode, "epsilon_harmony"))
        return adata.obsm["X_pca_harmony"], None, None


class Unisono:
    def __init__(self):
        import unisono

        self.run = unisono.harmonize
        self.version = version("unisono")

    def prepare(self, Z, meta):
        return Z, meta

    def call(self, Z, meta, threads, mode):
        tol = {"tol": -1} if mode == "rounds" else {}
        result = self.run(Z, meta, threads=threads, **tol)
        return result.embedding, result.n_rounds, result.rounds[-1]["objective"] if result.rounds else None


class Bixverse:
    """Its R package has Harmony. The Python package had none in 0.2.1; a later one that does is to be added here."""

    def __init__(self):
        import bixverse

        named = [name for name in dir(bixverse) + dir(bixverse._bixverse) if "harmony" in name.lower()]
        raise ImportError(
            f"version {version('bixverse')} has {named or 'no Harmony'}"
            + ("; call.py does not know it yet" if named else "")
        )


PROGRAMS = {"harmonypy": Harmonypy, "scanpy": Scanpy, "unisono-python": Unisono, "bixverse": Bixverse}


def main(argv: list[str]) -> int:
    if argv[1] == "--probe":
        try:
            print(PROGRAMS[argv[0]]().version)
        except Exception as reason:
            print(f"{type(reason).__name__}: {reason}", file=sys.stderr)
            return 1
        return 0
    name, source, meta_path, target, report, threads, mode, columns = argv
    import numpy as np
    import pandas as pd

    program = PROGRAMS[name]()
    Z = np.load(source)
    meta = pd.read_csv(meta_path, sep="\t", usecols=columns.split(","), dtype="category")
    Z, meta = program.prepare(Z, meta)
    start = time.perf_counter()
    corrected, rounds, objective = program.call(Z, meta, int(threads), mode)
    seconds = time.perf_counter() - start
    np.save(target, np.ascontiguousarray(corrected, np.float32))
    with open(report, "w", encoding="utf-8") as out:
        json.dump({"call": seconds, "rounds": rounds, "objective": objective}, out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
