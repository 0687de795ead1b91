"""Tests of `sort` and `argsort`: NumPy's order, exact chunk sizes, and the same bits for every choice of options."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.dtypes import StringDType
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort


@pytest.mark.parametrize("kind", ["quicksort", "heapsort", "mergesort", "stable", "q", "h", "m", "s", "Quick", "MERGE"])
def test_kind_names_of_numpy(kind):
    array = ours.make("f4", 60, "special")
    stable = kind[0].lower() in "ms"
    x = da.from_array(array, chunks=7)
    assert dask_gpusort.sort(x, kind=kind).name == dask_gpusort.sort(x, stable=stable).name
    np.testing.assert_array_equal(computed(dask_gpusort.sort(x, kind=kind)), np.sort(array, kind=kind))


NAN = np.nan
#: Elements of a dtype in ascending order, and how many of them, the last ones, are last in both directions.
ORDERS = {
    "f8": ([-np.inf, -1.0, 0.0, 5e-324, 1.0, np.inf, -NAN, NAN], 2),
    "f2": ([-np.inf, -1.0, 0.0, 6e-8, 1.0, np.inf, NAN], 1),
    "M8[ns]": (["1677-09-22", "1969-12-31", "2020-01-01", "2262-04-11", "NaT", "NaT"], 2),
    ">i4": ([-(1 << 31), -1, 0, 1, (1 << 31) - 1], 0),
    ">U9": (["", "Zebra", "apple", "apple pie", "zebra", "\u00e9clair", "\U0001f34e"], 0),
    "O": ([-1, 0, Fraction(1, 2), True, 2.5, 10**40], 0),
}
#: NaN in one part: the real one decides before the imaginary one, in either direction.
COMPLEX = [2j, 1, complex(1, NAN), complex(2, NAN), complex(NAN, 1), complex(NAN, 2), complex(NAN, NAN)]
ORDERS["c16"] = (COMPLEX, None)


@pytest.mark.parametrize("dtype", ORDERS)
def test_orders_in_both_directions(dtype):
    elements, last = ORDERS[dtype]
    ascending_order = ours._objects(elements) if dtype == "O" else np.array(elements, dtype)
    size = len(elements)
    order = list(range(size))
    descending_order = [1, 0, 3, 2, 5, 4, 6] if last is None else order[: size - last][::-1] + order[size - last :]
    shuffled = np.random.default_rng(3).permutation(size)
    x = da.from_array(ascending_order[shuffled], chunks=2, name=False)
    np.testing.assert_array_equal(computed(dask_gpusort.sort(x)), ascending_order)
    np.testing.assert_array_equal(computed(dask_gpusort.sort(x, descending=True)), ascending_order[descending_order])


@pytest.mark.parametrize("chunks", [300, 2000])
def test_sorted_halves_of_strings(chunks):
    """NumPy's unstable sort of them ends the process."""
    names = [f"{number:09d}" for number in (*range(0, 2000, 2), *range(1, 2000, 2))]
    x = da.from_array(np.array(names, StringDType()), chunks=chunks)
    assert computed(dask_gpusort.sort(x)).tolist() == sorted(names)


class Version:
    """An object with `<` alone, which is all that NumPy needs."""

    def __init__(self, *parts):
        self.parts = parts

    def __lt__(self, other):
        return self.parts < other.parts

    def __eq__(self, other):
        return self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)


def test_objects_of_a_user_defined_class():
    parts = [(1, 2), (0, 9), (3,), (1, 10), (1, 2)]
    x = da.from_array(ours._objects([Version(*part) for part in parts]), chunks=2, name=False)
    for descending in (False, True):
        got = computed(dask_gpusort.sort(x, descending=descending))
        assert [version.parts for version in got] == sorted(parts, reverse=descending)


def test_sequences_and_an_index_of_pandas_are_accepted():
    pandas = pytest.importorskip("pandas")
    for index in ([3, 1, 2], [[3, 1, 2]], pandas.Index([5, 3, 4]), pandas.Index(["b", "a"], dtype="O")):
        oracle.assert_same_bits(computed(dask_gpusort.sort(index)), np.sort(np.asarray(index)))
        assert computed(dask_gpusort.argsort(index)).tolist() == np.argsort(np.asarray(index)).tolist()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 0, 3)])
def test_empty_arrays_and_single_elements(shape):
    array = np.ones(shape)
    x = da.from_array(array, chunks=2)
    for axis in (*range(len(shape)), None):
        oracle.assert_same_bits(computed(dask_gpusort.sort(x, axis)), np.sort(array, axis))
        oracle.assert_same_bits(computed(dask_gpusort.argsort(x, axis)), np.argsort(array, axis))


def test_processes():
    array, exchanges = ours.make("f8", 2000, "special"), ("auto", "join", "gather", "tasks")
    with dask.config.set(scheduler="processes"), groups(5):
        x = da.from_array(array, chunks=150)
        calls = functools.partial(dask_gpusort.sort, stable=True), dask_gpusort.argsort
        found = [[call(x, exchange=one) for call in calls] for one in exchanges]
        (computed_in_one_pool,) = dask.compute(found)
    for kept, positions in computed_in_one_pool:
        oracle.assert_same_bits(kept, oracle.sort(array))
        oracle.assert_same_bits(positions, oracle.argsort(array))


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks"])
def test_parts_of_the_output(exchange):
    array = ours.make("i8", 500)
    wanted = np.sort(array)
    with groups(4):
        found = dask_gpusort.sort(da.from_array(array, chunks=60), exchange=exchange)
    oracle.assert_same_bits(computed(found.blocks[0]), wanted[:60])
    oracle.assert_same_bits(computed(found.blocks[-1]), wanted[480:])
    oracle.assert_same_bits(computed(found[::7]), wanted[::7])
    oracle.assert_same_bits(computed(found.partitions[3:5]), wanted[180:300])
    kept = found.persist(scheduler="synchronous")
    oracle.assert_same_bits(computed(kept[10:20]), wanted[10:20])
    first, last = dask.compute(found[0], found[-1], scheduler="synchronous")
    assert (first, last) == (wanted[0], wanted[-1])


def test_output_chunks_are_writable():
    array = ours.make("i8", 400)
    wanted = np.sort(array)

    def overwrite(block):
        assert block.flags.writeable
        block[...] = 0
        return block

    with groups(2):
        found = dask_gpusort.sort(da.from_array(array, chunks=40))
        spoilt = found.map_blocks(overwrite, dtype=found.dtype)
    one, two = dask.compute(spoilt.blocks[0], found.blocks[5:], scheduler="synchronous")
    assert not one.any()
    oracle.assert_same_bits(two, wanted[200:])


def test_equal_calls_have_equal_names():
    x = da.from_array(ours.make("i8", 100), chunks=10)
    assert dask_gpusort.sort(x).name == dask_gpusort.sort(x).name
    others = [
        dask_gpusort.sort(x, descending=True),
        dask_gpusort.sort(x, chunks=20),
        dask_gpusort.sort(x, exchange="tasks"),
        dask_gpusort.sort(x, exchange="gather"),
        dask_gpusort.argsort(x),
        dask_gpusort.sort(x + 1),
    ]
    names = {darr.name for darr in others} | {dask_gpusort.sort(x).name}
    assert len(names) == 7


def test_groups_and_exchange_come_from_the_configuration():
    x = da.from_array(ours.make("i8", 1000), chunks=10)
    with dask.config.set({"gpusort.groups": 13, "gpusort.exchange": "tasks"}):
        text = dask_gpusort.explain(x).detail
        assert "tasks" in text.split("exchange")[1].split("\n")[0]
        # Groups do not divide chunks, so their number may differ from 13.
        assert 11 <= int(text.split("groups")[1].split()[0]) <= 16
        assert dask_gpusort.explain(x, exchange="gather").exchange == "gather"
        oracle.assert_same_bits(computed(dask_gpusort.sort(x)), np.sort(computed(x)))


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((40, 40), (5, 5)),
        ((400, 3), (10, 1)),
        ((3, 400), (1, 10)),
        ((7, 5, 11), (2, 5, 3)),
        ((6, 4, 10), (1, 1, 5)),
        ((9, 10), ((1, 0, 8), (10,))),
        ((2, 3, 4, 5), 1),
        ((1, 1), ((1,), (0, 1))),
    ],
)
def test_axis_none_keeps_the_size_of_chunks(shape, chunks):
    array = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape)
    x = da.from_array(array, chunks=chunks)
    found = dask_gpusort.sort(x, None, exchange="tasks")
    assert max(found.chunks[0]) <= math.prod(x.chunksize)
    assert found.npartitions <= 2 * x.npartitions
    assert computed(found).tolist() == list(range(array.size))
    positions = dask_gpusort.argsort(x, None)
    assert max(positions.chunks[0]) <= math.prod(x.chunksize)
    np.testing.assert_array_equal(computed(positions), np.argsort(array, None))


def test_chunks_in_c_order_are_only_made_flat():
    x = da.zeros((90, 10), chunks=((50, 40), 10))
    assert dask_gpusort.sort(x, None).chunks == ((500, 400),)
    assert "flat      2 chunks, in C order as they are" in dask_gpusort.explain(x, None).detail
    tall = da.zeros((4000, 4000), chunks=500)
    explained = (
        dask_gpusort.explain(tall, None).detail,
        dask_gpusort.explain_rank(tall).detail,
        dask_gpusort.explain_unique(tall, True).detail,
    )
    for text in explained:
        assert text.startswith("flat      64 chunks rechunked to 65 in C order, of at most 1.89 MiB\n")
    assert "flat" not in dask_gpusort.explain(tall).detail


MIXED = [(3, 3, 3), (0, 0, 5, 0), (0, 5), (0, 0, 5), (5, 0, 0), (0, 0), (0, 0, 0, 2, 2)]


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks", "join"])
@pytest.mark.parametrize("known", MIXED, ids=str)
def test_only_some_chunk_sizes_are_unknown(known, exchange):
    array = np.random.default_rng(0).integers(0, 9, 4 + sum(known))
    # Known chunks are before, behind and between those of unknown sizes.
    parts = da.from_array(array[:4], chunks=2), da.from_array(array[4:], chunks=(known,))
    for mixed in ([ours.forget_sizes(parts[0]), parts[1]], [parts[1], ours.forget_sizes(parts[0])]):
        x = da.concatenate([*mixed, mixed[0]], allow_unknown_chunksizes=True)
        whole = computed(x)
        for count in (None, 3):
            with dask.config.set({"gpusort.groups": count}):
                oracle.assert_same_bits(computed(dask_gpusort.sort(x, exchange=exchange)), np.sort(whole))
                wanted = np.argsort(whole, kind="stable")
                oracle.assert_same_bits(computed(dask_gpusort.argsort(x, exchange=exchange)), wanted)
                moved = computed(dask_gpusort.sort_by_key(x, x * 2, exchange=exchange)[1])
                oracle.assert_same_bits(moved, np.sort(whole) * 2)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", ["rank", "sort", "unique_inverse", "nunique", "median"])
def test_matrices_are_arrays_of_two_dimensions(name):
    rows, function = np.array([[3, 1], [2, 2]]), getattr(dask_gpusort, name)
    for matrix in (np.matrix(rows), da.from_array(rows, chunks=1).map_blocks(np.matrix)):
        np.testing.assert_equal(*dask.compute(function(matrix), function(rows)))
