# SPDX-License-Identifier: BSD-3-Clause
"""The embedding in every shape that a caller may have it in."""

import hashlib

import numpy as np
import pytest
import unisono
from conftest import alternating, close, closed_form, made
from unisono import _c
from unisono._embedding import on_card

CLOSED = closed_form(made(60, 3), alternating(60))


def run(Z, **options):
    return unisono.harmonize(Z, alternating(60), **options).embedding


class OnlyInterface:
    """Has __array_interface__ and nothing else."""

    def __init__(self, array):
        self.array = array  # keeps the memory
        self.__array_interface__ = array.__array_interface__


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnDevice(OnlyInterface):
    """As CuPy has it: an interface to memory that this process cannot read, and a way to get it."""

    def __init__(self, array, **more):
        self.array = array
        self.__cuda_array_interface__ = dict(array.__array_interface__, **more)

    def get(self):
        return self.array


class Tensor(OnlyDLPack):
    """As torch has it: DLPack is refused while the tensor takes part in a gradient."""

    needs_gradient = True

    def __dlpack__(self, **arguments):
        if self.needs_gradient:
            raise BufferError("Can't export tensors that require gradient")
        return super().__dlpack__(**arguments)

    def detach(self):
        other = Tensor(self.array)
        other.needs_gradient = False
        return other


LAYOUTS = {
    "c": lambda Z: np.ascontiguousarray(Z),
    "fortran": lambda Z: np.asfortranarray(Z),
    "rows backwards": lambda Z: np.ascontiguousarray(Z[::-1])[::-1],
    "columns backwards": lambda Z: np.ascontiguousarray(Z[:, ::-1])[:, ::-1],
    "every second column": lambda Z: np.repeat(Z, 2, axis=1)[:, ::2],
    "every second row": lambda Z: np.repeat(Z, 2, axis=0)[1::2],
    "both backwards, fortran": lambda Z: np.asfortranarray(Z[::-1, ::-1])[::-1, ::-1],
    "transposed view": lambda Z: np.ascontiguousarray(Z.T).T,
    "field of records": lambda Z: _records(Z),
    "other byte order": lambda Z: Z.astype(Z.dtype.newbyteorder()),
    "not aligned": lambda Z: _not_aligned(Z),
    "__array_interface__": OnlyInterface,
    "dlpack": OnlyDLPack,
    "device": OnDevice,
    "tensor": Tensor,
}


def _records(Z):
    records = np.zeros(Z.shape, [("pad", "i1"), ("x", Z.dtype)])
    records["x"] = Z
    return records["x"]


def _not_aligned(Z):
    bytes_ = np.zeros(Z.nbytes + 1, np.uint8)
    other = bytes_[1:].view(Z.dtype).reshape(Z.shape)
    other[...] = Z
    return other


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_p94_any_layout_gives_the_same_bytes(Z, layout, dtype):
    Z = Z.astype(dtype)
    expected = run(Z, clusters=2).tobytes()
    other = LAYOUTS[layout](Z)
    before = np.array(getattr(other, "array", other)).tobytes()
    assert run(other, clusters=2).tobytes() == expected
    assert np.array(getattr(other, "array", other)).tobytes() == before


def test_p94_read_only_memmap(Z, tmp_path):
    np.save(tmp_path / "Z.npy", Z.astype("f"))
    digest = hashlib.sha256((tmp_path / "Z.npy").read_bytes()).digest()
    mapped = np.load(tmp_path / "Z.npy", mmap_mode="r")
    assert run(mapped, clusters=2).tobytes() == run(Z.astype("f"), clusters=2).tobytes()
    assert hashlib.sha256((tmp_path / "Z.npy").read_bytes()).digest() == digest
    Z.flags.writeable = False
    run(Z)


def test_no_copy_of_what_can_be_read_in_place(Z):
    from unisono._embedding import take

    for dtype in (np.float32, np.float64):
        for view in (Z.astype(dtype), Z.astype(dtype)[::-1, ::2], np.asfortranarray(Z, dtype)):
            assert take(view).values is view or np.shares_memory(take(view).values, view)
    flat = Z.astype("f")
    assert np.shares_memory(take(OnlyDLPack(flat)).values, flat)
    assert np.shares_memory(take(OnlyInterface(flat)).values, flat)


def test_a_broadcast_embedding_is_not_read_past_its_end():
    scalar = np.broadcast_to(np.float32(3), (60, 3))
    row = np.broadcast_to(made(1, 3).astype("f"), (60, 3))
    for Z in (scalar, row):
        with pytest.warns(unisono.UnisonoWarning):  # fewer distinct cells than clusters
            assert run(Z, clusters=2).tobytes() == run(np.array(Z), clusters=2).tobytes()


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "g", ">f4", ">f8", "i1", "i2", "i4", "i8", "u1", "u8", "?"]
)
def test_p97_any_real_type(Z, dtype):
    given = (
        (Z * 20).round().astype(dtype) if dtype[-2:-1] != "f" and dtype != "g" else Z.astype(dtype)
    )
    if dtype.startswith("u"):
        given = np.abs(Z * 20).round().astype(dtype)
    result = run(given, clusters=1)
    assert result.dtype == np.float32
    assert close(result, closed_form(given.astype(float), alternating(60)), given.astype(float))


def test_p97_objects_and_lists(Z):
    assert close(run(Z.astype(object), clusters=1), CLOSED, Z)
    assert close(run(Z.tolist(), clusters=1), CLOSED, Z)
    assert close(run(np.asmatrix(Z), clusters=1), CLOSED, Z)


def test_p97_masked_values_are_missing(Z):
    masked = np.ma.masked_array(Z, np.zeros(Z.shape, bool))
    assert close(run(masked, clusters=1), CLOSED, Z)
    masked[4, 1] = np.ma.masked
    with pytest.raises(ValueError, match="row 5, column 2"):
        run(masked)


@pytest.mark.parametrize("layout", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array"])
def test_p97_sparse(Z, layout):
    sparse = pytest.importorskip("scipy.sparse")
    assert close(run(getattr(sparse, layout)(Z), clusters=1), CLOSED, Z)


def test_p97_p40_data_frame_keeps_names(Z):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(Z, [f"cell {i}" for i in range(60)], ["PC1", "PC2", "PC3"])
    result = run(frame, clusters=1)
    assert isinstance(result, pd.DataFrame) and close(result, CLOSED, Z)
    assert result.index.equals(frame.index) and result.columns.equals(frame.columns)
    for other in (frame.astype("Float64"), frame.astype(pd.SparseDtype("float64"))):
        assert close(run(other, clusters=1), CLOSED, Z)
    with pytest.raises(TypeError, match="'kind'"):
        run(frame.assign(kind="x"))


def test_p38_shape_is_the_input_s(Z):
    assert run(Z).shape == Z.shape and run(Z).flags.c_contiguous
    assert run(Z, dtype=np.float64).dtype == np.float64
    with pytest.raises(TypeError, match="dtype"):
        run(Z, dtype=int)


def test_p39_never_turned_around(Z):
    with pytest.raises(ValueError, match="3x60.*transpose"):
        run(Z.T)
    with pytest.raises(ValueError, match="60 labels for an embedding of 59x3"):
        run(Z[:59])


@pytest.mark.parametrize(
    ("bad", "error", "word"),
    [
        (np.zeros(60), ValueError, "two axes"),
        (np.zeros((60, 3, 1)), ValueError, "60x3x1"),
        (3.0, ValueError, "two axes"),
        (np.zeros((60, 3), complex), TypeError, "complex"),
        (np.full((60, 3), "x"), TypeError, "real numbers"),
        (np.full((60, 3), None), ValueError, "non-finite"),
        (np.full((60, 3), "x", object), TypeError, "no number"),
        (np.zeros((60, 0)), ValueError, "0 dimensions"),
    ],
)
def test_what_is_no_embedding(bad, error, word):
    with pytest.raises(error, match=word):
        run(bad)


def test_on_a_device_without_a_way_back(Z):
    device = OnDevice(Z)
    device.__dict__["get"] = None
    nothing = type("Nothing", (), {"__cuda_array_interface__": Z.__array_interface__})()
    with pytest.raises(TypeError, match="device"):
        run(nothing)


class DeviceDLPack:
    """Memory of a GPU (DLPack's kDLCUDA) that nothing here can read."""

    def __len__(self):
        return 60

    def __dlpack__(self, **arguments):
        raise BufferError("not on the CPU")

    def __dlpack_device__(self):
        return (2, 0)


def test_labels_on_a_device(Z):
    codes = np.arange(60) % 2
    expected = unisono.harmonize(Z, codes, clusters=2).embedding.tobytes()
    device = OnDevice(codes)
    device.__class__ = type("Labels", (OnDevice,), {"__len__": lambda self: 60})
    assert unisono.harmonize(Z, device, clusters=2).embedding.tobytes() == expected


@pytest.mark.parametrize("which", ["the embedding", '"batch"'])
def test_a_device_array_without_a_way_back_is_named(Z, which):
    given = (DeviceDLPack(), alternating(60)) if which == "the embedding" else (Z, DeviceDLPack())
    with pytest.raises(TypeError, match=f"{which} \\(DeviceDLPack\\) lies on a device"):
        unisono.harmonize(*given)


def test_what_lies_on_a_card_is_read_there(Z):
    device = OnDevice(np.asfortranarray(Z, np.float32))
    device.__cuda_array_interface__["stream"] = 7
    there = on_card(device)
    matrix = there.matrix()
    assert (matrix.data, matrix.dtype) == (device.array.ctypes.data, _c.Dtype.FLOAT32)
    assert (matrix.n_cells, matrix.n_dims) == there.values.shape == Z.shape
    assert (matrix.row_stride, matrix.col_stride) == device.array.strides
    assert there.stream == 7
    plain = on_card(OnDevice(np.ascontiguousarray(Z, np.float64))).matrix()
    assert (plain.dtype, plain.row_stride, plain.col_stride) == (1, 8 * Z.shape[1], 8)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((4, 2)),
        OnDevice(np.zeros((4, 2), np.float16)),
        OnDevice(np.zeros((4, 2), np.int32)),
        OnDevice(np.zeros((4, 2)).astype(np.dtype(float).newbyteorder())),
        OnDevice(np.zeros(4)),
        OnDevice(np.zeros((4, 2)), stream=2),
        DeviceDLPack(),
    ],
)
def test_what_is_copied_from_a_card(data):
    assert on_card(data) is None
