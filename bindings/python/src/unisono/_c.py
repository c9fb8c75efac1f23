# SPDX-License-Identifier: BSD-3-Clause
"""The C interface: the one mirror of include/unisono.h.

Every struct here has the fields of its namesake in the order of the header; tests/test_layout.py
compares sizes, offsets and enumerators with what a C compiler says. Nothing else in the package
knows a layout.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
)
from enum import IntEnum
from pathlib import Path

MAX_VARIABLES = 8
LISI_WARNING = 400


class Status(IntEnum):
    OK, MEMORY, INPUT, OPTION, BACKEND, DEVICE, COMM, NUMERIC, STOPPED = range(9)


class Dtype(IntEnum):
    FLOAT32, FLOAT64 = range(2)


class Kind(IntEnum):
    KIND_INT, KIND_REAL, KIND_VALUES, KIND_CHOICE, KIND_FLAG = range(5)


class Missing(IntEnum):
    MISSING_ERROR, MISSING_SKIP, MISSING_LEVEL = range(3)


class Backend(IntEnum):
    BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA = range(3)


class Array(IntEnum):
    (
        CORRECTED,
        ASSIGNMENTS,
        CENTROIDS,
        START,
        OBSERVED,
        EXPECTED,
        LAMBDA,
        CORRECTION,
        THETA,
        SIGMA,
        BLOCKS,
        SLOPES,
        GIVEN,
    ) = range(13)


class Reason(IntEnum):
    (
        NOT_RUN,
        CONVERGED,
        ROUND_LIMIT,
        STOPPED_BY_CALLER,
        ONE_LEVEL,
        NO_ROUNDS,
        FAILED,
        CANCELLED,
    ) = range(8)


class Matrix(ctypes.Structure):
    _name_ = "uni_matrix"
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("n_cells", c_int64),
        ("n_dims", c_int64),
        ("row_stride", c_int64),
        ("col_stride", c_int64),
    ]


class Batch(ctypes.Structure):
    _name_ = "uni_batch"
    _fields_ = [
        ("name", c_char_p),
        ("n_cells", c_int64),
        ("n_levels", c_int64),
        ("level", c_void_p),
        ("level_names", POINTER(c_char_p)),
    ]


class Covariate(ctypes.Structure):
    _name_ = "uni_covariate"
    _fields_ = [("name", c_char_p), ("n_cells", c_int64), ("value", c_void_p)]


class Values(ctypes.Structure):
    _name_ = "uni_values"
    _fields_ = [("n", c_int64), ("value", c_double * MAX_VARIABLES)]


class Progress(ctypes.Structure):
    _name_ = "uni_progress"
    _fields_ = [
        ("round", c_int64),
        ("max_rounds", c_int64),
        ("objective", c_double),
        ("change", c_double),
        ("seconds", c_double),
    ]


ProgressFn = ctypes.CFUNCTYPE(c_int, POINTER(Progress), c_void_p)


class Options(ctypes.Structure):
    _name_ = "uni_options"
    _fields_ = [
        ("size", c_size_t),
        ("n_clusters", c_int64),
        ("sigma", c_double),
        ("cluster_sigma", POINTER(c_double)),
        ("n_cluster_sigma", c_int64),
        ("theta", Values),
        ("tau", Values),
        ("lambda", Values),
        ("alpha", c_double),
        ("cutoff", c_double),
        ("max_rounds", c_int64),
        ("sweeps", c_int64),
        ("window", c_int64),
        ("stop", c_int),
        ("tol", c_double),
        ("sweep_tol", c_double),
        ("block_size", c_double),
        ("update", c_int),
        ("flavor", c_int),
        ("compat", c_int),
        ("combine", c_int),
        ("overcorrect", c_double),
        ("seed", c_int64),
        ("missing", c_int),
        ("force", c_int),
        ("precision", c_int),
        ("terms", c_int),
        ("backend", c_int),
        ("device", c_int64),
        ("threads", c_int64),
        ("centroids", POINTER(c_float)),
        ("n_centroids", c_int64),
        ("weights", POINTER(c_double)),
        ("n_weights", c_int64),
        ("covariates", POINTER(Covariate)),
        ("n_covariates", c_int),
        ("progress", ProgressFn),
        ("progress_user", c_void_p),
        ("cancel", POINTER(c_int)),
        ("stream", c_void_p),
    ]


class Option(ctypes.Structure):
    _name_ = "uni_option"
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int),
        ("initial", c_char_p),
        ("choices", c_char_p),
        ("range", c_char_p),
        ("help", c_char_p),
    ]


class Plan(ctypes.Structure):
    _name_ = "uni_plan"
    _fields_ = [
        ("n_cells", c_int64),
        ("n_dims", c_int64),
        ("n_levels", c_int64),
        ("n_clusters", c_int64),
        ("bytes", c_int64),
        ("bytes_card", c_int64),
        ("bytes_open", c_int64),
        ("threads", c_int64),
        ("backend", c_char_p),
        ("note", c_char * 320),
    ]


class Objective(ctypes.Structure):
    _name_ = "uni_objective"
    _fields_ = [
        ("round", c_int64),
        ("sweep", c_int64),
        ("total", c_double),
        ("distance", c_double),
        ("entropy", c_double),
        ("diversity", c_double),
    ]


class Round(ctypes.Structure):
    _name_ = "uni_round"
    _fields_ = [
        ("sweeps", c_int64),
        ("objective", c_double),
        ("objective_change", c_double),
        ("change", c_double),
        ("pruned_pairs", c_int64),
        ("skipped_clusters", c_int64),
        ("seconds", c_double),
    ]


class Summary(ctypes.Structure):
    _name_ = "uni_summary"
    _fields_ = [
        ("n_cells", c_int64),
        ("n_skipped", c_int64),
        ("n_dims", c_int64),
        ("n_levels", c_int64),
        ("n_clusters", c_int64),
        ("n_variables", c_int64),
        ("bytes", c_int64),
        ("bytes_card", c_int64),
        ("threads", c_int64),
        ("backend", c_char_p),
        ("reason", c_int),
        ("reason_text", c_char_p),
        ("n_rounds", c_int64),
        ("n_objectives", c_int64),
        ("n_warnings", c_int64),
        ("rounds", POINTER(Round)),
        ("objectives", POINTER(Objective)),
        ("warnings", POINTER(c_char_p)),
        ("seconds_open", c_double),
        ("seconds_seed", c_double),
        ("seconds_assign", c_double),
        ("seconds_sweep", c_double),
        ("seconds_moments", c_double),
        ("seconds_ridge", c_double),
        ("seconds_read", c_double),
        ("seconds_run", c_double),
    ]


class BackendInfo(ctypes.Structure):
    _name_ = "uni_backend_info"
    _fields_ = [("name", c_char_p), ("usable", c_int), ("detail", c_char * 160)]


class LevelDiagnosis(ctypes.Structure):
    _name_ = "uni_level_diagnosis"
    _fields_ = [
        ("name", c_char_p),
        ("variable", c_int),
        ("level", c_int64),
        ("cells", c_int64),
        ("length_median", c_double),
        ("length_rms", c_double),
        ("length_999", c_double),
        ("length_max", c_double),
        ("distance", c_double),
        ("spread", c_double),
        ("spread_kept", c_double),
        ("uncorrected", c_double),
        ("pruned", c_int64),
        ("thin", c_int64),
        ("thin_mass", c_double),
    ]


class ClusterDiagnosis(ctypes.Structure):
    _name_ = "uni_cluster_diagnosis"
    _fields_ = [
        ("mass", c_double),
        ("length_median", c_double),
        ("length_999", c_double),
        ("length_max", c_double),
        ("longest", c_int64),
        ("mixing", c_double),
        ("levels", c_int64),
        ("pruned", c_int64),
        ("thin", c_int64),
    ]


class TypeDiagnosis(ctypes.Structure):
    _name_ = "uni_type_diagnosis"
    _fields_ = [
        ("name", c_char_p),
        ("cells", c_int64),
        ("levels", c_int64 * MAX_VARIABLES),
        ("length_median", c_double),
        ("length_999", c_double),
        ("moved", c_double),
        ("spread", c_double),
        ("removed", c_double),
        ("nearest", c_int64),
        ("nearest_before", c_double),
        ("nearest_after", c_double),
    ]


class Finding(ctypes.Structure):
    _name_ = "uni_finding"
    _fields_ = [
        ("kind", c_int),
        ("name", c_char_p),
        ("row", c_int64),
        ("other", c_int64),
        ("value", c_double),
        ("threshold", c_double),
        ("more", c_int64),
        ("text", c_char_p),
    ]


class Diagnosis(ctypes.Structure):
    _name_ = "uni_diagnosis"
    _fields_ = [
        ("n_cells", c_int64),
        ("n_skipped", c_int64),
        ("n_dims", c_int64),
        ("n_variables", c_int64),
        ("n_levels", c_int64),
        ("n_clusters", c_int64),
        ("n_types", c_int64),
        ("n_findings", c_int64),
        ("length_median", c_double),
        ("length_rms", c_double),
        ("length_999", c_double),
        ("length_max", c_double),
        ("levels", POINTER(LevelDiagnosis)),
        ("clusters", POINTER(ClusterDiagnosis)),
        ("observed", POINTER(c_double)),
        ("expected", POINTER(c_double)),
        ("length", POINTER(c_double)),
        ("lambda", POINTER(c_double)),
        ("types", POINTER(TypeDiagnosis)),
        ("findings", POINTER(Finding)),
    ]


LisiProgressFn = ctypes.CFUNCTYPE(None, c_int64, c_int64, c_void_p)


class LisiOptions(ctypes.Structure):
    _name_ = "uni_lisi_options"
    _fields_ = [
        ("size", c_size_t),
        ("perplexity", c_double),
        ("sample", c_int64),
        ("seed", c_int64),
        ("threads", c_int64),
        ("cancel", POINTER(c_int)),
        ("progress", LisiProgressFn),
        ("progress_user", c_void_p),
        ("backend", c_int),
        ("device", c_int64),
        ("warning", c_char_p),
    ]


class LisiPlan(ctypes.Structure):
    _name_ = "uni_lisi_plan"
    _fields_ = [
        ("n_cells", c_int64),
        ("n_dims", c_int64),
        ("n_sampled", c_int64),
        ("n_neighbours", c_int64),
        ("bytes", c_int64),
        ("threads", c_int64),
        ("perplexity", c_double),
        ("note", c_char * 200),
    ]


class LisiScore(ctypes.Structure):
    _name_ = "uni_lisi_score"
    _fields_ = [
        ("n_levels", c_int64),
        ("n_missing", c_int64),
        ("n_values", c_int64),
        ("mean", c_double),
        ("median", c_double),
        ("standard_error", c_double),
    ]


STRUCTS = (
    Matrix,
    Batch,
    Covariate,
    Values,
    Progress,
    Options,
    Option,
    Plan,
    Objective,
    Round,
    Summary,
    BackendInfo,
    LevelDiagnosis,
    ClusterDiagnosis,
    TypeDiagnosis,
    Finding,
    Diagnosis,
    LisiOptions,
    LisiPlan,
    LisiScore,
)
ENUMS = (Status, Dtype, Kind, Missing, Backend, Array, Reason)

_PROTOTYPES = {
    "uni_version": (c_char_p, []),
    "uni_status_name": (c_char_p, [c_int]),
    "uni_last_error": (c_char_p, []),
    "uni_options_init": (None, [POINTER(Options), c_size_t]),
    "uni_option_at": (POINTER(Option), [c_int]),
    "uni_options_set": (c_int, [POINTER(Options), c_char_p, c_char_p]),
    "uni_options_get": (c_int, [POINTER(Options), c_char_p, c_char_p, c_size_t]),
    "uni_plan": (c_int, [POINTER(Plan), c_int64, c_int64, POINTER(Batch), c_int, POINTER(Options)]),
    "uni_open": (
        c_int,
        [POINTER(c_void_p), POINTER(Matrix), POINTER(Batch), c_int, POINTER(Options)],
    ),
    "uni_run": (c_int, [c_void_p]),
    "uni_shape": (c_int, [c_void_p, c_int, POINTER(c_int64)]),
    "uni_read": (c_int, [c_void_p, c_int, c_void_p]),
    "uni_summary": (POINTER(Summary), [c_void_p]),
    "uni_close": (None, [c_void_p]),
    "uni_diagnose": (
        c_int,
        [
            POINTER(POINTER(Diagnosis)),
            c_void_p,
            POINTER(Matrix),
            POINTER(Matrix),
            POINTER(Batch),
            c_int,
            POINTER(Batch),
            c_int64,
        ],
    ),
    "uni_diagnosis_close": (None, [POINTER(Diagnosis)]),
    "uni_lisi_options_init": (None, [POINTER(LisiOptions), c_size_t]),
    "uni_lisi_plan": (
        c_int,
        [POINTER(LisiPlan), POINTER(Matrix), POINTER(Batch), c_int, POINTER(LisiOptions)],
    ),
    "uni_lisi": (
        c_int,
        [
            POINTER(Matrix),
            POINTER(Batch),
            c_int,
            POINTER(LisiOptions),
            c_void_p,
            c_void_p,
            POINTER(LisiScore),
        ],
    ),
    "uni_backend_at": (c_int, [c_int, POINTER(BackendInfo)]),
}


def _load() -> ctypes.CDLL:
    name = "libunisono.dylib" if sys.platform == "darwin" else "libunisono.so"
    path = Path(__file__).with_name(name)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"the shared library of unisono cannot be loaded ({error}); the package must be "
            "installed (pip install ./bindings/python), it does not run from its source folder"
        ) from None
    for function, (result, arguments) in _PROTOTYPES.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


# CDLL gives up the interpreter's lock for every call.
library = _load()


def text(value: bytes | None) -> str:
    """A C string as str; NULL as ""."""
    return value.decode("utf-8", "replace") if value else ""


def error_of(status: int, sentence: str | None = None) -> Exception:
    """The exception for a status, with the library's sentence of this thread's last failure."""
    if sentence is None:
        sentence = text(library.uni_last_error())
    if status in (Status.INPUT, Status.OPTION):
        return ValueError(sentence)
    if status == Status.MEMORY:
        return MemoryError(sentence)
    return RuntimeError(sentence or text(library.uni_status_name(status)))


def check(status: int) -> None:
    """Raises what a status other than OK means."""
    if status != Status.OK:
        raise error_of(status)
