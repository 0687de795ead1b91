"""Selection from random samples and exact counts, stage by stage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import strategies as ours

from dask_gpusort.chunk import numpy_ops, numpy_select, steps
from dask_gpusort.table import Ranks, selection

DTYPES = ("?", "i1", "u8", "i8", "f2", "f4", "f8", "c16", "M8[ns]", "m8[s]")


def draw_positions(size, keys_per_stratum, seed):
    random = numpy_ops.random_keys(0, selection.strata(size, keys_per_stratum), seed)
    return selection.draw_positions(size, keys_per_stratum, random)


def numbers(keys):
    return keys[keys == keys]


def enclose(search, parts, keys_per_stratum, sorts=False):
    """Brackets from samples of some parts, which may be sorted."""
    samples = [part[draw_positions(len(part), keys_per_stratum, number)] for number, part in enumerate(parts)]
    samples = numbers(np.sort(np.concatenate(samples)))
    count = len(parts) if sorts else sum(selection.strata(len(part), keys_per_stratum) for part in parts)
    wanted = selection.sampled_ranks(search, count, keys_per_stratum)
    ends = np.empty(wanted.shape, search.found.dtype)
    ends[0], ends[1] = selection.least_and_most(ends.dtype)
    known = (wanted >= 0) & (wanted < len(samples))
    ends[known] = samples[wanted[known]]
    return selection.enclose(search, *ends)


@given(st.integers(0, 500), st.floats(1, 100), st.integers(0, 5))
def test_one_position_is_drawn_from_each_stratum(size, keys_per_stratum, seed):
    found = draw_positions(size, keys_per_stratum, seed)
    # A stratum may end behind the chunk, or begin in the middle of a key.
    bounds = np.arange(len(found) + 1) * keys_per_stratum
    assert (np.floor(bounds[:-1]) <= found).all()
    assert (found <= bounds[1:]).all()
    assert selection.strata(size, keys_per_stratum) - 1 <= len(found) <= selection.strata(size, keys_per_stratum)
    assert (found < size).all()


def test_each_key_is_drawn_with_the_same_probability():
    size, keys_per_stratum = 10, 4.0
    counts = np.zeros(size)
    for seed in range(4000):
        counts[draw_positions(size, keys_per_stratum, seed)] += 1
    # The standard deviation of a count is 27.
    assert (abs(counts - 1000) < 6 * math.sqrt(4000 * 0.25 * 0.75)).all()


@given(st.sampled_from(DTYPES), st.sampled_from(ours.DISTRIBUTIONS), st.integers(0, 300), st.integers(0, 99))
def test_nan_samples_and_few_keys(dtype, distribution, size, seed):
    keys = ours.make(dtype, size, distribution, seed)
    assert numpy_select.count_nans(keys) == size - len(numbers(keys))
    positions = draw_positions(size, 3.5, seed)
    parts = np.split(keys, [size // 3])
    np.testing.assert_array_equal(numpy_select.keys_at(parts, positions), np.sort(keys)[positions])


@pytest.mark.parametrize("dtype", [*DTYPES, "g", "c8", "i2"])
def test_every_key_is_between_the_least_and_the_most(dtype):
    least, most = selection.least_and_most(np.dtype(dtype))
    for distribution in ("special", "bits") if dtype != "g" else ("special",):
        keys = numbers(ours.make(dtype, 100, distribution))
        assert (keys >= least).all()
        assert (keys <= most).all()


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(ours.DISTRIBUTIONS),
    st.integers(0, 300),
    st.integers(0, 99),
    st.sampled_from([1, 5, 20, 60]),
)
def test_keys_inside_brackets(dtype, distribution, size, seed, count):
    keys = ours.make(dtype, size, distribution, seed)
    ordered = numbers(np.sort(keys))
    rng = np.random.default_rng(seed)
    edges = np.unique(ordered[rng.integers(0, len(ordered), 2 * count)]) if len(ordered) else ordered
    low, high = edges[: len(edges) // 2 * 2 : 2], edges[1::2]
    if len(low):
        low = low.copy()
        low[0] = high[0]  # a bracket of one key
    ends, inside = numpy_select.extract(keys, low, high)
    expected = [np.searchsorted(ordered, end, side) for end in (low, high) for side in ("left", "right")]
    expected[2] = np.maximum(expected[1], expected[2])
    np.testing.assert_array_equal(ends, np.array(expected).reshape(4, len(low)))
    taken = np.zeros(size, bool)
    for one, other in zip(low, high, strict=True):
        taken |= (keys > one) & (keys < other)
    np.testing.assert_array_equal(inside, keys[taken])
    counts, inside = steps.extract_sorted(np.sort(keys), low, high)
    np.testing.assert_array_equal(counts, ends)
    np.testing.assert_array_equal(inside, np.sort(keys[taken]))


def test_many_keys_are_compared_part_by_part():
    keys = np.random.default_rng(0).permutation(600_000)
    ends, inside = numpy_select.extract(keys, np.array([1000]), np.array([1010]))
    np.testing.assert_array_equal(ends[:, 0], [1000, 1001, 1010, 1011])
    np.testing.assert_array_equal(np.sort(inside), np.arange(1001, 1010))


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(ours.DISTRIBUTIONS),
    st.lists(st.integers(0, 400), min_size=1, max_size=5),
    st.sampled_from([1.0, 2.5, 20.0]),
    st.integers(1, 3),
    st.booleans(),
    st.data(),
)
def test_a_search_finds_the_keys_at_its_ranks(dtype, distribution, sizes, keys_per_stratum, rounds, sorts, data):
    keys = ours.make(dtype, sum(sizes), distribution, data.draw(st.integers(0, 99)))
    parts = np.split(keys, np.cumsum(sizes)[:-1])
    parts = list(map(np.sort, parts)) if sorts else parts
    extract = steps.extract_sorted if sorts else numpy_select.extract
    ordered = np.sort(numbers(keys))
    ranks = data.draw(st.lists(st.integers(0, max(len(ordered) - 1, 0)), unique=True)) if len(ordered) else []
    search = selection.begin(len(ordered), len(keys) - len(ordered), np.array(sorted(ranks), np.int64), keys.dtype)
    for _ in range(rounds):
        search = enclose(search, parts, keys_per_stratum, sorts)
        assert (search.low <= search.high).all()
        assert (search.high[:-1] < search.low[1:]).all()
        wanted = ordered[search.ranks[search.unknown]]
        assert (search.low[search.bracket] <= wanted).all()
        assert (wanted <= search.high[search.bracket]).all()
        counted = [extract(part, search.low, search.high) for part in parts]
        search = selection.resolve(search, np.sum([ends for ends, _ in counted], axis=0))
        parts = [inside for _, inside in counted]
    found = selection.finish(search, numpy_select.keys_at(parts, search.left))
    np.testing.assert_array_equal(found, ordered[search.ranks])


def test_all_ranks_of_a_bracket_with_ties_of_its_ends():
    ordered = np.repeat(np.arange(9), 3)
    ranks = np.flatnonzero((ordered >= 2) & (ordered <= 6))
    search = selection.begin(len(ordered), 0, ranks, ordered.dtype)
    search = selection.enclose(search, np.full(len(ranks), 2), np.full(len(ranks), 6))
    ends, inside = numpy_select.extract(ordered[::-1], search.low, search.high)
    search = selection.resolve(search, ends)
    assert search.left.tolist() == list(range(len(inside)))
    np.testing.assert_array_equal(selection.finish(search, numpy_select.keys_at([inside], search.left)), ordered[ranks])


def test_brackets_hold_few_keys_of_any_distribution():
    """The bound of the plan: brackets of q ranks hold about 2 q e n / sqrt(s) of n keys."""
    n, ranks = 200_000, np.array([100, 50_000, 199_000])
    for distribution in ("bits", "sorted", "reversed", "zipf"):
        keys = ours.make("i8", n, distribution)
        search = enclose(selection.begin(n, 0, ranks, keys.dtype), [keys], 20.0)
        inside = numpy_select.extract(keys, search.low, search.high)[1]
        error = math.sqrt(math.log(4 * len(ranks) / selection.MISSES) / 2)
        assert len(inside) <= 2 * 1.3 * len(ranks) * error * n / math.sqrt(n / 20)


@pytest.mark.parametrize("chunks", [1, 20, 100])
def test_fewer_keys_are_inside_brackets_from_samples_of_sorted_chunks(chunks):
    n, ranks = 200_000, np.linspace(0, 199_999, 50).astype(np.int64)
    keys = np.random.default_rng(0).permutation(n)
    samples = selection.best_samples(n, len(ranks), runs=chunks)
    parts = np.sort(keys.reshape(chunks, -1))
    search = enclose(selection.begin(n, 0, ranks, keys.dtype), list(parts), n / samples, sorts=True)
    inside = sum(len(steps.extract_sorted(part, search.low, search.high)[1]) for part in parts)
    share = selection.inside_share(samples, len(ranks), runs=chunks)
    assert inside / n <= share < min(0.5, selection.inside_share(samples, len(ranks)))
    # One stratum of each chunk is in doubt, or by chance fewer.
    error = math.sqrt(math.log(4 * len(ranks) / selection.MISSES) / 2)
    assert share == pytest.approx(2 * len(ranks) / samples * (min(chunks, math.sqrt(chunks) * error) + 1))


@pytest.mark.parametrize("moved", [10, -10])
def test_a_bracket_that_misses_its_rank_is_found_out(moved):
    keys = np.arange(100)
    search = selection.begin(100, 0, np.array([50]), keys.dtype)
    search = enclose(search, [keys], 1.0)
    ends, _ = numpy_select.extract(keys + moved, search.low, search.high)
    with pytest.raises(LookupError, match="does not hold its rank"):
        selection.resolve(search, ends)


@example(np.array([np.nan, 1, np.nan, 2]), 3)
@given(ours.arrays(DTYPES), st.integers(0, 40))
def test_buckets_are_twice_the_cut_keys_before_a_key_and_those_equal_to_it(keys, count):
    cuts = np.sort(np.resize(keys, count if len(keys) else 0))
    if keys.dtype.kind == "c":
        keys, cuts = numbers(keys), numbers(cuts)
    wanted = np.searchsorted(cuts, keys, "left") + np.searchsorted(cuts, keys, "right")
    found = numpy_select.buckets(keys, cuts)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, wanted)


def test_keys_at_ranks_behind_the_numbers_are_nan():
    wanted, counts, nans = Ranks((0, 2, 4)), np.array([5, 3, 0]), np.array([0, 2, 5])
    assert wanted.ranks(counts).tolist() == [[[0, 0, 0], [2, 2, 0], [4, 2, 0]]]
    keys = np.arange(9.0).reshape(1, 3, 3)
    found = wanted.result(keys, counts, nans)
    np.testing.assert_array_equal(found, [[0, 1, np.nan], [3, 4, np.nan], [6, np.nan, np.nan]])
    assert wanted.result(keys.astype("m8[s]"), counts, nans).dtype == wanted.dtype_of(np.dtype("m8[s]"))
    assert wanted.result(keys.astype("i4"), np.array([5]), np.array([0])).dtype == np.int32
