# SPDX-License-Identifier: BSD-3-Clause
"""LISI: how well batches mix and cell types stay apart, as its authors define it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _c, _labels
from ._api import align
from ._columns import variables_of
from ._embedding import Embedding, take
from ._labels import Variable
from ._log import warn
from ._options import number_text
from ._run import carry_out


class LisiScore(NamedTuple):
    """LISI of one labelling over the cells that were looked at.

    Attributes
    ----------
    mean, median
        NaN: no cell has a value.
    standard_error
        Of the mean, as an estimate of that of all cells; 0 where all were looked at.
    n_levels, n_missing, n_values
        Levels that have cells, cells without a label, cells with a value.
    ilisi
        The median from 0 (one batch) to 1 (all in equal parts), as scIB scales it:
        (median - 1) / (n_levels - 1).
    clisi
        The median from 0 (all types in equal parts) to 1 (one type): 1 - ``ilisi``.
    """

    mean: float
    median: float
    standard_error: float
    n_levels: int
    n_missing: int
    n_values: int

    @property
    def ilisi(self) -> float:
        return (self.median - 1) / (self.n_levels - 1) if self.n_levels > 1 else float("nan")

    @property
    def clisi(self) -> float:
        return 1 - self.ilisi


class Lisi(NamedTuple):
    """LISI of cells, for one labelling or several.

    Attributes
    ----------
    values : (n_looked_at, n_labellings)
        Of every cell that was looked at; NaN: none of its neighbours has a label.
    cells : (n_looked_at,)
        Their rows in the embedding, in rising order.
    names
        Of the labellings.
    scores
        A :class:`LisiScore` for each.
    perplexity, n_neighbours
        As used.
    """

    values: np.ndarray
    cells: np.ndarray
    names: list[str]
    scores: list[LisiScore]
    perplexity: float
    n_neighbours: int


_BACKENDS = {kind.name.removeprefix("BACKEND_").lower(): kind for kind in _c.Backend}


class _Call:
    """What :func:`_run.carry_out` must be able to do with a call that cannot report progress."""

    def __init__(self) -> None:
        self.flag = ctypes.c_int(0)

    @property
    def cancelled(self) -> bool:
        return bool(self.flag.value)

    def cancel(self) -> None:
        self.flag.value = 1

    def close(self) -> None:
        pass

    def drop_callback(self) -> None:
        pass


def _number(value: Any, name: str, kind: type) -> Any:
    try:
        number = kind(value) if not isinstance(value, str) else kind(number_text(value, name))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {value!r}; it must be a number") from None
    if number != value or (kind is int and not -(2**63) <= number < 2**63):
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    return number


def _run(embedding: Embedding, variables: Sequence[Variable], **given: Any) -> Lisi:
    variables = [align(variable, embedding) for variable in variables]
    call, o, plan = _Call(), _c.LisiOptions(), _c.LisiPlan()
    library, n = _c.library, len(variables)
    library.uni_lisi_options_init(ctypes.byref(o), ctypes.sizeof(o))
    for name, value in given.items():
        if value is not None:
            setattr(o, name, _number(value, name, float if name == "perplexity" else int))
    o.cancel = ctypes.pointer(call.flag)
    warning = ctypes.create_string_buffer(_c.LISI_WARNING)
    o.warning = ctypes.cast(warning, ctypes.c_char_p)
    matrix = embedding.matrix()
    batches = (_c.Batch * n)(*(variable.batch() for variable in variables))
    scores = (_c.LisiScore * n)()
    _c.check(library.uni_lisi_plan(*map(ctypes.byref, (plan, matrix)), batches, n, ctypes.byref(o)))
    values = np.empty((n, plan.n_sampled))
    cells = np.empty(plan.n_sampled, np.int64)

    def work() -> None:
        _c.check(
            library.uni_lisi(
                ctypes.byref(matrix), batches, n, ctypes.byref(o),
                values.ctypes.data, cells.ctypes.data, scores,
            )
        )  # fmt: skip

    carry_out(call, work, None)
    for sentence in (plan.note, warning.value):
        if sentence:
            warn(_c.text(sentence))
    names = [variable.name or "labels" for variable in variables]
    found = [
        LisiScore(s.mean, s.median, s.standard_error, s.n_levels, s.n_missing, s.n_values)
        for s in scores
    ]
    for name, score in zip(names, found):
        if score.n_missing:
            warn(
                f'"{name}": {score.n_missing} of {plan.n_cells} cells have no label '
                "and do not count as neighbours"
            )
    return Lisi(values.T, cells, names, found, plan.perplexity, plan.n_neighbours)


def lisi(
    X: Any,
    labels: Any,
    *,
    perplexity: float | None = None,
    sample: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    backend: str = "auto",
    device: int | None = None,
) -> Lisi:
    """How many levels there are around a cell: the local inverse Simpson's index.

    For batches (iLISI) 1 is not mixed and the number of batches evenly mixed; for cell types
    (cLISI) 1 is well apart. It is what the authors' R package lisi and harmonypy compute, over
    exact neighbours.

    Parameters
    ----------
    X : (n_cells, n_dims)
        An embedding, as :func:`unisono.harmonize` takes it.
    labels : (n_cells,)
        A label per cell; several labellings: a DataFrame or a dict. A neighbour without a label is
        left out, and the weights of the others are scaled up.
    perplexity : float, default 30
        Effective number of neighbours. With fewer than three times as many cells, (n_cells - 1) / 3
        is used, and a warning says so.
    sample : int, default 20000
        Cells to look at, with all cells as their possible neighbours; 0: every cell.
    seed : int, default 0
        Of the sample.
    threads : int, default 0
        0: the CPUs that this process may use. The result is the same for any number.
    backend : {"auto", "cpu", "cuda"}
        What goes through all cells for the nearest. The result is the same. auto: a card, if there
        is one that can do it and the cells looked at times all cells are 10^9 or more.
    device : int, default 0
        Of several cards the one that backend cuda uses.

    Returns
    -------
    Lisi

    Examples
    --------
    >>> import numpy as np, unisono
    >>> line = np.arange(300.0).reshape(-1, 1)
    >>> result = unisono.lisi(line, {"batch": ["a", "b"] * 150, "type": ["t"] * 300})
    >>> [round(score.mean, 2) for score in result.scores]
    [1.98, 1.0]
    """
    if backend not in _BACKENDS:
        raise ValueError(f"backend is {backend!r}; it must be one of {', '.join(_BACKENDS)}")
    return _run(
        take(X),
        _labels.encode_all(labels, True),
        perplexity=perplexity,
        sample=sample,
        seed=seed,
        threads=threads,
        backend=_BACKENDS[backend],
        device=device,
    )


def compute_lisi(
    X: Any, metadata: Any, label_colnames: str | Sequence[str], perplexity: float = 30
) -> np.ndarray:
    """LISI of every cell, as harmonypy's function of this name.

    Parameters
    ----------
    X : (n_cells, n_dims)
        An embedding.
    metadata
        A DataFrame, or a dict of columns, with a row per cell. If it and ``X`` name their cells
        they are matched by name.
    label_colnames
        Columns of ``metadata``.
    perplexity
        Effective number of neighbours.

    Returns
    -------
    (n_cells, n_columns) array of float64

    Examples
    --------
    >>> import numpy as np, unisono as hm
    >>> line = np.arange(300.0).reshape(-1, 1)
    >>> hm.compute_lisi(line, {"batch": ["a", "b"] * 150}, ["batch"]).shape
    (300, 1)
    """
    names = label_colnames if isinstance(label_colnames, str) else list(label_colnames)
    variables = variables_of(metadata, names, "metadata", True)
    result = _run(take(X), variables, perplexity=perplexity, sample=0)
    return np.ascontiguousarray(result.values)
