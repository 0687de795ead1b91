"""The column-major table against its definitions, by brute force."""

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
from dask_gpusort.order import Order

ORDER = Order(np.dtype("u2"))
KEY_ORDER = numpy_ops.key_order(ORDER)

#: Sorted chunks of small unsigned keys: ties within and between them, empty ones too.
chunks = st.lists(st.lists(st.integers(0, 30), max_size=20).map(sorted), min_size=1, max_size=6)


def runs_of(lists):
    return [Run(np.array(keys, "u2")) for keys in lists]


def probe(runs, brackets, samples):
    return [numpy_ops.probe(run, brackets, ORDER, samples=samples) for run in runs]


def all_ranks(runs):
    """Every rank at which the sorted whole can be cut, both ends among them."""
    return np.arange(sum(map(len, runs)) + 1)


def test_exclusive_scan():
    np.testing.assert_array_equal(table.exclusive_scan(np.array([3, 0, 2])), [0, 3, 3, 5])
    assert table.exclusive_scan(np.array([], np.int64)).tolist() == [0]
    assert table.exclusive_scan(np.array([2**40, 2**40])).tolist() == [0, 2**40, 2**41]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_scan_table_counts_what_is_before_in_column_major_order(radix, blocks, seed):
    counts = np.random.default_rng(seed).integers(0, 4, (radix, blocks))
    found = table.scan_table(counts)
    for digit in range(radix):
        for block in range(blocks):
            before = sum(
                counts[d, b] for d in range(radix) for b in range(blocks) if d * blocks + b < digit * blocks + block
            )
            assert found[digit, block] == before


def test_scanned_digits_are_the_places_where_runs_go():
    keys = np.random.default_rng(0).integers(0, 8, (5, 20))
    counts = np.stack([np.bincount(block, minlength=8) for block in keys], axis=1)
    starts = table.scan_table(counts)
    placed = np.empty(keys.size, keys.dtype)
    for block, row in enumerate(keys):
        for digit in range(8):
            placed[starts[digit, block] : starts[digit, block] + counts[digit, block]] = digit
    np.testing.assert_array_equal(placed, np.sort(keys, axis=None))


digits_of_chunks = st.lists(
    st.none() | st.tuples(st.integers(0, 6), st.integers(0, 40), st.lists(st.integers(0, 3), min_size=1, max_size=8)),
    min_size=1,
    max_size=5,
).filter(lambda chunks: any(chunks))


@given(digits_of_chunks, st.integers(1, 6))
def test_digit_table_counts_as_if_each_key_were_counted_again(chunks, radix_bits):
    # A coarser digit keeps the leading bits, so the first code of a finer one tells where its keys go.
    histograms = [None if chunk is None else table.Digits(chunk[0], chunk[1], np.array(chunk[2])) for chunk in chunks]
    shift, first, counts = table.digit_table(histograms, radix_bits)
    assert counts.shape[1] == len(chunks)
    # The grid's ends need not be aligned, so it can have one row more than it has digits.
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
    digits = [numpy_ops.histogram(run.keys, ORDER, radix_bits) if len(run) else None for run in runs]
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    ranks = np.arange(len(whole))
    low, high = table.digit_brackets(digits, ranks, radix_bits)
    for rank, a, b in zip(ranks, low, high, strict=True):
        assert a <= whole[rank] <= b


def first_brackets(runs, ranks, samples):
    sizes = np.array([len(run) for run in runs])
    if not ((ranks > 0) & (ranks < sizes.sum())).any():
        return table.disjoint(sizes, ranks, runs[0].keys[:0], runs[0].keys[:0], KEY_ORDER)
    return table.narrow(sizes, ranks, None, probe(runs, None, samples), KEY_ORDER)


def next_brackets(runs, brackets, samples):
    answers = probe(runs, brackets, samples)
    return table.narrow(brackets.sizes, brackets.ranks, brackets, answers, KEY_ORDER) if len(brackets.low) else brackets


def check_brackets(brackets, whole):
    """They hold the keys at the boundaries, are disjoint, ascend, and are all needed."""
    inside = (brackets.ranks > 0) & (brackets.ranks < len(whole))
    np.testing.assert_array_equal(brackets.bracket >= 0, inside)
    for rank, bracket in zip(brackets.ranks[inside], brackets.bracket[inside], strict=True):
        assert brackets.low[bracket] <= whole[rank] <= brackets.high[bracket]
    assert (brackets.low <= brackets.high).all()
    assert (brackets.high[:-1] < brackets.low[1:]).all()
    assert set(brackets.bracket[inside]) == set(range(len(brackets.low)))


@given(chunks, st.integers(1, 8), st.integers(1, 3), st.sampled_from((1 << 16, 4)))
def test_brackets_always_contain_the_key_at_the_boundary(lists, samples, rounds, narrowed):
    runs = runs_of(lists)
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    ranks = all_ranks(runs)
    # Few entries at once, so that the way of many entries is taken too.
    with mock.patch.object(table, "NARROWED_ENTRIES", narrowed):
        brackets = first_brackets(runs, ranks, samples)
        check_brackets(brackets, whole)
        for _ in range(rounds - 1):
            before = brackets
            brackets = next_brackets(runs, before, samples)
            check_brackets(brackets, whole)
            for end, towards in (("low", np.greater_equal), ("high", np.less_equal)):
                searched = brackets.bracket >= 0
                now = getattr(brackets, end)[brackets.bracket[searched]]
                assert towards(now, getattr(before, end)[before.bracket[searched]]).all()


@given(chunks)
def test_complete_answers_leave_one_key(lists):
    runs = runs_of(lists)
    brackets = first_brackets(runs, all_ranks(runs), None)
    np.testing.assert_array_equal(brackets.low, brackets.high)


@given(chunks, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1))
def test_brackets_that_overlap_become_one(lists, ends):
    runs = runs_of([[0, 30], *lists])
    low = np.array(sorted(start for start, _ in ends), "u2")
    high = np.maximum.accumulate(low + np.array([length for _, length in ends], "u2"))
    sizes = np.array([len(run) for run in runs])
    ranks = np.arange(len(ends)) % (sizes.sum() - 1) + 1
    found = table.disjoint(sizes, np.sort(ranks), low, high, KEY_ORDER)
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
    answers = [table.thin(entries, stride) for entries in probe(runs, wide, None)]
    for run, entries in zip(runs, table.restrict_all(answers, wide, narrow, KEY_ORDER), strict=True):
        below = np.searchsorted(run.keys, narrow.low, "left")
        not_above = np.searchsorted(run.keys, narrow.high, "right")
        assert (entries.start <= below).all()
        assert (entries.stop >= not_above).all()
        assert (entries.keys >= narrow.low[entries.bracket]).all()
        assert (entries.keys <= narrow.high[entries.bracket]).all()
        np.testing.assert_array_equal(entries.left, np.searchsorted(run.keys, entries.keys, "left"))
        np.testing.assert_array_equal(entries.right, np.searchsorted(run.keys, entries.keys, "right"))


def cut_by_definition(runs, ranks):
    """Stable: the first ``rank`` pairs of (key, chunk, position), counted by chunk."""
    pairs = sorted((int(key), chunk, place) for chunk, run in enumerate(runs) for place, key in enumerate(run.keys))
    return [[sum(chunk == number for _, chunk, _ in pairs[:rank]) for number in range(len(runs))] for rank in ranks]


@given(chunks, st.integers(1, 8), st.integers(0, 2), st.sampled_from((1 << 16, 4)), st.data())
def test_cuts_are_exact_for_every_distribution_and_all_ties(lists, samples, rounds, narrowed, data):
    runs = runs_of(lists)
    sizes = np.array([len(run) for run in runs])
    # Ranks in order, as groups are; several at one place are empty groups.
    ranks = np.array(sorted(data.draw(st.lists(st.integers(0, int(sizes.sum())), max_size=8))), np.int64)
    with mock.patch.object(table, "NARROWED_ENTRIES", narrowed):
        brackets = first_brackets(runs, ranks, samples)
        for _ in range(rounds):
            brackets = next_brackets(runs, brackets, samples)
        cuts = table.cut(brackets, probe(runs, brackets, None), KEY_ORDER)
    wanted = np.array([[0] * len(runs), *cut_by_definition(runs, ranks), sizes.tolist()])
    np.testing.assert_array_equal(cuts.offsets.T, wanted)
    np.testing.assert_array_equal(cuts.offsets.T.sum(axis=1)[1:-1], ranks)
    np.testing.assert_array_equal(cuts.starts, np.cumsum([0, *sizes]))
    whole = np.sort(np.concatenate([run.keys for run in runs]))
    inside = (ranks > 0) & (ranks < len(whole))
    np.testing.assert_array_equal(cuts.boundary, np.flatnonzero(inside) + 1)
    np.testing.assert_array_equal(cuts.keys, whole[ranks[inside]])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_ties_are_shared_out_in_chunk_order(equal, data):
    wanted = data.draw(st.integers(0, sum(equal)))
    found = table.cut_ties(np.array(equal), wanted)
    owners = [chunk for chunk, count in enumerate(equal) for _ in range(count)][:wanted]
    np.testing.assert_array_equal(found, np.bincount(owners, minlength=len(equal)) if owners else np.zeros(len(equal)))


@pytest.mark.parametrize("wrong", ["left", "right"])
def test_answers_that_contradict_each_other_are_refused(wrong):
    # As a comparison that is no order gives them: without the check, keys would be lost.
    runs = runs_of([[1, 2, 3, 4], [1, 2, 3, 4], [2, 2, 3, 9]])
    ranks = np.array([4, 8])
    brackets = table.narrow(np.array([4, 4, 4]), ranks, None, probe(runs, None, 2), KEY_ORDER)
    answers = probe(runs, brackets, None)
    assert table.cut(brackets, answers, KEY_ORDER).offsets.sum(axis=0).tolist() == [0, 4, 8, 12]
    answers[1] = replace(answers[1], **{wrong: getattr(answers[1], wrong) + (3 if wrong == "left" else -3)})
    with pytest.raises(ValueError, match="strict weak order"):
        table.cut(brackets, answers, KEY_ORDER)


def test_the_table_never_grows_as_chunks_times_chunks():
    # 2,000 chunks and 16 groups: what a scan holds is chunks x groups.
    runs = [Run(np.sort(np.random.default_rng(number).integers(0, 60000, 5)).astype("u2")) for number in range(2000)]
    ranks = np.arange(1, 16) * 625
    brackets = first_brackets(runs, ranks, 3)
    cuts = table.cut(brackets, probe(runs, brackets, None), KEY_ORDER)
    assert cuts.offsets.shape == (2000, 17)
    np.testing.assert_array_equal(cuts.offsets.sum(axis=0)[1:-1], ranks)
