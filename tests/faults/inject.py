# SPDX-License-Identifier: BSD-3-Clause
"""Makes every call to the system that a run asks for fail in turn (failing_calls.c), and looks at what is left.

A place is where a call is made: the innermost callers, and those in the program itself. Each is made to fail the first time that it is
reached, in the first of the cases below that reaches it; allocations, writes and reads also in other ways (HOWS). What must hold:

- the run ends by itself, with status 0 or 1, within TIME_LIMIT;
- status 1: stderr is one sentence beside warnings, with a reason; every file is the old one or the one of a run without failures,
  and there is no other file;
- status 0: every file is that of a run without failures;
- nothing leaks (with the sanitizers), no file or object of HDF5 is left open, and nothing else is on stderr.

Closes with "N passed, N failed". Whatever fails can be seen again by the line printed for it.
"""
import argparse
import concurrent.futures
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading

TIME_LIMIT = 200
DONE = r"unisono: \d+ cells x "
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
HOWS = {"allocate": ["once", "stay"], "write": ["once", "stay", "short", "signal"], "read": ["once", "short", "signal"]}

SMALL = ["--clusters", "5", "--max-rounds", "2", "--threads", "2"]
# name, arguments; a case "library" runs the other program
CASES = {
    "h5ad": ["integrate", "s.h5ad", "--batch", "batch", "-f", "-o", "out.h5ad", "--trace", "t.json"] + SMALL,
    "in-place": ["integrate", "s.h5ad", "--batch", "batch", "--batch", "cell_type", "--in-place"] + SMALL,
    "older": ["integrate", "older.h5ad", "--batch", "batch", "--missing", "level", "-o", "new.h5ad"] + SMALL,
    "npy": ["integrate", "s.npy", "--meta", "m.tsv", "--batch", "batch", "--centroids", "c.npy", "-o", "new.npy", "--model", "new.npz",
            "--max-rounds", "2", "--threads", "2"],
    "low-memory": ["integrate", "s.h5ad", "--batch", "batch", "-o", "new.npy", "--low-memory"] + SMALL,
    "table": ["integrate", "s.tsv.gz", "--meta", "m.csv", "--batch", "batch", "-f", "-o", "out.csv.gz", "--model", "folder/"] + SMALL,
    "sparse": ["integrate", "layouts.h5ad", "--basis", "X_csr", "--batch", "text", "-o", "new.tsv"] + SMALL,
    "columns": ["integrate", "layouts.h5ad", "--basis", "X_csc", "--batch", "text_nullable", "--missing", "level", "-o", "new.csv"] + SMALL,
    "frame": ["integrate", "layouts.h5ad", "--basis", "X_frame", "--batch", "cat", "-o", "new.npy"] + SMALL,
    "enumeration": ["integrate", "layouts.h5ad", "--basis", "X_f2_big", "--batch", "bool", "-o", "new.npy"] + SMALL,
    "dry-run": ["integrate", "s.h5ad", "--batch", "batch", "--dry-run"],
    "compare": ["compare", "s.h5ad", "--batch", "batch", "--label", "cell_type", "--basis", "X_pca", "--basis", "X_pca"],
    "simulate": ["simulate", "-f", "-o", "out.h5ad", "--cells", "300", "--dims", "4"],
    "backends": ["backends"],
    "library": [],
}
TIMES_IN = ["t.json"]  # hold seconds, and so differ from run to run


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def files_of(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = digest(path)
    return found


def prepare(folder, program):
    """The files that the cases start from."""
    def run(*arguments):
        subprocess.run([program] + list(arguments), cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("simulate", "--cells", "300", "--dims", "4", "-o", "s.h5ad")
    run("simulate", "--cells", "50", "-o", "out.h5ad")
    shutil.copy(os.path.join(DATA, "older_06.h5ad"), os.path.join(folder, "older.h5ad"))
    shutil.copy(os.path.join(DATA, "layouts.h5ad"), folder)
    run("integrate", "s.h5ad", "--batch", "batch", "--max-rounds", "0", "-o", "s.npy")
    run("integrate", "s.h5ad", "--batch", "batch", "--max-rounds", "0", "-o", "s.tsv.gz")
    run("integrate", "s.h5ad", "--batch", "batch", "--clusters", "4", "--max-rounds", "1", "-o", "x.npy", "--model", "m/")
    os.rename(os.path.join(folder, "m", "Y.npy"), os.path.join(folder, "c.npy"))
    shutil.rmtree(os.path.join(folder, "m"))
    os.remove(os.path.join(folder, "x.npy"))
    for name, separator in (("m.tsv", "\t"), ("m.csv", ",")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(separator.join(["cell", "batch"]) + "\n")
            f.writelines("cell%d%s%s\n" % (i, separator, "ab"[i % 2]) for i in range(1, 301))
    with open(os.path.join(folder, "out.csv.gz"), "wb") as f:
        f.write(b"an older result")
    with open(os.path.join(folder, "t.json"), "w") as f:
        f.write("{}\n")


class Faults:
    def __init__(self, options):
        self.options = options
        self.root = tempfile.mkdtemp(prefix="faults")
        self.start = os.path.join(self.root, "start")
        self.goods = {}
        self.lock = threading.Lock()
        os.mkdir(self.start)
        prepare(self.start, options.program)
        self.old = files_of(self.start)
        with open(options.program, "rb") as f:
            self.sanitized = b"__asan_init" in f.read()

    def run(self, case, folder, **variables):
        command = [self.options.library] if case == "library" else [self.options.program] + CASES[case]
        environment = dict(os.environ, LC_ALL="C", UNISONO_CUDA_PLUGIN="", LD_PRELOAD=self.options.shim, FAULTS_WHERE=os.path.join(folder, ".where"), **variables)
        environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:exitcode=99:allocator_may_return_null=1"
        environment["LSAN_OPTIONS"] = "print_suppressions=0:suppressions=" + os.path.join(HERE, "leaks_of_others")
        try:
            done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=TIME_LIMIT, errors="replace")
        except subprocess.TimeoutExpired:
            return "never ends", "", ""
        return done.returncode, done.stdout, done.stderr

    def fresh(self):
        folder = tempfile.mkdtemp(dir=self.root)
        shutil.copytree(self.start, folder, dirs_exist_ok=True)
        return folder

    @staticmethod
    def left(folder):
        found = files_of(folder)
        found.pop(".where", None)
        return found

    def good(self, case):
        """The calls of a run without failures; keeps its files."""
        folder = self.fresh()
        listed = os.path.join(self.root, case + ".list")
        status, out, err = self.run(case, folder, FAULTS_LIST=listed)
        wrong = self.where(folder)
        if status != 0 or "LEFT OPEN" in wrong:
            raise SystemExit("%s fails without any failure: %s\n%s%s" % (case, status, err, wrong))
        self.goods[case] = (self.left(folder), out)
        shutil.rmtree(folder)
        with open(listed) as f:
            return [line.split() for line in f]

    @staticmethod
    def where(folder):
        try:
            with open(os.path.join(folder, ".where"), errors="replace") as f:
                return f.read().rstrip("\0")
        except OSError:
            return ""

    def judge(self, case, kind, how, status, out, err, found, where):
        """What is wrong, or None."""
        good, good_out = self.goods[case]
        lines = err.splitlines()
        sentences = [s for s in lines if s.startswith("unisono: ") and not s.startswith("unisono: warning: ") and not re.match(DONE, s)]
        if status not in (0, 1):
            return "status %s" % status
        # The sanitizers keep a child's stderr open, and show how HDF5 dies in it where its own allocations fail.
        dies = self.sanitized and (self.by_hdf5(where) or how == "stay") and "LeakSanitizer" not in err
        if [s for s in lines if not s.startswith("unisono: ")] and not dies:
            return "stderr holds more than sentences"
        if status == 1 and (len(sentences) != 1 or sentences[0].rstrip().endswith(":")):
            return "%d sentences" % len(sentences)
        if status == 1 and any(word in sentences[0] for word in ("Success", "(null)")):
            return "a sentence without a reason"
        if "LEFT OPEN" in where:
            return "left open"
        for name in set(found) | set(self.old) | set(good):
            is_good = name in found and (found[name] == good.get(name) or name in TIMES_IN)
            if kind == "thread" and name.endswith(".h5ad"):
                continue  # which says how many threads there were
            if not is_good and (status == 0 or found.get(name) != self.old.get(name)):
                return "%s is %s" % (name, "missing" if name not in found else "neither old nor new")
        if status == 0 and case != "dry-run" and out != good_out:
            return "another answer on stdout"
        return None

    @staticmethod
    def by_hdf5(where):
        """Was the call that failed made by HDF5 itself? In the report the innermost caller comes first."""
        frames = where.splitlines()[1:2]
        return bool(frames) and "libhdf5" in frames[0]

    def one(self, case, number, kind, function, how):
        folder = self.fresh()
        status, out, err = self.run(case, folder, FAULTS_AT=str(number), FAULTS_HOW=how)
        where = self.where(folder)
        wrong = self.judge(case, kind, how, status, out, err, self.left(folder), where)
        reached = bool(where)
        shutil.rmtree(folder)
        if wrong:
            with self.lock:
                print("FAILED %s: call %s (%s, %s): %s" % (case, number, function, how, wrong))
                print("    FAULTS_AT=%s FAULTS_HOW=%s LD_PRELOAD=%s unisono %s" % (number, how, self.options.shim, " ".join(CASES[case])))
                print("".join("    | %s\n" % line for line in err.splitlines()[:8] + where.splitlines()), end="", flush=True)
        return case, reached, status, not wrong


def chosen(faults, options):
    """(case, number, function, how) of what is to be tried; says how much there is."""
    seen, work, ours = set(), [], []
    total = places = 0
    for case in options.case or CASES:
        for number, kind, function, caller, by in faults.good(case):
            if options.by and by != options.by or options.kind and kind != options.kind:
                continue
            total += 1
            new = (kind, function, caller) not in seen
            seen.add((kind, function, caller))
            places += new
            if new or options.every:
                ours += [by == "ours" or kind != "allocate"] * len(HOWS.get(kind, ["once"]) if new else ["once"])
                work += [(case, number, kind, function, how) for how in (HOWS.get(kind, ["once"]) if new else ["once"])]
    print("%d calls from %d places in %d cases; %d failures to be tried" % (total, places, len(options.case or CASES), len(work)))
    if options.most and len(work) > options.most:
        # HDF5's own allocations are nine in ten: half of the share goes to the others.
        random.seed(options.seed)
        first = [w for w, is_ours in zip(work, ours) if is_ours]
        rest = [w for w, is_ours in zip(work, ours) if not is_ours]
        first = random.sample(first, min(len(first), max(options.most // 2, options.most - len(rest))))
        work = first + random.sample(rest, min(len(rest), options.most - len(first)))
        print("of which %d, drawn with seed %d" % (len(work), options.seed))
    sys.stdout.flush()
    return work


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True, help="the program made of library_calls.c")
    parser.add_argument("--shim", required=True, help="the library made of failing_calls.c")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--kind", help="calls of this kind only")
    parser.add_argument("--by", choices=["hdf5", "ours"], help="calls made by HDF5, or by all else, only")
    parser.add_argument("--most", type=int, default=0, help="failures to try, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true", help="every call, not the first from each place only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    for name in ("program", "library", "shim"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    faults = Faults(options)
    try:
        work = chosen(faults, options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda w: faults.one(*w), work))
    finally:
        shutil.rmtree(faults.root)
    for case in faults.goods:
        mine = [r for r in results if r[0] == case]
        print("%-12s %6d tried, %6d ended with a sentence, %6d went on and gave the same result, %d failed" %
              (case, len(mine), sum(r[2] == 1 for r in mine), sum(r[2] == 0 for r in mine), sum(not r[3] for r in mine)))
    # How often a socket is read depends on how fast the other end writes.
    missed = sum(not r[1] for r in results)
    if missed:
        print("%d calls were not reached" % missed)
    bad = sum(not r[3] for r in results)
    print("%d passed, %d failed" % (len(results) - bad, bad))
    return 1 if bad or not results or missed > len(results) // 20 else 0


if __name__ == "__main__":
    sys.exit(main())
