"""The column-major table, compared with its definitions by brute force."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort import table
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.chunk.steps import count_digits, count_ends
from dask_gpusort.order import Order
from dask_gpusort.plan.counting import unresolved_share
from dask_gpusort.table import brackets as bracket_steps
from dask_gpusort.table.brackets import add_summaries, thin
from dask_gpusort.table.digits import digit_table, scan_table, share_out, sum_digits

ORDER = Order(np.dtype("u2"))
KEY_ORDER = numpy_ops.key_order(ORDER)

#: Sorted chunks of small unsigned keys, with ties within and between chunks. Some chunks are empty.
chunks = st.lists(st.lists(st.integers(0, 30), max_size=20).map(sorted), min_size=1, max_size=6)


def runs_of(lists):
    return [Run(np.array(keys, "u2")) for keys in lists]


def summaries_of(runs, brackets, samples):
    return [numpy_ops.summarize_run(run, brackets, ORDER, samples=samples) for run in runs]


def all_ranks(runs):
    """Every rank at which the sorted keys can be cut, including both ends."""
    return np.arange(sum(map(len, runs)) + 1)


def test_exclusive_scan():
    np.testing.assert_array_equal(table.exclusive_scan(np.array([3, 0, 2])), [0, 3, 3, 5])
    assert table.exclusive_scan(np.array([], np.int64)).tolist() == [0]
    assert table.exclusive_scan(np.array([2**40, 2**40])).tolist() == [0, 2**40, 2**41]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_scan_table_is_exclusive_and_column_major(radix, blocks, seed):
    counts = np.random.default_rng(seed).integers(0, 4, (radix, blocks))
    found = scan_table(counts)
    for digit in range(radix):
        for block in range(blocks):
            before = sum(
                counts[d, b] for d in range(radix) for b in range(blocks) if d * blocks + b < digit * blocks + block
            )
            assert found[digit, block] == before


digits_of_chunks = st.lists(
    st.none() | st.tuples(st.integers(0, 6), st.integers(0, 40), st.lists(st.integers(0, 3), min_size=1, max_size=8)),
    min_size=1,
    max_size=5,
).filter(lambda chunks: any(chunks))


@given(digits_of_chunks, st.integers(1, 6))
def test_digit_table_equals_a_new_count_by_coarser_digits(chunks, radix_bits):
    # A coarser digit is the leading bits of a finer one, so the first code of the finer digit determines it.
    histograms = [None if chunk is None else table.Digits(chunk[0], chunk[1], np.array(chunk[2])) for chunk in chunks]
    shift, first, counts = digit_table(histograms, radix_bits)
    assert counts.shape[1] == len(chunks)
    assert counts.shape[0] <= max(1 << radix_bits, 1)
    for column, digits in enumerate(histograms):
        wanted = np.zeros(counts.shape[0], np.int64)
        if digits is not None:
            assert shift >= digits.shift
            for number, count in enumerate(digits.counts):
                wanted[(((digits.first + number) << digits.shift) >> shift) - first] += count
        np.testing.assert_array_equal(counts[:, column], wanted)


@given(chunks.filter(any), st.integers(1, 5))
def test_digit_brackets_hold_the_key_of_every_rank(lists, radix_bits):
    runs = runs_of(lists)
    digits = [count_digits(numpy_ops.sorted_keys(run, ORDER), radix_bits) if len(run) else None for run in runs]
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    ranks = np.arange(len(whole))
    low, high = table.digit_brackets(digits, ranks, radix_bits)
    for rank, a, b in zip(ranks, low, high, strict=True):
        assert a <= whole[rank] <= b
    chunk_of = np.repeat(np.arange(len(runs)), list(map(len, runs)))
    chunk_of = chunk_of[np.argsort(np.concatenate([run.keys for run in runs]), kind="stable")]
    first, last = table.digit_cuts(digits, ranks, radix_bits)
    for rank in ranks:
        cut = np.bincount(chunk_of[:rank], minlength=len(runs))
        assert (first[:, rank] <= cut).all()
        assert (cut <= last[:, rank]).all()


def size_of(runs):
    return sum(map(len, runs))


def added_up(summaries, fan_in, add):
    """Summaries that the last task of a tree reads. Each task adds up at most `fan_in` of them."""
    while len(summaries) > fan_in:
        summaries = [add(summaries[first : first + fan_in]) for first in range(0, len(summaries), fan_in)]
    return summaries


def summed(summaries, fan_in, kept):
    return added_up(summaries, fan_in, lambda some: table.combine_summaries(some, kept, 0, KEY_ORDER))


def first_brackets(runs, ranks, samples, fan_in=1 << 30, kept=1 << 30):
    if not ((ranks > 0) & (ranks < size_of(runs))).any():
        return table.disjoint(size_of(runs), ranks, runs[0].keys[:0], runs[0].keys[:0], KEY_ORDER)
    return table.narrow(size_of(runs), ranks, None, summed(summaries_of(runs, None, samples), fan_in, kept), KEY_ORDER)


def next_brackets(runs, brackets, samples, fan_in=1 << 30, kept=1 << 30):
    if not len(brackets.low):
        return brackets
    summaries = summed(summaries_of(runs, brackets, samples), fan_in, kept)
    return table.narrow(brackets.size, brackets.ranks, brackets, summaries, KEY_ORDER)


def check_brackets(brackets, whole):
    """Check that brackets contain the keys at the boundaries, are disjoint, ascend, and are all needed."""
    inside = (brackets.ranks > 0) & (brackets.ranks < len(whole))
    np.testing.assert_array_equal(brackets.bracket >= 0, inside)
    for rank, bracket in zip(brackets.ranks[inside], brackets.bracket[inside], strict=True):
        assert brackets.low[bracket] <= whole[rank] <= brackets.high[bracket]
    assert (brackets.low <= brackets.high).all()
    assert (brackets.high[:-1] < brackets.low[1:]).all()
    assert set(brackets.bracket[inside]) == set(range(len(brackets.low)))


#: Number of summaries that are added up, and number of entries that the sum keeps.
trees = st.sampled_from([(1 << 30, 1 << 30), (2, 3), (3, 8), (2, 1)])


@given(chunks, st.integers(1, 8), st.integers(1, 3), st.sampled_from((1 << 16, 4)), trees)
def test_brackets_always_contain_the_key_at_the_boundary(lists, samples, rounds, narrowed, tree):
    runs = runs_of(lists)
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    ranks = all_ranks(runs)
    # A small limit, so that the code for many entries runs too.
    with mock.patch.object(bracket_steps, "NARROWED_ENTRIES", narrowed):
        brackets = first_brackets(runs, ranks, samples, *tree)
        check_brackets(brackets, whole)
        for _ in range(rounds - 1):
            before = brackets
            brackets = next_brackets(runs, before, samples, *tree)
            check_brackets(brackets, whole)
            for end, towards in (("low", np.greater_equal), ("high", np.less_equal)):
                searched = brackets.bracket >= 0
                now = getattr(brackets, end)[brackets.bracket[searched]]
                assert towards(now, getattr(before, end)[before.bracket[searched]]).all()


@given(chunks)
def test_brackets_of_complete_summaries_have_one_key(lists):
    runs = runs_of(lists)
    brackets = first_brackets(runs, all_ranks(runs), None)
    np.testing.assert_array_equal(brackets.low, brackets.high)


@given(chunks, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1))
def test_overlapping_brackets_are_joined(lists, ends):
    runs = runs_of([[0, 30], *lists])
    low = np.array(sorted(start for start, _ in ends), "u2")
    high = np.maximum.accumulate(low + np.array([length for _, length in ends], "u2"))
    ranks = np.arange(len(ends)) % (size_of(runs) - 1) + 1
    found = table.disjoint(size_of(runs), np.sort(ranks), low, high, KEY_ORDER)
    assert (found.high[:-1] < found.low[1:]).all()
    covered = set().union(*(range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)))
    kept = set().union(*(range(int(a), int(b) + 1) for a, b in zip(found.low, found.high, strict=True)))
    assert kept == covered
    for number, bracket in enumerate(found.bracket):
        assert found.low[bracket] <= low[number]
        assert high[number] <= found.high[bracket]


@given(chunks, st.integers(1, 5), st.integers(1, 20))
def test_restricted_entries_still_bound_the_counts(lists, samples, stride):
    runs = runs_of(lists)
    ranks = all_ranks(runs)
    wide = first_brackets(runs, ranks, samples)
    if not len(wide.low):
        return
    narrow = next_brackets(runs, wide, None)
    summaries = [thin(entries, stride) for entries in summaries_of(runs, wide, None)]
    for run, entries in zip(runs, table.restrict_all(summaries, wide, narrow, KEY_ORDER), strict=True):
        below = np.searchsorted(run.keys, narrow.low, "left")
        not_above = np.searchsorted(run.keys, narrow.high, "right")
        assert (entries.start <= below).all()
        assert (entries.stop >= not_above).all()
        assert (entries.keys >= narrow.low[entries.bracket]).all()
        assert (entries.keys <= narrow.high[entries.bracket]).all()
        np.testing.assert_array_equal(entries.left, np.searchsorted(run.keys, entries.keys, "left"))
        np.testing.assert_array_equal(entries.right, np.searchsorted(run.keys, entries.keys, "right"))


def bounds_of(entries, bracket, key):
    """Two bounds for any key: the least number of keys up to it, and the largest number of keys less than it."""
    mine = entries.bracket == bracket
    keys, left, right = entries.keys[mine], entries.left[mine], entries.right[mine]
    upto = np.append(entries.start[bracket], right)[np.searchsorted(keys, key, "right")]
    less = np.append(left, entries.stop[bracket])[np.searchsorted(keys, key, "left")]
    return upto, less


@given(chunks, st.integers(1, 8), trees)
def test_sums_bound_the_counts_of_all_chunks_at_every_key(lists, samples, tree):
    runs = runs_of(lists)
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    summaries = [*summed(summaries_of(runs, None, samples), *tree), *summaries_of(runs_of([[]]), None, samples)]
    top = table.combine_summaries(summaries, tree[1], 0, KEY_ORDER)
    assert top.sizes.tolist() == [*map(len, lists), 0]
    for key in range(32):
        upto, less = bounds_of(top, 0, key)
        assert upto <= np.searchsorted(whole, key, "right")
        assert np.searchsorted(whole, key, "left") <= less


@given(chunks)
def test_sums_of_complete_summaries_are_exact(lists):
    runs = runs_of(lists)
    keys, counts = np.unique(np.concatenate([run.keys for run in runs]), return_counts=True)
    found = add_summaries(summaries_of(runs, None, None), KEY_ORDER)
    np.testing.assert_array_equal(found.keys, keys)
    np.testing.assert_array_equal(found.left, np.cumsum(counts) - counts)
    np.testing.assert_array_equal(found.right, np.cumsum(counts))


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_a_sum_keeps_few_entries_and_bounds_the_error_by_their_distance(kept, seed, num_brackets):
    rng = np.random.default_rng(seed)
    runs = runs_of([np.sort(rng.integers(0, 1000, rng.integers(1, 300))) for _ in range(5)])
    whole = add_summaries(summaries_of(runs, None, None), KEY_ORDER)
    ends = np.sort(rng.choice(whole.keys, 2 * num_brackets, replace=False)).reshape(-1, 2)
    brackets = table.Brackets(size_of(runs), np.array([]), np.array([]), ends[:, 0], ends[:, 1])
    summaries = summaries_of(runs, brackets, 20)
    whole, found = add_summaries(summaries, KEY_ORDER), table.combine_summaries(summaries, kept, 0, KEY_ORDER)
    asked = (found.stop - found.start).sum()
    assert len(found.keys) <= max(kept, 1) + 2 * num_brackets
    if len(whole.keys) <= kept:
        np.testing.assert_array_equal(found.keys, whole.keys)
    for bracket, (low, high) in enumerate(ends):
        upto, less = bounds_of(whole, bracket, np.arange(low, high + 1))
        fewer_upto, fewer_less = bounds_of(found, bracket, np.arange(low, high + 1))
        assert (fewer_less - fewer_upto).max() <= (less - upto).max() + -(-asked // kept)


@given(digits_of_chunks, st.integers(1, 6), st.integers(1, 6))
def test_a_sum_of_histograms_counts_all_keys(chunks, radix_bits, ends):
    histograms = [None if chunk is None else table.Digits(chunk[0], chunk[1], np.array(chunk[2])) for chunk in chunks]
    shift, first, counts = digit_table(histograms, radix_bits)
    found = sum_digits(histograms, radix_bits)
    assert (found.shift, found.first) == (shift, first)
    np.testing.assert_array_equal(found.counts, counts.sum(axis=1))
    assert sum_digits([None] * ends, radix_bits) is None


def cuts_by_definition(runs, ranks):
    """Cuts of a stable sort: the first ``rank`` triples (key, chunk, position), counted by chunk."""
    pairs = sorted(
        (int(key), chunk, position) for chunk, run in enumerate(runs) for position, key in enumerate(run.keys)
    )
    return [[sum(chunk == number for _, chunk, _ in pairs[:rank]) for number in range(len(runs))] for rank in ranks]


def count(runs, brackets):
    return [count_ends(numpy_ops.sorted_keys(run, ORDER), brackets) for run in runs]


def cut_all(runs, brackets, fan_in):
    """Boundaries, and the cuts of each node of the lowest level of a tree."""
    levels = [count(runs, brackets)]
    while len(levels[-1]) > fan_in:
        below = levels[-1]
        levels.append([table.add_counts(below[first : first + fan_in]) for first in range(0, len(below), fan_in)])
    boundaries = table.find_boundaries(brackets, table.add_counts(levels[-1]))
    ties = [boundaries.ties]
    for level in reversed(levels[1:]):
        parts = [level[first : first + fan_in] for first in range(0, len(level), fan_in)]
        ties = [row for mine, some in zip(ties, parts, strict=True) for row in table.share_ties(boundaries, mine, some)]
    nodes = range(0, len(runs), fan_in)
    return boundaries, [
        table.cut(boundaries, mine, first, levels[0][first : first + fan_in])
        for first, mine in zip(nodes, ties, strict=True)
    ]


def joined_cuts(cuts):
    return np.concatenate([some.first for some in cuts]), np.concatenate([some.last for some in cuts])


@given(chunks, st.integers(1, 8), st.integers(1, 3), st.sampled_from((1 << 16, 4)), trees, st.data())
def test_groups_are_exact_for_all_keys_and_ties(lists, samples, rounds, narrowed, tree, data):
    runs = runs_of(lists)
    sizes = np.array([len(run) for run in runs])
    # The ranks ascend, like groups. Equal ranks make empty groups.
    ranks = np.array(sorted(data.draw(st.lists(st.integers(0, int(sizes.sum())), max_size=8))), np.int64)
    with mock.patch.object(bracket_steps, "NARROWED_ENTRIES", narrowed):
        brackets = first_brackets(runs, ranks, samples, *tree)
        for _ in range(rounds - 1):
            brackets = next_brackets(runs, brackets, samples, *tree)
    boundaries, cuts = cut_all(runs, brackets, tree[0])
    first, last = joined_cuts(cuts)
    wanted = np.array([[0] * len(runs), *cuts_by_definition(runs, ranks), sizes.tolist()]).T
    # Each cut is within its bounds. The bounds of resolved boundaries are equal.
    assert (first <= wanted).all()
    assert (wanted <= last).all()
    is_open = np.zeros(len(ranks) + 2, bool)
    is_open[1:-1] = (boundaries.step == 1) & (brackets.bracket >= 0)
    np.testing.assert_array_equal(first[:, ~is_open], last[:, ~is_open])
    np.testing.assert_array_equal(first.sum(axis=0), boundaries.first)
    np.testing.assert_array_equal(last.sum(axis=0), boundaries.last)
    np.testing.assert_array_equal(boundaries.starts, np.cumsum([0, *sizes]))
    assert [number for some in cuts for number in some.starts[:-1]] == boundaries.starts[:-1].tolist()
    # The keys that a group keeps are those of a stable sort.
    triples = [[(int(key), chunk, position) for position, key in enumerate(run.keys)] for chunk, run in enumerate(runs)]
    whole = sorted(triple for chunk in triples for triple in chunk)
    ends = [0, *ranks, len(whole)]
    for group in range(len(ranks) + 1):
        received = [t for c, chunk in enumerate(triples) for t in chunk[first[c, group] : last[c, group + 1]]]
        assert len(received) == boundaries.received(group)
        assert sorted(received)[boundaries.kept(group)] == whole[ends[group] : ends[group + 1]]


@pytest.mark.parametrize("distribution", ["uniform", "equal", "few", "outlier", "frequent ends"])
def test_few_keys_are_unresolved_for_every_distribution(distribution):
    rng = np.random.default_rng(5)
    samples, groups, chunks, size = 200, 8, 64, 500
    keys = {
        "uniform": lambda: rng.integers(0, 60_000, size),
        "equal": lambda: np.full(size, 7),
        "few": lambda: rng.integers(0, 3, size),
        "outlier": lambda: np.append(rng.integers(0, 900, size - 1), 65_535),
        "frequent ends": lambda: rng.choice([0, *range(100, 200), 65_535], size, p=[0.4, *[0.002] * 100, 0.4]),
    }[distribution]
    runs = runs_of([np.sort(keys()) for _ in range(chunks)])
    ranks = np.arange(1, groups) * (chunks * size // groups)
    for kept, dropped in ((samples, 1), (1 << 30, 0)):
        boundaries, _ = cut_all(runs, first_brackets(runs, ranks, samples, 8, kept), 8)
        unresolved = int((boundaries.last - boundaries.first).sum())
        assert unresolved <= unresolved_share(groups, samples, kept, dropped) * chunks * size
        if distribution in ("equal", "few"):
            assert unresolved == 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4))
def test_ties_are_shared_out_in_chunk_order(seed, parts, boundaries):
    rng = np.random.default_rng(seed)
    available = rng.integers(0, 5, (parts, boundaries))
    wanted = rng.integers(0, available.sum(axis=0) + 1)
    found = share_out(wanted, available)
    for boundary in range(boundaries):
        owners = [part for part, count in enumerate(available[:, boundary]) for _ in range(count)][: wanted[boundary]]
        np.testing.assert_array_equal(found[:, boundary], [owners.count(part) for part in range(parts)])


@pytest.mark.parametrize(("end", "change"), [(0, 3), (1, 3), (3, -4)])
def test_contradictory_counts_are_refused(end, change):
    # A comparison that is not an order gives such counts. Without the check, keys would be lost.
    runs = runs_of([[1, 2, 3, 4], [1, 2, 3, 4], [2, 2, 3, 9]])
    brackets = first_brackets(runs, np.array([4, 8]), 4)
    counts = count(runs, brackets)

    def cut_again():
        boundaries = table.find_boundaries(brackets, table.add_counts(counts))
        return table.cut(boundaries, boundaries.ties, 0, counts)

    assert cut_again().first.sum(axis=0).tolist() == [0, 4, 8, 12]
    ends = counts[1].ends.copy()
    ends[end] += change
    counts[1] = replace(counts[1], ends=ends)
    with pytest.raises(ValueError, match="strict weak order"):
        cut_again()


@given(chunks.filter(any), st.data())
def test_a_changed_chunk_fits_only_if_its_cuts_stay_valid(lists, data):
    runs = runs_of(lists)
    ranks = np.array(sorted(data.draw(st.lists(st.integers(0, size_of(runs)), max_size=5))), np.int64)
    brackets = first_brackets(runs, ranks, 3)
    boundaries, (cuts,) = cut_all(runs, brackets, 1 << 30)
    for number, counts in enumerate(count(runs, brackets)):
        assert table.still_fits(counts, number, cuts, boundaries)
    number = data.draw(st.integers(0, len(runs) - 1))
    (other,) = runs_of([sorted(data.draw(st.lists(st.integers(0, 30), max_size=20)))])
    fits = table.still_fits(*count([other], brackets), number, cuts, boundaries)
    if fits:
        assert len(other) == len(runs[number])
        for boundary in np.flatnonzero(brackets.bracket >= 0):
            before, behind = cuts.first[number, boundary + 1], cuts.last[number, boundary + 1]
            low, high = (end[brackets.bracket[boundary]] for end in (brackets.low, brackets.high))
            # No key before the cut may exceed the bracket, and no key after it may be less than the bracket.
            assert (other.keys[:before] <= high).all()
            assert (other.keys[behind:] >= low).all()
    elif len(other) == len(runs[number]):
        assert (other.keys != runs[number].keys).any()


def test_the_size_of_the_table_is_not_quadratic_in_the_chunks():
    # A task holds the cuts of some of the 2,000 chunks for all 16 groups.
    runs = [Run(np.sort(np.random.default_rng(number).integers(0, 60000, 5)).astype("u2")) for number in range(2000)]
    ranks = np.arange(1, 16) * 625
    boundaries, cuts = cut_all(runs, first_brackets(runs, ranks, 3, 32, 64), 32)
    assert {some.first.shape for some in cuts} == {(32, 17), (16, 17)}
    np.testing.assert_array_equal(joined_cuts(cuts)[0].sum(axis=0), boundaries.first)
    assert [boundaries.kept(group).stop - boundaries.kept(group).start for group in range(16)] == [625] * 16
