# SPDX-License-Identifier: BSD-3-Clause
"""harmonize: arrays in, a Result out."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _c, _labels
from ._embedding import Embedding, on_card, take
from ._labels import Variable
from ._log import logger, warn
from ._numbers import Numbers, covariates_of, numbers
from ._options import Settings, table_text
from ._progress import reporting
from ._result import Result
from ._run import Progress, Run, carry_out
from ._within import Results, check_within, parts


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


def _places(embedding: Embedding, names: Any, what: str) -> Any:
    """Where the embedding's cells are among ``names``; None: in the same places."""
    cells = embedding.cells
    if cells is None or names is None or len(cells) != len(names) or cells.equals(names):
        return None
    if _is_default_index(cells) or _is_default_index(names):
        return None  # row numbers are no names
    for index, side in ((cells, "the embedding"), (names, f'"{what}"')):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(
                f"{side} has the cell name {str(twice)!r} twice, "
                "so cells cannot be put in order by name"
            )
    place = names.get_indexer(cells)
    if (place < 0).any():
        lacking = cells[int(np.argmax(place < 0))]
        raise ValueError(
            f'"{what}" has nothing for cell {str(lacking)!r}: '
            "the cell names of the embedding and of the labels must be the same"
        )
    logger.info('"%s" is put in the order of the embedding, by cell name', what)
    return place


def align(variable: Variable, embedding: Embedding) -> Variable:
    """Puts the labels in the order of the embedding's cells where both sides name them."""
    place = _places(embedding, variable.cells, variable.name or "batch")
    if place is None:
        return variable
    return Variable(variable.name, variable.level[place], variable.names, embedding.cells)


def _align_numbers(numbers: Numbers, embedding: Embedding) -> Numbers:
    place = _places(embedding, numbers.cells, numbers.name)
    return numbers if place is None else numbers.at(place)


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
    weights: Numbers | None = None,
    covariates: Sequence[Numbers] = (),
) -> Result:
    """The run behind every front end."""
    dtype = _checked(embedding, settings, dtype)
    variables = [align(variable, embedding) for variable in variables]
    weights = None if weights is None else _align_numbers(weights, embedding)
    covariates = [_align_numbers(x, embedding) for x in covariates]
    settings.set_numbers(weights, covariates)
    result = _run_one(
        embedding, variables, settings, dtype, progress, [x.name for x in covariates], ""
    )
    for sentence in result.warnings:
        warn(sentence)
    return result


def _checked(embedding: Embedding, settings: Settings, dtype: Any) -> np.dtype:
    settings.check_dims(embedding.values.shape[1])
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        raise TypeError(f"dtype is {dtype}; the result is real numbers, float32 or float64")
    return dtype


def _run_one(
    embedding: Embedding,
    variables: list[Variable],
    settings: Settings,
    dtype: np.dtype,
    progress: bool | Callable[[Progress], Any] | None,
    covariates: list[str],
    level: str,
) -> Result:
    run = Run(settings)

    def work() -> tuple[Any, np.ndarray]:
        run.open(embedding, variables)
        run.run()
        corrected = run.read(_c.Array.CORRECTED)
        return run.report(), corrected

    with reporting(progress, settings, level) as report_round:
        report, corrected = carry_out(run, work, report_round)
    corrected = _named_like(corrected.astype(dtype, copy=False), embedding)
    result = Result(run, report, corrected, variables, settings.as_dict(), covariates)
    logger.info(
        "%s%d cells, %d clusters, %d rounds in %.3g s on %s, %d threads: %s",
        f"{level}: " if level else "", result.n_cells, result.n_clusters, result.n_rounds,
        report.seconds["run"], report.backend, report.threads, report.reason_text,
    )  # fmt: skip
    return result


def run_within(
    within: Variable,
    embedding: Embedding,
    variables: list[Variable],
    settings: Settings,
    dtype: Any = np.float32,
    progress: bool | Callable[[Progress], Any] | None = None,
    weights: Numbers | None = None,
    covariates: Sequence[Numbers] = (),
    keep: bool = True,
) -> Results:
    """A run for every level of ``within``; keep: the runs stay open, so that all can be read."""
    dtype = _checked(embedding, settings, dtype)
    within, *variables = [align(variable, embedding) for variable in (within, *variables)]
    weights = None if weights is None else _align_numbers(weights, embedding)
    covariates = [_align_numbers(x, embedding) for x in covariates]
    settings.set_numbers(weights, covariates)
    n_cells, n_dims = embedding.values.shape
    _plan_of(n_cells, n_dims, variables, settings)  # what concerns all cells
    check_within(within, n_cells, settings)
    corrected = embedding.values.astype(np.float32, order="C")
    runs: dict[str, Result] = {}
    counts: dict[str, int] = {}
    warnings: list[str] = []
    for part in parts(within, variables, settings, weights, covariates):
        own = list(part.warnings)
        counts[part.level] = len(part.cells)
        if not part.usable:
            own.append("it has fewer than two cells that take part, and comes back unchanged")
        else:
            taken = Embedding(np.ascontiguousarray(embedding.values[part.cells]))
            try:
                result = _run_one(
                    taken, part.variables, part.settings, np.dtype(np.float32), progress,
                    part.covariates, part.level,
                )  # fmt: skip
            except (ValueError, MemoryError, RuntimeError) as error:
                raise type(error)(f'{within.name or "within"} "{part.level}": {error}') from None
            corrected[part.cells] = result.embedding
            own += result.warnings
            if not keep:
                result.close()
            runs[part.level] = result
        warnings += [f'{within.name or "within"} "{part.level}": {text}' for text in own]
    whole = _named_like(corrected.astype(dtype, copy=False), embedding)
    results = Results(whole, within.name or "within", runs, counts)
    results.warnings = warnings
    for sentence in warnings:
        warn(sentence)
    return results


def harmonize(
    Z: Any,
    labels: Any,
    *,
    weights: Any = None,
    covariates: Any = None,
    within: Any = None,
    centroids: Any = None,
    dtype: Any = np.float32,
    progress: bool | Callable[[Progress], Any] = False,
    **options: Any,
) -> Result | Results:
    """Removes the batch effect from an embedding.

    Parameters
    ----------
    Z : (n_cells, n_dims)
        Any array, order, stride and real type; DataFrame, sparse matrix, tensor. Rows are cells. It
        is not changed. With ``backend="cuda"`` an array on that card (CuPy, torch, Numba: what has
        ``__cuda_array_interface__``) of float32 or float64 is read where it is, after what was
        queued on its current stream; any other is copied from the card first.
    labels : (n_cells,)
        The batch of each cell: list, array, Series, Categorical, arrow array; texts, whole numbers
        or booleans. Several variables: a DataFrame, a dict, or an array (n_cells, n_variables). If
        both ``Z`` and the labels are pandas objects that name the cells, the labels are put in
        order by name.
    weights : (n_cells,), optional
        What each cell counts, > 0: 2 is the cell twice.
    covariates : (n_cells,) or (n_cells, n_covariates), optional
        Numbers to regress out within clusters, such as the log of a cell's counts: array, Series,
        DataFrame, dict. docs/method.md says when not to.
    within : (n_cells,), optional
        Labels whose levels are integrated apart; the result is then a :class:`Results`. Missing
        ones are dealt with as those of ``labels`` are.
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
    Result, or Results with ``within``

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
    columns = {
        "weights": None if weights is None else numbers(weights, "weights"),
        "covariates": covariates_of(covariates),
    }
    if within is None:
        there = on_card(Z) if settings.c.backend == _c.Backend.BACKEND_CUDA else None
        if there is not None:
            settings.c.stream = there.stream
        return run_on(there or take(Z), variables, settings, dtype, progress, **columns)
    apart = _labels.encode(within, None, settings.forced)
    return run_within(apart, take(Z), variables, settings, dtype, progress, **columns)


# Python 3.13 takes the indentation out of docstrings by itself.
harmonize.__doc__ = inspect.cleandoc(harmonize.__doc__ or "").replace(
    "\nReturns\n", f"\nOptions\n-------\n{table_text()}\n\nReturns\n", 1
)


class Plan(NamedTuple):
    """What a run would take; ``bytes``: at most, the caller's own arrays not counted.

    ``bytes_card``: beside these, of a card's memory. ``note``: a sentence where a card is used and
    not all fits it: what lies in the machine's memory instead, and what that costs; else "".
    """

    n_cells: int
    n_dims: int
    n_levels: int
    n_clusters: int
    bytes: int
    threads: int
    backend: str
    bytes_card: int
    note: str


def _plan_of(n_cells: int, n_dims: int, variables: list[Variable], settings: Settings) -> Plan:
    batches = (_c.Batch * len(variables))(*(variable.batch() for variable in variables))
    p = _c.Plan()
    _c.check(
        _c.library.uni_plan(
            ctypes.byref(p), n_cells, n_dims, batches, len(variables), ctypes.byref(settings.c)
        )
    )
    return Plan(
        p.n_cells,
        p.n_dims,
        p.n_levels,
        p.n_clusters,
        p.bytes,
        p.threads,
        _c.text(p.backend),
        p.bytes_card,
        _c.text(p.note),
    )


def plan(
    n_dims: int, labels: Any, *, weights: Any = None, covariates: Any = None, **options: Any
) -> Plan:
    """Checks labels and options, and says what a run would take, without an embedding.

    Parameters
    ----------
    n_dims
        Dimensions of the embedding.
    labels, weights, covariates, **options
        As :func:`unisono.harmonize` takes them.

    Examples
    --------
    >>> import unisono
    >>> unisono.plan(50, ["a", "b"] * 5000).n_clusters
    100
    """
    settings = Settings(**options)
    variables = _labels.encode_all(labels, settings.forced)
    settings.set_numbers(
        None if weights is None else numbers(weights, "weights"), covariates_of(covariates)
    )
    return _plan_of(len(variables[0].level), n_dims, variables, settings)
