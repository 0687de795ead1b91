"""Keys of several columns of codes: packing, radix sorts, merges, comparisons and searches."""

from __future__ import annotations

from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codes import BLOCK_KEYS

from dask_gpusort.chunk import numpy_words

SIZES = st.integers(0, 200)
WIDTHS = [1, 2, 8, 16, 31, 32, 33, 63, 64]


@st.composite
def columns(draw, sizes=SIZES):
    """Columns of codes, their widths, and the number of bits that vary."""
    size = draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bits = draw(st.lists(st.sampled_from(WIDTHS), min_size=1, max_size=5))
    found = []
    for width in bits:
        varying = draw(st.sampled_from([0, 1, 3, width // 2, width]))
        top = (1 << width) - 1
        least = draw(st.integers(0, top >> min(varying, width)))
        values = rng.integers(0, min(1 << min(varying, width), 1 << 63), size, np.uint64)
        values += np.uint64(min(least, top - int(values.max(initial=0))))
        if draw(st.booleans()):
            alike = np.uint64(draw(st.integers(0, top)))
            values = values & ~alike | np.uint64(least) & alike
        found.append(values.astype(numpy_words.code_of(width)))
    return found, bits


def lexsorted(found):
    return np.lexsort(found[::-1]) if len(found[0]) else np.arange(0)


def as_numbers(found, bits):
    """Each key as one Python integer."""
    totals = [0] * len(found[0])
    for column, width in zip(found, bits, strict=True):
        totals = [total << width | value for total, value in zip(totals, column.tolist(), strict=True)]
    return totals


@given(columns())
def test_packed_keys_have_the_order_of_their_columns(drawn):
    found, bits = drawn
    packed = numpy_words.pack(found, bits)
    assert packed.flags.c_contiguous
    layout = numpy_words.lay_out(bits)
    assert [number for word in layout for number in word] == list(range(len(bits)))
    assert all(sum(bits[number] for number in word) <= 64 for word in layout)
    if len(layout) == 1:
        assert packed.dtype.itemsize * 8 >= sum(bits) > packed.dtype.itemsize * 4 or packed.dtype == np.uint8
        assert packed.tolist() == as_numbers(found, bits)
    else:
        assert packed.dtype == np.uint64
        assert packed.shape == (len(found[0]), len(layout))
        np.testing.assert_array_equal(np.lexsort(packed.T[::-1]), lexsorted(found))


def test_widths_fill_words_from_the_left():
    assert numpy_words.lay_out([32, 32]) == [[0, 1]]
    assert numpy_words.lay_out([64, 1, 63, 2]) == [[0], [1, 2], [3]]
    assert numpy_words.lay_out([33, 32]) == [[0], [1]]
    assert numpy_words.pack([np.array([1, 2], "u1"), np.array([3, 4], "u2")], [1, 16]).tolist() == [65539, 131076]


@given(columns())
def test_argsort(drawn):
    found, _ = drawn
    np.testing.assert_array_equal(numpy_words.argsort(found), lexsorted(found))


@pytest.mark.parametrize("size", [BLOCK_KEYS - 1, BLOCK_KEYS, BLOCK_KEYS + 1, 5000, 70_000])
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("spread", [1, 3, 1 << 20, 1 << 62])
def test_argsort_of_more_keys_than_a_block(size, spread):
    rng = np.random.default_rng(size)
    found = [rng.integers(0, high, size, np.uint64) for high in (3, spread, spread, 1 << 62)]
    before = [column.copy() for column in found]
    got = numpy_words.argsort(found)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, lexsorted(found))
    for column, kept in zip(found, before, strict=True):
        np.testing.assert_array_equal(column, kept)


@pytest.mark.parametrize("last", [0x30, 0x70, 0xB0])
@pytest.mark.parametrize("width", [4, 8])
def test_bits_that_all_keys_have_alike_are_left_out(width, last):
    # The last key has others than all before, of which a sample is looked at first.
    letters = np.random.default_rng(width).integers(0x30, 0x3A, (5000, 3, width), np.uint8)
    letters[-1, :, 0] = last
    found = list(np.ascontiguousarray(letters).view(f">u{width}")[..., 0].T)
    np.testing.assert_array_equal(numpy_words.argsort(found), lexsorted(found))
    assert numpy_words._Reader(found).digit(64)[0].bits == 4 * width + (last != 0x30)


@given(columns(), st.lists(st.floats(0, 1), max_size=6))
def test_argsort_of_runs(drawn, fractions):
    found, _ = drawn
    size = len(found[0])
    offsets = np.array(sorted([0, size, *(int(fraction * size) for fraction in fractions)]), np.int64)
    runs = [np.arange(start, stop) for start, stop in zip(offsets[:-1], offsets[1:], strict=True)]
    order = np.concatenate([run[np.lexsort([column[run] for column in found[::-1]])] for run in runs])
    sorted_runs = [column[order] for column in found]
    np.testing.assert_array_equal(numpy_words.argsort(sorted_runs), lexsorted(sorted_runs))


@pytest.mark.parametrize("merged", [0, None, 100])
@pytest.mark.parametrize("num_runs", [1, 2, 8, 64])
@pytest.mark.parametrize("spread", [1, 1 << 20, 1 << 62])
def test_argsort_of_any_number_of_runs(num_runs, spread, merged):
    rng = np.random.default_rng(num_runs)
    found = [rng.integers(0, high, 20_000, np.uint64) for high in (2, spread, 1 << 63)]
    offsets = np.array([0, *np.sort(rng.integers(0, 20_000, num_runs - 1)), 20_000])
    runs = [np.lexsort([column[a:b] for column in found[::-1]]) + a for a, b in pairwise(offsets)]
    found = [column[np.concatenate(runs)] for column in found]
    with dask.config.set({"gpusort.merged_runs": merged}):
        np.testing.assert_array_equal(numpy_words.argsort(found), lexsorted(found))


@pytest.mark.parametrize("side", ["left", "right"])
@given(drawn=columns(sizes=st.integers(0, 60)), data=st.data())
def test_search_and_comparisons(side, drawn, data):
    found, _ = drawn
    matrix = np.ascontiguousarray(np.stack([column.astype(np.uint64) for column in (*found, found[0])], axis=1))
    size = data.draw(st.integers(0, len(matrix)))
    keys, needles = matrix[:size], matrix[size:]
    keys = keys[np.lexsort(keys.T[::-1])]
    rows = [tuple(row) for row in keys.tolist()]
    wanted = [
        sum(row < tuple(needle) if side == "left" else row <= tuple(needle) for row in rows)
        for needle in needles.tolist()
    ]
    np.testing.assert_array_equal(numpy_words.search(keys, needles, side), wanted)
    other = np.roll(matrix, 1, axis=0)
    pairs = list(zip(map(tuple, matrix.tolist()), map(tuple, other.tolist()), strict=True))
    np.testing.assert_array_equal(numpy_words.less(matrix, other), [a < b for a, b in pairs])
    np.testing.assert_array_equal(numpy_words.differ(matrix, other), [a != b for a, b in pairs])


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 300), st.integers(1, 8))
def test_columns_of_few_wide_values_are_sorted_stably_and_merged(seed, first, second, runs):
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 1 << 63, count, dtype=np.uint64) for count in (first, second)]
    found = [rng.choice(some, 2000) for some in values]
    np.testing.assert_array_equal(numpy_words.argsort(found), lexsorted(found))
    offsets = np.sort(np.append(rng.integers(0, 2000, runs - 1), [0, 2000]))
    order = np.concatenate([start + lexsorted([c[start:end] for c in found]) for start, end in pairwise(offsets)])
    pieces = [column[order.astype(int)] for column in found]
    np.testing.assert_array_equal(numpy_words.argsort(pieces), lexsorted(pieces))
