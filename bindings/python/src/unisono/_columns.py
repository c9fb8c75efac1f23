# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a table, and seeds, as the front ends' callers give them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _labels
from ._labels import Variable
from ._numbers import numbers


def keys_of(key: str | Sequence[str]) -> list[Any]:
    """One key or several, as a list."""
    if isinstance(key, str) or not hasattr(key, "__iter__"):
        return [key]
    keys = list(key)
    if not keys:
        raise ValueError("no batch variable was given; name at least one column")
    twice = [k for i, k in enumerate(keys) if k in keys[:i]]
    if twice:
        raise ValueError(f"the column {twice[0]!r} is named twice")
    return keys


def no_such(where: str, kind: str, name: Any, names: Sequence[Any]) -> ValueError:
    """An error that suggests what may have been meant."""
    shown = [str(n) for n in names]
    near = difflib.get_close_matches(str(name), shown, n=3, cutoff=0.5)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    rest = (
        f"; all: {', '.join(shown)}" if 0 < len(shown) <= 12 else "" if shown else "; it has none"
    )
    return ValueError(f'{where} has no {kind} "{name}"{hint}{rest}')


def variables_of(table: Any, key: str | Sequence[str], where: str, force: bool) -> list[Variable]:
    """The batch variables that are columns of a DataFrame, or anything with ``table[name]``."""
    return [
        _labels.encode(column_of(table, name, where), str(name), force) for name in keys_of(key)
    ]


def column_of(table: Any, name: Any, where: str) -> Any:
    """A column of a DataFrame, or of anything with ``table[name]``."""
    names = list(
        table.columns
        if hasattr(table, "columns")
        else table.keys()
        if hasattr(table, "keys")
        else []
    )
    if names and name not in names:
        raise no_such(where, "column", name, names)
    return table[name]


def numbers_of(table: Any, given: Any, where: str) -> Any:
    """Names of columns as the columns; anything else as it is."""
    if isinstance(given, str):
        return numbers(column_of(table, given, where), given)
    if isinstance(given, (list, tuple)) and given and all(isinstance(v, str) for v in given):
        return [numbers(column_of(table, name, where), name) for name in given]
    return given


def seed_of(random_state: Any) -> Any:
    """A seed from an integer or a generator; None is the default seed.

    The generator is asked once. NumPy's global one is never touched.
    """
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, np.random.SeedSequence):
        random_state = np.random.default_rng(random_state)
    if isinstance(random_state, np.random.BitGenerator):
        random_state = np.random.Generator(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 2**31 - 1))
    return random_state


def automatic(lamb: Any) -> bool:
    """Does harmonypy's ``lamb`` ask for the automatic penalty? None and -1 do."""
    if lamb is None or isinstance(lamb, str):
        return lamb is None
    return np.size(lamb) == 1 and np.reshape(lamb, -1)[0] == -1
