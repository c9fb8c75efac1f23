# SPDX-License-Identifier: BSD-3-Clause
"""unisono: Harmony v2 batch integration of single-cell embeddings.

``harmonize`` takes arrays, ``pp.harmony_integrate`` an AnnData (scanpy's parameters),
``run_harmony`` what harmonypy takes.
"""

from . import pp
from ._api import Backend, Plan, backends, harmonize, plan
from ._c import library as _library
from ._c import text as _text
from ._diagnostics import Diagnostics, diagnose
from ._harmonypy import Harmony, run_harmony
from ._lisi import Lisi, LisiScore, compute_lisi, lisi
from ._log import UnisonoWarning
from ._options import Option, options
from ._plot import plot_before_after, plot_convergence
from ._result import Result
from ._run import Progress
from ._within import Results

__version__ = _text(_library.uni_version())

__all__ = [
    "Backend",
    "Diagnostics",
    "Harmony",
    "Lisi",
    "LisiScore",
    "Option",
    "Plan",
    "Progress",
    "Result",
    "Results",
    "UnisonoWarning",
    "__version__",
    "backends",
    "compute_lisi",
    "diagnose",
    "harmonize",
    "lisi",
    "options",
    "plan",
    "plot_before_after",
    "plot_convergence",
    "pp",
    "run_harmony",
]
