"""Calls of everything that the package launches, for a recorder."""

from __future__ import annotations

import numpy as np
import pytest

from dask_gpusort import kernels
from dask_gpusort.kernels import complex_keys, merging, sorting
from dask_gpusort.kernels.keys import transform
from dask_gpusort.kernels.launch import arrays
from dask_gpusort.kernels.lsd import lsd
from dask_gpusort.kernels.merge import merge_sort
from dask_gpusort.kernels.papers import count_scan_reorder, four_step, odd_even_merge, sampled_merge_sort, split
from dask_gpusort.kernels.papers.passes import DTYPES as PAPER_DTYPES
from dask_gpusort.kernels.papers.passes import KeyValueArrays
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.wide import word_sort
from dask_gpusort.kernels.wide.columns import Width, WordColumns

DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "M8[ns]", "m8[ns]", "c8"]
#: Sizes of arrays that fit one block.
BLOCKS = tuple(sorted({shape.capacity for shapes in tuning.BLOCK_SORT.values() for shape in shapes}))
#: Sizes for one launch, few buckets, and many.
SIZES = (*BLOCKS, 1 << 16, 1 << 19, 1 << 22, 1 << 28)
#: Lengths of lanes from which a warp, a block and a block that reads a row several times select.
LANES = (100, 400, 1000, 4000, 1 << 13, 1 << 15)
#: With smaller limits: too many keys for two levels and for 32-bit status words.
LARGE = 1 << 23
#: Lengths of rows that fit each block, and that need a partition; long rows need more digits, larger buckets or more
#: than one partition.
ROWS = (*BLOCKS, 1 << 14, 1 << 16)
LONG_ROWS = (1 << 21, 1 << 22, 1 << 24)


def record_papers_sorts(recorder):
    """Record every sort of ``four_step``, ``split`` and ``count_scan_reorder``."""
    for dtype in PAPER_DTYPES:
        for value in (None, np.uint32, np.uint64):
            columns = KeyValueArrays(
                recorder.empty(10**7, dtype), None if value is None else recorder.empty(10**7, value)
            )
            split.sort(columns, columns)
            count_scan_reorder.sort(columns, columns)
            four_step.sort(columns, columns)
    for radix_bits in four_step.RADIX_BITS:
        four_step.sort(columns, columns, radix_bits=radix_bits)


def record_whole_arrays(recorder, keys, order):
    """Record every sort of one array."""
    recorder.record(kernels.sorted_codes, keys, **order)
    recorder.record(kernels.sort_with_positions, keys, **order)
    for algorithm in arrays.ALGORITHMS:
        recorder.record(kernels.sort_keys, keys, algorithm=algorithm, **order)
        recorder.record(kernels.argsort, keys, algorithm=algorithm, **order)
        for values in (np.uint8, np.uint16, np.uint32, np.uint64, np.complex128):
            recorder.record(kernels.sort_pairs, keys, recorder.empty(keys.size, values), algorithm=algorithm, **order)


def record_rows(recorder, dtype, order):
    """Record sorts of rows that fit a block, and partitions of rows by every kind of map."""
    for length in ROWS:
        keys = recorder.empty((3, length), dtype)
        recorder.record(sorting.sort_rows, keys, **order)
        recorder.record(sorting.argsort_rows, keys, **order)
        recorder.record(sorting.sort_rows_with_positions, keys, **order)
    for length in LONG_ROWS:
        recorder.record(sorting.sort_rows, recorder.empty((3, length), dtype), **order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "PARTITIONED_ROWS", 0)
        for length in (*ROWS[-2:], *LONG_ROWS):
            recorder.record(sorting.sort_rows, recorder.empty((3, length), dtype), **order)
        recorder.record(sorting.argsort_rows, recorder.empty((3, ROWS[-1]), dtype), **order)


def record_selection(recorder, dtypes=DTYPES, lengths=LANES, counts=(2,)):
    """Record selections in short, long and longer lanes, and the keys inside numbers of brackets."""
    for dtype in dtypes:
        for count in counts:
            ends = np.zeros((3, count), f"u{np.dtype(dtype).itemsize}")
            kernels.extract([recorder.empty((3, 1000), dtype)], ends, ends, 10)
        kernels.draw_samples([recorder.empty(1000, dtype)], 10)
        kernels.take_positions(recorder.empty(1000, dtype), 0, 0, 10)
        for length in lengths:
            for axis, shape in enumerate(((length, 3), (3, length))):
                kernels.select_rows(recorder.empty(shape, dtype), recorder.empty((3, 2), np.int64), axis)


def record_sorts(recorder, dtype, descending):
    """Record every function that sorts or encodes keys of one dtype, in one direction."""
    order = {"descending": descending}
    for n in SIZES:
        record_whole_arrays(recorder, recorder.empty(n, dtype), order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "MOST_TWO_LEVELS", LARGE // 2)
        patch.setattr(tuning, "PARTITIONED_KEYS", {4: (0, LARGE // 2)})
        patch.setattr(lsd, "NARROW_KEYS", LARGE // 2)
        record_whole_arrays(recorder, recorder.empty(LARGE, dtype), order)
    record_rows(recorder, dtype, order)
    keys = recorder.empty(1000, dtype)
    recorder.record(kernels.decode, recorder.record(kernels.encode, keys, **order), dtype, **order)
    for side in ("left", "right"):
        recorder.record(kernels.search_sorted, keys, keys, side, **order)
    for positions in (np.uint32, np.int64):
        recorder.record(kernels.gather, keys, recorder.empty(1000, positions))


def record_ties(recorder, dtypes=DTYPES):
    """Record tie groups, and what is made of them."""
    for dtype in dtypes:
        keys = recorder.empty(1000, dtype)
        kernels.mark_ties(keys)
        matrix = recorder.empty((10, 100), dtype)
        kernels.rank_rows(matrix, recorder.empty((10, 100), "u4"), "average", recorder.empty((10, 100), "f8"))
        for side in ("left", "right"):
            kernels.rank_sorted_needles(keys, keys, side)
    ties = kernels.pack_ties(recorder.empty(1000, "?"))
    for method in ("average", "min", "max", "dense"):
        ties.ranks(ties.starts(9), method, 100)
    for method in ("min", "max", "ordinal"):
        for out in ("i8", "f8"):
            keys, positions, ranks = (recorder.empty((10, 100), dtype) for dtype in ("f4", "u4", out))
            kernels.rank_rows(keys, positions, method, ranks)
    for dtype in ("u4", "i8"):
        ties.numbers(dtype)
    for dtype in ("u1", "u2", "u4", "u8", "c16"):
        values = recorder.empty(1000, dtype)
        ties.take_firsts(values, 9)
        kernels.gather_in_range(values, recorder.empty(1000, "i8"), values)


def record_few(recorder, dtypes=DTYPES):
    """Record counts and numbers of the values of keys that have few."""
    for dtype in dtypes:
        found = kernels.count_few(recorder.empty(1000, dtype))
        for numbers in ("u4", "i8"):
            found.numbers(numbers)


def record_scatters(recorder, sizes=(1000, 1 << 22, 1 << 25)):
    """Record scatters by a permutation, of positions and of given numbers, in one launch, two or three."""
    for dtype in ("u4", "i8", "f8"):
        for n in sizes:
            for numbers in (None, recorder.empty(n, "u4")):
                kernels.scatter_numbers(numbers, recorder.empty(n, "u4"), recorder.empty(n, dtype))


EXPRESSIONS = ("a < b", "a % 10 > b % 10  // a comment\n || a < b")


def record_comparisons(recorder):
    """Record comparison sorts and merges."""
    for dtype in ("?", "u1", "u2", "u4", "i8", "f4"):
        for network in (odd_even_merge.odd_even_merge, odd_even_merge.odd_even_transposition):
            network(recorder.empty(10, dtype))
            network(recorder.empty(10, dtype), recorder.empty(10, "u4"))
        for sort in (merge_sort.sort, sampled_merge_sort.sort):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(merge_sort, "sort", sort)
                for n in (10, 10**5):
                    merging.sort_by_comparison(recorder.empty(n, dtype), less="a < b")
                    merging.argsort_by_comparison(recorder.empty(n, dtype), less="a < b")
    keys = recorder.empty(10**5, "u4")
    for expression in EXPRESSIONS:
        merging.argsort_by_comparison(keys, less=expression)
        merging.compare_elements(keys, keys, expression)
        for side in ("left", "right"):
            merging.search_by_comparison(keys, keys, side, expression)
        merging.merge_runs([keys] * 2, [[keys] * 2], less=expression)
    merging.sort_by_comparison(recorder.empty(10**5, "c16"), less="a.real() < b.real()")
    for kind in ("u1", "u2", "u4", "u8", 2, 4):
        shape, dtype = (1000, kind) if isinstance(kind, int) else 1000, "u8" if isinstance(kind, int) else kind
        for companions in ([], ["f4"], ["f8"], ["f4", "f8"]):
            rows = [[recorder.empty(1000, companion)] * 3 for companion in companions]
            merging.merge_runs([recorder.empty(shape, dtype)] * 3, rows)
    for dtype in ("f4", "c8"):
        merging.merge_runs([recorder.empty(1000, f"u{np.dtype(dtype).itemsize}")] * 3, ties_of=dtype)


def whole_widths(columns):
    """Widths of columns if all bits vary."""
    return [Width(0, 0, 64) for _ in columns.rows.T]


def record_wide_keys(recorder):
    """Record sorts and searches of wide keys and of several keys."""
    recorder.record(word_sort.argsort_words, recorder.empty((1000, 1), np.uint64))
    with pytest.MonkeyPatch.context() as patch:
        # Words of the first part alone, and of both parts.
        for first_bits in (64, 15):
            widths = [Width(0, 0, first_bits), Width(0, 0, 64)]
            patch.setattr(complex_keys, "read_widths", lambda ranges, widths=widths: widths)
            for descending in (False, True):
                for sort in (complex_keys.sort_wide, complex_keys.argsort_wide):
                    recorder.record(sort, recorder.empty(1000, "c16"), descending=descending)
        # Unpatched, the widths that are read back are those of equal keys.
        patch.setattr(WordColumns, "measure", whole_widths)
        recorder.record(word_sort.argsort_words, recorder.empty((1000, 3), np.uint64))
    for descending in (False, True):
        recorder.record(complex_keys.encode_words, recorder.empty(1000, "c16"), descending)
        for side in ("left", "right"):
            keys = recorder.empty(1000, "c16")
            recorder.record(complex_keys.search_wide, keys, keys, side, descending=descending)
        for dtype in ("f2", "f4", "f8", "c8"):
            codes = recorder.empty(1000, f"u{np.dtype(dtype).itemsize}")
            recorder.record(kernels.floor_codes, codes, dtype, descending)
    rows = recorder.empty((1000, 3), np.uint64)
    recorder.record(word_sort.argsort_words, rows)
    for side in ("left", "right"):
        recorder.record(word_sort.search_words, rows, rows, side)


def record_ranks_of_samples(recorder):
    """Record ranks of samples among codes."""
    for width in (1, 2, 4, 8):
        transform.rank_samples(recorder.empty(1000, f"u{width}"), 10)
    for dtype in ("f2", "f4", "f8", "c8"):
        for descending in (False, True):
            codes = recorder.empty(1000, f"u{np.dtype(dtype).itemsize}")
            transform.rank_samples(codes, 10, ties_of=dtype, descending=descending)


def record_everything(recorder, dtypes=DTYPES, directions=(False, True)):
    """Record every launch of the package; sorts of one array for these dtypes and directions alone."""
    with pytest.MonkeyPatch.context() as patch:
        recorder.replace_cupy(patch)
        record_papers_sorts(recorder)
        record_comparisons(recorder)
        record_wide_keys(recorder)
        record_selection(recorder)
        record_ties(recorder)
        record_few(recorder)
        record_scatters(recorder)
        record_ranks_of_samples(recorder)
        kernels.random_keys(3, 1000, 0)
        for dtype in dtypes:
            for descending in directions:
                record_sorts(recorder, dtype, descending)
