# SPDX-License-Identifier: BSD-3-Clause
"""What bench.py found, as the CPU section of bench/RESULTS.md."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

BEGIN = "<!-- CPU: this section is written by bench/run -->"
END = "<!-- CPU: end -->"
TITLE = "# Results\n"
ONE_BY_ONE = "unisono"  # what the ratios are of
EXP_NS = {"amx": 15.0, "avx512": 15.0, "avx2": 25.0}  # per cell: ../shared/spec/prototype-cpu.md section 3
TILES_NS = 20.0  # two tiles of assignments made again


def output(*words: str, folder: Path | None = None) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False).stdout.strip()
    except OSError:
        return ""


def machine(root: Path, build: Path) -> dict:
    cpu = dict(line.split(":", 1) for line in output("lscpu").splitlines() if ":" in line)
    cpu = {key.strip(): value.strip() for key, value in cpu.items()}
    flags = cpu.get("Flags", "").split()
    cache = (build / "CMakeCache.txt").read_text().splitlines()
    built = dict(line.split("=", 1) for line in cache if "=" in line and not line.startswith("#"))
    compiler = output(built.get("CMAKE_C_COMPILER:FILEPATH", "cc"), "--version").splitlines()
    changed = output(
        "git",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "src",
        "io",
        "cli",
        "include",
        "bindings",
        folder=root,
    )
    return {
        "cpu": cpu.get("Model name", platform.machine()),
        "family": "/".join(cpu.get(key, "?") for key in ("CPU family", "Model", "Stepping")),
        "caches": ", ".join(
            f"{key.split()[0]} {cpu[key].split(' (')[0]}" for key in ("L1d cache", "L2 cache", "L3 cache") if key in cpu
        ),
        "flags": [flag for flag in ("avx2", "fma", "f16c", "avx512f", "avx512_fp16", "amx_bf16") if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "virtual": cpu.get("Hypervisor vendor", ""),
        "system": f"{platform.system()} {platform.release()}",
        "compiler": compiler[0] if compiler else "?",
        "commit": output("git", "rev-parse", "--short=12", "HEAD", folder=root) + (" with changes" if changed else ""),
    }


def of_trace(trace: dict) -> dict:
    """What a record keeps of the program's own report: a call is open + run + taking the result."""
    s = trace["seconds"]
    passes = {key: s[key] for key in ("seed", "assign", "sweep", "moments", "ridge")}
    last = trace["rounds"][-1]["objective"] if trace["rounds"] else None
    rounds = len(trace["rounds"])
    return {
        "call": s["open"] + s["run"] + s["result"],
        "rounds": rounds,
        "objective": last,
        "passes": passes,
        "backend": trace["backend"],
    }


def untouched(cells: int, levels: int, chemistries: int) -> str:
    return f"before {cells} {levels}" + (f" {chemistries}" if chemistries > 1 else "")


def sizes(levels: int, chemistries: int) -> str:
    return f"{levels:,} x {chemistries}" if chemistries > 1 else f"{levels:,}"


def mixing(rating: dict) -> str:
    """iLISI of every batch variable."""
    return " / ".join(f"{rating[what]:.4f}" for what in ("batch", "chemistry") if what in rating)


def span(values: list[float], form) -> str:
    """Median, and the least and the largest where there are several."""
    text = form(median(values))
    return f"{text} ({form(min(values))}-{form(max(values))})" if len(values) > 1 else text


def seconds(x: float) -> str:
    return f"{x:.3f}" if x < 1 else f"{x:.2f}" if x < 10 else f"{x:.1f}"


def times(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.1f}"


def size(n: int) -> str:
    return f"{n // 1000000}M" if n % 1000000 == 0 else f"{n // 1000}k" if n % 1000 == 0 else str(n)


def key(record: dict) -> tuple:
    return tuple(record[name] for name in ("cells", "levels", "mode", "threads", "chemistries"))


def good(bench) -> list[dict]:
    return [r for r in bench.records if r["status"] == 0]


def ratio(records: list[dict], case: tuple, program: str, what: str) -> list[float]:
    """Of the runs of one turn, the program's time over unisono's."""
    by_turn = {r["turn"]: r[what] for r in records if key(r) == case and r["program"] == ONE_BY_ONE}
    return [
        r[what] / by_turn[r["turn"]]
        for r in records
        if key(r) == case and r["program"] == program and r["turn"] in by_turn
    ]


def row(bench, records: list[dict], case: tuple, program: str) -> str:
    runs = [r for r in records if key(r) == case and r["program"] == program]
    rating = bench.ratings.get(runs[-1]["digest"], {})
    cells = [
        size(case[0]),
        sizes(case[1], case[4]),
        "ten rounds" if case[2] == "rounds" else case[2],
        str(case[3]),
        program,
        str(len(runs)),
    ]
    cells += [span([r["call"] for r in runs], seconds), span([r["whole"] for r in runs], seconds)]
    for what in ("call", "whole"):
        values = ratio(records, case, program, what)
        cells.append("1" if program == ONE_BY_ONE else span(values, times) if values else "")
    cells.append(f"{max(r['rss'] for r in runs) / 1e6:.0f}")
    cells += [str(runs[-1]["rounds"] or ""), "" if runs[-1]["objective"] is None else f"{runs[-1]['objective']:.2f}"]
    cells += [mixing(rating), f"{rating['cell_type']:.4f}" if rating else ""]
    return "| " + " | ".join(cells) + " |"


def table(bench) -> list[str]:
    records = good(bench)
    programs = list(dict.fromkeys(["unisono", "unisono-python", *sorted(r["program"] for r in records)]))
    head = [
        "cells",
        "levels",
        "run",
        "threads",
        "program",
        "runs",
        "call, s",
        "process, s",
        "call, x",
        "process, x",
        "peak, MB",
        "rounds",
        "objective",
        "iLISI",
        "cLISI",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case in sorted({key(r) for r in records}, key=lambda c: (c[4], c[0], c[1], c[2], -c[3])):
        lines += [
            row(bench, records, case, p) for p in programs if any(key(r) == case and r["program"] == p for r in records)
        ]
    return lines


def before(bench) -> list[str]:
    sets = sorted({(r["chemistries"], r["cells"], r["levels"]) for r in good(bench)})
    rated = [
        (c, sizes(levels, more), bench.ratings[untouched(c, levels, more)])
        for more, c, levels in sets
        if untouched(c, levels, more) in bench.ratings
    ]
    if not rated:
        return []
    lines = ["| cells | levels | iLISI before | cLISI before |", "|---|---|---|---|"]
    return lines + [f"| {size(c)} | {levels} | {mixing(r)} | {r['cell_type']:.4f} |" for c, levels, r in rated]


def same_bytes(bench) -> list[str]:
    """Which programs gave the same bytes at all numbers of threads and in all repeats."""
    lines = []
    for program in dict.fromkeys(r["program"] for r in good(bench)):
        cases: dict[tuple, set] = {}
        for r in good(bench):
            if r["program"] == program:
                cases.setdefault((*key(r)[:3], r["chemistries"]), set()).add(r["digest"])
        differ = sum(len(digests) > 1 for digests in cases.values())
        lines.append(f"{program} {'yes' if not differ else f'no, in {differ} of {len(cases)}'}")
    return [f"Same bytes at every number of threads and in every repeat: {'; '.join(lines)}."]


def goals(bench) -> list[str]:
    lines = []
    for mode, name, goal in (("defaults", "at defaults", 20), ("rounds", "with ten rounds forced", 10)):
        values = ratio(good(bench), (1000000, 10, mode, 2, 1), "harmonypy", "call")
        if values:
            met = "met" if median(values) >= goal else "missed"
            lines.append(
                f"- 1M x 50, 10 levels, 2 threads, {name}: {span(values, times)} times harmonypy; goal {goal}: {met}."
            )
    return lines + floor(bench)


def floor(bench) -> list[str]:
    """A round's share of the floor made of this machine's ceilings: three products, the exponentials, two tiles of R, four sweeps. Both
    are of bench_ops: a traced run also splits the objective, which costs the last sweep of a round some 35 ns a cell more."""
    ops = next((text for text in bench.ops if re.search(r", 1 thread; 1000000 cells x 50, 10 levels", text)), "")
    found = re.search(r"one core: ([\d.]+) GFLOP/s, ([\d.]+) GB/s", ops)
    names = {"assign": 1, "sweep": 3, "sweep with objective": 1, "moments": 1}
    spent = {name: re.search(rf"^\| {name} \| ([\d.]+) ", ops, re.MULTILINE) for name in names}
    exp = next((ns for isa, ns in EXP_NS.items() if f"cpu ({isa})" in ops), None)
    if not found or exp is None or not all(spent.values()):
        return []
    gflops, gbytes = float(found[1]), float(found[2])
    least = 3 * 2 * 50 * 100 / gflops + exp + TILES_NS + 4 * 200 / gbytes
    total = sum(times * float(spent[name][1]) for name, times in names.items())
    parts = (
        f"3 products at {gflops:.0f} GFLOP/s, exponentials {exp:.0f} ns, tiles {TILES_NS:.0f} ns, "
        f"four sweeps at {gbytes:.1f} GB/s"
    )
    met = "met" if least / total >= 0.75 else "missed"
    return [
        f"- A round at 1M x 50, 10 levels, 1 thread, of the operations below: {total:.0f} ns a cell; "
        f"floor of the vector units {least:.0f} ns ({parts}): {100 * least / total:.0f} % of it; goal 75 %: {met}."
    ]


def left_out(bench) -> list[str]:
    """A line for a program that is not there, or for its runs of one size."""
    groups: dict[tuple, list] = {}
    for program, case, reason in bench.left_out:
        groups.setdefault((program, case.cells if case else 0), []).append((case, reason))
    lines = []
    for (program, cells), runs in groups.items():
        which = f", {size(cells)} cells, {len(runs)} case{'s' * (len(runs) > 1)}" if cells else ""
        lines.append(f"- {program}{which}: {'; '.join(dict.fromkeys(reason for _, reason in runs))}")
    return lines


def section(bench, command: str) -> str:
    m = bench.machine
    quiet = "quiet" if m["load"] <= 0.5 else f"NOT quiet: load {m['load']:.1f}"
    virtual = ", virtual" if m["virtual"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in bench.versions.items())
    lines = [
        BEGIN,
        "## CPU",
        "",
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {', '.join(bench.commits)}.",
        "",
        f"Machine: {m['cpu']} (family/model/stepping {m['family']}{virtual}), {m['cores']} CPUs, {', '.join(m['flags'])}; "
        f"{m['caches']}; {m['memory'] / 2**30:.0f} GiB; {m['system']}; {m['compiler']}; {quiet} at the start.",
        "",
        f"Versions: {versions}; Python {platform.python_version()}.",
        "",
        "Data: `unisono simulate`, 50 dimensions, 30 types. A call is the function alone; a process also starts, imports, "
        "reads `.npy` and labels, and writes. Levels 20 x 3: two batch variables, donors and chemistries, with an iLISI for "
        "each. Times are medians (least-largest); x is the program's time over unisono's in "
        f"the same turn. LISI: perplexity 30, exact neighbours, {bench.given.lisi:,} sampled cells; iLISI on the batch (higher "
        "mixes better), cLISI on the known cell type (1 is best). [README.md](README.md) has the rest.",
        "",
    ]
    for part in (goals(bench), table(bench), before(bench), same_bytes(bench)):
        lines += [*part, ""] if part else []
    left = left_out(bench)
    lines += ["Left out:", "", *left, ""] if left else []
    for ops in bench.ops:
        title, _, rest = ops.strip().partition("\n")
        lines += [f"`bench_ops`, {title}", "", rest.strip(), ""]
    return "\n".join([*lines, END]) + "\n"


def write(path: Path, text: str) -> None:
    """Puts the section in place of the one there; other sections stay as they are."""
    old = path.read_text(encoding="utf-8") if path.exists() else TITLE
    if BEGIN in old and END in old:
        head, rest = old.split(BEGIN, 1)
        path.write_text(head + text.rstrip("\n") + rest.split(END, 1)[1], encoding="utf-8")
    elif old.startswith(TITLE):
        path.write_text(TITLE + "\n" + text + old[len(TITLE) :], encoding="utf-8")
    else:
        path.write_text(old.rstrip("\n") + "\n\n" + text, encoding="utf-8")
