"""Runs: cutting, joining, sizes and pickles, compared with NumPy."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from dask.sizeof import sizeof
from support.marks import for_each

from dask_gpusort.chunk.run import Run, byte_view, is_fixed_width

RECORD = np.dtype([("when", "M8[s]"), ("what", "S3"), ("where", "<f4", (2,))])
FIXED_WIDTH = ["?", "u1", "<i8", ">i4", "f2", "g", "c16", "M8[ns]", "m8[D]", "S5", "U3", RECORD]
ELSEWHERE = [np.dtype(object), np.dtypes.StringDType()]


def array_of(dtype, n):
    """n distinct elements of any dtype."""
    dtype = np.dtype(dtype)
    if dtype == RECORD:
        made = np.zeros(n, dtype)
        made["when"], made["what"], made["where"][:, 1] = np.arange(n), np.arange(n).astype("S3"), np.arange(n)
        return made
    if dtype.kind == "M" or dtype.kind == "m":
        return np.arange(n).astype("i8").view("i8").astype(dtype)
    return np.array([str(i) for i in range(n)], dtype) if dtype.kind in "SUTO" else np.arange(n).astype(dtype)


def assert_same(one, other):
    assert len(one) == len(other)
    assert len(one.values) == len(other.values)
    for left, right in zip(one.arrays, other.arrays, strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_array_equal(left, right)


def test_slices_are_views_and_keep_rows_together():
    run = Run(np.arange(10), (np.arange(20).reshape(10, 2), np.arange(10) * 0.5))
    part = run[3:7]
    assert len(part) == 4
    assert all(np.shares_memory(a, b) for a, b in zip(part.arrays, run.arrays, strict=True))
    assert_same(part, Run(np.arange(3, 7), (np.arange(6, 14).reshape(4, 2), np.arange(3, 7) * 0.5)))


def test_index_that_is_not_a_slice_is_refused():
    with pytest.raises(TypeError, match="by a slice"):
        Run(np.arange(3))[1]


@pytest.mark.parametrize("values", [(np.arange(2),), (np.array(1),), (np.arange(3), np.zeros((4, 3)))])
def test_values_must_fit_the_keys(values):
    with pytest.raises(ValueError, match="as long as the keys"):
        Run(np.arange(3), values)


def test_keys_must_have_one_dimension():
    with pytest.raises(ValueError, match="ravel"):
        Run(np.zeros((2, 2)))


@pytest.mark.parametrize("protocol", [2, 5])
def test_keys_may_be_rows_of_words(protocol):
    words = np.arange(12, dtype=np.uint64).reshape(4, 3)
    run = Run(words, (np.arange(4),))
    assert len(run) == 4
    assert_same(run[1:3], Run(words[1:3], (np.arange(1, 3),)))
    assert_same(Run.concat([run[:1], run[1:]], copy=None), run)
    assert np.shares_memory(Run.concat([run[:1], run[1:]], copy=False).keys, words)
    assert_same(pickle.loads(pickle.dumps(run, protocol)), run)
    for wrong in (words.astype("i8"), words.reshape(2, 2, 3)):
        with pytest.raises(ValueError, match="rows of uint64 words"):
            Run(wrong)


def test_concat_joins_in_order_and_owns_its_memory():
    runs = [Run(np.array([1, 4]), (np.array([[1], [2]]),)), Run(np.array([2]), (np.array([[3]]),))]
    joined = Run.concat(runs)
    assert_same(joined, Run(np.array([1, 4, 2]), (np.array([[1], [2], [3]]),)))
    alone = Run.concat(runs[:1])
    assert not np.shares_memory(alone.keys, runs[0].keys)


def test_concat_without_copy_views_neighbours():
    run = Run(np.arange(10), (np.zeros((10, 0)), np.arange(30).reshape(10, 3)))[1:]
    joined = Run.concat([run[2:2], run[1:4], run[4:4], run[4:9]], copy=False)
    assert_same(joined, run[1:9])
    assert np.shares_memory(joined.keys, run.keys)
    assert np.shares_memory(joined.values[1], run.values[1])


@pytest.mark.parametrize(
    "parts",
    [
        lambda a: [a[0:2], a[3:5]],  # a gap
        lambda a: [a[3:5], a[0:3]],  # the wrong order
        lambda a: [a[0:2], a[2:4].copy()],  # other memory
        lambda a: [a[0:4:2], a[4:8:2]],  # not contiguous
        lambda a: [a[0:2], a[2:4].astype("i2")],  # another dtype
        lambda a: [a.view("i4")[0:2], a.view("i4")[2:4]],  # a base of another dtype
    ],
)
def test_concat_copies_runs_that_are_not_adjacent(parts):
    runs = [Run(part) for part in parts(np.arange(10, dtype="i8"))]
    expected = np.concatenate([run.keys for run in runs])
    np.testing.assert_array_equal(Run.concat(runs, copy=None).keys, expected)
    with pytest.raises(ValueError, match="copy=None"):
        Run.concat(runs, copy=False)


def test_concat_of_nothing_or_of_unequal_runs_is_refused():
    with pytest.raises(ValueError, match="no runs"):
        Run.concat([])
    with pytest.raises(ValueError, match="same number of values"):
        Run.concat([Run(np.arange(2)), Run(np.arange(2), (np.arange(2),))])


def test_concat_widens_strings():
    assert Run.concat([Run(np.array(["b"])), Run(np.array(["abc"]))]).keys.tolist() == ["b", "abc"]


def test_own_drops_the_base_and_copies_only_views():
    base = np.arange(1000)
    whole, part = Run(base), Run(base, (np.zeros((1000, 2))[:, :1],))[:3]
    assert whole.own().keys is base
    owned = part.own()
    assert_same(owned, part)
    assert all(array.base is None and array.flags.c_contiguous for array in owned.arrays)
    assert not np.shares_memory(whole.copy().keys, base)


@pytest.mark.parametrize("dtype", FIXED_WIDTH, ids=str)
def test_size_is_exact_for_fixed_width(dtype):
    run = Run(array_of(dtype, 100), (np.zeros((100, 3), "f4"),))
    assert run.nbytes == 100 * (np.dtype(dtype).itemsize + 12)
    assert 0 <= sizeof(run) - run.nbytes < 200
    assert sizeof(run[:10]) < sizeof(run) / 5


@pytest.mark.parametrize("dtype", ELSEWHERE, ids=str)
def test_size_includes_data_outside_the_array(dtype):
    run = Run(np.array(["x" * 10_000] * 50, dtype))
    assert 0.9 * 500_000 < sizeof(run) < 1.3 * 500_000


@for_each(product(FIXED_WIDTH + ELSEWHERE, [2, 5], [0, 1, 100]))
def test_pickle_round_trip(dtype, protocol, n):
    run = Run(array_of(dtype, n), (np.arange(2 * n).reshape(n, 2)[:, :1], np.zeros((n, 0))))
    again = pickle.loads(pickle.dumps(run, protocol=protocol))
    assert_same(again, run)
    assert all(array.flags.writeable for array in again.arrays)


@pytest.mark.parametrize("dtype", FIXED_WIDTH, ids=str)
def test_pickle_keeps_data_out_of_band(dtype):
    run = Run(array_of(dtype, 1000), (array_of(dtype, 1000),))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(run[100:900], protocol=5, buffer_callback=buffers.append)
    assert len(data) < 800
    assert [buffer.raw().nbytes for buffer in buffers] == [800 * np.dtype(dtype).itemsize] * 2
    assert np.shares_memory(np.frombuffer(buffers[0].raw(), "u1"), run.keys)
    assert_same(pickle.loads(data, buffers=buffers), run[100:900])


def test_distributed_sends_a_run_as_frames_without_a_copy():
    protocol = pytest.importorskip("distributed.protocol")
    run = Run(array_of("M8[ns]", 1000), (np.zeros((1000, 3)),))
    header, frames = protocol.serialize(run)
    assert sorted(memoryview(frame).nbytes for frame in frames)[-2:] == [8000, 24000]
    assert any(np.shares_memory(np.frombuffer(frame, "u1"), run.keys) for frame in frames[1:])
    assert_same(protocol.deserialize(header, frames), run)


def test_byte_view():
    array = np.arange(6, dtype="<u2").reshape(3, 2)
    assert np.shares_memory(byte_view(array), array)
    assert byte_view(array).tobytes() == array.tobytes()
    assert byte_view(array[:, ::-1]).tobytes() == array[:, ::-1].tobytes()
    assert byte_view(np.empty(3, "V0")).size == 0


def test_fixed_width():
    assert all(is_fixed_width(np.dtype(dtype)) for dtype in FIXED_WIDTH)
    assert not any(is_fixed_width(dtype) for dtype in [*ELSEWHERE, np.dtype([("a", object)])])
