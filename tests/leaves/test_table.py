"""The column-major table, compared with its definitions by brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort import table
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.chunk.steps import count_before, count_digits, draw_keys
from dask_gpusort.order import Order
from dask_gpusort.table.bounds import candidates_at_ranks, choose_candidates, cut_between
from dask_gpusort.table.digits import digit_cuts, digit_table, scan_table

ORDER = Order(np.dtype("u2"))
KEY_ORDER = numpy_ops.key_order(ORDER)

#: Sorted chunks of small unsigned keys, with ties within and between chunks. Some chunks are empty.
chunks = st.lists(st.lists(st.integers(0, 30), max_size=20).map(sorted), min_size=1, max_size=6)


def runs_of(lists):
    return [Run(np.array(keys, "u2")) for keys in lists]


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
def test_digits_bound_the_cut_at_every_rank(lists, radix_bits):
    runs = runs_of(lists)
    digits = [count_digits(numpy_ops.sorted_keys(run, ORDER), radix_bits) if len(run) else None for run in runs]
    ranks = np.arange(sum(map(len, runs)))
    chunk_of = np.repeat(np.arange(len(runs)), list(map(len, runs)))
    chunk_of = chunk_of[np.argsort(np.concatenate([run.keys for run in runs]), kind="stable")]
    first, last = digit_cuts(digits, ranks, radix_bits)
    for rank in ranks:
        cut = np.bincount(chunk_of[:rank], minlength=len(runs))
        assert (first[:, rank] <= cut).all()
        assert (cut <= last[:, rank]).all()


def cuts_by_definition(runs, ranks):
    """Cuts of a stable sort: the first ``rank`` triples (key, run, position), counted by run; shape (runs, ranks)."""
    triples = sorted((int(key), number, at) for number, run in enumerate(runs) for at, key in enumerate(run.keys))
    counted = [[number for _, number, _ in triples[:rank]] for rank in ranks]
    return np.array([np.bincount(one, minlength=len(runs)) for one in counted]).T.reshape(len(runs), -1)


@given(chunks, st.integers(1, 8), st.integers(1, 40), st.data())
def test_candidates_are_counted_exactly_and_bound_the_cuts(lists, samples, most, data):
    runs = runs_of(lists)
    ranks = np.array(sorted(data.draw(st.lists(st.integers(0, sum(map(len, lists))), max_size=8))), np.int64)
    drawn = [draw_keys(run, ORDER, samples=samples, seed=seed) for seed, run in enumerate(runs)]
    found = choose_candidates(drawn, KEY_ORDER, most)
    assert found.sizes.tolist() == list(map(len, lists))
    assert len(found.keys) <= most
    counts = np.array([count_before(run, number, found, ORDER) for number, run in enumerate(runs)])
    order = sorted((int(key), number, at) for number, run in enumerate(runs) for at, key in enumerate(run.keys))
    own = zip(found.keys.tolist(), found.runs.tolist(), found.positions.tolist(), strict=True)
    places = [order.index(one) for one in own]
    np.testing.assert_array_equal(counts, cuts_by_definition(runs, places))
    low, high = candidates_at_ranks(counts.sum(axis=0), ranks)
    first, last = cut_between(counts, found.sizes, low, high)
    wanted = cuts_by_definition(runs, [0, *ranks, sum(map(len, lists))])
    assert (first <= wanted).all()
    assert (wanted <= last).all()
    # No candidate is between the bounds of a cut.
    for boundary, rank in enumerate(ranks):
        ends = first[:, boundary + 1].sum(), last[:, boundary + 1].sum()
        assert not any(ends[0] < place < ends[1] for place in places), rank


def test_candidates_stand_for_runs_of_any_size():
    # One run has half of all keys, and ranges of keys do not overlap.
    rng, groups, sizes = np.random.default_rng(0), 16, [1 << 15, *[128] * 256]
    ends = np.cumsum([0, *sizes]) * 65_536 // (2 * sizes[0])
    spans = zip(sizes, ends[:-1], ends[1:], strict=True)
    runs = [Run(np.sort(rng.integers(low, high, size)).astype("u2")) for size, low, high in spans]
    drawn = [
        draw_keys(run, ORDER, samples=-(-16 * groups * len(run) // (2 * sizes[0])), seed=seed)
        for seed, run in enumerate(runs)
    ]
    found = choose_candidates(drawn, KEY_ORDER, 16 * groups)
    counts = np.array([count_before(run, number, found, ORDER) for number, run in enumerate(runs)])
    first, last = cut_between(
        counts, found.sizes, *candidates_at_ranks(counts.sum(axis=0), np.arange(1, groups) * 2 * sizes[0] // groups)
    )
    assert (last - first).sum() <= 0.25 * 2 * sizes[0]


def test_candidates_leave_little_of_any_distribution():
    rng, groups = np.random.default_rng(0), 32
    for keys in (rng.integers(0, 60_000, 1 << 16), np.arange(1 << 16) % 7, np.arange(1 << 16), np.zeros(1 << 16)):
        # All runs have the same keys, so that keys at regular positions would be the same too.
        runs = [Run(np.sort(keys[number::64]).astype("u2")) for number in range(64)]
        samples = 16 * groups // 64
        drawn = [draw_keys(run, ORDER, samples=samples, seed=seed) for seed, run in enumerate(runs)]
        found = choose_candidates(drawn, KEY_ORDER, 16 * groups)
        counts = np.array([count_before(run, number, found, ORDER) for number, run in enumerate(runs)])
        ranks = np.arange(1, groups) * len(keys) // groups
        first, last = cut_between(counts, found.sizes, *candidates_at_ranks(counts.sum(axis=0), ranks))
        assert (last - first).sum() <= 0.25 * len(keys)
