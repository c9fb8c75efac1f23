# SPDX-License-Identifier: BSD-3-Clause
"""A program on a card, in a process of its own that waits for work: what card_peers.py starts.

    card_programs.py PROGRAM DEVICE EXACT      DEVICE: cuda or cpu; EXACT: cells up to which harmonypy may use scikit-learn's k-means

Reads a line of JSON a run from stdin, {"folder": with x.npy and batch.npy, "save": FILE.npy or null, "rows": how many to save}, and
answers with a line that begins with @@. A call goes from an array of the host to an array of the host; that of a PROGRAM whose name ends in
@card from memory of the card to memory of the card. Where a program's own parts are timed, the device is waited for before and after.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import sys
import threading
import time
import types
import warnings
from functools import wraps
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

CLUSTERS, ROUNDS, SWEEPS = 100, 10, 4
NEVER = -math.inf  # no change is less than this


class Clock:
    """Seconds and calls of the functions that it was put around."""

    def __init__(self, wait):
        self.wait = wait
        self.reset()

    def reset(self):
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def around(self, owner, function: str, name: str) -> None:
        inner = getattr(owner, function)

        @wraps(inner)
        def timed(*args, **kwargs):
            self.wait()
            start = time.perf_counter()
            result = inner(*args, **kwargs)
            self.wait()
            self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start
            self.calls[name] = self.calls.get(name, 0) + 1
            return result

        setattr(owner, function, timed)


class Memory:
    """The most that was taken of the card's memory, looked at every few milliseconds, beyond what was taken at the start."""

    def __init__(self, device: str):
        self.card = None
        if device == "cuda":
            try:
                import pynvml

                pynvml.nvmlInit()
                card = pynvml.nvmlDeviceGetHandleByIndex(0)
                self.card = lambda: int(pynvml.nvmlDeviceGetMemoryInfo(card).used)
                self.card()
            except Exception as reason:
                print(f"no NVML, so no peak memory: {reason}", file=sys.stderr)
                self.card = None

    def start(self) -> None:
        self.most = self.before = self.card() if self.card else 0
        self.going = True
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while self.card and self.going:
            self.most = max(self.most, self.card())
            time.sleep(0.003)

    def stop(self) -> int | None:
        self.going = False
        self.thread.join()
        return max(self.most, self.card()) - self.before if self.card else None


class Program:
    """take: what a call is given, made before it is timed; give: the result as an array of the host, after it; release: memory kept for later."""

    def take(self, Z):
        return Z

    def give(self, result):
        return np.asarray(result)

    def release(self):
        pass


def told_by(run_seconds: dict, rounds: list[dict]) -> dict:
    """What unisono says of a run."""
    return {
        "seeding": run_seconds["seed"],
        "rounds": run_seconds["run"] - run_seconds["seed"],
        "n_rounds": len(rounds),
        "sweeps": sum(r["sweeps"] for r in rounds),
        "objective": rounds[-1]["objective"],
        "parts": run_seconds,
        "note": "",
    }


class Unisono(Program):
    OPTIONS = {"clusters": CLUSTERS, "max_rounds": ROUNDS, "sweeps": SWEEPS, "tol": -1, "sweep_tol": -1}

    def __init__(self, device: str, exact: int):
        import unisono

        self.run, self.device = unisono.harmonize, device
        self.version = unisono.__version__
        found = {backend.name: backend for backend in unisono.backends()}
        if device not in found or not found[device].usable:
            raise RuntimeError(f"backend {device}: {found[device].detail if device in found else 'not in this build'}")
        print(found[device].detail, file=sys.stderr)

    def call(self, Z, meta):
        result = self.run(Z, meta["batch"], backend=self.device, **self.OPTIONS)
        told = told_by(result.seconds, result.rounds)
        embedding = result.embedding
        result.close()
        return embedding, told


class UnisonoOnCard(Unisono):
    """By the library's own calls: embedding and result in memory that torch has on the card."""

    def __init__(self, device: str, exact: int):
        super().__init__(device, exact)
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            raise RuntimeError("torch finds no card")
        self.c = importlib.import_module("unisono._c")
        self.settings = importlib.import_module("unisono._options").Settings
        self.encode = importlib.import_module("unisono._labels").encode
        self.Run = importlib.import_module("unisono._run").Run

    def take(self, Z):
        given = self.torch.from_numpy(Z).cuda()
        self.torch.cuda.synchronize()
        return given

    def call(self, Z, meta):
        n, d = Z.shape
        matrix = self.c.Matrix(ctypes.c_void_p(Z.data_ptr()), self.c.Dtype.FLOAT32, n, d, 4 * d, 4)
        out = self.torch.empty_like(Z)
        run = self.Run(self.settings(None, backend=self.device, **self.OPTIONS))
        run.open(types.SimpleNamespace(matrix=lambda: matrix), [self.encode(meta["batch"], "batch")])
        run.run()
        read = self.c.library.uni_read
        run.use(lambda pointer: self.c.check(read(pointer, self.c.Array.CORRECTED, ctypes.c_void_p(out.data_ptr()))))
        report = run.report()
        run.close()
        return out, told_by(report.seconds, report.rounds)

    def give(self, result):
        return result.cpu().numpy()

    def release(self):
        gc.collect()
        self.torch.cuda.empty_cache()


class Harmonypy(Program):
    """0.2: Harmony v1's rounds on torch. k-means is scikit-learn's, on the CPU."""

    def __init__(self, device: str, exact: int):
        import torch

        harmonypy = importlib.import_module("harmonypy.harmony")
        self.torch, self.device, self.exact, self.run = torch, device, exact, harmonypy.run_harmony
        self.version = version("harmonypy")
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch finds no card")
        self.clock = Clock(torch.cuda.synchronize if device == "cuda" else lambda: None)
        self.clock.around(harmonypy.Harmony, "init_cluster", "seeding")
        self.clock.around(harmonypy.Harmony, "cluster", "clustering")
        self.clock.around(harmonypy.Harmony, "moe_correct_ridge", "correction")
        self.kmeans, self.module = harmonypy.KMeans, harmonypy

    def call(self, Z, meta):
        self.clock.reset()
        note = "k-means: scikit-learn, CPU"
        self.module.KMeans = self.kmeans
        if len(Z) > self.exact:
            self.module.KMeans, note = RandomRows, "k-means NOT run: random rows in its place"
        ran = self.run(
            Z, meta, ["batch"], lamb=-1, nclust=CLUSTERS, max_iter_harmony=ROUNDS, max_iter_kmeans=SWEEPS,
            epsilon_cluster=NEVER, epsilon_harmony=NEVER, verbose=False, device=self.device,
        )  # fmt: skip
        embedding = ran.Z_corr
        s = self.clock.seconds
        told = {
            "seeding": s["seeding"],
            "rounds": s["clustering"] + s["correction"],
            "n_rounds": len(ran.kmeans_rounds),
            "sweeps": sum(ran.kmeans_rounds),
            "objective": float(ran.objective_harmony[-1]),
            "parts": dict(s),
            "note": note,
        }
        del ran
        return embedding, told

    def release(self):
        gc.collect()
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


class RandomRows:
    """In the place of scikit-learn's KMeans, where that takes minutes."""

    def __init__(self, n_clusters: int, random_state: int = 0, **_):
        self.k, self.random = n_clusters, np.random.default_rng(random_state)

    def fit(self, X):
        self.cluster_centers_ = np.ascontiguousarray(X[self.random.choice(len(X), self.k, replace=False)])
        return self


class Rapids(Program):
    """rapids-singlecell's harmony_integrate without the rest of the package, which needs cuML, scanpy and more: its __init__ is passed over."""

    def __init__(self, device: str, exact: int):
        if device != "cuda":
            raise RuntimeError("runs on a card only")
        import cupy
        import torch  # noqa: F401  brings the CUDA runtime and cuBLAS that the package's own code is linked with

        self.cupy = cupy
        self.folder = next(Path(p) / "rapids_singlecell" for p in sys.path if (Path(p) / "rapids_singlecell").is_dir())
        self._stand_in("rapids_singlecell", self.folder)
        self._stand_in("rapids_singlecell.preprocessing", self.folder / "preprocessing")
        keys = self._stand_in("rapids_singlecell._keys")
        keys._harmony_obsm_key, keys._resolve_obsm_key = lambda basis: f"{basis}_harmony", lambda adata, key, *_, **__: key
        try:
            import dask.array  # noqa: F401
        except ImportError:
            self._stand_in("dask").array = self._stand_in("dask.array")
            sys.modules["dask.array"].Array = type("Array", (), {})
        self.harmony = importlib.import_module("rapids_singlecell.preprocessing._harmony")
        self.run = importlib.import_module("rapids_singlecell.preprocessing._harmony_integrate").harmony_integrate
        self.version = version("rapids-singlecell-cu13")
        self.clock = Clock(cupy.cuda.runtime.deviceSynchronize)
        self.clock.around(self.harmony, "_initialize_clusters", "seeding")
        self.clock.around(self.harmony, "_kmeans", "kmeans")
        self.clock.around(self.harmony, "_clustering", "clustering")
        self.clock.around(self.harmony, "_compute_lambda_kb", "lambda")
        self.clock.around(self.harmony, "_correction", "correction")
        self.objectives: list[float] = []
        self._listen()

    @staticmethod
    def _stand_in(name: str, folder: Path | None = None) -> types.ModuleType:
        module = types.ModuleType(name)
        if folder is not None:
            module.__path__ = [str(folder)]
        sys.modules[name] = module
        return module

    def _listen(self) -> None:
        """Keeps the list of objectives that a run makes."""
        inner = self.harmony._is_convergent_harmony

        def heard(objectives, tol):
            self.objectives = objectives
            return inner(objectives, tol=tol)

        self.harmony._is_convergent_harmony = heard

    FORCED = {
        "n_clusters": CLUSTERS, "max_iter_harmony": ROUNDS, "max_iter_clustering": SWEEPS, "tol_harmony": NEVER, "tol_clustering": NEVER, "rng": 0,
    }  # fmt: skip

    def integrate(self, Z, meta):
        adata = types.SimpleNamespace(obs=meta, obsm={"X_pca": Z})
        self.run(adata, "batch", **self.FORCED)
        return adata.obsm["X_pca_harmony"]

    def call(self, Z, meta):
        self.clock.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.integrate(Z, meta)
        self.clock.wait()
        s = self.clock.seconds
        told = {
            "seeding": s["seeding"],
            "rounds": s["clustering"] + s["lambda"] + s["correction"],
            "n_rounds": self.clock.calls["clustering"],
            # its loop looks at the objective after the fourth sweep at the earliest, and that is the last
            "sweeps": SWEEPS * self.clock.calls["clustering"],
            "objective": float(self.objectives[-1]) * 2000 / len(Z),
            "parts": dict(s),
            "note": "k-means: its own, on 500,000 cells at most",
        }
        return result, told

    def release(self):
        gc.collect()
        self.cupy.get_default_memory_pool().free_all_blocks()


class RapidsOnCard(Rapids):
    """The function below harmony_integrate, which takes and gives an array of the card."""

    def take(self, Z):
        given = self.cupy.asarray(Z)
        self.clock.wait()
        return given

    def integrate(self, Z, meta):
        return self.harmony.harmonize(Z, meta, "batch", **self.FORCED)

    def give(self, result):
        return result.get()


PROGRAMS = {
    "unisono": Unisono, "rapids-singlecell": Rapids, "harmonypy": Harmonypy,
    "unisono@card": UnisonoOnCard, "rapids-singlecell@card": RapidsOnCard,
}  # fmt: skip


def say(what: dict) -> None:
    print("@@" + json.dumps(what), flush=True)


def load(folder: str) -> tuple[np.ndarray, pd.DataFrame]:
    codes = np.load(Path(folder, "batch.npy"))
    names = [f"b{i}" for i in range(int(codes.max()) + 1)]
    return np.load(Path(folder, "x.npy")), pd.DataFrame({"batch": pd.Categorical.from_codes(codes, names)})


def measure(program: Program, memory: Memory, Z, meta, job: dict) -> dict:
    given = program.take(Z)
    memory.start()
    start = time.perf_counter()
    try:
        result, told = program.call(given, meta)
    finally:
        seconds = time.perf_counter() - start
        peak = memory.stop()
    embedding = program.give(result)
    del given, result
    program.release()
    rows = np.asarray(embedding[: job["rows"]], np.float32)
    told |= {"call": seconds, "peak": peak, "finite": bool(np.isfinite(embedding[:: max(1, len(Z) // 1000000)]).all())}
    told["moved"] = float(np.linalg.norm(rows - Z[: job["rows"]]) / np.linalg.norm(Z[: job["rows"]]))
    if job["save"]:
        np.save(job["save"], np.ascontiguousarray(rows))
    return told


def main(name: str, device: str, exact: str) -> int:
    try:
        program, memory = PROGRAMS[name](device, int(exact)), Memory(device)
    except Exception as reason:
        say({"failed": f"{type(reason).__name__}: {reason}"})
        return 1
    say({"version": program.version})
    folder = None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if job["folder"] != folder:
                Z = meta = None
                Z, meta = load(job["folder"])
                folder = job["folder"]
            say(measure(program, memory, Z, meta, job))
        except Exception as reason:
            say({"failed": f"{type(reason).__name__}: {str(reason)[:500]}"})
            try:
                program.release()
            except Exception as again:
                print(again, file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
