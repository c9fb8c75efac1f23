# SPDX-License-Identifier: BSD-3-Clause
"""unisono beside other programs on a card, in turn, on the same cells, with ten rounds of four sweeps forced.

    card_peers.py [--cells 100k,1M,10M] [--out FOLDER] [--deadline SECONDS] [--device cpu]

The packages must be importable (PYTHONPATH): unisono, and what card_programs.py knows. A program that cannot be imported, fails or is too
slow is named, and the others go on. Every program has a process of its own, all at the same time, of which one works. A call goes from an array
of the host to one of the host, @card from the card's memory to the card's; ratios are of the same turn, @card beside @card. The peak is what a call
takes of the card beyond what it was given there. LISI is unisono's, on the CPU. The objective is each program's own last value times 2000 / cells;
harmonypy 0.2 has the penalty of Harmony v1 in it, so its number is another quantity.
"""

from __future__ import annotations

import argparse
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

TYPES, CHUNK = 40, 1 << 17
COLUMNS = (
    "cells", "program", "runs", "rounds x sweeps", "call, s", "call, x", "seeding, s", "rounds, s", "rounds, x", "GPU peak, MB",
    "objective", "iLISI", "cLISI", "note",
)  # fmt: skip


def make_cells(folder: Path, n: int, dims: int, levels: int, threads: int) -> None:
    """40 types that overlap a little, a shift of each level and a smaller one of each type in it, levels of uneven size, dimensions of falling
    variance. A chunk has a seed of its own."""
    random = np.random.default_rng(7)
    scale = 1 / (1 + 0.3 * np.arange(dims))
    centre, shift = random.normal(0, 1.3, (TYPES, dims)), random.normal(0, 1.0, (levels, 1, dims))
    place = centre[None] + shift + random.normal(0, 0.6, (levels, TYPES, dims))
    place, scale = (place * scale).astype(np.float32).reshape(-1, dims), scale.astype(np.float32)
    share = 1 / (1 + 0.2 * np.arange(levels))
    edge = np.cumsum(share / share.sum())
    folder.mkdir(parents=True, exist_ok=True)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, dims))
    batch, kind = np.empty(n, np.int16), np.empty(n, np.int16)

    def part(start: int) -> None:
        random, stop = np.random.default_rng([11, start]), min(n, start + CHUNK)
        count = stop - start
        b = np.minimum(np.searchsorted(edge, random.random(count)), levels - 1)
        b[: max(0, levels - start)] = np.arange(start, min(levels, stop))  # every level has a cell
        k = random.integers(0, TYPES, count)
        rows = random.standard_normal((count, dims), dtype=np.float32)
        rows *= scale
        rows += place[b * TYPES + k]
        X[start:stop], batch[start:stop], kind[start:stop] = rows, b, k

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(0, n, CHUNK)))
    X.flush()
    np.save(folder / "batch.npy", batch)
    np.save(folder / "kind.npy", kind)


class Worker:
    """The process of a program. Its answers come through a queue, so that waiting for one can end."""

    def __init__(self, name: str, given: argparse.Namespace):
        script = Path(__file__).with_name("card_programs.py")
        self.name, self.version, self.failed, self.last = name, "", "", {}
        self.errors = open(given.out / f"{name.replace('@', '-at-')}.log", "w", encoding="utf-8")  # noqa: SIM115  as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-u", script, name, given.device, str(given.exact)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip
        self.answers: queue.Queue = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith("@@"):
                self.answers.put(json.loads(line[2:]))
            else:
                self.errors.write(line)
        self.answers.put({"failed": f"the process ended ({self.process.wait()})", "ended": True})

    def wait(self, seconds: float) -> dict:
        try:
            answer = self.answers.get(timeout=max(1, seconds))
        except queue.Empty:
            self.process.kill()
            answer = {"failed": f"stopped after {seconds:.0f} s", "ended": True}
        if answer.get("ended"):
            self.failed = answer["failed"]
        return answer

    def open(self, seconds: float) -> None:
        answer = self.wait(seconds)
        self.version, self.failed = answer.get("version", ""), answer.get("failed", "")

    def run(self, job: dict, seconds: float) -> dict:
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        except OSError as reason:
            self.failed = str(reason)
            return {"failed": self.failed}
        return self.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()


def lisi(X: np.ndarray, folder: Path, sample: int) -> tuple[float, float]:
    import unisono

    labels = {name: np.load(folder / f"{name}.npy")[: len(X)] for name in ("batch", "kind")}
    found = unisono.lisi(X, labels, sample=sample, seed=0)
    return found.scores[0].mean, found.scores[1].mean


def spread(values: list[float]) -> str:
    def short(x: float) -> str:
        return f"{x:.3f}" if x < 10 else f"{x:.1f}"

    if len(values) == 1:
        return short(values[0])
    return f"{short(median(values))} ({short(min(values))}-{short(max(values))})"


class Case:
    """The runs of all programs with one number of cells."""

    def __init__(self, n: int, given: argparse.Namespace, end: float):
        self.n, self.given, self.end = n, given, end
        self.folder = given.work / f"cells{n}"
        self.runs: dict[str, list[dict | None]] = {}
        self.missing: dict[str, str] = {}
        self.lisi: dict[str, tuple[float, float]] = {}

    def left(self) -> float:
        return self.end - time.monotonic()

    def expected(self, worker: Worker) -> float:
        """Seconds of the next run, by the last one: of this size, or of the largest before in proportion."""
        if not worker.last:
            return 0
        n = max(worker.last)
        seeding, rest = worker.last[n]
        stand_in = worker.name == "harmonypy" and n <= self.given.exact < self.n  # whose k-means is not run then
        return (rest + (0 if stand_in else seeding)) * max(1, self.n / n)

    def turn(self, worker: Worker, number: int) -> None:
        runs = self.runs.setdefault(worker.name, [])
        runs.append(None)
        expected = self.expected(worker)
        slow = number > 0 and expected > self.given.patience  # once is enough
        if worker.failed or slow or worker.name in self.missing:
            return
        if 1.3 * expected > self.left():
            if number == 0:
                self.missing[worker.name] = f"no time: some {expected:.0f} s expected, {self.left():.0f} left"
            return
        limit = min(self.left(), 40 + 3 * expected)  # one that hangs leaves time for the others
        save = str(self.folder / f"{worker.name}.npy") if number == 0 else None
        start = time.monotonic()
        answer = worker.run({"folder": str(self.folder), "save": save, "rows": self.given.against}, limit)
        if "failed" in answer:
            self.missing[worker.name] = answer["failed"]
        else:
            runs[-1] = answer
            worker.last[self.n] = answer["seeding"], time.monotonic() - start - answer["seeding"]
        self.tell(worker.name, number, answer)

    def tell(self, name: str, number: int, answer: dict) -> None:
        line = json.dumps({"cells": self.n, "program": name, "turn": number, **answer})
        with open(self.given.out / "runs.jsonl", "a", encoding="utf-8") as out:
            out.write(line + "\n")
        print(line[:600], flush=True)

    def score(self) -> None:
        named = {"before": self.folder / "x.npy"} | {name: self.folder / f"{name}.npy" for name in self.runs}
        for name, path in named.items():
            if path.exists() and self.left() > 5:
                X = np.ascontiguousarray(np.load(path, mmap_mode="r")[: self.given.against])
                self.lisi[name] = lisi(X, self.folder, self.given.sample)

    def rows(self, workers: list[Worker]) -> list[tuple]:
        table = []
        for worker in workers:
            ours = self.runs.get("unisono@card" if worker.name.endswith("@card") else "unisono", [])
            runs = self.runs.get(worker.name, [])
            done = [run for run in runs if run]
            if not done:
                table.append((self.n, worker.name, 0, *[""] * 10, worker.failed or self.missing.get(worker.name, "not run")))
                continue

            def of(key, done=done):
                return spread([run[key] for run in done])

            def times(key, runs=runs, ours=ours):
                pairs = [(run[key], our[key]) for run, our in zip(runs, ours, strict=False) if run and our]
                return spread([a / b for a, b in pairs]) if pairs else ""

            first = done[0]
            scores = [f"{x:.4f}" for x in self.lisi.get(worker.name, ())] or ["", ""]
            note = first["note"] + ("" if first["finite"] else "; NOT FINITE") + f"; moved {100 * first['moved']:.1f} %"
            peak = max((run["peak"] for run in done if run["peak"] is not None), default=None)
            table.append(
                (self.n, worker.name, len(done), f"{first['n_rounds']} x {first['sweeps'] / max(1, first['n_rounds']):g}",
                 of("call"), times("call"), of("seeding"), of("rounds"), times("rounds"),
                 "" if peak is None else f"{peak / 1e6:.0f}", f"{first['objective']:.2f}", *scores, note.lstrip("; "))
            )  # fmt: skip
        if "before" in self.lisi:
            scores = [f"{x:.4f}" for x in self.lisi["before"]]
            table.append((self.n, "before", *[""] * 9, *scores, ""))
        return table


def print_tables(cases: list[Case], workers: list[Worker], given: argparse.Namespace) -> None:
    lines = [", ".join(f"{worker.name} {worker.version or 'not run: ' + worker.failed}" for worker in workers), ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for case in cases:
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in case.rows(workers)]
    text = "\n".join(lines)
    print(text, flush=True)
    Path(given.out, "peers.md").write_text(text + "\n", encoding="utf-8")


def number(text: str) -> int:
    return int(float(text.replace("k", "e3").replace("M", "e6")))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="programs on a card, in turn")
    parser.add_argument("--cells", default="100k,1M,10M")
    parser.add_argument("--dims", type=int, default=50)
    parser.add_argument("--levels", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", default="unisono,rapids-singlecell,harmonypy,unisono@card,rapids-singlecell@card")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--deadline", type=float, default=300, help="seconds for all [300]")
    parser.add_argument("--patience", type=float, default=25, help="a run that takes longer is not repeated [25]")
    parser.add_argument("--exact", type=number, default=1500000, help="cells up to which harmonypy runs k-means [1.5M]")
    parser.add_argument("--sample", type=int, default=5000, help="cells whose LISI is looked at [5000]")
    parser.add_argument("--against", type=number, default=100000, help="among the first of them [100k]")
    parser.add_argument("--threads", type=int, default=16, help="that make cells [16]")
    parser.add_argument("--work", type=Path, help="folder for the cells [/dev/shm]")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for tables and logs [.]")
    return parser.parse_args()


def main() -> int:
    given = read_arguments()
    end = time.monotonic() + given.deadline
    given.out.mkdir(parents=True, exist_ok=True)
    own = given.work is None
    given.work = Path(tempfile.mkdtemp(dir="/dev/shm" if own else given.work, prefix="card-peers-"))
    workers = [Worker(name, given) for name in given.programs.split(",")]
    cases = []
    try:
        sizes = [number(text) for text in given.cells.split(",")]
        make_cells(given.work / "warm", 20000 if given.device == "cuda" else 4000, given.dims, given.levels, given.threads)
        start = time.monotonic()
        for n in sizes:
            make_cells(given.work / f"cells{n}", n, given.dims, given.levels, given.threads)
        print(f"cells made in {time.monotonic() - start:.1f} s", flush=True)
        for worker in workers:
            worker.open(min(75, end - time.monotonic()))
        for worker in workers:
            if not worker.failed:  # compiles what it compiles
                job = {"folder": str(given.work / "warm"), "save": None, "rows": 1000}
                start = time.monotonic()
                answer = worker.run(job, min(75, end - time.monotonic()))
                worker.failed = worker.failed or answer.get("failed", "")
                print(f"{worker.name}: first call {time.monotonic() - start:.1f} s {answer.get('failed', '')}", flush=True)
        for n in sizes:
            cases.append(Case(n, given, end))
            for turn in range(given.repeats):
                for worker in workers:
                    cases[-1].turn(worker, turn)
            try:
                cases[-1].score()
            except Exception as reason:
                print(f"no LISI: {type(reason).__name__}: {reason}", flush=True)
            print_tables(cases, workers, given)
            shutil.rmtree(cases[-1].folder, ignore_errors=True)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(given.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
