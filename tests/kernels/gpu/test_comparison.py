"""Comparison sorts, merging and wide keys on a GPU, bit by bit against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_checks import assert_bits, bits, expected_positions, expected_sorted
from support.gpu_data import DISTRIBUTIONS, DTYPES, make_keys, random_bits, special_keys

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels.merge import merge_sort
from dask_gpusort.kernels.papers import odd_even_merge, sampled_merge_sort
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.wide import word_sort

pytestmark = pytest.mark.gpu

TILES = sorted({shape.keys for shape in tuning.MERGE.values()})
EDGES = sorted(
    {0, 1, 2, 33, 1009, 65537, *(tiles * edge + d for edge in TILES for tiles in (1, 2) for d in (-1, 0, 1))}
)
MIDDLE = 300_007  # several levels of merging and a partial last run; a prime
LARGE = (1 << 24) + 3
TIE_TILE = word_sort.TIE_TILE
SORTS = {"merge": merge_sort.sort, "sampled": sampled_merge_sort.sort}
INTEGERS = [dtype for dtype in DTYPES if dtype[0] in "?iu"]
#: Expressions that sort up and down.
DIRECTIONS = {False: "a < b", True: "b < a"}
#: Expression, and a function of the keys by which NumPy sorts in the same order.
EXPRESSIONS = {
    "a < b": lambda keys: keys,
    "b < a": lambda keys: -keys.astype("i8"),
    "a % 10 < b % 10": lambda keys: keys % 10,
    "(a & 255) > (b & 255)  // low bytes, largest first": lambda keys: -(keys & 255).astype("i8"),
}
#: Not strict weak orders.
BAD_EXPRESSIONS = ["true", "a <= b", "a != b", "(a ^ b) & 1", "(a * 2654435761u) % 7 < b % 5"]


@pytest.fixture(params=SORTS)
def sort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The merge sort that the functions call: ours, or the paper's."""
    monkeypatch.setattr(merge_sort, "sort", SORTS[request.param])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.usefixtures("sort")
def test_merge_sort(cp: Any, guarded: Any, dtype: str, distribution: str) -> None:
    for descending, less in DIRECTIONS.items():
        keys = make_keys(dtype, MIDDLE, distribution)
        out, positions = guarded(MIDDLE, dtype), guarded(MIDDLE, np.int64)
        kernels.sort_by_comparison(cp.asarray(keys), less=less, out=out)
        kernels.argsort_by_comparison(cp.asarray(keys), less=less, out=positions)
        assert_bits(out, expected_sorted(keys, descending))
        assert_bits(positions, expected_positions(keys, descending))


@pytest.mark.parametrize("dtype", ["u1", "u4", "i8"])
def test_merge_sort_around_every_tile_size(cp: Any, guarded: Any, dtype: str) -> None:
    for n in EDGES:
        keys = make_keys(dtype, n, "random", seed=1)
        out, positions = guarded(n, dtype), guarded(n, np.int64)
        kernels.sort_by_comparison(cp.asarray(keys), less="a < b", out=out)
        kernels.argsort_by_comparison(cp.asarray(keys), less="a < b", out=positions)
        assert_bits(out, expected_sorted(keys, False))
        assert_bits(positions, expected_positions(keys, False))


@pytest.mark.parametrize("dtype", ["u4", "u8"])
@pytest.mark.usefixtures("sort")
def test_merge_sort_of_many_levels(cp: Any, guarded: Any, dtype: str) -> None:
    keys = make_keys(dtype, LARGE, "random")
    out = guarded(LARGE, dtype)
    kernels.sort_by_comparison(cp.asarray(keys), less="a < b", out=out)
    assert_bits(out, np.sort(keys))


@pytest.mark.parametrize("dtype", ["u2", "i4", "i8"])
def test_merge_sort_in_place_and_unaligned(cp: Any, dtype: str) -> None:
    keys = make_keys(dtype, MIDDLE, "random")
    for skip in (0, 1, 3):
        array = cp.asarray(keys)[skip:]
        assert kernels.sort_by_comparison(array, less="a < b", out=array) is array
        assert_bits(array, expected_sorted(keys[skip:], False))


@pytest.mark.parametrize("network", [odd_even_merge.odd_even_merge, odd_even_merge.odd_even_transposition])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_networks(cp: Any, guarded: Any, dtype: str, network: Any) -> None:
    for n in (0, 1, 2, 3, 255, 1000):
        for descending, less in DIRECTIONS.items():
            keys = make_keys(dtype, n, "special" if n % 2 else "few")
            alone, paired, positions = guarded(n, dtype), guarded(n, dtype), guarded(n, np.uint32)
            alone[...] = paired[...] = cp.asarray(keys)
            positions[...] = cp.arange(n, dtype=np.uint32)
            network(alone, less=less)
            network(paired, positions, less)
            assert_bits(alone, expected_sorted(keys, descending))
            assert_bits(paired, expected_sorted(keys, descending))
            assert_bits(positions, expected_positions(keys, descending).astype(np.uint32))


def test_odd_even_merge_of_a_large_array(cp: Any, guarded: Any) -> None:
    keys = make_keys("u4", MIDDLE, "random")
    out = guarded(MIDDLE, "u4")
    out[...] = cp.asarray(keys)
    odd_even_merge.odd_even_merge(out)
    assert_bits(out, np.sort(keys))


# Orders given by expressions.


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dtype", ["u1", "i4", "u4", "i8"])
@pytest.mark.usefixtures("sort")
def test_sort_by_less_is_stable(cp: Any, guarded: Any, dtype: str, expression: str) -> None:
    keys = np.abs(make_keys(dtype, 20_011, "random") // 2)
    wanted = np.argsort(EXPRESSIONS[expression](keys), kind="stable")
    out, positions = guarded(keys.size, dtype), guarded(keys.size, np.int64)
    kernels.sort_by_comparison(cp.asarray(keys), less=expression, out=out)
    kernels.argsort_by_comparison(cp.asarray(keys), less=expression, out=positions)
    assert_bits(positions, wanted)
    assert_bits(out, keys[wanted])


def test_less_on_complex_numbers(cp: Any) -> None:
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 50, (MIDDLE, 2)).astype(float).view(complex).ravel()
    less = "a.imag() < b.imag()"
    wanted = np.argsort(keys.imag, kind="stable")
    assert_bits(kernels.sort_by_comparison(cp.asarray(keys), less=less), keys[wanted])
    assert_bits(kernels.argsort_by_comparison(cp.asarray(keys), less=less), wanted)


@pytest.mark.parametrize("expression", BAD_EXPRESSIONS)
@pytest.mark.usefixtures("sort")
def test_less_that_is_no_order_yields_valid_positions(cp: Any, guarded: Any, expression: str) -> None:
    for n in (1, 1009, MIDDLE):
        keys = make_keys("u4", n, "random")
        out, positions = guarded(n, "u4"), guarded(n, np.int64)
        kernels.sort_by_comparison(cp.asarray(keys), less=expression, out=out)
        kernels.argsort_by_comparison(cp.asarray(keys), less=expression, out=positions)
        assert int(positions.min()) >= 0
        assert int(positions.max()) < n


def test_compare_and_search_by_less(cp: Any) -> None:
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 1000, 5000)
    keys = keys[np.argsort(keys % 10, kind="stable")]
    needles = rng.integers(0, 1000, 777)
    less = "a % 10 < b % 10"
    for side in ("left", "right"):
        got = kernels.search_by_comparison(cp.asarray(keys), cp.asarray(needles), side, less)
        assert_bits(got, np.searchsorted(keys % 10, needles % 10, side))  # type: ignore[call-overload]
    got = kernels.compare_elements(cp.asarray(keys[:777]), cp.asarray(needles), less)
    assert_bits(got, keys[:777] % 10 < needles % 10)


def test_merge_runs_by_less(cp: Any) -> None:
    rng = np.random.default_rng(5)
    runs = [rng.integers(0, 1 << 30, n) for n in (30_000, 0, 7_777, 12_345)]
    runs = [run[np.argsort(run % 10, kind="stable")] for run in runs]
    joined = np.concatenate(runs)
    wanted = np.argsort(joined % 10, kind="stable")
    rows = [cp.arange(len(run), dtype=np.float32) for run in runs]
    keys, (moved,) = kernels.merge_runs([cp.asarray(run) for run in runs], [rows], less="a % 10 < b % 10")
    assert_bits(keys, joined[wanted])
    assert_bits(moved, cp.concatenate(rows).get()[wanted])


@pytest.mark.parametrize("expression", ["a <", "a < c", "foo(a)", "a < b; }", "a.real() < b.real()"])
def test_less_that_does_not_compile(cp: Any, expression: str) -> None:
    with pytest.raises(ValueError, match="`less` does not compile"):
        kernels.sort_by_comparison(cp.arange(100), less=expression)


def test_invalid_less_raises(cp: Any) -> None:
    with pytest.raises(TypeError, match="float16"):
        kernels.sort_by_comparison(cp.zeros(3, np.float16), less="a < b")
    with pytest.raises(TypeError, match="CUDA C\\+\\+ expression"):
        kernels.sort_by_comparison(cp.zeros(3), less=" ")


# Merging.


def sorted_rows(rng: np.random.Generator, n: int, width: int, most: int) -> np.ndarray[Any, Any]:
    rows = rng.integers(0, most, (n, width), dtype=np.uint64)
    return rows[np.lexsort(rows.T[::-1])]


def make_runs(rng: np.random.Generator, kind: str | int, sizes: Any, most: int) -> list[np.ndarray[Any, Any]]:
    if isinstance(kind, int):
        return [sorted_rows(rng, n, kind, most) for n in sizes]
    top = min(most, np.iinfo(kind).max)
    return [np.sort(rng.integers(0, top, n, dtype=kind, endpoint=True)) for n in sizes]


@pytest.mark.parametrize("most", [2, 100, 1 << 40])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", 1, 2, 3, 4, 6])
def test_merge_runs(cp: Any, kind: str | int, count: int, most: int) -> None:
    rng = np.random.default_rng(count)
    sizes = rng.integers(0, 30_000, count)
    sizes[rng.integers(0, count, count // 4)] = 0
    runs = make_runs(rng, kind, sizes, most)
    joined = np.concatenate(runs)
    wanted = np.lexsort(joined.T[::-1]) if joined.ndim == 2 else np.argsort(joined, kind="stable")
    rows = {dtype: random_bits(rng, np.dtype(dtype), joined.shape[0]) for dtype in ("u4", "f8", "i2")}
    for chosen in ([], ["u4"], ["f8"], ["i2"], ["u4", "f8"]):
        ends = np.cumsum(sizes)
        companions = [[cp.asarray(p) for p in np.split(rows[dtype], ends[:-1])] for dtype in chosen]
        keys, moved = kernels.merge_runs([cp.asarray(run) for run in runs], companions)
        assert_bits(keys, joined[wanted])
        for dtype, row in zip(chosen, moved, strict=True):
            assert_bits(row, rows[dtype][wanted])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_merge_runs_keeps_ties_in_order(cp: Any, dtype: str) -> None:
    for descending in (False, True):
        runs = []
        for seed in range(5):
            keys = make_keys(dtype, 10_007, "special", seed)
            runs.append(codes_of.encode(keys[expected_positions(keys, descending)], descending=descending))
        joined = np.concatenate(runs)
        floors = codes_of.tie_floor(joined, np.dtype(dtype), descending=descending)
        got, _ = kernels.merge_runs([cp.asarray(run) for run in runs], ties_of=dtype, descending=descending)
        assert_bits(got, joined[np.argsort(floors, kind="stable")])


def test_merge_runs_with_invalid_arguments(cp: Any) -> None:
    with pytest.raises(ValueError, match="no runs"):
        kernels.merge_runs([])
    with pytest.raises(TypeError, match="unsigned codes"):
        kernels.merge_runs([cp.zeros(3)])
    with pytest.raises(ValueError, match="like the first one"):
        kernels.merge_runs([cp.zeros(3, "u4"), cp.zeros(3, "u8")])
    with pytest.raises(ValueError, match="not those of the runs"):
        kernels.merge_runs([cp.zeros(3, "u4")] * 2, [[cp.zeros(3), cp.zeros(2)]])


# Wide keys.


@pytest.mark.parametrize("most", [1, 2, 1000, 1 << 33, 1 << 63])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_argsort_words_and_search(cp: Any, guarded: Any, width: int, most: int) -> None:
    for n in (0, 1, 2, 1009, MIDDLE):
        rng = np.random.default_rng([width, n])
        rows = rng.integers(0, most, (n, width), dtype=np.uint64)
        wanted = np.lexsort(rows.T[::-1])
        out = guarded(n, np.int64)
        kernels.argsort_words(cp.asarray(rows), out=out)
        assert_bits(out, wanted)
        ordered = rows[wanted]
        needles = np.concatenate([ordered[:: max(1, n // 300)], rng.integers(0, most, (200, width), dtype=np.uint64)])
        for side in ("left", "right"):
            got = kernels.search_words(cp.asarray(ordered), cp.asarray(needles), side)
            assert_bits(got, ranks_of_rows(ordered, needles, side))


def ranks_of_rows(rows: np.ndarray[Any, Any], needles: np.ndarray[Any, Any], side: str) -> np.ndarray[Any, Any]:
    """Ranks of rows among sorted rows, by the dense ranks of whole rows."""
    _, dense = np.unique(np.concatenate([rows, needles]), axis=0, return_inverse=True)
    dense = dense.ravel()
    return np.searchsorted(dense[: len(rows)], dense[len(rows) :], side).astype(np.int64)  # type: ignore[call-overload]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["random bits", "special", "few", "equal real parts"])
def test_complex128(cp: Any, guarded: Any, kind: str, descending: bool) -> None:
    for n in (0, 1, 1009, MIDDLE):
        rng = np.random.default_rng(n)
        parts = random_bits(rng, np.dtype("f8"), 2 * n)
        if kind == "special":
            parts = rng.choice(special_keys(np.dtype("f8")), 2 * n)
        elif kind == "few":
            parts = rng.integers(-2, 3, 2 * n).astype("f8")
        elif kind == "equal real parts":
            parts[::2] = 1.5
        keys = parts.view("c16")
        wanted = complex_positions(keys, descending)
        out, positions = guarded(n, "c16"), guarded(n, np.int64)
        kernels.argsort_wide(cp.asarray(keys), descending=descending, out=positions)
        kernels.sort_wide(cp.asarray(keys), descending=descending, out=out)
        assert_bits(positions, wanted)
        assert_bits(out, keys[wanted])
        words = kernels.encode_words(cp.asarray(keys), descending)
        assert_bits(kernels.argsort_words(words), wanted)
        ordered, needles = words.get()[wanted], words.get()[:300]
        for side in ("left", "right"):
            got = kernels.search_wide(cp.asarray(keys[wanted]), cp.asarray(keys[:300]), side, descending=descending)
            assert_bits(got, ranks_of_rows(ordered, needles, side))


#: Lengths of the groups that tie in the first word. Each list is repeated. SMALL_GROUP is the longest group that one
#: thread sorts.
TIE_GROUPS = {
    "none": [1],
    "a pair": [*[1] * 70_000, 2, *[1] * 10**6],
    "short": [word_sort.SMALL_GROUP, 1, 3],
    "shortest long": [word_sort.SMALL_GROUP + 1, 1],
    "short and long": [1, word_sort.SMALL_GROUP, word_sort.SMALL_GROUP + 1, 2 * word_sort.SMALL_GROUP, 2],
    "few but long": [*[1] * 15_000, 900, *[1] * 10**6],
    "across tiles": [300, 2 * TIE_TILE + 7, 100_000],
    "starting at the last key of a tile": [*[1] * (TIE_TILE - 1), 3, *[1] * (TIE_TILE - 3), 20, *[1] * 10**6],
    "equal": [10**6],
}
TIE_SIZES = (1, word_sort.SMALL_GROUP, word_sort.SMALL_GROUP + 1, TIE_TILE - 1, TIE_TILE, TIE_TILE + 1, MIDDLE)


def tie_group_numbers(kind: str, n: int) -> np.ndarray[Any, Any]:
    """Number of the tie group of each of n sorted keys."""
    lengths = TIE_GROUPS[kind] * -(-n // sum(TIE_GROUPS[kind]))
    return np.repeat(np.arange(len(lengths)), lengths)[:n]


def spread(rng: np.random.Generator, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One double for each number, in the same order; two or more distinct ones need codes of 64 bits."""
    values = np.sort(rng.standard_normal(numbers.max() + 1))
    values[0], values[-1] = -1e300, 1e300
    return values[numbers]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", TIE_GROUPS)
def test_complex128_with_tied_real_parts(cp: Any, guarded: Any, kind: str, descending: bool) -> None:
    for n in TIE_SIZES:
        rng = np.random.default_rng(n)
        real = spread(rng, tie_group_numbers(kind, n))[rng.permutation(n)]
        for imag in (rng.standard_normal(n), rng.choice(special_keys(np.dtype("f8")), n)):
            keys = np.empty(n, "c16")
            keys.real, keys.imag = real, imag
            assert_sorts_complex(cp, guarded, keys, descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("distinct", [1, 2, 16, 1000])
def test_complex128_with_few_real_parts(cp: Any, guarded: Any, distinct: int, descending: bool) -> None:
    for n in (TIE_TILE + 1, MIDDLE):
        rng = np.random.default_rng(n)
        keys = np.empty(n, "c16")
        keys.real, keys.imag = rng.integers(0, distinct, n), rng.standard_normal(n)
        assert_sorts_complex(cp, guarded, keys, descending)
        keys.real /= 3  # the quotients need many bits
        assert_sorts_complex(cp, guarded, keys, descending)


def assert_sorts_complex(cp: Any, guarded: Any, keys: np.ndarray[Any, Any], descending: bool) -> None:
    out, positions = guarded(len(keys), "c16"), guarded(len(keys), np.int64)
    wanted = complex_positions(keys, descending)
    kernels.argsort_wide(cp.asarray(keys), descending=descending, out=positions)
    kernels.sort_wide(cp.asarray(keys), descending=descending, out=out)
    assert_bits(positions, wanted)
    assert_bits(out, keys[wanted])


def test_complex128_of_many_keys(cp: Any, guarded: Any) -> None:
    rng = np.random.default_rng(7)
    keys = np.empty(LARGE, "c16")
    keys.imag = rng.standard_normal(LARGE)
    for real in (rng.standard_normal(LARGE), rng.integers(0, 16, LARGE)):
        keys.real = real
        assert_sorts_complex(cp, guarded, keys, False)


@pytest.mark.parametrize("kind", TIE_GROUPS)
def test_ties_in_the_second_word(cp: Any, guarded: Any, kind: str) -> None:
    for n in TIE_SIZES:
        rng = np.random.default_rng(n)
        order, fifths = rng.permutation(n), np.arange(n) // 5
        first = spread(rng, tie_group_numbers(kind, n))[order]
        for second in (spread(rng, fifths)[order], fifths[order].astype("f8"), spread(rng, rng.integers(0, 3, n))):
            for last in (rng.integers(0, 3, n, "u8"), rng.integers(0, 1 << 63, n, "u8")):
                keys = [last, second, first]
                wanted = np.lexsort(keys)
                by_rows = guarded(n, np.int64)
                rows = np.stack([codes_of.encode(key) for key in keys[::-1]], axis=1)
                kernels.argsort_words(cp.asarray(rows), out=by_rows)
                assert_bits(by_rows, wanted)


@pytest.mark.parametrize("distinct", [2, 3, 6])
def test_ties_in_many_words(cp: Any, guarded: Any, distinct: int) -> None:
    values = np.array([0, (1 << 64) - 1, 1, 1 << 63, 5, 6], np.uint64)[:distinct]
    for n in (TIE_TILE + 500, MIDDLE):
        rng = np.random.default_rng([distinct, n])
        few = values[rng.integers(0, distinct, (n, 5))]
        # Every word resolves the ties of some keys.
        rows = np.where(rng.random((n, 5)) < 0.1, rng.integers(0, 1 << 63, (n, 5), np.uint64), few)
        wanted = np.lexsort(rows.T[::-1])
        by_rows = guarded(n, np.int64)
        kernels.argsort_words(cp.asarray(rows), out=by_rows)
        assert_bits(by_rows, wanted)


def complex_positions(keys: np.ndarray[Any, Any], descending: bool) -> np.ndarray[Any, Any]:
    """Positions in NumPy's order, by three columns: class of NaN, real part, imaginary part."""
    columns = [2 * np.isnan(keys.real) + np.isnan(keys.imag)]
    for part in (keys.real, keys.imag):
        number = np.where(np.isnan(part), 0.0, part)
        columns.append(-number if descending else number)
    return np.lexsort(columns[::-1])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_floor_codes(cp: Any, dtype: str) -> None:
    for descending in (False, True):
        keys = make_keys(dtype, MIDDLE, "special")
        codes = codes_of.encode(keys, descending=descending)
        floors = codes_of.tie_floor(codes, np.dtype(dtype), descending=descending)
        assert_bits(kernels.floor_codes(cp.asarray(codes), dtype, descending), floors)


def test_wide_keys_with_invalid_arguments(cp: Any) -> None:
    with pytest.raises(TypeError, match="complex128"):
        kernels.sort_wide(cp.zeros(3))
    with pytest.raises(TypeError, match="uint64"):
        kernels.argsort_words(cp.zeros((3, 2)))


def test_two_streams_at_once(cp: Any) -> None:
    keys = [make_keys("u4", MIDDLE, "random", seed) for seed in range(2)]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in keys]
    inputs = [cp.asarray(key) for key in keys]
    cp.cuda.Device().synchronize()
    results = []
    for stream, key in zip(streams, inputs, strict=True):
        with stream:
            results.append(kernels.sort_by_comparison(key, less="a < b"))
    for stream in streams:
        stream.synchronize()
    for got, key in zip(results, keys, strict=True):
        assert (bits(got.get()) == bits(np.sort(key))).all()
