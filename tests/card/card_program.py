# SPDX-License-Identifier: BSD-3-Clause
"""The program with a card that is none (card.h): every call to the card that it makes fails in turn, and what it does on machines with
several cards, an old one, a full one, none.

A place is where the plugin makes a call. Each is made to fail the first time that it is reached, once for want of memory and once by a
broken kernel; then: exit status 1, one sentence with the reason, the target as it was, no other file, nothing left on the card (or status 0
and the same result, where the call gave something back). Closes with "N passed, N failed"; exit code 77 without the stand-in.
"""
import argparse
import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults"))
from counts import Counts  # noqa: E402

REASONS = {2: "out of memory", 719: "unspecified launch failure"}
GIVE_BACK = {"cudaFree", "cudaFreeHost", "cudaStreamDestroy", "cudaEventDestroy", "cudaGraphExecDestroy", "cudaGraphDestroy", "cudaGetDevice",
             "cudaHostUnregister", "cudaGetLastError"}  # which looks for an error that others left
SMALL = ["--clusters", "4", "--max-rounds", "2", "--threads", "1", "--block-size", "0.5"]
IN_PLACE = ["integrate", "s.h5ad", "--batch", "batch", "--in-place", "--backend", "cuda"] + SMALL
SCORE = ["score", "s.h5ad", "--batch", "batch", "--basis", "X_pca", "-f", "-o", "out.npy", "--backend", "cuda", "--threads", "1"]
TO_FILE = ["integrate", "s.h5ad", "--batch", "batch", "-f", "-o", "out.npy", "--backend", "cuda", "--update", "jacobi", "--trace", "t.json"] + SMALL


class Program:
    def __init__(self, options):
        self.options = options
        self.root = tempfile.mkdtemp(prefix="card")
        self.start = os.path.join(self.root, "start")
        os.mkdir(self.start)
        self.run(["simulate", "--cells", "300", "--dims", "4", "-q", "-o", "s.h5ad"], self.start)
        for name in ("out.npy", "t.json"):
            with open(os.path.join(self.start, name), "w") as f:
                f.write("old\n")

    def run(self, arguments, folder, environment=None, **card):
        environment = dict(os.environ, LC_ALL="C", UNISONO_CUDA_PLUGIN=self.options.plugin, CARD_REPORT=os.path.join(folder, ".report"),
                           **(environment or {}))
        environment.update({"CARD_" + name: str(value) for name, value in card.items()})
        done = subprocess.run([self.options.program] + arguments, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=100, text=True)
        try:
            with open(os.path.join(folder, ".report")) as f:
                report = f.read()
            os.remove(os.path.join(folder, ".report"))
        except OSError:
            report = ""
        return done.returncode, done.stdout, done.stderr, report

    def fresh(self):
        folder = tempfile.mkdtemp(dir=self.root)
        shutil.copytree(self.start, folder, dirs_exist_ok=True)
        return folder

    @staticmethod
    def files(folder):
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = "there" if name == "t.json" else hashlib.sha256(f.read()).hexdigest()  # which has seconds
        return found


def places(program, arguments, folder=None):
    """(number of its first call, function) of every place; the files of the run without a failure."""
    folder = folder or program.fresh()
    listed = os.path.join(program.root, "list")
    status, _, err, report = program.run(arguments, folder, LIST=listed)
    if status != 0 or report:
        raise SystemExit("fails without a failure: %s %s%s" % (status, err, report))
    found = {}
    with open(listed) as f:
        for line in f:
            number, function, place = line.split()
            found.setdefault((function, place), (int(number), function))
    return list(found.values()), program.files(folder)


def wrong_with(program, arguments, good, number, function, error):
    folder = program.fresh()
    status, _, err, report = program.run(arguments, folder, FAIL_AT=number, ERROR=error)
    files = program.files(folder)
    shutil.rmtree(folder)
    lines = [line for line in err.splitlines() if not line.startswith("unisono: warning: ")]
    if report:
        return report
    if status == 0:
        return None if function in GIVE_BACK and files == good else "status 0\n" + err
    if status != 1 or len(lines) != 1 or REASONS[error] not in lines[0] or not lines[0].startswith("unisono: "):
        return "status %s\n%s" % (status, err)
    return None if files == program.files(program.start) else "files are not what they were"


def check_failures(counts, program, arguments):
    found, good = places(program, arguments)
    work = [(number, function, error) for number, function in found for error in REASONS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (number, function, error), wrong in zip(work, pool.map(lambda w: wrong_with(program, arguments, good, *w), work)):
            counts.check("call %d (%s) fails with %d in %s" % (number, function, error, " ".join(arguments)), not wrong, wrong)
    print("%d places: %s" % (len(found), " ".join(arguments)))


def check_backends(counts, program):
    lines = program.run(["backends"], program.start)[1].splitlines()
    counts.check("one card", len(lines) == 2 and "made-up card 0, 80.0 of 85.0 GB free, driver for CUDA 13.0" in lines[1] and
                 "device" not in lines[1], lines)
    lines = program.run(["backends"], program.start, COUNT=3)[1].splitlines()
    counts.check("three cards", len(lines) == 4 and all("device %d: made-up card %d," % (i, i) in lines[1 + i] for i in range(3)), lines)
    found = places(program, ["backends"])[0]
    last = max(number for number, function in found if function == "cudaGetDeviceCount")
    for number, function in found:
        status, out, err, report = program.run(["backends"], program.start, FAIL_AT=number, ERROR=2)
        lines = out.splitlines()
        right = status == 0 and not err and not report and len(lines) == 2
        # The last question for the number of cards is whether there is a second.
        counts.check("backends, call %d (%s)" % (number, function),
                     right and ("out of memory" in lines[1] or function in GIVE_BACK or (function, number) == ("cudaGetDeviceCount", last)),
                     (status, out, err, report))


def check_devices(counts, program):
    def one(name, arguments, status, *words, **card):
        folder = program.fresh()
        got = program.run(TO_FILE + arguments, folder, **card)
        counts.check(name, got[0] == status and all(word in got[2] for word in words) and not got[3], got)
        shutil.rmtree(folder)
    one("the first of two", [], 0, "made-up card 0", COUNT=2)
    one("the second of two", ["--device", "1"], 0, "made-up card 1", COUNT=2)
    one("a third of two", ["--device", "2"], 1, "there is no device 2: this machine has 2, and the first is 0", COUNT=2)
    one("a second of one", ["--device", "1"], 1, "there is no device 1: this machine has 1")
    one("no number", ["--device", "-1"], 2, "--device is \"-1\"; it must be 0 to 1023")
    one("an old one", [], 1, "made-up card 0 has compute capability 7.5", CAPABILITY=75)
    one("a full one", [], 1, "bytes of memory on the card, and 1000000 are free", FREE=1000000)
    one("none", [], 1, "no CUDA device: this machine has no NVIDIA card", COUNT=0)
    one("no driver for it", [], 1, "no CUDA device can be used: CUDA driver version is insufficient", FAIL_AT=1, ERROR=35)


def check_auto(counts, program):
    """With 100,000 cells and more the card is taken, where it can be."""
    folder = program.fresh()
    program.run(["simulate", "--cells", "100000", "--dims", "2", "-q", "-o", "big.h5ad"], folder)

    def one(name, arguments, backend, warning, **card):
        status, _, err, report = program.run(["integrate", "big.h5ad", "--batch", "batch", "--clusters", "2", "--max-rounds", "1", "--sweeps", "1", "-f", "-o", "big.npy"] +
                                             arguments, folder, **card)
        warned = [line for line in err.splitlines() if line.startswith("unisono: warning: backend cuda")]
        told = sum("100000 cells need" in line and "over PCIe" in line for line in err.splitlines())
        right = status == 0 and told == (name == "a small card") and "; %s (" % backend in err and not report and len(warned) == (1 if warning else 0)
        counts.check("auto, " + name, right and (not warning or warning in warned[0]), (status, err, report))
    one("a card", [], "cuda", None)
    one("the second of two", ["--device", "1"], "cuda", None, COUNT=2)
    one("no card", [], "cpu", None, COUNT=0)
    one("a third of two", ["--device", "2"], "cpu", "cannot be used, so the CPU is: there is no device 2: this machine has 2", COUNT=2)
    one("an old driver", [], "cpu", "cannot be used, so the CPU is: no CUDA device can be used: CUDA driver version", FAIL_AT=1, ERROR=35)
    one("an old card", [], "cpu", "cannot be used, so the CPU is: made-up card 0", CAPABILITY=75)
    one("a small card", [], "cuda", None, FREE=(256 << 20) + 3000000)
    one("a full card", [], "cpu", "cannot take this, so the CPU does: 100000 cells need", FREE=1000000)
    one("the CPU asked for", ["--backend", "cpu"], "cpu", None)
    shutil.rmtree(folder)


def check_small_card(counts, program):
    """Cells that do not fit the card lie in the host's memory: the same file, and one sentence says so."""
    folder = program.fresh()
    plan = TO_FILE + ["--clusters", "100"]

    def card_bytes(free):
        status, out, err, report = program.run(plan + ["--dry-run"], folder, FREE=free)
        numbers = [line.split()[4] for line in out.splitlines() if line.startswith("memory of the card: ")]
        counts.check("the plan of a card with %d bytes" % free, status == 0 and len(numbers) == 1 and not report, (status, out, err, report))
        return int(numbers[0]) if numbers else 0, out, err

    def run(free, environment=None):
        status, out, err, report = program.run(plan, folder, environment=environment, FREE=free)
        told = [line for line in err.splitlines() if line.startswith("unisono: warning: ") and "over PCIe" in line]
        return status, program.files(folder)["out.npy"], told, report

    whole, out, err = card_bytes(80000000000)
    good = run(80000000000)
    counts.check("all on the card", not err and "fits: yes" in out and good[0] == 0 and not good[2], (out, err, good))
    more = whole
    for words in ("and the embedding (", "and the embedding and the assignments ("):
        takes, _, err = card_bytes(more - 1)
        free = (more + takes) // 2
        got, limited = run(free), run(80000000000, {"UNISONO_CUDA_MEMORY": str(free)})
        counts.check(words, takes < more and words in err and got[:2] == good[:2] and len(got[2]) == 1 and words in got[2][0] and not got[3],
                     (more, takes, err, got))
        counts.check("the same by UNISONO_CUDA_MEMORY", limited[:2] == good[:2] and len(limited[2]) == 1 and words in limited[2][0], limited)
        more = takes
    for arguments in (plan, plan + ["--dry-run"]):
        status, _, err, report = program.run(arguments, folder, FREE=more // 2)
        counts.check("on no card", status == 1 and "bytes of memory on the card, and %d are free" % (more // 2) in err and not report, err)
    shutil.rmtree(folder)


def check_score(counts, program):
    """The card's values are the CPU's to the byte."""
    folder = program.fresh()
    got = []
    for backend in ("cuda", "cpu"):
        got.append(program.run(SCORE[:SCORE.index("cuda")] + [backend] + SCORE[SCORE.index("cuda") + 1:], folder))
        got.append(program.files(folder))
    counts.check("score", got[0] == got[2] and got[0][0] == 0 and got[1] == got[3], got)
    status, _, err, _ = program.run(SCORE + ["--perplexity", "90"], folder)
    counts.check("score, too many neighbours", status == 2 and "takes 269 neighbours, and backend cuda finds 239; use backend cpu" in err, err)
    status, _, err, _ = program.run(SCORE, folder, FREE=1000000)
    counts.check("score, a full card", status == 1 and "bytes of memory on the card, and 1000000 are free; use backend cpu" in err, err)
    status, _, err, _ = program.run(SCORE, folder, CAPABILITY=75)
    counts.check("score, an old card", status == 1 and "compute capability 7.5" in err, err)
    status, _, err, _ = program.run(SCORE + ["--device", "1"], folder)
    counts.check("score, no such card", status == 1 and "there is no device 1" in err, err)
    shutil.rmtree(folder)


def check_score_auto(counts, program):
    """A thousand million pairs of cells go to the card, where it can be used, and the CPU does whatever the card does not."""
    folder = program.fresh()
    program.run(["simulate", "--cells", "2000000", "--dims", "1", "--levels", "2", "-q", "-o", "wide.h5ad"], folder)
    score = ["score", "wide.h5ad", "--batch", "batch", "--sample"]
    good = program.run(score + ["500", "--backend", "cpu"], folder)[1]
    listed = os.path.join(folder, "list")

    def calls():
        try:
            with open(listed) as f:
                found = [line.split()[1] for line in f]
            os.remove(listed)
            return found
        except OSError:
            return []

    def one(name, arguments, warning, **card):
        status, out, err, report = program.run(arguments, folder, LIST=listed, **card)
        warned = err.splitlines()
        counts.check("score, auto, " + name, status == 0 and not report and len(warned) == (1 if warning else 0) and
                     (not warning or "unisono: warning: backend cuda " in warned[0] and warning in warned[0]), (status, out, err, report))
        return out, calls()
    found = one("a card", score + ["500"], None)
    counts.check("score, auto: the card does it", found[0] == good and "__cudaLaunchKernel" in found[1], found)
    counts.check("score, auto, a pair less: no call", one("a pair less", score + ["499"], None)[1] == [])
    counts.check("score, the CPU asked for: no call", one("the CPU asked for", score + ["500", "--backend", "cpu"], None) == (good, []))
    cannot = "cannot be used, so the CPU is: "
    for name, arguments, warning, card in (
            ("no card", [], None, {"COUNT": 0}),
            ("a third of two", ["--device", "2"], cannot + "there is no device 2", {"COUNT": 2}),
            ("an old card", [], cannot + "made-up card 0", {"CAPABILITY": 75}),
            ("a full card", [], "cannot take this, so the CPU does: the neighbours of these cells need", {"FREE": 1000000})):
        out, called = one(name, score + ["500"] + arguments, warning, **card)
        counts.check("score, auto, %s: the CPU does it" % name, out == good and "__cudaLaunchKernel" not in called, (out, called))
    one("too many neighbours", score + ["500", "--perplexity", "90"], "does not find 269 neighbours, which perplexity 90 takes")
    one("too many neighbours and no card", score + ["500", "--perplexity", "90"], None, COUNT=0)
    report = ["report", "wide.h5ad", "--batch", "batch", "--basis", "X_pca", "--points", "500", "--tsne-cells", "0", "-f", "-o", "r.html"]
    for quiet, card, warned in ([], {"FREE": 1000000}, 1), (["-q"], {"FREE": 1000000}, 0), ([], {"COUNT": 0}, 0):
        status, _, err, _ = program.run(report + quiet, folder, **card)
        counts.check("report, auto, %s" % card, status == 0 and err.count("warning: backend cuda cannot take this") == warned and
                     err.count("warning") == warned, err)

    def fail(place):
        number, function = place
        status, out, err, left = program.run(score + ["500"], folder, FAIL_AT=number, ERROR=719)
        warned = err.splitlines()
        # What the plan asks is asked again later. What only the search asks must be told.
        needs = function not in GIVE_BACK and function not in ("cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaMemGetInfo", "cudaDriverGetVersion")
        right = status == 0 and out == good and not left and all("backend cuda cannot" in line for line in warned) and len(warned) <= 1
        counts.check("score, auto, call %d (%s) fails" % place, right and (warned or not needs), (status, out, err, left))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(fail, places(program, score + ["500"], folder)[0]))
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--plugin", required=True, help="the plugin over the stand-in; empty: there is none")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    if not options.plugin:
        print("skipped: the stand-in for a card is not built, which takes nvcc")
        return 77
    counts = Counts()
    program = Program(options)
    try:
        check_backends(counts, program)
        check_devices(counts, program)
        check_auto(counts, program)
        check_small_card(counts, program)
        check_failures(counts, program, IN_PLACE)
        check_failures(counts, program, TO_FILE)
        check_score(counts, program)
        check_failures(counts, program, SCORE)
        check_score_auto(counts, program)
    finally:
        shutil.rmtree(program.root)
    counts.close()
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
