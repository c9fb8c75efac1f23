#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""culprit.py PROGRAM REPORT: whose fault the death that a sanitizer reports is; one line: "hdf5", the name of a function of these sources,
"elsewhere", or "nothing" where the report has no frames. Standard library, and llvm-symbolizer where frames have no names.
"""
import os
import re
import subprocess
import sys

FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ +(.*)$")
NAMED = re.compile(r"^in (\S+) (\S+?)(:\d+)*( \(BuildId.*)?$")
PLACE = re.compile(r"\((\S+)\+(0x[0-9a-f]+)\)")
WATCHERS = {"fuzz/fuzz_%s.c" % name for name in ("apart", "bounds", "here", "memory")}  # they end what takes too long or too much
OTHER_STACK = re.compile(r"allocated by thread|freed by thread")


def sources(root):
    """As frames end in them: the build cuts paths, in more than one way."""
    found = set()
    for part in ("include", "src", "io", "cli", "tests"):
        for folder, _, files in os.walk(os.path.join(root, part)):
            found.update(os.path.basename(folder) + "/" + name for name in files if name.endswith((".c", ".h")))
    return found - WATCHERS


def ending(path):
    return "/".join(re.sub(r"(:\d+)+$", "", path).split("/")[-2:])


def symbolized(program, offset):
    """[(function, path)] of a place, the innermost first."""
    try:
        done = subprocess.run(["llvm-symbolizer", "--obj=" + program, offset], capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line for line in done.stdout.splitlines() if line]
    return list(zip(lines[::2], lines[1::2]))


def owner(frames, program, own):
    """Of a stack: the first function that is HDF5's or ours. What they call (the sanitizers, the C library, zlib) is not asked, whatever
    its frames look like with or without debug information."""
    for frame in frames:
        if "libhdf5" in frame:
            return "hdf5"
        named = NAMED.match(frame)
        place = PLACE.search(frame)
        calls = []
        if named and not named.group(2).startswith("("):
            calls = [(named.group(1), named.group(2))]
        elif place and os.path.basename(place.group(1)) == os.path.basename(program):
            calls = symbolized(program, place.group(2))
        for function, path in calls:
            if ending(path) in own:
                return function
    return "elsewhere" if frames else "nothing"


def culprit(report, program, own):
    stacks, kinds = [[]], ["death"]
    for line in report.splitlines():
        frame = FRAME.match(line)
        if frame:
            stacks[-1].append(frame.group(1))
        elif stacks[-1]:
            stacks.append([])
            kinds.append("")
        if OTHER_STACK.search(line):
            kinds[-1] = "region"
    stacks = [(kind, stack) for kind, stack in zip(kinds, stacks) if stack]
    died = [stack for kind, stack in stacks if kind != "region"]
    where = owner(died[0] if died else [], program, own)
    # A reader's buffer that HDF5 was told is larger than it is: the fault of who told it.
    if where == "hdf5" and re.search(r"is located 0 bytes (to the right of|after) ", report):
        regions = [stack for kind, stack in stacks if kind == "region"]
        whose = owner(regions[0] if regions else [], program, own)
        if whose not in ("hdf5", "elsewhere", "nothing"):
            return whose
    return where


if __name__ == "__main__":
    with open(sys.argv[2], errors="replace") as file:
        text = file.read()
    print(culprit(text, sys.argv[1], sources(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))))
