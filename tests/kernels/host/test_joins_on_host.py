"""Sorts of several CuPy chunks as one array, run on the CPU, against those of NumPy chunks."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
from support import strategies as ours
from support.host_cuda.device import POISON
from support.host_kernels import LSD_TILE, replace_cupy_of_steps, use_small_merges

from dask_gpusort import kernels
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.kernels import complex_keys
from dask_gpusort.kernels.msd import msd
from dask_gpusort.kernels.wide import columns
from dask_gpusort.order import Order, of_words

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
cupy_sorts = pytest.importorskip("dask_gpusort.chunk.cupy_sorts")

SIZES = (0, 700, 1500, 1, LSD_TILE)
TOTAL = sum(SIZES)  # LSD passes leave out the bytes that all of so many keys share
LESS = "a % 10 < b % 10"

#: Every dtype with a code, and directions. Those without the mark are in the default run.
CODED = [
    pytest.param(dtype, descending, marks=() if (dtype, descending) in chosen else pytest.mark.thorough)
    for chosen in [{("f4", False), ("i8", True)}]
    for dtype in ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "M8[s]", "m8[s]")
    for descending in (False, True)
]
OTHERS = {
    "complex": Order(np.dtype("c16"), stable=True),
    "descending complex": Order(np.dtype("c16"), descending=True, stable=True),
    "words": of_words(2),
    "less": Order(np.dtype("u4"), stable=True, less=LESS),
}


def calls(recorder):
    """Kernel calls of the tests in the default run, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_merges(patch)
        for case in CODED:
            if not case.marks:
                record_sorts_of_codes(recorder, *case.values)
        recorder.record(kernels.argsort_words, recorder.empty((TOTAL, 2), "u8"))
        recorder.record(kernels.sort_by_comparison, recorder.empty(TOTAL, "u4"), less=LESS)
        recorder.record(kernels.argsort_by_comparison, recorder.empty(TOTAL, "u4"), less=LESS)
        # In the values that the recorder reads back no bit varies, so widths are given here.
        patch.setattr(complex_keys, "read_widths", lambda ranges: [columns.Width(0, 0, 64)] * 2)
        for sort in (kernels.sort_wide, kernels.argsort_wide):
            recorder.record(sort, recorder.empty(TOTAL, "c16"))


def record_sorts_of_codes(recorder, dtype, descending):
    keys = recorder.empty(TOTAL, dtype)
    for algorithm in ("auto", "lsd"):
        options = {"descending": descending, "algorithm": algorithm}
        recorder.record(kernels.sort_keys, keys, stable=True, **options)
        recorder.record(kernels.argsort, keys, out=recorder.empty(TOTAL, "i8"), **options)
    recorder.record(kernels.sort_pairs, keys, recorder.empty(TOTAL, "f8"), descending=descending)


@pytest.fixture(autouse=True)
def steps(device, monkeypatch):
    use_small_merges(monkeypatch)
    replace_cupy_of_steps(monkeypatch, device.cupy)


def parts_of(array):
    return [array[start:stop] for start, stop in pairwise(accumulate(SIZES, initial=0))]


def strided(device, part):
    return device.array(np.repeat(part, 2, axis=0))[::2]


LAYOUTS = {
    "neighbours": lambda device, array: parts_of(device.array(array)),
    "apart": lambda device, array: [device.array(part) for part in parts_of(array)],
    "strided": lambda device, array: [strided(device, part) for part in parts_of(array)],
    "one": lambda device, array: [device.array(array)],
    "one strided": lambda device, array: [strided(device, array)],
}


def assert_same_bits(got, wanted):
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == np.ascontiguousarray(wanted).tobytes()


def check_sorts(device, keys, order, layout):
    """Sort chunks of keys alone, with positions and with values; the chunks stay as they were."""
    host_order = order if order.less is None else replace(order, less=lambda a, b: a % 10 < b % 10)
    values = np.arange(len(keys), dtype="f8"), np.arange(2 * len(keys), dtype="i2").reshape(-1, 2)
    given = [LAYOUTS[layout](device, array) for array in (keys, *values)]
    before = [np.array(chunk) for column in given for chunk in column]
    found = [cupy_ops.argsort_chunks(given[0], order)]
    assert_same_bits(found[-1], numpy_ops.argsort_chunks([keys], host_order))
    if not order.words:
        found.append(cupy_ops.sort_chunks(given[0], order))
        assert_same_bits(found[-1], numpy_ops.sort_chunks([keys], host_order))
    for companions in ((), (1,), (1, 2)):
        for with_keys in (False, True):
            columns, arrays = [given[number] for number in companions], [[values[number - 1]] for number in companions]
            got = cupy_ops.sort_chunks_by_key(given[0], columns, order, with_keys=with_keys)
            wanted = numpy_ops.sort_chunks_by_key([keys], arrays, host_order, with_keys=with_keys)
            for one, other in zip(got, wanted, strict=True):
                assert_same_bits(one, other)
            found += got
    for chunk, old in zip((chunk for column in given for chunk in column), before, strict=True):
        assert np.asarray(chunk).tobytes() == old.tobytes()
        assert not any(np.shares_memory(chunk, array) for array in found)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "descending"), CODED)
def test_sorts_by_codes(device, dtype, descending, layout):
    for distribution in ("bits", "special"):
        keys = ours.make(dtype, TOTAL, distribution)
        check_sorts(device, keys, Order(keys.dtype, descending, stable=True), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.thorough if "descending" in kind else ()) for kind in OTHERS]
)
def test_other_sorts(device, kind, layout):
    order = OTHERS[kind]
    rng = np.random.default_rng(1)
    if order.words:
        keys = rng.integers(0, 9, (TOTAL, order.words)).astype("u8")
    else:
        keys = ours.make(order.dtype, TOTAL, "bits" if order.less else "special")
    check_sorts(device, keys, order, layout)


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("byte", [0, 1, 2])
@pytest.mark.parametrize(("dtype", "descending"), [("f4", False), ("i8", True)])
def test_keys_that_differ_in_one_byte(device, monkeypatch, dtype, descending, byte, passes):
    # One LSD pass reads the keys while it writes the sorted keys or the positions, which take their memory.
    if passes:
        monkeypatch.setattr(msd, "sort", lambda *arguments, **options: False)
    codes = np.random.default_rng(byte).integers(0, 256, TOTAL) << 8 * byte
    keys = (codes | 0x3F000000).astype("u4").view("f4") if dtype == "f4" else codes
    check_sorts(device, keys, Order(keys.dtype, descending, stable=True), "apart")


def test_empty_chunks(device):
    for dtype in ("f4", "c16"):
        order = Order(np.dtype(dtype), stable=True)
        for sizes in ((0,), (0, 0)):
            chunks = [device.array(np.empty(size, dtype)) for size in sizes]
            rows = [device.array(np.empty((size, 3), "i2")) for size in sizes]
            assert_same_bits(cupy_ops.sort_chunks(chunks, order), np.empty(0, dtype))
            assert_same_bits(cupy_ops.argsort_chunks(chunks, order), np.empty(0, "i8"))
            moved = cupy_ops.sort_chunks_by_key(chunks, [rows, chunks], order, with_keys=False)
            assert [array.shape for array in moved] == [(0, 3), (0,)]


# Concatenation.


@pytest.mark.parametrize("shape", [(TOTAL,), (TOTAL, 3)])
def test_neighbours_in_memory_are_not_copied(device, shape):
    whole = device.array(np.arange(np.prod(shape), dtype="i4").reshape(shape))
    for chunks in (parts_of(whole), parts_of(whole)[2:4], [whole], [whole[3:4]]):
        joined, copied = cupy_sorts.concatenate_chunks(chunks)
        assert not copied
        assert joined.data.ptr == chunks[0].data.ptr
        assert_same_bits(joined, np.concatenate(chunks))


def test_other_chunks_are_copied(device):
    whole, other = (device.array(np.arange(start, start + 60, dtype="i4")) for start in (0, 100))
    matrix = device.array(np.arange(60).reshape(10, 6))
    for chunks in (
        [whole[30:], whole[:30]],
        [whole[:30], whole[31:]],
        [whole[:30], whole[29:]],
        [whole, whole],
        [whole, other],
        [whole[:30], other[30:]],
        [whole[::2], whole[1::2]],
        [whole[::-1]],
        [matrix[:, :3], matrix[:, 3:]],
        [matrix.T],
        [whole, other[:0], whole],
        [whole[:30], whole[30:].view("f4")],
        [whole.astype("i2"), whole],
    ):
        joined, copied = cupy_sorts.concatenate_chunks(chunks)
        assert copied
        assert not any(np.shares_memory(joined, chunk) for chunk in chunks)
        assert_same_bits(joined, np.concatenate(chunks))


def test_rows_of_other_lengths_are_refused(device):
    # Neighbours in memory, so that one array could have them all.
    whole = device.array(np.arange(30))
    with pytest.raises(ValueError, match="dimension"):
        cupy_sorts.concatenate_chunks([whole[:10].reshape(5, 2), whole[10:].reshape(5, 4)])


@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
def test_a_copy_begins_the_memory_that_is_given(device, dtype):
    array = ours.make(dtype, TOTAL, "bits")
    memory = device.empty(TOTAL, "i8")
    joined, copied = cupy_sorts.concatenate_chunks(LAYOUTS["apart"](device, array), memory)
    assert copied
    assert joined.data.ptr == memory.data.ptr
    assert_same_bits(joined, array)
    octets = np.asarray(memory).view("u1")
    assert (octets[array.nbytes :] == POISON).all()
    # Neighbours stay where they are.
    memory[:] = 0
    joined, copied = cupy_sorts.concatenate_chunks(LAYOUTS["neighbours"](device, array), memory)
    assert not copied
    assert not memory.any()


@pytest.mark.parametrize("columns", [(0, 32), (16, 48), (3, 20), (5, 5), (7, 8)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "i8", "c16"])
def test_paste(device, dtype, columns):
    part = np.s_[1:5, slice(*columns)]
    width = columns[1] - columns[0]
    host = ours.make(dtype, 16 * 64, "bits").reshape(16, 64)
    memory = device.array(host)
    for block in (
        memory[:4, :width],
        device.array(host[:4, :width]),
        memory[:4, 1 : 1 + width],
        memory[:8:2, :width],
        memory[:4, :width][::-1, ::-1],
        device.array(np.ascontiguousarray(host[:4, :width].T)).T,
    ):
        whole = device.array(np.zeros((6, 64), dtype))
        wanted = np.zeros((6, 64), dtype)
        wanted[part] = block
        cupy_ops.paste(block, whole[part])
        assert_same_bits(whole, wanted)
        # Rows may be columns of the memory.
        whole = device.array(np.zeros((64, 6), dtype)).T
        cupy_ops.paste(block, whole[part])
        assert_same_bits(whole, wanted)
