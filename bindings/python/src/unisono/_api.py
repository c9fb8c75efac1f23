# SPDX-License-Identifier: BSD-3-Clause
"""harmonize: arrays in, a Result out."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _c, _labels
from ._embedding import Embedding, take
from ._labels import Variable
from ._log import logger, warn
from ._options import Settings, table_text
from ._progress import reporting
from ._result import Result
from ._run import Progress, Run, carry_out


class Backend(NamedTuple):
    """A backend of this build: name, whether this machine can run it, on what or why not."""

    name: str
    usable: bool
    detail: str


def backends() -> list[Backend]:
    """What this build can compute with.

    Examples
    --------
    >>> import unisono
    >>> unisono.backends()[0].name
    'cpu'
    """
    found: list[Backend] = []
    info = _c.BackendInfo()
    while _c.library.uni_backend_at(len(found), ctypes.byref(info)):
        found.append(Backend(_c.text(info.name), bool(info.usable), _c.text(info.detail)))
    return found


def _is_default_index(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def align(variable: Variable, embedding: Embedding) -> Variable:
    """Puts the labels in the order of the embedding's cells where both sides name them."""
    cells, names = embedding.cells, variable.cells
    if cells is None or names is None or len(cells) != len(names) or cells.equals(names):
        return variable
    if _is_default_index(cells) or _is_default_index(names):
        return variable  # row numbers are no names
    what = variable.name or "batch"
    for index, side in ((cells, "the embedding"), (names, f'the labels of "{what}"')):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(
                f"{side} has the cell name {str(twice)!r} twice, "
                "so labels cannot be put in order by name"
            )
    place = names.get_indexer(cells)
    if (place < 0).any():
        lacking = cells[int(np.argmax(place < 0))]
        raise ValueError(
            f'"{what}" has no label for cell {str(lacking)!r}: '
            "the cell names of the embedding and of the labels must be the same"
        )
    logger.info('the labels of "%s" are put in the order of the embedding, by cell name', what)
    return Variable(variable.name, variable.level[place], variable.names, cells)


def _named_like(array: np.ndarray, embedding: Embedding) -> Any:
    if embedding.cells is None:
        return array
    import pandas

    return pandas.DataFrame(array, index=embedding.cells, columns=embedding.columns)


def run_on(
    embedding: Embedding,
    variables: list[Variable],
    settings: Settings,
    dtype: Any = np.float32,
    progress: bool | Callable[[Progress], Any] | None = None,
) -> Result:
    """The run behind every front end."""
    settings.check_dims(embedding.values.shape[1])
    variables = [align(variable, embedding) for variable in variables]
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        raise TypeError(f"dtype is {dtype}; the result is real numbers, float32 or float64")
    run = Run(settings)

    def work() -> tuple[Any, np.ndarray]:
        run.open(embedding, variables)
        run.run()
        corrected = run.read(_c.Array.CORRECTED)
        return run.report(), corrected

    with reporting(progress, settings) as report_round:
        report, corrected = carry_out(run, work, report_round)
    for sentence in report.warnings:
        warn(sentence)
    corrected = _named_like(corrected.astype(dtype, copy=False), embedding)
    result = Result(run, report, corrected, variables, settings.as_dict())
    logger.info(
        "%d cells, %d clusters, %d rounds in %.3g s on %s, %d threads: %s",
        result.n_cells, result.n_clusters, result.n_rounds, report.seconds["run"],
        report.backend, report.threads, report.reason_text,
    )  # fmt: skip
    return result


def harmonize(
    Z: Any,
    labels: Any,
    *,
    combine: bool = False,
    centroids: Any = None,
    dtype: Any = np.float32,
    progress: bool | Callable[[Progress], Any] = False,
    **options: Any,
) -> Result:
    """Removes the batch effect from an embedding.

    Parameters
    ----------
    Z : (n_cells, n_dims)
        Any array, order, stride and real type; DataFrame, sparse matrix, tensor. Rows are cells. It
        is not changed.
    labels : (n_cells,)
        The batch of each cell: list, array, Series, Categorical, arrow array; texts, whole numbers
        or booleans. Several variables: a DataFrame, a dict, or an array (n_cells, n_variables). If
        both ``Z`` and the labels are pandas objects that name the cells, the labels are put in
        order by name.
    combine : bool, default False
        Take the combinations of several variables' levels as one variable.
    centroids : (n_clusters, n_dims), optional
        Start from these.
    dtype : default float32
        Of the corrected embedding. The computation is the same.
    progress : bool or callable, default False
        True: a bar (tqdm where it is installed, on a terminal or in a notebook), else messages
        through ``logging``. A callable is given a :class:`unisono.Progress` after every round, in
        the caller's thread; if it returns true the run stops, and the result is that of the last
        round.
    **options
        As below; None is the default. ``sigma`` may also be one value per cluster.

    Returns
    -------
    Result

    Raises
    ------
    ValueError, TypeError
        The input or an option cannot be used.
    MemoryError, RuntimeError
        No memory; the backend is not available, or failed.
    KeyboardInterrupt
        Ctrl-C ends a run within milliseconds.

    Examples
    --------
    >>> import numpy as np, unisono
    >>> Z = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> result = unisono.harmonize(Z, ["a", "a", "b", "b"], clusters=1)
    >>> print(np.asarray(result).ravel().round(3))
    [0.833 1.833 1.167 2.167]
    """
    settings = Settings(centroids, **options)
    variables = _labels.encode_all(labels, settings.forced)
    if combine:
        variables = [_labels.joined(variables)] if len(variables) > 1 else variables
    return run_on(take(Z), variables, settings, dtype, progress)


# Python 3.13 takes the indentation out of docstrings by itself.
harmonize.__doc__ = inspect.cleandoc(harmonize.__doc__ or "").replace(
    "\nReturns\n", f"\nOptions\n-------\n{table_text()}\n\nReturns\n", 1
)


class Plan(NamedTuple):
    """What a run would take; ``bytes``: at most, the caller's own arrays not counted."""

    n_cells: int
    n_dims: int
    n_levels: int
    n_clusters: int
    bytes: int
    threads: int
    backend: str


def plan(n_dims: int, labels: Any, *, combine: bool = False, **options: Any) -> Plan:
    """Checks labels and options, and says what a run would take, without an embedding.

    Parameters
    ----------
    n_dims
        Dimensions of the embedding.
    labels, combine, **options
        As :func:`unisono.harmonize` takes them.

    Examples
    --------
    >>> import unisono
    >>> unisono.plan(50, ["a", "b"] * 5000).n_clusters
    100
    """
    settings = Settings(**options)
    variables = _labels.encode_all(labels, settings.forced)
    if combine and len(variables) > 1:
        variables = [_labels.joined(variables)]
    batches = (_c.Batch * len(variables))(*(variable.batch() for variable in variables))
    n_cells = len(variables[0].level)
    p = _c.Plan()
    _c.check(
        _c.library.uni_plan(
            ctypes.byref(p), n_cells, n_dims, batches, len(variables), ctypes.byref(settings.c)
        )
    )
    return Plan(
        p.n_cells, p.n_dims, p.n_levels, p.n_clusters, p.bytes, p.threads, _c.text(p.backend)
    )
