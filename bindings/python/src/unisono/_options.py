# SPDX-License-Identifier: BSD-3-Clause
"""Keyword arguments -> the C options.

Names, defaults and ranges are those of the library's table; nothing of it is repeated here.
"""

from __future__ import annotations

import ctypes
import difflib
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _c
from ._numbers import Numbers


class Option(NamedTuple):
    """A row of the library's option table.

    Attributes
    ----------
    name
        As a keyword argument: ``max_rounds``. A Python keyword has a ``_`` at its end: ``lambda_``.
    kind
        ``"int"``, ``"real"``, ``"values"`` (one, or one per batch variable), ``"choice"`` or
        ``"flag"``.
    default
        As text; ``"auto"`` where automatic.
    choices
        The words of a choice, else ().
    range
        In words.
    help
        One line.
    """

    name: str
    kind: str
    default: str
    choices: tuple[str, ...]
    range: str
    help: str


def _keyword(name: str) -> str:
    name = name.replace("-", "_")
    return name + "_" if name == "lambda" else name


def options() -> list[Option]:
    """The options of :func:`unisono.harmonize`, from the library's own table.

    Examples
    --------
    >>> import unisono
    >>> [option.default for option in unisono.options() if option.name == "theta"]
    ['2']
    """
    rows: list[Option] = []
    while True:
        pointer = _c.library.uni_option_at(len(rows))
        if not pointer:
            return rows
        row = pointer.contents
        kind = _c.Kind(row.kind).name.removeprefix("KIND_").lower()
        choices = tuple(_c.text(row.choices).split("|")) if row.choices else ()
        rows.append(
            Option(
                _keyword(_c.text(row.name)),
                kind,
                _c.text(row.initial),
                choices,
                _c.text(row.range),
                _c.text(row.help),
            )
        )


TABLE = {option.name: option for option in options()}


def table_text() -> str:
    """The table as the lines of a docstring's section."""
    lines = []
    for o in TABLE.values():
        lines += [f"{o.name} : {o.kind}, default {o.default}"]
        lines += [f"    {o.help[0].upper()}{o.help[1:]}; {o.range}."]
    return "\n".join(lines)


def number_text(value: Any, name: str) -> str:
    """One value as the text that the library parses; it judges the range."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value) == 0:
        value = value.item()
    try:
        return str(operator.index(value))
    except TypeError:
        pass
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is a {type(value).__name__}; it must be {TABLE[name].range}"
        ) from None
    return str(int(real)) if real.is_integer() and abs(real) < 2**53 else repr(real)


# What presets other options is set before them: the library's program does it in this order.
_PRESETS = ("compat", "flavor")


def _is_sequence(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and np.ndim(value) > 0


class Settings:
    """The C options and the memory they point to.

    Parameters
    ----------
    centroids
        (n_clusters, n_dims) to start from, or None.
    given
        Options by name; None means the default.
    """

    def __init__(self, centroids: Any = None, **given: Any) -> None:
        self.c = _c.Options()
        self.keep: list[Any] = []
        self.n_dims: int | None = None  # of the centroids
        _c.library.uni_options_init(ctypes.byref(self.c), ctypes.sizeof(self.c))
        first = [name for name in _PRESETS if name in given]
        for name in [*first, *(name for name in given if name not in _PRESETS)]:
            value = given[name]
            if name not in TABLE:
                near = difflib.get_close_matches(name, TABLE, n=1, cutoff=0.5)
                hint = f"; did you mean {near[0]!r}?" if near else ";"
                raise TypeError(
                    f"there is no option {name!r}{hint} unisono.options() lists those that are"
                )
            if value is not None:
                self._set(name, value)
        if centroids is not None:
            self._set_centroids(centroids)

    def _set(self, name: str, value: Any) -> None:
        if _is_sequence(value):
            if name == "sigma":
                return self._set_cluster_sigma(value)
            if TABLE[name].kind != "values":
                raise TypeError(
                    f"{name} is a {type(value).__name__}; it must be one value, {TABLE[name].range}"
                )
            text = ",".join(number_text(item, name) for item in value)
        else:
            text = number_text(value, name)
        c_name = name.rstrip("_").replace("_", "-")
        _c.check(
            _c.library.uni_options_set(
                ctypes.byref(self.c), c_name.encode(), text.encode("utf-8", "replace")
            )
        )
        return None

    def _set_cluster_sigma(self, value: Any) -> None:
        array = np.ascontiguousarray(value, np.float64)
        if array.ndim != 1:
            raise ValueError(
                f"sigma has the shape {array.shape}; give one value, or one per cluster"
            )
        self.keep.append(array)
        self.c.cluster_sigma = array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        self.c.n_cluster_sigma = len(array)

    def _set_centroids(self, value: Any) -> None:
        array = np.ascontiguousarray(value, np.float32)
        if array.ndim != 2:
            raise ValueError(
                f"centroids has the shape {array.shape}; it must be clusters x dimensions"
            )
        self.keep.append(array)
        self.c.centroids = array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self.c.n_centroids, self.n_dims = array.shape

    def set_numbers(self, weights: Numbers | None, covariates: Sequence[Numbers]) -> None:
        """What is known of each cell, in the order of the embedding's."""
        if weights is not None:
            self.keep.append(weights.value)
            self.c.weights = weights.value.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
            self.c.n_weights = len(weights.value)
        self.c.n_covariates, self.c.covariates = len(covariates), None
        if covariates:
            columns = (_c.Covariate * len(covariates))()
            for column, x in zip(columns, covariates):
                column.name = x.name.encode("utf-8", "replace")
                column.n_cells, column.value = len(x.value), x.value.ctypes.data
                self.keep.append(x.value)
            self.keep.append(columns)
            self.c.covariates = columns

    def part(self) -> Settings:
        """These settings for a run on some of the cells, whose labels have been looked at."""
        other = Settings()
        other.c = _c.Options.from_buffer_copy(self.c)
        other.keep = list(self.keep)
        other.n_dims = self.n_dims
        other.c.force = 1
        return other

    @property
    def forced(self) -> bool:
        return bool(self.c.force)

    def check_dims(self, n_dims: int) -> None:
        """The C interface assumes that centroids have the embedding's dimensions."""
        if self.n_dims is not None and self.n_dims != n_dims:
            raise ValueError(f"the centroids have {self.n_dims} dimensions, the embedding {n_dims}")

    def as_dict(self) -> dict[str, str]:
        """Every option with its present value, as text."""
        values = {}
        buffer = ctypes.create_string_buffer(512)
        for name in TABLE:
            c_name = name.rstrip("_").replace("_", "-")
            _c.check(
                _c.library.uni_options_get(
                    ctypes.byref(self.c), c_name.encode(), buffer, len(buffer)
                )
            )
            values[name] = _c.text(buffer.value)
        return values
