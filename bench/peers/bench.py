# SPDX-License-Identifier: BSD-3-Clause
"""unisono beside its peers: same data, whole processes and calls, in turn. bench/run calls it; bench/README.md explains.

Standard library only: a small process, so that what it starts begins small.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIMS, TYPES = 50, 30
DONORS, CHEMISTRIES = 20, 3  # of the case of two batch variables
MODES = ("defaults", "rounds")
PROGRAMS = ("unisono", "unisono-python", "harmonypy", "scanpy", "bixverse", "R")
SCANPY_SHARE = 0.1  # of the time for all: it takes minutes where others take seconds
SCANPY_GUESS = 45.0  # seconds for 10,000 cells, until it is known


@dataclass(frozen=True)
class Case:
    cells: int
    levels: int
    threads: int
    mode: str
    chemistries: int = 1  # levels of a second variable; 1: there is none

    def __str__(self) -> str:
        levels = f"{self.levels:,}" + (f" x {self.chemistries}" if self.chemistries > 1 else "")
        return f"{self.cells:,} cells, {levels} levels, {self.mode}, {self.threads} thread{'s' * (self.threads > 1)}"

    @property
    def variables(self) -> list[str]:
        return ["batch", "chemistry"] if self.chemistries > 1 else ["batch"]


def count(text: str) -> int:
    """10k, 1M or a plain number."""
    scale = {"k": 1000, "M": 1000000}.get(text[-1:], 1)
    return int(float(text.rstrip("kM")) * scale)


def counts(text: str) -> list[int]:
    return [count(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="bench/run",
        description="unisono beside its peers, into bench/RESULTS.md. Before these: -B DIR, "
        "where all is built [build-bench].",
    )
    p.add_argument(
        "--cells",
        type=counts,
        default=counts("10k,100k,1M"),
        metavar="N,N",
        help="data set sizes; 10M too, if asked for [10k,100k,1M]",
    )
    p.add_argument("--levels", type=counts, default=[10, 1344], metavar="N,N", help="numbers of batches [10,1344]")
    p.add_argument(
        "--two-variables",
        type=counts,
        default=counts("100k,1M"),
        metavar="N,N",
        help=f"data set sizes of the case of two batch variables, {DONORS} donors x {CHEMISTRIES} chemistries; 0: none "
        "[100k,1M]",
    )
    p.add_argument("--threads", type=counts, default=[2, 1], metavar="N,N", help="[2,1]")
    p.add_argument(
        "--modes",
        default=",".join(MODES),
        help="defaults: every program's own; rounds: ten rounds forced [defaults,rounds]",
    )
    p.add_argument("--programs", default=",".join(PROGRAMS), help="[all of them: %(default)s]")
    p.add_argument("--repeats", type=int, default=3, help="runs of every case, at most [3]")
    p.add_argument(
        "--minutes", type=float, default=20, help="for all runs: what no longer fits is left out and named [20]"
    )
    p.add_argument("--limit", type=int, default=600, help="seconds for one process [600]")
    p.add_argument(
        "--lisi", type=int, default=10000, metavar="CELLS", help="cells whose LISI is taken; 0: none [10000]"
    )
    p.add_argument(
        "--add", action="store_true", help="keep the runs of earlier calls in DIR/results.json, and add to them"
    )
    p.add_argument("--no-ops", action="store_true", help="without bench_ops")
    p.add_argument("--dry", action="store_true", help="do not write bench/RESULTS.md; print the section")
    p.add_argument("--results", type=Path, default=ROOT / "bench" / "RESULTS.md", help=argparse.SUPPRESS)
    p.add_argument("--command", default="bench/run", help=argparse.SUPPRESS)
    p.add_argument("build", type=Path, help=argparse.SUPPRESS)
    given = p.parse_args()
    given.programs, given.modes = given.programs.split(","), given.modes.split(",")
    return given


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def environment(threads: int) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return env | dict.fromkeys(names, str(threads)) | {"PYTHONNOUSERSITE": "1"}


class Bench:
    def __init__(self, given: argparse.Namespace):
        self.given, self.build = given, given.build
        self.data = self.build / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.file = self.build / "results.json"
        old = json.loads(self.file.read_text()) if given.add and self.file.exists() else {}
        self.records: list[dict] = [{"chemistries": 1} | r for r in old.get("records", [])]
        self.ratings: dict[str, dict] = old.get("ratings", {})
        self.left_out: list[tuple[str, Case | None, str]] = []
        self.commits: list[str] = old.get("commits", [])
        self.turn = 1 + max((r["turn"] for r in self.records), default=-1)
        self.ops: list[str] = old.get("ops", [])
        self.machine = report.machine(ROOT, self.build)
        self.versions: dict[str, str] = old.get("versions", {})
        self.commits = list(dict.fromkeys([*self.commits, self.machine["commit"]]))
        self.end = time.monotonic() + 60 * given.minutes
        self.spent: dict[str, float] = {}

    # ---- programs ----------------------------------------------------------------------------------------------------------

    def command(self, name: str) -> list[str]:
        if name == "unisono":
            return [str(self.build / "unisono")]
        if name == "R":
            return ["Rscript", str(HERE / "harmony.R")]
        venv = "venv-scanpy" if name == "scanpy" else "venv"
        return [str(self.build / venv / "bin" / "python"), str(HERE / "call.py"), name]

    def probe(self) -> list[str]:
        """The programs that are there, in the order asked for; says why another is not."""
        there = []
        for name in self.given.programs:
            ask = "--version" if name == "unisono" else "--probe"
            try:
                found = subprocess.run(
                    [*self.command(name), ask], capture_output=True, text=True, env=environment(1), check=False
                )
                answer, reason = found.stdout.strip(), (found.stderr.strip().splitlines() or ["no reason given"])[-1]
            except OSError as error:
                answer, reason = "", f"{error.strerror}: {error.filename}"
            if answer and found.returncode == 0:
                there.append(name)
                self.versions[name] = answer.splitlines()[-1].removeprefix("unisono ")
            else:
                self.left_out.append((name, None, reason))
                say(f"{name} is left out: {reason}")
        return there

    def arguments(self, name: str, case: Case, source: Path, target: Path, out: Path) -> list[str]:
        meta = source.with_suffix(".tsv")
        if name != "unisono":
            words = [source, meta, target, out, case.threads, case.mode, ",".join(case.variables)]
            return [*self.command(name), *map(str, words)]
        words = ["integrate", source, "--meta", meta, *(w for v in case.variables for w in ("--batch", v))]
        words += ["-o", target, "-f", "-q", "--trace", out, "--backend", "cpu"]
        forced = ["--tol", "-1"] if case.mode == "rounds" else []
        return [*self.command(name), *map(str, words), "--threads", str(case.threads), *forced]

    # ---- data ---------------------------------------------------------------------------------------------------------------

    def source(self, case: Case) -> Path:
        folder = self.data / (f"{case.cells}-{case.levels}" + (f"x{case.chemistries}" if case.chemistries > 1 else ""))
        path = folder / "cells.npy"
        if not (folder / "cell_type.npy").exists():
            folder.mkdir(exist_ok=True)
            say(f"making {case.cells:,} cells in {case.levels:,} batches")
            sizes = ["--cells", case.cells, "--dims", DIMS, "--levels", case.levels, "--types", TYPES, "--seed", 1]
            made = ["simulate", "-q", "-f", "-o", path, "--meta-out", path.with_suffix(".tsv"), *sizes]
            subprocess.run([*self.command("unisono"), *map(str, made)], check=True)
            coded = [HERE / "prepare.py", path, case.chemistries]
            subprocess.run([str(self.build / "venv" / "bin" / "python"), *map(str, coded)], check=True)
        return path

    def rate(self, digest: str, embedding: Path, source: Path, case: Case) -> None:
        """LISI of an embedding, once for every different content."""
        if self.given.lisi <= 0 or digest in self.ratings:
            return
        labels = [source.parent / f"{name}.npy" for name in (*case.variables, "cell_type")]
        words = [HERE / "lisi.py", embedding, *labels, "--sample", self.given.lisi]
        found = subprocess.run(
            [str(self.build / "venv" / "bin" / "python"), *map(str, words)], capture_output=True, text=True, check=True
        )
        self.ratings[digest] = json.loads(found.stdout) | {"sample": self.given.lisi}

    # ---- runs ---------------------------------------------------------------------------------------------------------------

    def known(self, name: str, **fields) -> list[dict]:
        return [r for r in self.records if r["program"] == name and all(r[k] == v for k, v in fields.items())]

    def guess(self, name: str, case: Case) -> tuple[float, float]:
        """Seconds and bytes that a run will take, from those nearest to it; 0: unknown."""
        fields = asdict(case)
        fewer = ((), ("mode",), ("threads",), ("threads", "mode"), ("levels",), ("levels", "threads", "mode"))
        for without in (*fewer, ("levels", "threads", "mode", "chemistries")):
            like = self.known(name, **{k: v for k, v in fields.items() if k not in without})
            if like:
                worse = 2.0 if "mode" in without and case.mode == "rounds" else 1.0
                worse *= 1.8 if "threads" in without and case.threads == 1 else 1.0
                return worse * max(r["whole"] for r in like), max(r["rss"] for r in like)
        smaller = [r for r in self.known(name) if r["cells"] < case.cells]
        if not smaller:
            return (SCANPY_GUESS * case.cells / 10000, 0) if name == "scanpy" else (0, 0)
        nearest = max(r["cells"] for r in smaller)
        seconds, size = self.guess(name, replace(case, cells=nearest))
        return seconds * case.cells / nearest, size * case.cells / nearest

    def limit(self, name: str) -> float:
        """Seconds that the next process of a program may take."""
        own = SCANPY_SHARE * 60 * self.given.minutes - self.spent.get(name, 0)
        return min(own, self.given.limit) if name == "scanpy" else self.given.limit

    def fits(self, name: str, case: Case) -> str:
        """Empty, or why the run is left out."""
        if name == "scanpy" and case.chemistries > 1:
            return "one variable is enough for it here"
        seconds, size = self.guess(name, case)
        left = self.end - time.monotonic()
        if size > 0.9 * self.machine["memory"]:
            return f"takes about {size / 1e9:.0f} GB"
        if seconds > self.limit(name):
            return f"takes about {seconds:.0f} s"
        if seconds > left or left <= 0:
            return f"the time was up, and it takes about {seconds:.1f} s"
        return ""

    def run(self, name: str, case: Case, turn: int) -> dict:
        source = self.source(case)
        target, out, measured, errors = (
            self.data / leaf for leaf in ("out.npy", "report.json", "measured.json", "errors.txt")
        )
        for path in (target, out):
            path.unlink(missing_ok=True)
        limit = max(1, round(self.limit(name)))
        words = [
            str(self.build / "measure"),
            str(limit),
            str(measured),
            *self.arguments(name, case, source, target, out),
        ]
        with open(errors, "w", encoding="utf-8") as err:
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=err, env=environment(case.threads), check=True)
        found = json.loads(measured.read_text())
        record = asdict(case) | {
            "program": name,
            "turn": turn,
            "status": found["status"],
            "rss": found["rss"],
            "whole": found["wall"],
            "cpu": found["cpu"],
        }
        self.spent[name] = self.spent.get(name, 0) + found["wall"]
        if found["status"]:
            last = (errors.read_text().strip().splitlines() or ["no message"])[-1]
            reason = f"ended after {limit} s" if found["status"] == 137 else f"failed: {last}"
            self.left_out.append((name, case, reason))
            say(f"  {name}: {reason}")
            self.records.append(record)
            return record
        record |= report.of_trace(json.loads(out.read_text())) if name == "unisono" else json.loads(out.read_text())
        with open(target, "rb") as result:
            record["digest"] = hashlib.file_digest(result, "blake2b").hexdigest()[:16]
        self.records.append(record)
        say(f"  {name}: call {record['call']:.3g} s, process {record['whole']:.3g} s, {record['rss'] / 1e6:.0f} MB")
        self.rate(record["digest"], target, source, case)
        return record

    def turns(self, programs: list[str], cases: list[Case]) -> None:
        for (
            case
        ) in cases:  # every case once, then again as time allows: the largest at two threads, then from the shortest on
            say(f"{case}")
            source = self.source(case)
            self.rate(report.untouched(case.cells, case.levels, case.chemistries), source, source, case)
            for name in programs:
                reason = self.fits(name, case)
                if not reason:
                    self.run(name, case, self.turn)
                elif not self.known(name, **asdict(case)):
                    self.left_out.append((name, case, reason))
            self.save()
        headline = (
            max(case.cells for case in cases),
            min(case.levels for case in cases),
            max(case.threads for case in cases),
        )
        for turn in range(self.turn + 1, self.turn + self.given.repeats):
            for case in sorted(
                cases, key=lambda case: ((case.cells, case.levels, case.threads) != headline, self.cost(programs, case))
            ):
                again = [name for name in programs if any(r["status"] == 0 for r in self.known(name, **asdict(case)))]
                again = [name for name in again if name != "scanpy" or not self.fits(name, case)]
                if not again or self.cost(again, case) > self.end - time.monotonic():
                    continue
                say(f"{case}, again")
                for name in again:
                    self.run(name, case, turn)
            self.save()

    def cost(self, programs: list[str], case: Case) -> float:
        return sum(self.guess(name, case)[0] for name in programs if self.known(name, **asdict(case)))

    def operations(self) -> None:
        cells = min(max(self.given.cells), 1000000)
        self.ops = []
        for threads in sorted(self.given.threads):
            say(f"bench_ops, {threads} threads")
            words = [self.build / "bench_ops", cells, DIMS, 10, 100, threads]
            self.ops.append(subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout)

    def save(self) -> None:
        kept = {
            "records": self.records,
            "ratings": self.ratings,
            "ops": self.ops,
            "commits": self.commits,
            "versions": self.versions,
        }
        self.file.write_text(json.dumps(kept, indent=1))


def main() -> int:
    given = arguments()
    bench = Bench(given)
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"warning: the machine is not quiet (load {load:.1f}); times will be too long")
    bench.machine["load"] = load
    programs = bench.probe()
    order = sorted(
        product(given.cells, sorted(given.threads, reverse=True), given.levels, given.modes),
        key=lambda o: (o[0], -o[1]),
    )
    cases = [Case(cells, levels, threads, mode) for cells, threads, levels, mode in order if levels <= cells // 2]
    two = product(given.two_variables, sorted(given.threads, reverse=True), given.modes)
    cases += [Case(cells, DONORS, threads, mode, CHEMISTRIES) for cells, threads, mode in two if cells]
    if not given.no_ops:
        bench.operations()
    bench.turns(programs, cases)
    (bench.data / "out.npy").unlink(missing_ok=True)
    text = report.section(bench, given.command)
    if given.dry:
        print(text)
    else:
        report.write(given.results, text)
        say(f"written to {given.results}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
