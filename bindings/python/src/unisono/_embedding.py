# SPDX-License-Identifier: BSD-3-Clause
"""Whatever holds an embedding -> a NumPy array that the library can read in place."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _c
from ._log import logger

_CPU = (1, 3, 13)  # DLPack's kCPU, kCUDAHost, kROCMHost: memory that this process can read


@dataclass
class Embedding:
    """An embedding as it came.

    Attributes
    ----------
    values
        (n_cells, n_dims) float32 or float64, any strides. The caller's own memory wherever it can
        be read as it is.
    cells
        The index of a DataFrame, else None.
    columns
        The columns of a DataFrame, else None.
    """

    values: np.ndarray
    cells: Any = None
    columns: Any = None

    def matrix(self) -> _c.Matrix:
        """The C struct; valid while this object lives."""
        v = self.values
        dtype = _c.Dtype.FLOAT64 if v.dtype == np.float64 else _c.Dtype.FLOAT32
        return _c.Matrix(ctypes.c_void_p(v.ctypes.data), dtype, v.shape[0], v.shape[1], *v.strides)


def from_device(data: Any, what: str) -> Any:
    """Memory of a GPU on this machine's; other objects as they are."""
    device = data.__dlpack_device__()[0] if hasattr(data, "__dlpack_device__") else _CPU[0]
    if not hasattr(data, "__cuda_array_interface__") and device in _CPU:
        return data
    for method in ("get", "cpu", "copy_to_host"):  # CuPy, torch, Numba
        if hasattr(data, method):
            logger.info("%s: copied from the device to this machine's memory", what)
            return getattr(data, method)()
    raise TypeError(
        f"{what} ({type(data).__name__}) lies on a device and has no way to copy it to this "
        "machine's memory; give it as a NumPy array"
    )


class _Shape:
    """What is asked of an embedding's values here, where these lie on a card."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape


class OnCard(Embedding):
    """An embedding in the memory of a card, which the library reads where it is.

    Attributes
    ----------
    stream
        A cudaStream_t in whose order the values are ready; None is the default stream.
    """

    def __init__(self, data: Any, interface: dict[str, Any], stream: int | None) -> None:
        super().__init__(_Shape(interface["shape"]))  # type: ignore[arg-type]
        self._data, self._interface = data, interface  # data keeps the memory
        self.stream = stream

    def matrix(self) -> _c.Matrix:
        pointer, dtype = self._interface["data"][0], np.dtype(self._interface["typestr"])
        shape = self._interface["shape"]
        strides = self._interface.get("strides") or (shape[1] * dtype.itemsize, dtype.itemsize)
        kind = _c.Dtype.FLOAT64 if dtype.itemsize == 8 else _c.Dtype.FLOAT32
        return _c.Matrix(ctypes.c_void_p(pointer), kind, *shape, *strides)


def on_card(data: Any) -> OnCard | None:
    """What the library can read on the card: two axes of float32 or float64; None: it is not so."""
    if hasattr(data, "detach"):  # torch refuses the interface to what takes part in a gradient
        data = data.detach()
    interface = getattr(data, "__cuda_array_interface__", None)
    if not interface or interface.get("mask") is not None or len(interface["shape"]) != 2:
        return None
    dtype = np.dtype(interface["typestr"])
    if dtype.newbyteorder("=") not in (np.float32, np.float64) or not dtype.isnative:
        return None
    stream = interface.get("stream")
    if stream == 2:  # the calling thread's own, and the run has a thread of its own
        return None
    torch = sys.modules.get("torch")
    if stream is None and torch is not None and isinstance(data, torch.Tensor):
        stream = torch.cuda.current_stream(data.device).cuda_stream
    return OnCard(data, interface, stream)


def _as_array(data: Any) -> np.ndarray:
    if isinstance(data, np.ndarray):
        return data
    data = from_device(data, "the embedding")
    if hasattr(
        data, "detach"
    ):  # a torch tensor that takes part in a gradient can be read only apart from it
        data = data.detach()
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        logger.info("the embedding is sparse and is made dense")
        return np.asarray(data.toarray())
    if (
        hasattr(data, "__dlpack__")
        and not hasattr(data, "__array_interface__")
        and hasattr(np, "from_dlpack")
    ):
        try:
            return np.from_dlpack(data)
        except (BufferError, RuntimeError, TypeError):
            pass  # read-only memory, or a type that NumPy's DLPack does not know: asarray then
    return np.asarray(data)


def _as_float(values: np.ndarray) -> np.ndarray:
    """float32 or float64 in this machine's byte order; no copy where it is that already."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" and size in (4, 8):
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    if kind in "buif":  # what has at most 16 bits fits into a float32 as it is
        return values.astype(np.float32 if size <= 2 else np.float64)
    if kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"the embedding holds something that is no number ({error})") from None
    raise TypeError(f"the embedding has elements of type {values.dtype}; it must hold real numbers")


def take(data: Any) -> Embedding:
    """The embedding in ``data``; copies only what the library cannot read in place."""
    cells = columns = None
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        cells, columns = data.index, data.columns
        odd = [
            str(name)
            for name, dtype in zip(columns, data.dtypes)
            if getattr(dtype, "kind", "O") not in "fiub"
        ]
        if odd:
            raise TypeError(
                f"column {odd[0]!r} of the embedding holds no numbers; choose the numeric columns"
            )
        plain = all(isinstance(dtype, np.dtype) for dtype in data.dtypes)
        values = data.to_numpy() if plain else data.to_numpy(dtype=np.float64, na_value=np.nan)
    elif np.ma.isMaskedArray(data):
        values = np.array(data.data, np.promote_types(data.dtype, np.float32))
        values[np.ma.getmaskarray(data)] = np.nan
    else:
        values = _as_array(data)
    if values.ndim != 2:
        shape = "x".join(map(str, values.shape)) or "one value"
        raise ValueError(
            f"the embedding must have two axes, cells x dimensions; this one is {shape}"
        )
    values = _as_float(np.asarray(values))
    if values.strides == (0, 0):  # a broadcast scalar; to the library two zero strides mean C order
        values = np.array(values, order="C")
    return Embedding(values, cells, columns)
