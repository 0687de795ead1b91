"""Tie groups, ranks and scatters by a permutation on the host, with random thread orders, and on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import oracle
from support.gpu_checks import assert_values
from support.gpu_data import special_keys
from support.host_cuda.launches import record_scatters, record_ties

from dask_gpusort import kernels
from dask_gpusort.chunk.tie_groups import TieGroups, ranks_of_groups
from dask_gpusort.kernels.policy import limits, tuning

DTYPES = ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "M8[s]", "m8[s]"]
SIZES = [1, 31, 32, 33, 255, 256, 257, 1000]
METHODS = ["average", "min", "max", "dense"]
OUTPUTS = ["u4", "i8", "f8"]
#: 64 pairs a tile, up to 64 buckets of 16 positions in one pass, and up to 4,096 in two.
SMALL = tuning.ScatterShape(threads=32, items=2, radix=64, bucket_bits=6, least=1)
SCATTERED = [1, 2, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097, 9001, 40_000]


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    record_ties(recorder, DTYPES)
    with pytest.MonkeyPatch.context() as patch:
        for shape in (SMALL, tuning.SCATTER):
            patch.setattr(tuning, "SCATTER", shape)
            record_scatters(recorder, SCATTERED[-3:])


def draw(dtype, n, seed=0):
    """Sorted keys, most of them equal to others, NaN and signed zeros among them."""
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    some = special_keys(dtype) if dtype.kind in "bfc" else rng.integers(0, 200, 9).astype("i8").astype(dtype)
    if dtype.kind in "mM":
        some[0] = "NaT"
    return oracle.sort(some[rng.integers(0, len(some), n)])


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_of_keys(device, dtype, equal_nan):
    for n in SIZES:
        keys = draw(dtype, n, n)
        wanted = TieGroups(keys, equal_nan)
        found = kernels.mark_ties(device.array(keys), equal_nan=equal_nan)
        check_groups(device, found, wanted)


def check_groups(device, found, wanted):
    count = found.count()
    assert count == wanted.count
    starts = found.starts(count)
    assert_values(starts, wanted.bounds)
    for dtype in ("u4", "i8"):
        assert_values(found.numbers(dtype), wanted.numbers)
    for dtype in ("u1", "u2", "u4", "u8", "c16"):
        values = np.arange(len(wanted.keys)).astype(dtype)
        assert_values(found.take_firsts(device.array(values), count), values[wanted.bounds[:-1]])


@pytest.mark.parametrize("n", [0, *SIZES])
def test_groups_of_flags(device, n):
    flags = np.random.default_rng(n).random(n) < 0.3
    flags[:1] = True
    found = kernels.pack_ties(device.array(flags))
    assert found.count() == np.count_nonzero(flags)
    assert_values(found.numbers("i8"), np.cumsum(flags) - 1)


@pytest.mark.parametrize("share", [0, 0.3, 1])
@pytest.mark.parametrize("n", [0, *SIZES])
def test_positions_of_flags(device, n, share):
    flags = np.random.default_rng(n).random(n) < share
    found = kernels.pack_ties(device.array(flags))
    assert_values(found.starts(found.count())[:-1], np.flatnonzero(flags))


@pytest.mark.parametrize("method", METHODS)
def test_ranks_in_rows(device, method):
    for rows, length in ((1, 1000), (7, 33), (40, 25), (300, 1)):
        keys = np.sort(np.random.default_rng(length).integers(0, 9, (rows, length)), axis=1)
        found = kernels.mark_ties(device.array(keys.reshape(-1)), length=length)
        ranks = found.ranks(found.starts(found.count()), method, length)
        _, number, counts = zip(*(np.unique(row, return_inverse=True, return_counts=True) for row in keys), strict=True)
        wanted = [
            of_key if method == "dense" else ranks_of_groups(method, np.cumsum(count) - count, np.cumsum(count))[of_key]
            for of_key, count in zip(number, counts, strict=True)
        ]
        wanted = np.concatenate(wanted) + (method == "dense")
        assert_values(ranks / (2 if method == "average" else 1), wanted)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("dtype", OUTPUTS)
def test_scatter_by_a_permutation(device, monkeypatch, dtype, given):
    monkeypatch.setattr(tuning, "SCATTER", SMALL)
    for n in SCATTERED:
        rng = np.random.default_rng(n)
        positions = rng.permutation(n).astype("u4")
        numbers = rng.integers(0, 1 << 32, n, dtype="u4") if given else np.arange(n, dtype="u4")
        out = device.empty(n, dtype)
        kernels.scatter_numbers(device.array(numbers) if given else None, device.array(positions), out, 0.5)
        wanted = np.empty(n, dtype)
        wanted[positions] = numbers * 0.5 if dtype == "f8" else numbers
        assert_values(out, wanted)


def test_scatter_in_little_shared_memory(device, monkeypatch):
    """With fewer pairs a tile, a tile is still in one bucket of the first partition."""
    monkeypatch.setattr(tuning, "SCATTER", replace(SMALL, items=8))
    monkeypatch.setattr(limits, "shared_limit", lambda: replace(SMALL, items=5).shared_bytes)
    positions = np.random.default_rng(0).permutation(9001).astype("u4")
    out = device.empty(9001, "i8")
    kernels.scatter_numbers(None, device.array(positions), out)
    assert_values(out, np.argsort(positions))


@pytest.mark.parametrize("kind", ["sorted", "reversed"])
def test_scatter_in_order(device, monkeypatch, kind):
    """All pairs of a tile are in one bucket."""
    monkeypatch.setattr(tuning, "SCATTER", SMALL)
    positions = np.arange(9001, dtype="u4")[:: 1 if kind == "sorted" else -1]
    out = device.empty(9001, "i8")
    kernels.scatter_numbers(None, device.array(np.ascontiguousarray(positions)), out)
    assert_values(out, np.argsort(positions))


@pytest.mark.parametrize("shape", [SMALL, tuning.SCATTER], ids=["partitioned", "direct"])
def test_numbers_that_count_from_one(device, monkeypatch, shape):
    monkeypatch.setattr(tuning, "SCATTER", shape)
    positions, out = np.random.default_rng(0).permutation(4096).astype("u4"), device.empty(4096, "i8")
    kernels.scatter_numbers(None, device.array(positions), out, first=1)
    assert_values(out, np.argsort(positions) + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_ranks_of_sorted_needles(device, dtype, side):
    for n, count in ((0, 5), (1, 3), (33, 1), (1000, 2047), (700, 2049), (70_000, 5000)):
        keys, needles = draw(dtype, n, n), draw(dtype, count, count)
        found = kernels.rank_sorted_needles(device.array(keys), device.array(needles), side)
        assert found.dtype == np.uint32
        assert_values(found, np.searchsorted(keys, needles, side))


def test_ranks_of_needles_that_spread(device):
    keys, needles = np.arange(0, 1 << 20, 7), np.arange(-50, (1 << 20) + 50, 111)
    for side in ("left", "right"):
        found = kernels.rank_sorted_needles(device.array(keys), device.array(needles), side)
        assert_values(found, np.searchsorted(keys, needles, side))


def test_indices_out_of_range(device):
    values, out = np.arange(10.0), device.empty(4, "f8")
    for indices, inside in (([0, 9, -1, -10], True), ([0, 10, 1, 2], False), ([-11, 0, 1, 2], False)):
        assert kernels.gather_in_range(device.array(values), device.array(np.array(indices)), out) == inside
        if inside:
            assert_values(out, values[indices])
