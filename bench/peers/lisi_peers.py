# SPDX-License-Identifier: BSD-3-Clause
"""LISI of unisono beside its peers: the same cells, in turn, A B A B.

    lisi_peers.py EMBEDDING.npy LABELS.tsv [--repeats N] [--programs unisono,harmonypy,scib-metrics] [--once harmonypy] [--threads N]

EMBEDDING and LABELS are those of `unisono simulate -o x.npy --meta-out x.tsv`: the columns batch and cell_type are scored, every
cell is looked at. harmonypy searches neighbours once a column; scib-metrics takes those of its own approximate search (pynndescent,
90 neighbours), which is timed with it, and answers with one scaled median per column. Prints a table in Markdown: median (least-largest)
seconds of a call, by the clock and of CPU time (which other work on the machine changes less), and how far the values are from
unisono's. The machine's load beside every call goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

COLUMNS = ["batch", "cell_type"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="LISI of unisono beside its peers")
    parser.add_argument("embedding", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", default="unisono,harmonypy,scib-metrics")
    parser.add_argument("--once", default="", help="programs that are called in the first turn only, between the calls of the others")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="cells that unisono looks at; 0: every cell, as its peers do")
    return parser.parse_args()


def callers(programs: list[str], threads: int, sample: int) -> dict:
    made = {}
    if "unisono" in programs:
        import unisono

        def ours(Z, meta):
            result = unisono.lisi(Z, {c: meta[c] for c in COLUMNS}, sample=sample, threads=threads)
            return result.values, [result.scores[0].ilisi, result.scores[1].clisi]

        made["unisono"] = ours
    if "harmonypy" in programs:
        import harmonypy

        made["harmonypy"] = lambda Z, meta: (harmonypy.compute_lisi(Z, meta, COLUMNS), None)
    if "scib-metrics" in programs:
        import scib_metrics
        from scib_metrics.nearest_neighbors import pynndescent

        def scib(Z, meta):
            near = pynndescent(Z, n_neighbors=90, random_state=0, n_jobs=threads)
            return None, [
                float(scib_metrics.ilisi_knn(near, meta["batch"].to_numpy())),
                float(scib_metrics.clisi_knn(near, meta["cell_type"].to_numpy())),
            ]

        made["scib-metrics"] = scib
    return made


def beside(took: list[float], first: list[float]) -> str:
    """Median (least-largest), and the median ratio to the first program's call of the same turn."""
    ratio = statistics.median(t / s for t, s in zip(took, first, strict=False))  # one that is called once has one turn
    return f"{statistics.median(took):.2f} ({min(took):.2f}-{max(took):.2f}) | {ratio:.1f}"


def main() -> int:
    given = parse()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(given.threads)  # before NumPy is there
    import numpy as np
    import pandas as pd

    Z = np.load(given.embedding)
    meta = pd.read_csv(given.labels, sep="\t")
    run = callers(given.programs.split(","), given.threads, given.sample)
    once = [name for name in given.once.split(",") if name]
    seconds: dict[str, list[float]] = {name: [] for name in run}
    cpu: dict[str, list[float]] = {name: [] for name in run}
    answers = {}
    for turn in range(given.repeats):
        for name, call in run.items():
            if turn and name in once:
                continue
            start, worked = time.perf_counter(), time.process_time()
            answers[name] = call(Z, meta)
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - worked)
            load = os.getloadavg()[0]
            print(f"{name}: {seconds[name][-1]:.2f} s, {cpu[name][-1]:.2f} s of CPU; load {load:.1f}", file=sys.stderr, flush=True)
    first = next(iter(run))
    print("| cells | dims | threads | program | runs | call, s | x | CPU, s | x | off unisono's: mean, most | iLISI, cLISI scaled |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in run:
        values, scaled = answers[name]
        off = ""
        if values is not None and name != "unisono" and "unisono" in answers:
            difference = np.abs(values / answers["unisono"][0] - 1)
            off = f"{difference.mean():.1e}, {difference.max():.1e}"
        if scaled is None:
            median, levels = np.nanmedian(values, axis=0), [meta[c].nunique() for c in COLUMNS]
            scaled = [(median[0] - 1) / (levels[0] - 1), (levels[1] - median[1]) / (levels[1] - 1)]
        print(
            f"| {len(Z):,} | {Z.shape[1]} | {given.threads} | {name} | {len(seconds[name])} | {beside(seconds[name], seconds[first])} "
            f"| {beside(cpu[name], cpu[first])} | {off} | {scaled[0]:.4f}, {scaled[1]:.4f} |"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
