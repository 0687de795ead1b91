"""Sorts that divide chunks at splitters and sort groups: balance, skew, order that is there, when they are chosen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.oracle import assert_same_bits
from support.plans import plans_of

import dask_gpusort
from dask_gpusort.builders import sort_last
from dask_gpusort.chunk import numpy_radix, numpy_split
from dask_gpusort.chunk.numpy_keys import decode, encode
from dask_gpusort.order import Order
from dask_gpusort.plan import division
from dask_gpusort.table import splitters

SIZE, CHUNK = 40_000, 7_000
#: How keys are distributed, by a generator and their number.
SPREADS = {
    "random": lambda rng, size: rng.integers(-(2**62), 2**62, size),
    "sorted": lambda rng, size: np.arange(size) * 3,
    "reversed": lambda rng, size: np.arange(size)[::-1] * 3,
    "reversed ties": lambda rng, size: np.arange(size)[::-1] // 3,
    "sorted chunks": lambda rng, size: np.roll(np.arange(size) // 3, 2 * CHUNK),
    "tail": lambda rng, size: np.append(np.arange(size - 50), np.arange(50)),
    "clusters": lambda rng, size: rng.choice([-(10**15), 10**15], size) + rng.integers(0, 999, size),
    "one": lambda rng, size: np.full(size, 7),
    "highest": lambda rng, size: np.where(rng.random(size) < 0.6, 2**63 - 1, rng.integers(0, 99, size)),
    "lowest": lambda rng, size: np.where(rng.random(size) < 0.6, -(2**63), rng.integers(0, 99, size)),
    "few": lambda rng, size: rng.integers(0, 5, size),
    "zipf": lambda rng, size: rng.zipf(1.2, size),
    "half": lambda rng, size: np.where(rng.random(size) < 0.5, 0, rng.integers(-(2**40), 2**40, size)),
}


@pytest.fixture(autouse=True)
def sorts_last():
    with dask.config.set({"gpusort.merged_runs": 0, "scheduler": "threads", "num_workers": 3}):
        yield


def groups_of(array, count):
    """The sizes of the sorted groups, and whether any cut was far from its rank."""
    sizes, far = [], []
    sort, find = sort_last.sort_pieces, sort_last.find_cuts

    def sorting(pieces, *arguments):
        found = sort(pieces, *arguments)
        sizes.append(len(found))
        return found

    def finding(*arguments):
        found = find(*arguments)
        far.extend(found[1])
        return found

    with (
        mock.patch.object(sort_last, "sort_pieces", sorting),
        mock.patch.object(sort_last, "find_cuts", finding),
        dask.config.set({"gpusort.groups": count}),
    ):
        got = dask_gpusort.sort(array).compute()
    return got, sizes, far


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("descending", [False, True])
def test_groups_are_balanced(spread, descending):
    keys = SPREADS[spread](np.random.default_rng(0), SIZE)
    darr = da.from_array(keys, chunks=((9_000, 0, 1, 15_999, 15_000),))
    wanted = np.sort(keys)[::-1] if descending else np.sort(keys)
    with dask.config.set({"gpusort.groups": 6}):
        assert_same_bits(dask_gpusort.sort(darr, descending=descending).compute(), wanted)
    got, sizes, far = groups_of(darr, 6)
    assert_same_bits(got, np.sort(keys))
    assert sum(sizes) == SIZE
    assert not far
    assert max(sizes) <= 1.25 * SIZE / 6


#: The same of floats, with zeros of both signs and NaN of several bits.
FLOATS = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "zeros": lambda rng, size: np.where(rng.random(size) < 0.7, rng.choice([0.0, -0.0], size), rng.normal(size=size)),
    "ends": lambda rng, size: rng.choice([np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45], size),
    "a NaN": lambda rng, size: np.where(rng.random(size) < 0.4, np.nan, rng.standard_normal(size)),
    "several NaN": lambda rng, size: np.where(
        rng.random(size) < 0.4, rng.choice([np.nan, -np.nan], size), rng.choice([-1.0, -0.0, 0.0, 2.0], size)
    ),
    "only NaN": lambda rng, size: rng.choice([np.nan, -np.nan], size),
}


@pytest.mark.parametrize("spread", FLOATS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_keep_their_bits(spread, dtype):
    with np.errstate(all="ignore"):
        keys = FLOATS[spread](np.random.default_rng(0), SIZE).astype(dtype)
    order = Order(keys.dtype)
    wanted = decode(np.sort(encode(keys, order)), order)
    got, sizes, far = groups_of(da.from_array(keys, chunks=((9_000, 0, 1, 15_999, 15_000),)), 6)
    assert_same_bits(got, wanted)
    assert not far
    assert max(sizes) <= 1.3 * SIZE / 6
    misled = numpy_split.sample_keys(np.sort(keys)[:100], order, 1, 0)
    with mock.patch.object(sort_last, "sample_keys", return_value=misled):
        assert_same_bits(groups_of(da.from_array(keys, chunks=7_000), 6)[0], wanted)


def test_what_a_sample_misses_is_found():
    keys = SPREADS["random"](np.random.default_rng(0), SIZE)
    misled = np.sort(keys)[:100]  # the least ones
    with mock.patch.object(sort_last, "sample_keys", return_value=misled):
        got, sizes, far = groups_of(da.from_array(keys, chunks=7_000), 6)
        assert far
    assert_same_bits(got, np.sort(keys))
    assert max(sizes) <= 2 * SIZE // 6


@pytest.mark.parametrize("spread", ["sorted", "one", "reversed", "reversed ties", "sorted chunks"])
@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_what_is_in_order_is_not_sorted(spread, dtype):
    keys = SPREADS[spread](np.random.default_rng(0), SIZE).astype(dtype)
    wanted, sort = np.sort(keys), numpy_radix.sort

    def looking(codes):
        assert np.array_equal(codes, np.sort(codes))
        sort(codes)

    with (
        mock.patch.object(numpy_radix, "sort", looking),
        mock.patch.object(numpy_split, "_placed", side_effect=AssertionError),
    ):
        assert_same_bits(groups_of(da.from_array(keys, chunks=CHUNK), 4)[0], wanted)


@pytest.mark.parametrize("spread", ["few", "sorted", "reversed"])
def test_the_source_is_not_written(spread):
    keys = SPREADS[spread](np.random.default_rng(0), SIZE)
    before = keys.copy()
    darr = da.from_array(keys, chunks=7_000).persist()
    found = groups_of(darr, 4)[0]
    found += 1
    assert not np.may_share_memory(found, keys)
    assert_same_bits(keys, before)
    assert_same_bits(darr.compute(), before)


class Other(np.ndarray):
    """Arrays of another class, as those of files are."""


@pytest.mark.parametrize("dtype", ["i8", "f8", "f4"])
def test_a_source_of_another_class_is_not_written(dtype):
    keys = SPREADS["random"](np.random.default_rng(0), SIZE).astype(dtype)
    held = da.from_array(keys, chunks=7_000).persist()
    darr = held.map_blocks(lambda block: block.view(Other), meta=keys[:0])
    with mock.patch.object(division, "RUN_BYTES", 1):  # each chunk is divided alone
        assert_same_bits(np.asarray(groups_of(darr, 4)[0]), np.sort(keys))
    assert_same_bits(held.compute(), keys)


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
def test_keys_that_follow(dtype):
    ends = np.iinfo(dtype)
    keys = np.array([ends.min, -1 % 5, ends.max - 1, ends.max], dtype)
    np.testing.assert_array_equal(splitters.after(keys), keys[:-1] + np.ones(1, dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_that_follow(dtype):
    ends = np.finfo(dtype)
    keys = np.array([-np.inf, -0.0, 1, ends.max, np.inf], dtype)
    wanted = np.array([ends.min, ends.smallest_subnormal, 1 + ends.eps, np.inf], dtype)
    np.testing.assert_array_equal(splitters.after(keys), wanted)


@pytest.mark.parametrize(
    ("dtype", "options", "lasts"),
    [
        ("i8", {}, True),
        (">i4", {"descending": True}, True),
        ("f4", {}, True),
        ("M8[s]", {}, True),
        ("f4", {"stable": True}, False),  # signed zeros keep their order
        ("i8", {"method": "radix"}, False),
        ("i2", {}, False),
        ("S4", {}, False),
        ("c16", {}, False),
    ],
)
def test_when_keys_are_sorted_once(dtype, options, lasts):
    darr = da.from_array(ours.make(dtype, 600, "bits"), chunks=50, name=False)
    with dask.config.set({"gpusort.groups": 3}):
        (plan,) = plans_of(dask_gpusort.sort, darr, **options)
        assert plan.sorts_last is lasts
        with dask.config.set({"gpusort.merged_runs": 64}):
            (plan,) = plans_of(dask_gpusort.sort, darr, **options)
            assert not plan.sorts_last
        for other in ({"scheduler": "processes"}, {"gpusort.exchange": "tasks"}):
            with dask.config.set(other):
                assert not any(one.sorts_last for one in plans_of(dask_gpusort.sort, darr, **options))


def test_a_part_of_the_result_needs_two_groups():
    with dask.config.set({"gpusort.groups": 8}):
        darr = dask_gpusort.sort(da.from_array(np.arange(800)[::-1], chunks=10))
    (culled,) = dask.optimize(darr[:10])
    assert sum(str(key).startswith("('sort-merge") for key in dict(culled.dask)) == 2


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ThreadPool])
def test_a_pool_has_as_many_threads_as_it_says(pool):
    darr = da.random.random(1_000_000, chunks=100_000).persist(scheduler="sync")
    with pool(1) as own, dask.config.set({"pool": own, "num_workers": 5}):
        assert dask_gpusort.explain(darr).exchange == "join"
    with ThreadPoolExecutor(1) as own, dask.config.set(scheduler=own):
        assert dask_gpusort.explain(darr).exchange == "join"


def test_samples_are_drawn_all_over():
    order = Order(np.dtype("i8"))
    drawn = numpy_split.sample_keys(np.arange(1000), order, 100, 3)
    assert (drawn // 100).tolist() == list(range(10))
    assert len(set((drawn % 100).tolist())) > 5
