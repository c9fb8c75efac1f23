# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of any kind, one for every cell: weights, and variables to regress out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._labels import missing


@dataclass
class Numbers:
    """A number for every cell.

    Attributes
    ----------
    name
        For messages.
    value
        (n_cells,) float64.
    cells
        The index they came with, else None.
    """

    name: str
    value: np.ndarray
    cells: Any = None

    def at(self, cells: np.ndarray) -> Numbers:
        return Numbers(self.name, np.ascontiguousarray(self.value[cells]))


def _first_bad(values: list[Any]) -> tuple[int, Any]:
    """The first that is no number; None: it is missing."""
    for i, value in enumerate(values):
        if missing(value):
            return i, None
        try:
            float(value)
        except (TypeError, ValueError):
            return i, value
        if isinstance(value, (str, bytes)):
            return i, value
    return -1, None


def _refuse(name: str, cell: int, value: Any) -> None:
    what = "has no number" if value is None else f"holds {value!r}"
    raise ValueError(f'"{name}" {what} at cell {cell + 1} (from 1); every cell needs a number')


def numbers(data: Any, name: str) -> Numbers:
    """One column of numbers: list, array, Series, ...; nothing may be missing, and texts are none.

    Parameters
    ----------
    data
        (n_cells,)
    name
        For messages, where the column has none of its own.
    """
    if isinstance(data, Numbers):
        return data
    if isinstance(data, (str, bytes)) or not hasattr(data, "__len__"):
        raise TypeError(f"{name} is a {type(data).__name__}; give one number per cell")
    own_name, cells = getattr(data, "name", None), getattr(data, "index", None)
    name = name if own_name is None else str(own_name)
    cells = None if callable(cells) else cells
    categorical = getattr(data, "cat", data)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        data = np.asarray(data, object)
    for method in ("get", "cpu"):  # CuPy, torch on a device
        if hasattr(data, "__cuda_array_interface__") and hasattr(data, method):
            data = getattr(data, method)()
    if np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    values = np.asarray(data)
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1:
        raise ValueError(f'"{name}" must be one number per cell; it has the shape {values.shape}')
    if values.dtype.kind not in "fiub":
        cell, value = _first_bad(list(data) if isinstance(data, (list, tuple)) else values.tolist())
        if cell >= 0:
            _refuse(name, cell, value)
    found = np.ascontiguousarray(values, np.float64)
    if np.isnan(found).any():
        _refuse(name, int(np.argmax(np.isnan(found))), None)
    return Numbers(name, found, cells)


def covariates_of(data: Any) -> list[Numbers]:
    """The variables in a column of numbers, a DataFrame, a dict or an array (n_cells, n)."""
    if data is None:
        return []
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        found = [numbers(data[column], str(column)) for column in data.columns]
        for variable in found:
            variable.cells = getattr(data, "index", None)
        return found
    if isinstance(data, dict):
        return [numbers(column, str(name)) for name, column in data.items()]
    if isinstance(data, (list, tuple)) and data and all(isinstance(v, Numbers) for v in data):
        return list(data)
    if isinstance(data, np.ndarray) and data.ndim == 2 and 1 not in data.shape:
        return [numbers(data[:, j], f"covariate {j + 1}") for j in range(data.shape[1])]
    return [numbers(data, "covariate")]
