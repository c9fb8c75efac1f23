# SPDX-License-Identifier: BSD-3-Clause
"""Did a correction go too far, or rest on too little? The library's diagnosis, as arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _c, _labels
from ._embedding import Embedding, take
from ._labels import Variable

Table = dict[str, Any]

_PAIRS_MOST = 65536  # of level and cluster, in a record


def _lines(names: Any) -> str:
    return "\n".join(name.replace("\n", " ").replace("\r", " ") for name in names)


@dataclass
class Diagnostics:
    """What a correction did: tables, and sentences about what is worth a look.

    A table is a dict of arrays, one entry per row; ``pandas.DataFrame(diagnostics.levels)`` shows
    it. Lengths are Euclidean, in the embedding's units. Every number, and the thresholds of the
    warnings with what they were measured on, are in docs/diagnostics.md. NaN: not known.

    Attributes
    ----------
    warnings
        Sentences; empty where nothing stands out.
    findings
        Per warning: ``kind``, ``row`` (of levels or types), ``other``, ``value``, ``threshold``,
        ``more`` (found but not listed), ``text``.
    levels
        Per batch level: ``variable``, ``name``, ``cells``; ``length_median``, ``length_rms``,
        ``length_999``, ``length_max`` of the correction; ``distance`` from the other cells;
        ``spread`` before, ``spread_kept``; ``uncorrected`` share; ``pruned`` clusters; ``thin``
        clusters, ``thin_mass``.
    clusters
        Per cluster: ``mass``, ``length_median``, ``length_999``, ``length_max``, ``longest`` (row
        of levels), ``mixing``, ``levels``, ``pruned``, ``thin``. Empty without a run.
    types
        Per cell type: ``name``, ``cells``, ``levels`` that have it (types, variables),
        ``length_median``, ``length_999``, ``moved``, ``spread``, ``removed``, ``nearest`` (row of
        types), ``nearest_before``, ``nearest_after``. Empty without types.
    observed, expected, lambda_, length
        (levels, clusters): O, E, ridge penalty, length of W; None without a run.
    length_median, length_rms, length_999, length_max
        Of the correction, over all cells.
    """

    warnings: list[str]
    findings: list[Table]
    levels: Table
    clusters: Table
    types: Table
    observed: np.ndarray | None
    expected: np.ndarray | None
    lambda_: np.ndarray | None
    length: np.ndarray | None
    length_median: float
    length_rms: float
    length_999: float
    length_max: float

    def record(self) -> dict[str, Any]:
        """What the program writes to ``uns``, under the same names."""
        out: dict[str, Any] = {}
        if self.findings:
            out["findings"] = _lines(self.warnings)
            out["finding_kinds"] = _lines(f["kind"] for f in self.findings)
        out["levels"] = _lines(self.levels["name"])
        for prefix, table in (("level", self.levels), ("cluster", self.clusters)):
            for name, values in table.items():
                if name not in ("name", "variable") and len(values):
                    out[f"{prefix}_{name}"] = values
        if self.observed is not None and 0 < self.observed.size <= _PAIRS_MOST:
            for name in ("observed", "expected", "lambda_", "length"):
                out["pair_" + name.rstrip("_")] = getattr(self, name).ravel()
        return out

    def __repr__(self) -> str:
        n = len(self.warnings)
        return f"<unisono.Diagnostics: {n} warning{'' if n == 1 else 's'}>"


def _rows(pointer: Any, n: int) -> list[dict[str, Any]]:
    return [
        {name: getattr(pointer[i], name) for name, *_ in pointer._type_._fields_} for i in range(n)
    ]


def _table(pointer: Any, n: int) -> Table:
    """Rows of a C array as one array per member."""
    rows, out = _rows(pointer, n), {}
    for name, *_ in pointer._type_._fields_:
        values = [row[name] for row in rows]
        if values and isinstance(values[0], bytes):
            values = [_c.text(value) for value in values]
        elif values and isinstance(values[0], ctypes.Array):
            values = [list(value) for value in values]
        out[name] = np.array(values)
    return out


def _pairs(pointer: Any, shape: tuple[int, int]) -> np.ndarray | None:
    return np.ctypeslib.as_array(pointer, shape).copy() if pointer else None


def _copied(d: _c.Diagnosis, variables: Sequence[Variable]) -> Diagnostics:
    findings = _rows(d.findings, d.n_findings)
    for finding in findings:
        finding["kind"], finding["text"] = _c.text(finding.pop("name")), _c.text(finding["text"])
    levels, types = _table(d.levels, d.n_levels), _table(d.types, d.n_types)
    del levels["level"]
    names = [v.name or "batch" for v in variables]
    if d.n_variables < len(names):  # the run combined them
        names = [" | ".join(names)]
    levels["variable"] = np.array([names[v] for v in levels["variable"]])
    if len(types["levels"]):
        types["levels"] = types["levels"][:, : d.n_variables]
    shape = (d.n_levels, d.n_clusters)
    return Diagnostics(
        warnings=[finding["text"] for finding in findings],
        findings=findings,
        levels=levels,
        clusters=_table(d.clusters, d.n_clusters),
        types=types,
        observed=_pairs(d.observed, shape),
        expected=_pairs(d.expected, shape),
        lambda_=_pairs(getattr(d, "lambda"), shape),
        length=_pairs(d.length, shape),
        length_median=d.length_median,
        length_rms=d.length_rms,
        length_999=d.length_999,
        length_max=d.length_max,
    )


def diagnose_arrays(
    run: int | None,
    before: Embedding,
    after: Embedding,
    variables: Sequence[Variable],
    types: Variable | None,
    threads: int = 0,
) -> Diagnostics:
    """``uni_diagnose``; run: its pointer, or None."""
    found = ctypes.POINTER(_c.Diagnosis)()
    batches = (_c.Batch * len(variables))(*(variable.batch() for variable in variables))
    type_batch = types.batch() if types is not None else None
    m_before, m_after = before.matrix(), after.matrix()
    _c.check(
        _c.library.uni_diagnose(
            ctypes.byref(found),
            run,
            ctypes.byref(m_before),
            ctypes.byref(m_after),
            batches,
            len(variables),
            None if type_batch is None else ctypes.byref(type_batch),
            threads,
        )
    )
    try:
        return _copied(found.contents, variables)
    finally:
        _c.library.uni_diagnosis_close(found)


def encode_types(types: Any) -> Variable | None:
    if types is None:
        return None
    variable = _labels.encode(types, None)
    if variable.name is None:
        variable.name = "cell type"
    return variable


def diagnose(
    before: Any, after: Any, labels: Any, types: Any = None, *, threads: int = 0
) -> Diagnostics:
    """Compares an embedding with what any integration made of it.

    For a result of :func:`unisono.harmonize`, :meth:`unisono.Result.diagnose` knows more.

    Parameters
    ----------
    before, after : (n_cells, n_dims)
        As :func:`unisono.harmonize` takes an embedding.
    labels : (n_cells,)
        The batch of each cell, or several variables, as :func:`unisono.harmonize` takes them.
        Cells without a label are left out.
    types : (n_cells,), optional
        The cell type of each cell; missing where it is not known.
    threads : int, default 0
        0: the CPUs that this process may use. The numbers do not depend on it.

    Examples
    --------
    >>> import numpy as np, unisono
    >>> Z = np.array([[0.0], [1.0], [2.0], [3.0]] * 20)
    >>> found = unisono.diagnose(Z, Z + 1, ["a", "a", "b", "b"] * 20)
    >>> found.warnings, found.levels["length_median"]
    ([], array([1., 1.]))
    """
    return diagnose_arrays(
        None, take(before), take(after), _labels.encode_all(labels), encode_types(types), threads
    )
