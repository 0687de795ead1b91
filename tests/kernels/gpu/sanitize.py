"""Runs the kernels on small inputs for compute-sanitizer.

    compute-sanitizer --tool memcheck  python tests/kernels/gpu/sanitize.py
    compute-sanitizer --tool racecheck python tests/kernels/gpu/sanitize.py

A wrong result is an error too. The blocks of a stable pass look back through global memory by design; racecheck checks
shared memory only.
"""

from __future__ import annotations

import cupy as cp
import numpy as np
from support.gpu_data import make_keys

from dask_gpusort import kernels
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.keys import encode

SMALL, FEW_BUCKETS, ONE_LAUNCH = 5_003, 40_009, 300_007
MANY_BUCKETS = (1 << 22) + 12_345
EARLY_VALUES = 5 << 20  # pairs with early values


def check(got: object, wanted: object) -> None:
    assert bool((cp.asnumpy(got) == wanted).all())


def check_selection() -> None:
    """Keys at ranks of rows and columns of many lengths, and counts and keys between bounds."""
    rng = np.random.default_rng(3)
    for dtype in ("f4", "f8", "u2"):
        for shape in ((40, 20), (20, 1_000), (5, 20_000), (3, 70_000)):
            keys = np.round(100 * rng.random(shape)).astype(dtype)
            ranks = np.array([0, shape[1] // 2, shape[1] - 1])
            found = kernels.select_rows(cp.asarray(keys), cp.asarray(np.tile(ranks, (shape[0], 1))), 1)[0]
            check(found, np.sort(keys, axis=1)[:, ranks])
            columns = np.ascontiguousarray(keys.T)
            found = kernels.select_rows(cp.asarray(columns), cp.asarray(np.tile(ranks, (shape[0], 1))), 0)[0]
            check(found, np.sort(keys, axis=1)[:, ranks])
        row = np.round(1_000 * rng.random(ONE_LAUNCH)).astype(dtype)
        low, high = (encode(np.array([[10, 500]], dtype)[0] + extra).reshape(1, -1) for extra in (0, 20))
        extracted = kernels.extract([cp.asarray(row.reshape(1, -1))], low, high, len(row))
        inside = row[((row > 10) & (row < 30)) | ((row > 500) & (row < 520))]
        check(cp.sort(extracted.inside[0, : int(extracted.found[0])]), np.sort(inside))
        found, positions = kernels.take_positions(cp.asarray(row), int(low[0, 0]), int(low[0, 1]), len(row) // 4)
        assert found == np.count_nonzero((row >= 10) & (row <= 500)) > len(positions)
        parts = [cp.asarray(part) for part in np.split(np.arange(SMALL).astype(dtype), [3, 500])]
        check(kernels.draw_samples(parts, 1), np.arange(SMALL).astype(dtype))
        assert kernels.draw_samples(parts, 100).size == SMALL // 100
        for positions in (np.uint32, np.int64):
            found, at = cp.empty(SMALL, dtype), cp.asarray(np.arange(SMALL)[::-1].astype(positions))
            kernels.scatter(cp.asarray(np.arange(SMALL).astype(dtype)), at, found)
            check(found, np.arange(SMALL).astype(dtype)[::-1])


def check_ties() -> None:
    """Tie groups, what is made of them, counts of few values, scatters by a permutation, ranks of sorted needles."""
    rng = np.random.default_rng(4)
    for dtype in ("f4", "i8"):
        keys = np.sort(rng.integers(0, 3_000, FEW_BUCKETS).astype(dtype))
        values, starts, numbers, counts = np.unique(keys, True, True, True)
        ties = kernels.mark_ties(cp.asarray(keys))
        check(ties.starts(ties.count())[:-1], starts)
        check(ties.take_firsts(cp.asarray(keys), ties.count()), values)
        check(ties.numbers(np.uint32), numbers)
        check(ties.ranks(ties.starts(ties.count()), "max", len(keys)), (starts + counts)[numbers])
        needles = np.sort(rng.integers(-9, 3_009, FEW_BUCKETS).astype(dtype))
        for side in ("left", "right"):
            found = kernels.rank_sorted_needles(cp.asarray(keys), cp.asarray(needles), side)
            check(found, np.searchsorted(keys, needles, side))
        assert kernels.count_few(cp.asarray(keys)) is None
    for keys in (np.arange(MANY_BUCKETS) % 1_500, np.where(np.arange(MANY_BUCKETS) % 90_000, 5, -1)):
        few = kernels.count_few(cp.asarray(keys))
        check(few.numbers("i8"), np.unique(keys, return_inverse=True)[1])
    for n in (SMALL, MANY_BUCKETS, 3 * MANY_BUCKETS):
        positions = rng.permutation(n).astype(np.uint32)
        for out in ("u4", "i8", "f8"):
            found = cp.empty(n, out)
            kernels.scatter_numbers(None, cp.asarray(positions), found)
            check(found[cp.asarray(positions)], np.arange(n))
    found = cp.empty(3, np.float64)
    assert kernels.gather_in_range(cp.arange(5.0), cp.asarray([4, -5, 0]), found)
    assert not kernels.gather_in_range(cp.arange(5.0), cp.asarray([4, -6, 5]), found)


def main() -> None:
    for n in (SMALL, FEW_BUCKETS):
        for distribution in ("random", "few", "zipf", "low entropy"):
            keys = make_keys("u4", n, distribution)
            check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
            for algorithm in ("msd", "lsd"):
                check(kernels.sort_keys(cp.asarray(keys), algorithm=algorithm), np.sort(keys))
            check(kernels.argsort(cp.asarray(keys)), np.argsort(keys, kind="stable"))
        wide = make_keys("u8", n, "random")
        check(kernels.sort_keys(cp.asarray(wide), algorithm="lsd"), np.sort(wide))
        check(kernels.argsort(cp.asarray(wide)), np.argsort(wide, kind="stable"))
    for dtype in ("u4", "u8"):
        keys = make_keys(dtype, ONE_LAUNCH, "low entropy")
        check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
        runs = [cp.asarray(np.sort(part)) for part in np.array_split(keys, 3)]
        check(kernels.merge_runs(runs)[0], np.sort(keys))
        check(kernels.sort_by_comparison(cp.asarray(keys), less="a < b"), np.sort(keys))
    rows = np.stack([keys % 3, keys], axis=1)
    check(kernels.argsort_words(cp.asarray(rows)), np.lexsort(rows.T[::-1]))
    wide = make_keys("f8", FEW_BUCKETS, "random").view("u8") % 1000 + 1j * np.arange(FEW_BUCKETS)
    check(kernels.sort_wide(cp.asarray(wide)), np.sort(wide))
    for whole in (4, 1 << 20):  # long tie groups, and short ones
        rng = np.random.default_rng(1)
        wide = rng.integers(0, whole, FEW_BUCKETS) * 0.1 + 1j * rng.integers(0, 1 << 20, FEW_BUCKETS)
        check(kernels.sort_wide(cp.asarray(wide)), np.sort(wide))
        check(kernels.argsort_wide(cp.asarray(wide)), np.argsort(wide, kind="stable"))
    for dtype in ("f4", "f8"):
        numbers = np.random.default_rng(2).standard_normal(MANY_BUCKETS).astype(dtype)
        check(kernels.sort_keys(cp.asarray(numbers)), np.sort(numbers))
        for rows in (numbers[:40_000].reshape(10, -1), np.ldexp(1.0, rng.integers(-9, 9, (10, 4_000))).astype(dtype)):
            check(kernels.sort_rows(cp.asarray(rows)), np.sort(rows))
    check_selection()
    check_ties()
    keys = make_keys("u2", FEW_BUCKETS, "random")
    check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
    for distribution in ("random", "few", "low entropy"):
        keys = make_keys("u4", MANY_BUCKETS, distribution)
        for algorithm in ("auto", "msd"):
            check(kernels.sort_keys(cp.asarray(keys), algorithm=algorithm), np.sort(keys))
    values = np.arange(MANY_BUCKETS, dtype=np.uint64)
    check(kernels.sort_pairs(cp.asarray(keys), cp.asarray(values))[1], np.argsort(keys, kind="stable"))
    tuning.EARLY_VALUES_PAIRS.update({4: 1, 8: 1})
    for dtype in ("u4", "f8"):
        keys = make_keys(dtype, EARLY_VALUES, "random")
        order = np.argsort(keys, kind="stable")
        for values_dtype in ("u1", "f4", "u8", "c16"):
            values = np.arange(EARLY_VALUES).astype(values_dtype)
            check(kernels.sort_pairs(cp.asarray(keys), cp.asarray(values))[1], values[order])
    for distribution in ("random", "zipf"):
        rows = make_keys("u4", 3 * 30_001, distribution).reshape(3, -1)
        check(kernels.sort_rows(cp.asarray(rows)), np.sort(rows, axis=1))
        order = np.argsort(rows, axis=1, kind="stable")
        check(kernels.argsort_rows(cp.asarray(rows)), order)
        ordered, positions = kernels.sort_rows_with_positions(cp.asarray(rows))
        check(ordered, np.sort(rows, axis=1))
        check(positions % np.uint32(rows.shape[1]), order)
        ranks = cp.empty(rows.shape, "f8")
        kernels.rank_rows(ordered, positions, "average", ranks)
        _, of_key, counts = zip(*(np.unique(row, return_inverse=True, return_counts=True) for row in rows), strict=True)
        wanted = [(np.cumsum(own) - (own - 1) / 2)[of] for of, own in zip(of_key, counts, strict=True)]
        check(ranks, np.stack(wanted))
    print("all results are right")


if __name__ == "__main__":
    main()
