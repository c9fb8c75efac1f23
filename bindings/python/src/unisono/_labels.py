# SPDX-License-Identifier: BSD-3-Clause
"""Labels of any kind -> a level per cell.

Labels become text first, so that 1, 1.0 and "1" are the same level whatever held them, as in the
program. A categorical's levels keep the order of its categories; others are sorted, by value where
all are numbers, else by their bytes.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _c
from ._embedding import from_device

_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_FEW = 1 << 20  # integers within a range like this are encoded by a table


@dataclass
class Variable:
    """One batch variable.

    Attributes
    ----------
    name
        For messages; None: "batch".
    level
        (n_cells,) int32, the level of every cell; -1 is a missing label.
    names
        The levels' names.
    cells
        The labels' index where they came with one, else None.
    """

    name: str | None
    level: np.ndarray
    names: list[str]
    cells: Any = None
    _keep: list[Any] = field(default_factory=list, repr=False)

    def batch(self) -> _c.Batch:
        """The C struct; valid while this object lives."""
        self.level = np.ascontiguousarray(self.level, np.int32)
        # A variable without any level has missing labels only; the library says so if it is told of
        # one level.
        names = [name.encode("utf-8", "replace") for name in self.names] or [b"none"]
        pointers = (ctypes.c_char_p * len(names))(*names)
        self._keep = [names, pointers]
        return _c.Batch(
            None if self.name is None else self.name.encode("utf-8", "replace"),
            len(self.level),
            len(names),
            self.level.ctypes.data,
            ctypes.cast(pointers, ctypes.POINTER(ctypes.c_char_p)),
        )


def missing(value: Any) -> bool:
    """Is it None, NaN, NaT or pandas.NA?"""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false
        return type(value).__name__ in ("NAType", "NaTType")


def _text_of(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, np.generic):
        return str(value.item())
    return str(value)


def _refuse_continuous(name: str | None, value: Any, cell: int) -> None:
    raise ValueError(
        f'"{name or "batch"}" holds numbers that are not whole (first {value} at cell {cell + 1}, '
        "from 1): a continuous variable is no batch; give it as covariates= to take out what is "
        "linear in it, or set force to take every distinct value as a level"
    )


def _sorted_levels(codes: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Merges levels of the same text and puts them in their final order."""
    distinct = list(dict.fromkeys(texts))
    if all(_NUMBER.fullmatch(text) for text in distinct):
        ordered = sorted(distinct, key=lambda text: (float(text), text.encode()))
    else:
        ordered = sorted(distinct, key=lambda text: text.encode("utf-8", "surrogatepass"))
    place = {text: i for i, text in enumerate(ordered)}
    table = np.array([place[text] for text in texts] + [-1], np.int32)  # code -1 finds the last
    return table[codes], ordered


def _whole(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers -> codes and the distinct ones."""
    if values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < _FEW:
            shifted = (values - values.dtype.type(low)).astype(np.int64)
            used = np.flatnonzero(np.bincount(shifted))
            table = np.zeros(high - low + 1, np.int64)
            table[used] = np.arange(len(used))
            return table[shifted], used + low
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(-1), distinct


def _from_numbers(
    values: np.ndarray, name: str | None, force: bool
) -> tuple[np.ndarray, list[str]]:
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    present = values[~gone] if gone.any() else values
    if values.dtype.kind == "f":
        odd = np.flatnonzero(~gone & (values != np.floor(values)))
        if len(odd) and not force:
            _refuse_continuous(name, values[odd[0]], int(odd[0]))
    if values.dtype.kind in "iu":
        found, distinct = _whole(present)
    else:
        distinct, found = np.unique(present, return_inverse=True)
    codes = np.full(len(values), -1, np.int64)
    codes[~gone] = found.reshape(-1)
    return _sorted_levels(codes, [_text_of(value) for value in distinct])


def _from_objects(array: np.ndarray, name: str | None, force: bool) -> tuple[np.ndarray, list[str]]:
    values = array.tolist()
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter(
            (seen.setdefault(value, len(seen)) for value in values), np.int64, len(values)
        )
    except TypeError:
        odd = next(
            (value for value in values if getattr(value, "__hash__", None) is None), values[0]
        )
        raise TypeError(
            f'"{name or "batch"}" has a {type(odd).__name__} as label; labels are texts, whole '
            "numbers or booleans. Give several variables as a DataFrame or a dict"
        ) from None
    texts: list[str] = []
    number = np.empty(len(seen) + 1, np.int64)
    number[-1] = -1
    for i, value in enumerate(seen):
        number[i] = -1
        if missing(value):
            continue
        if isinstance(value, (float, np.floating)) and not float(value).is_integer() and not force:
            _refuse_continuous(name, value, int(np.argmax(codes == i)))
        number[i] = len(texts)
        texts.append(_text_of(value))
    return _sorted_levels(number[codes], texts)


def _from_categorical(values: Any, name: str | None) -> tuple[np.ndarray, list[str]]:
    codes, texts = np.asarray(values.codes), [_text_of(value) for value in values.categories]
    if codes.size and int(codes.max()) >= len(texts):
        raise ValueError(
            f'"{name or "batch"}" is a corrupt categorical: code {codes.max()}, '
            f"but {len(texts)} categories"
        )
    if len(set(texts)) < len(texts):  # categories 1 and "1" are one level
        return _sorted_levels(codes, texts)
    return codes.astype(np.int32), texts


def _plain_array(labels: Any, name: str | None) -> np.ndarray:
    """One axis of labels as a NumPy array; objects where they are neither numbers nor booleans."""
    if isinstance(
        labels, (list, tuple)
    ):  # by way of objects: NumPy would make [1, "a", None] all text
        values = np.empty(len(labels), object)
        for i, label in enumerate(labels):
            values[i] = label
        return values
    labels = from_device(labels, f'"{name or "batch"}"')
    if np.ma.isMaskedArray(labels):
        values = np.array(labels.data, object)
        values[np.ma.getmaskarray(labels)] = None
    else:
        values = np.asarray(labels)
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1:
        raise ValueError(
            f'"{name or "batch"}" must be one label per cell, on one axis; '
            f"it has the shape {values.shape}"
        )
    if values.dtype.kind in "mM":  # times: as text, for as objects some units are bare integers
        texts = values.astype(str).astype(object)
        texts[np.isnat(values)] = None
        return texts
    return values


def encode(labels: Any, name: str | None = None, force: bool = False) -> Variable:
    """One variable from one column of labels.

    Parameters
    ----------
    labels
        (n_cells,) texts, whole numbers or booleans: list, array, Series, Categorical, ...
    name
        For messages; the Series' own by default.
    force
        Accept numbers that are not whole.
    """
    if isinstance(labels, Variable):
        return labels
    if isinstance(labels, (str, bytes)) or not hasattr(labels, "__len__"):
        raise TypeError(
            f"the labels are a {type(labels).__name__}; give one label per cell, as list, array, "
            "Series or Categorical"
        )
    own_name, cells = getattr(labels, "name", None), getattr(labels, "index", None)
    name = name if name is not None else None if own_name is None else str(own_name)
    cells = None if callable(cells) else cells  # a list's index is a method
    categorical = getattr(labels, "cat", labels)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        codes, names = _from_categorical(categorical, name)
        return Variable(name, codes, names, cells)
    values = _plain_array(labels, name)
    encoder = _from_numbers if values.dtype.kind in "fiub" else _from_objects
    codes, names = encoder(values, name, force)
    return Variable(name, codes, names, cells)


def joined(variables: Sequence[Variable], missing_is_level: bool = False) -> Variable:
    """One variable whose levels are the combinations that occur, in the order of their first cells:
    what the library makes of several variables with ``combine``.
    """
    codes = np.zeros(len(variables[0].level), np.int64)
    gone = np.zeros(len(codes), bool)
    for variable in variables:
        absent = variable.level < 0
        if not missing_is_level:
            gone |= absent
        level = np.where(absent, len(variable.names), variable.level)
        codes = codes * (len(variable.names) + 1) + level
        codes = np.unique(codes, return_inverse=True)[1].reshape(
            -1
        )  # stays small however many variables there are
    level = np.full(len(codes), -1, np.int32)
    _, first, place = np.unique(codes[~gone], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    level[~gone] = rank[place.reshape(-1)]
    cells = np.flatnonzero(~gone)[first[order]]
    names = [
        " | ".join(v.names[v.level[cell]] if v.level[cell] >= 0 else "(missing)" for v in variables)
        for cell in cells
    ]
    name = " | ".join(v.name or "batch" for v in variables)
    return Variable(name, level, names, variables[0].cells)


def encode_all(labels: Any, force: bool = False) -> list[Variable]:
    """The variables in a column of labels, a DataFrame, a dict or an array of two axes."""
    if hasattr(labels, "columns") and hasattr(labels, "__getitem__"):
        cells = getattr(labels, "index", None)
        found = [encode(labels[column], str(column), force) for column in labels.columns]
        for variable in found:
            variable.cells = cells
    elif isinstance(labels, dict):
        found = [encode(column, str(name), force) for name, column in labels.items()]
    elif isinstance(labels, np.ndarray) and labels.ndim == 2 and 1 not in labels.shape:
        found = [encode(labels[:, j], f"batch {j + 1}", force) for j in range(labels.shape[1])]
    elif (
        isinstance(labels, (list, tuple))
        and labels
        and all(isinstance(v, Variable) for v in labels)
    ):
        found = list(labels)
    else:
        found = [encode(labels, None, force)]
    if not found:
        raise ValueError("no batch variable was given; give labels for at least one")
    return found
