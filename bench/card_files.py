#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`unisono integrate` on files of the shape of Tahoe-100M: where the time goes, from .npy to .npy.

    card_files.py --unisono PROGRAM --maker PROGRAM [--opener PROGRAM] [--share 0.01] [--folder FOLDER] [--backend cpu]

PROGRAM: build/unisono, and build/card_cells and build/bench_open (-DUNI_BENCH=ON). 95.6 million cells x 50, 1344 samples of uneven size, at the
program's defaults; 40 GB of disk in FOLDER, 64 GB of memory. Runs once with the input in the page cache, then times the steps of uni_open, which
--trace tells as one, with as many cells (--opener), then, with root's rights and time left, runs with the input not in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

CELLS, DIMS, LEVELS, TYPES = 95_600_000, 50, 1344, 40
LINE, HEADER = 7, 6  # bytes of a line of meta.tsv, and of its first
STAGES = (
    ("read_labels", "labels: read"), ("read_embedding", "x.npy: read"), ("open", "check, sort, copy in"), ("seed", "seeding"),
    ("rounds", "rounds"), ("result", "result: read out"), ("diagnose", "diagnostics"), ("write", "out.npy: write"),
    ("rest", "rest"), ("total", "all"),
)  # fmt: skip


def gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"


def meminfo() -> dict[str, int]:
    with open("/proc/meminfo", encoding="utf-8") as file:
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}


def card_memory():
    """A function that tells the bytes taken of the card, or nothing without a card or NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(0)
        pynvml.nvmlDeviceGetMemoryInfo(card)
        return lambda: int(pynvml.nvmlDeviceGetMemoryInfo(card).used)
    except Exception:
        return lambda: None


class Watch(threading.Thread):
    """The most of the card's memory, and the least of the machine's, while something runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self._card = card_memory()
        self.going, self.card, self.before, self.available = True, None, self._card(), meminfo()["MemAvailable"]

    def run(self) -> None:
        while self.going:
            now = self._card()
            if now is not None:
                self.card = max(self.card or 0, now)
            self.available = min(self.available, meminfo()["MemAvailable"])
            time.sleep(0.02)

    def stop(self) -> None:
        self.going = False
        self.join(15)


class Job:
    def __init__(self, given: argparse.Namespace, folder: Path):
        self.given, self.folder = given, folder
        self.target = (given.target or folder) / f"out-{os.getpid()}.npy"
        self.n = int(CELLS * given.share)
        self.end = time.monotonic() + given.deadline

    def left(self) -> float:
        return max(1.0, self.end - time.monotonic())

    def make(self) -> None:
        start = time.monotonic()
        subprocess.run([self.given.maker, self.folder, str(self.n), str(DIMS), str(LEVELS)], check=True, timeout=self.left())
        made = time.monotonic()
        try:
            subprocess.run(["sync", self.folder / "x.npy", self.folder / "meta.tsv"], check=True, timeout=min(120, self.left()))
        except subprocess.SubprocessError as reason:
            print(f"the files are not on the disk yet: {reason}", flush=True)
        size = sum((self.folder / name).stat().st_size for name in ("x.npy", "meta.tsv"))
        print(f"{self.n} cells x {DIMS}, {LEVELS} levels: {size / 1e9:.2f} GB made in {made - start:.1f} s, on the disk "
              f"{time.monotonic() - made:.1f} s later", flush=True)  # fmt: skip

    def command(self, *more: str) -> list:
        folder = self.folder
        return [self.given.unisono, "integrate", folder / "x.npy", "--meta", folder / "meta.tsv", "--batch", "batch", "-f",
                "--backend", self.given.backend, "-o", self.target, *more]  # fmt: skip

    def plan(self) -> None:
        said = subprocess.run(self.command("--dry-run"), capture_output=True, text=True, timeout=self.left(), check=False)
        print("; ".join(said.stdout.splitlines()) or said.stderr, flush=True)

    def run(self, what: str) -> dict | None:
        self.target.unlink(missing_ok=True)
        trace = self.given.out / f"trace-{what}.json"
        watch = Watch()
        watch.start()
        start = time.monotonic()
        try:
            ran = subprocess.run(self.command("--trace", trace), capture_output=True, text=True, timeout=self.left(), check=False)
        except subprocess.TimeoutExpired:
            print(f"{what}: not done after {time.monotonic() - start:.0f} s", flush=True)
            return None
        finally:
            watch.stop()
        wall = time.monotonic() - start
        print(ran.stderr.strip()[-800:], flush=True)
        if ran.returncode:
            return None
        report = json.loads(trace.read_text(encoding="utf-8"))
        self.told(what, report, wall, watch)
        return report

    def told(self, what: str, report: dict, wall: float, watch: Watch) -> None:
        s = dict(report["seconds"])
        s["rounds"] = s["run"] - s["seed"]
        s["rest"] = s["total"] - sum(s[key] for key, _ in STAGES if key not in ("rest", "total"))
        bytes_of = {"read_embedding": self.n * DIMS * 4, "write": self.n * DIMS * 4, "read_labels": self.n * LINE}
        print(f"\n| {what} | s | ns a cell | GB/s |\n|---|---|---|---|")
        for key, name in STAGES:
            rate = f"{bytes_of[key] / s[key] / 1e9:.2f}" if key in bytes_of and s[key] > 0 else ""
            print(f"| {name} | {s[key]:.3f} | {1e9 * s[key] / self.n:.1f} | {rate} |")
        rounds = " + ".join(f"{name} {s[name]:.3f}" for name in ("assign", "sweep", "moments", "ridge"))
        card = "not known" if watch.card is None else gib(watch.card - (watch.before or 0))
        print(f"\nrounds: {len(report['rounds'])} ({report['reason']}), {rounds}; process {wall:.2f} s, CPU {s['cpu']:.1f} s, "
              f"{report['threads']} threads, {report['backend']}; memory {gib(report['memory_peak_bytes'])} (predicted "
              f"{gib(report['memory_predicted_bytes'])}), card {card}; least available {gib(watch.available)}", flush=True)  # fmt: skip

    def sample(self, count: int) -> np.ndarray:
        """Rows, in runs of 500."""
        run = min(500, self.n)
        start = np.random.default_rng(0).integers(0, self.n - run + 1, max(1, count // run))
        return np.unique(start[:, None] + np.arange(run))

    def check(self) -> None:
        """Is the result finite, and are the batches nearer each other than before, the types not?"""
        before, after = (np.load(path, mmap_mode="r") for path in (self.folder / "x.npy", self.target))
        if after.shape != before.shape or after.dtype != np.float32:
            print(f"WRONG: out.npy is {after.dtype} {after.shape}")
            return
        step = 1 << 18
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sums = list(pool.map(lambda i: float(np.abs(after[i : i + step]).sum()), range(0, self.n, step)))
        print(f"out.npy: {'all finite' if np.isfinite(sums).all() else 'NOT FINITE'}", flush=True)
        rows = self.sample(1_000_000)
        lines = np.memmap(self.folder / "meta.tsv", f"S{LINE}", "r", HEADER, (self.n,))[rows]
        batch = np.char.strip(lines).astype("S6").view("S1").reshape(len(rows), -1)[:, 1:].astype(np.int64) @ 10 ** np.arange(4, -1, -1)
        kind = np.load(self.folder / "type.npy", mmap_mode="r")[rows].astype(np.int64)
        print("| | batches apart | types apart | spread in a type |\n|---|---|---|---|")
        for name, Z in (("before", before), ("after", after)):
            print(f"| {name} | " + " | ".join(f"{x:.3f}" for x in distances(np.asarray(Z[rows], np.float64), batch, kind)) + " |")

    def open_steps(self) -> None:
        if self.given.opener and self.left() > 20:
            size = [str(self.n), str(DIMS), str(LEVELS), f"repeats={1 if self.n > 20_000_000 else 2}", *(["cpu"] if self.given.backend == "cpu" else [])]
            try:
                ran = subprocess.run(["stdbuf", "-oL", self.given.opener, *size], timeout=min(100, self.left()), check=False)
                if ran.returncode:
                    print(f"{self.given.opener}: ended with {ran.returncode}")
            except subprocess.TimeoutExpired:
                print("the steps of uni_open: no time")


def means(Z: np.ndarray, label: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    cells = np.bincount(label, minlength=count)
    sums = np.stack([np.bincount(label, Z[:, j], count) for j in range(Z.shape[1])], axis=1)
    return sums / np.maximum(cells, 1)[:, None], cells


def distances(Z: np.ndarray, batch: np.ndarray, kind: np.ndarray) -> tuple[float, float, float]:
    """Root mean squares: a batch's centre from its types' centres, without what chance adds; a type's from that of all; a cell's from its type's."""
    centre, cells = means(Z, kind, TYPES)
    types = np.sqrt(np.mean(np.square(centre[cells > 0] - Z.mean(axis=0)).sum(axis=1)))
    rest = Z - centre[kind]
    spread = np.square(rest).sum(axis=1).mean()
    shift, cells = means(rest, batch, LEVELS)
    shift, cells = shift[cells > 1], cells[cells > 1]
    apart = np.mean(np.square(shift).sum(axis=1) - spread / cells)
    return float(np.sqrt(max(apart, 0))), float(types), float(np.sqrt(spread))


def drop_cache() -> bool:
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="utf-8")
        return True
    except OSError as reason:
        print(f"the page cache stays: {reason}")
        return False


def attempt(what: str, function) -> None:
    try:
        function()
    except Exception as reason:
        print(f"{what}: {type(reason).__name__}: {reason}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="a hundred million cells, from file to file")
    parser.add_argument("--unisono", required=True)
    parser.add_argument("--maker", required=True, help="card_cells")
    parser.add_argument("--opener", help="bench_open")
    parser.add_argument("--share", type=float, default=1, help="of 95.6 million cells [1]")
    parser.add_argument("--folder", default="/tmp", help="on the disk that is to be measured [/tmp]")
    parser.add_argument("--target", type=Path, help="folder for the result [that of the input]")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--deadline", type=float, default=330, help="seconds for all [330]")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the traces [.]")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="card-files-", ignore_cleanup_errors=True) as folder:
        job = Job(given, Path(folder))
        memory = meminfo()
        print(f"{os.cpu_count()} CPUs, memory {gib(memory['MemTotal'])}, available {gib(memory['MemAvailable'])}", flush=True)
        job.make()
        attempt("plan", job.plan)
        warm = job.run("warm")
        if warm:
            attempt("check", job.check)
        attempt("steps", job.open_steps)
        if warm and job.left() > 2.5 * warm["seconds"]["total"] and drop_cache():
            attempt("cold", lambda: job.run("cold"))
        job.target.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
