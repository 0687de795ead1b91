"""Comparison sorts, merging and wide keys on the CPU, with random thread orders, against NumPy."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from support import host_cuda, oracle
from support.host_kernels import MERGE_TILE as TILE
from support.host_kernels import bits_of_keys, use_small_merges

from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import complex_keys, merging
from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.kernels.merge import merge_sort
from dask_gpusort.kernels.papers import odd_even_merge, sampled_merge_sort
from dask_gpusort.kernels.wide import columns, word_sort

pytestmark = pytest.mark.skipif(host_cuda.compiler() is None, reason="no g++: kernels cannot be built for the host")

#: Sizes around one tile and around two, and several tiles with a partial last one.
SIZES = (0, 1, 2, 5, 63, *(tiles * TILE.keys + d for tiles in (1, 2) for d in (-1, 0, 1)), 1100, 2203, 4500)
SORTS = {"merge": merge_sort.sort, "sampled": sampled_merge_sort.sort}
NETWORKS = odd_even_merge.odd_even_merge, odd_even_merge.odd_even_transposition
DTYPES = ("u1", "u4", "i8")
LESS = "a % 10 < b % 10"
NOT_AN_ORDER = ("true", "a != b", "(a ^ b) & 1")
COMPANIONS = ([], ["f4"], ["i2", "f8"])


def calls():
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_merges(patch)
        yield from sorts_and_merges()
        # In the values that the recorder reads back no bit varies, so widths are given here.
        for bits in (64, 15, 3):
            for module in (columns, complex_keys):
                patch.setattr(module, "read_widths", lambda ranges, bits=bits: widths_of_bits(ranges, bits))
            yield from sorts_of_words()


def sorts_and_merges():
    for sort in SORTS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merge_sort, "sort", sort)
            for n in (5, TILE.keys + 1, SIZES[-1]):
                for dtype in DTYPES:
                    yield from sorts_by_comparison(n, dtype, "a < b")
            for less in (LESS, "b < a", *NOT_AN_ORDER):
                yield from sorts_by_comparison(SIZES[-1], "u4", less)
    for network in NETWORKS:
        for dtype in DTYPES:
            yield lambda empty, network=network, dtype=dtype: network(empty(5, dtype))
            yield lambda empty, network=network, dtype=dtype: network(empty(5, dtype), empty(5, "u4"))
    for kind in ("u1", "u8", 2, 5):
        for chosen in COMPANIONS:
            yield lambda empty, kind=kind, chosen=chosen: merging.merge_runs(
                [empty(9 if isinstance(kind, str) else (9, kind), kind if isinstance(kind, str) else "u8")] * 3,
                [[empty(9, dtype)] * 3 for dtype in chosen],
            )
    yield from sorts_of_words()


def sorts_by_comparison(n, dtype, less):
    yield lambda empty: merging.sort_by_comparison(empty(n, dtype), less=less)
    yield lambda empty: merging.argsort_by_comparison(empty(n, dtype), less=less)


def sorts_of_words():
    for n in (9, TIE_SIZES[-1]):
        for words in (2, 3, 5):
            yield lambda empty, n=n, words=words: word_sort.argsort_words(empty((n, words), "u8"))
        for descending in (False, True):
            for sort in (complex_keys.sort_wide, complex_keys.argsort_wide):
                yield lambda empty, n=n, sort=sort, strategy=descending: sort(empty(n, "c16"), descending=strategy)
    for side in ("left", "right"):
        yield lambda empty, side=side: word_sort.search_words(empty((9, 3), "u8"), empty((9, 3), "u8"), side)


def widths_of_bits(ranges, first_bits):
    """Widths of columns: `first_bits` for the first one, 64 for the others."""
    others = ranges.size // columns.RANGE_WORDS - 1
    return [columns.Width(0, 0, bits) for bits in (first_bits, *[64] * others)]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    use_small_merges(monkeypatch)


@pytest.fixture(params=SORTS)
def sort(request, monkeypatch):
    """The merge sort that the functions call: ours, or the paper's."""
    monkeypatch.setattr(merge_sort, "sort", SORTS[request.param])


@pytest.mark.parametrize("kind", ["random", "few", "sorted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("sort")
def test_sorts_around_the_tile(device, dtype, kind):
    rng = np.random.default_rng(1)
    for n in SIZES:
        keys = bits_of_keys(rng, dtype, n, kind)
        wanted = np.argsort(keys, kind="stable")
        np.testing.assert_array_equal(merging.argsort_by_comparison(device.array(keys), less="a < b"), wanted)
        np.testing.assert_array_equal(merging.sort_by_comparison(device.array(keys), less="a < b"), keys[wanted])


@pytest.mark.usefixtures("sort")
def test_sorts_in_place(device):
    for n in (50, 1000):
        keys = bits_of_keys(np.random.default_rng(2), "u1", n, "random")
        array = device.array(keys)
        merging.sort_by_comparison(array, less="a < b", out=array)
        np.testing.assert_array_equal(array, np.sort(keys))


@pytest.mark.parametrize("kind", ["random", "few", "sorted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(device, network, dtype, kind):
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 5, 63, 100):
        keys = bits_of_keys(rng, dtype, n, kind)
        alone, paired, positions = device.array(keys), device.array(keys), device.array(np.arange(n, dtype="u4"))
        network(alone)
        network(paired, positions)
        wanted = np.argsort(keys, kind="stable")
        for found in (alone, paired):
            np.testing.assert_array_equal(found, keys[wanted])
        np.testing.assert_array_equal(positions, wanted)


@pytest.mark.usefixtures("sort")
def test_less(device):
    keys = np.random.default_rng(4).integers(0, 1 << 30, 1500, dtype=np.uint32)
    for less, ranks in ((LESS, keys % 10), ("b < a", -keys.astype(int))):
        wanted = np.argsort(ranks, kind="stable")
        np.testing.assert_array_equal(merging.argsort_by_comparison(device.array(keys), less=less), wanted)
        np.testing.assert_array_equal(merging.sort_by_comparison(device.array(keys), less=less), keys[wanted])


@pytest.mark.parametrize("expression", NOT_AN_ORDER)
@pytest.mark.usefixtures("sort")
def test_less_that_is_no_order_yields_valid_positions(device, expression):
    keys = np.random.default_rng(5).integers(0, 1 << 30, 1500, dtype=np.uint32)
    got = merging.argsort_by_comparison(device.array(keys), less=expression)
    assert got.min() >= 0
    assert got.max() < len(keys)


def make_runs(rng, kind, sizes, most):
    if isinstance(kind, str):
        return [np.sort(rng.integers(0, min(most, 255) if kind == "u1" else most, n).astype(kind)) for n in sizes]
    rows = [rng.integers(0, most, (n, kind)).astype("u8") for n in sizes]
    return [row[np.lexsort(row.T[::-1])] for row in rows]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", ["u1", "u8", 2, 5])
def test_merge_runs(device, kind, count):
    rng = np.random.default_rng(count)
    for most in (3, 1 << 40):
        sizes = rng.integers(0, 3 * TILE.keys, count)
        sizes[-1] = 0 if count > 2 else sizes[-1]
        runs = make_runs(rng, kind, sizes, most)
        joined = np.concatenate(runs)
        wanted = np.lexsort(joined.T[::-1]) if joined.ndim == 2 else np.argsort(joined, kind="stable")
        for chosen in COMPANIONS:
            rows = [[rng.integers(0, 9999, n).astype(dtype) for n in sizes] for dtype in chosen]
            parts = [[device.array(part) for part in row] for row in rows]
            keys, moved = merging.merge_runs([device.array(run) for run in runs], parts)
            np.testing.assert_array_equal(keys, joined[wanted])
            for got, row in zip(moved, rows, strict=True):
                np.testing.assert_array_equal(got, np.concatenate(row)[wanted])


def test_merge_empty_runs(device):
    keys, _ = merging.merge_runs([device.empty(0, "u4")] * 3)
    assert keys.size == 0


@pytest.mark.parametrize("most", [1, 3, 1 << 40, 1 << 63])
def test_argsort_words_and_search_words(device, most):
    rng = np.random.default_rng(6)
    for n in (0, 1, 2, 900):
        rows = rng.integers(0, most, (n, 3)).astype("u8")
        wanted = np.lexsort(rows.T[::-1])
        np.testing.assert_array_equal(word_sort.argsort_words(device.array(rows)), wanted)
        ordered = [tuple(row) for row in rows[wanted].tolist()]
        for side, find in (("left", bisect.bisect_left), ("right", bisect.bisect_right)):
            got = word_sort.search_words(device.array(rows[wanted]), device.array(rows[:40]), side)
            np.testing.assert_array_equal(got, [find(ordered, tuple(row)) for row in rows[:40].tolist()])


def test_complex_keys(device):
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, 5e-324])
    for n in (0, 1, 900):
        for parts in (rng.choice(special, 2 * n), rng.standard_normal(2 * n)):
            keys = parts.view("c16")
            wanted = np.argsort(keys, kind="stable")
            np.testing.assert_array_equal(complex_keys.argsort_wide(device.array(keys)), wanted)
            got = complex_keys.sort_wide(device.array(keys))
            np.testing.assert_array_equal(got.view("u8"), keys[wanted].view("u8"))
            backwards = oracle.argsort(keys, descending=True)
            got = complex_keys.sort_wide(device.array(keys), descending=True)
            np.testing.assert_array_equal(got.view("u8"), keys[backwards].view("u8"))


def test_columns_are_as_narrow_as_the_bits_that_vary(device):
    rows = device.array(np.random.default_rng(9).integers(0, 100, (900, 4)).astype("u8") << np.uint64(20))
    assert len(columns.lay_out(columns.WordColumns(rows).measure())) == 1  # one word of 64 bits for four words
    np.testing.assert_array_equal(word_sort.argsort_words(rows), np.lexsort(np.asarray(rows).T[::-1]))


#: Lengths of the groups that tie in the first word. Each list is repeated. SHORT is the longest group that one thread
#: sorts.
SHORT, TIE_TILE = word_sort.SMALL_GROUP, word_sort.TIE_TILE
TIE_GROUPS = {
    "none": [1],
    "a pair": [*[1] * 700, 2, *[1] * 10**5],
    "short": [SHORT, 1, 3],
    "shortest long": [SHORT + 1, 1],
    "short and long": [1, SHORT, SHORT + 1, 2 * SHORT, 2],
    "few but long": [*[1] * 1500, 900, *[1] * 10**5],
    "across tiles": [300, 2 * TIE_TILE + 7],
    "starting at the last key of a tile": [*[1] * (TIE_TILE - 1), 3, *[1] * (TIE_TILE - 3), 20, *[1] * 10**6],
    "equal": [10**5],
}
TIE_SIZES = (1, SHORT, SHORT + 1, TIE_TILE + 1, 2 * TIE_TILE + 500)


def tie_group_numbers(kind, n):
    """Number of the tie group of each of n sorted keys."""
    lengths = TIE_GROUPS[kind] * -(-n // sum(TIE_GROUPS[kind]))
    return np.repeat(np.arange(len(lengths)), lengths)[:n]


def spread(rng, numbers):
    """One double for each number, in the same order; two or more distinct ones need codes of 64 bits."""
    values = np.sort(rng.standard_normal(numbers.max() + 1))
    values[0], values[-1] = -1e300, 1e300
    return values[numbers]


def few(rng, n):
    """Few distinct values; some compare equal although their bits differ."""
    return rng.choice([0.0, -0.0, np.nan, -np.nan, 1.0, 2.5, -np.inf], n)


@pytest.mark.parametrize("kind", TIE_GROUPS)
@pytest.mark.parametrize("n", TIE_SIZES)
def test_tied_real_parts(device, n, kind):
    rng = np.random.default_rng(n)
    order = rng.permutation(n)
    for imag in (few(rng, n), rng.standard_normal(n)):
        keys = np.empty(n, "c16")
        keys.real, keys.imag = spread(rng, tie_group_numbers(kind, n))[order], imag
        assert_sorts_complex(device, keys)


def assert_sorts_complex(device, keys):
    for descending in (False, True):
        wanted = oracle.argsort(keys, descending=descending)
        got = complex_keys.argsort_wide(device.array(keys), descending=descending)
        np.testing.assert_array_equal(got, wanted)
        out = device.empty(len(keys), "c16")
        assert complex_keys.sort_wide(device.array(keys), descending=descending, out=out) is out
        np.testing.assert_array_equal(out.view("u8"), keys[wanted].view("u8"))


@pytest.mark.parametrize("distinct", [1, 2, 16, 500])
def test_few_real_parts(device, distinct):
    rng = np.random.default_rng(distinct)
    n = TIE_TILE + 77
    keys = np.empty(n, "c16")
    for imag in (rng.standard_normal(n), rng.standard_normal(20)[rng.integers(0, 20, n)]):
        keys.real, keys.imag = rng.integers(0, distinct, n), imag
        assert_sorts_complex(device, keys)


@pytest.mark.parametrize("share", [0.001, 0.5, 1])
def test_complex_keys_with_nan(device, share):
    rng = np.random.default_rng(10)
    n = TIE_TILE + 300
    parts = np.where(rng.random((n, 2)) < share, few(rng, 2 * n).reshape(n, 2), rng.standard_normal((n, 2)))
    assert_sorts_complex(device, parts.ravel().view("c16"))


@pytest.mark.parametrize("kind", TIE_GROUPS)
@pytest.mark.parametrize("n", TIE_SIZES)
def test_ties_in_the_second_word(device, n, kind):
    rng = np.random.default_rng(n)
    numbers = tie_group_numbers(kind, n)
    # In the second word, tie groups of five keys.
    halves = np.arange(n) // 5
    order = rng.permutation(n)
    for last in (rng.integers(0, 3, n).astype("u8"), rng.integers(0, 1 << 63, n, "u8")):
        for second in (spread(rng, halves), halves.astype("f8"), spread(rng, rng.integers(0, 3, n))):
            keys = [last, second[order], spread(rng, numbers)[order]]
            rows = np.stack([codes_of.encode(key) for key in keys[::-1]], axis=1)
            np.testing.assert_array_equal(word_sort.argsort_words(device.array(rows)), np.lexsort(keys))


@pytest.mark.parametrize("distinct", [2, 3, 6])
def test_ties_in_many_words(device, distinct):
    rng = np.random.default_rng(distinct)
    values = np.array([0, (1 << 64) - 1, 1, 1 << 63, 5, 6], "u8")[:distinct]
    shape = TIE_TILE + 500, 5
    # Every word resolves the ties of some keys.
    rows = np.where(
        rng.random(shape) < 0.1, rng.integers(0, 1 << 63, shape, "u8"), values[rng.integers(0, distinct, shape)]
    )
    wanted = np.lexsort(rows.T[::-1])
    np.testing.assert_array_equal(word_sort.argsort_words(device.array(rows)), wanted)


@pytest.fixture
def launched(device, monkeypatch):
    """Names of the launched kernels in wide/, and of those that scatter."""
    names = []

    def run(launch):
        name = launch.kernel.partition("<")[0]
        if launch.source.startswith("wide/") or name == "scatter":
            names.append(name)
        device.launch(launch)

    monkeypatch.setattr(Launch, "run", run)
    return names


def test_launches_without_ties(device, launched):
    rng = np.random.default_rng(12)
    n = 3000
    real = spread(rng, rng.permutation(n))
    keys = (real + 1j * rng.standard_normal(n)).astype("c16")
    complex_keys.sort_wide(device.array(keys))
    assert launched == ["measure_complex", "resolve_ties"]
    launched.clear()
    word_sort.argsort_words(device.array(np.stack([codes_of.encode(real)] * 2, axis=1)))
    assert launched == ["measure_column", "measure_column", "append_column", "resolve_ties"]


def test_launches_with_few_ties(device, launched):
    rng = np.random.default_rng(13)
    n = 3000
    keys = rng.integers(0, 16, n) + 1j * rng.standard_normal(n)
    keys[:7] = keys[0].real + 1j * np.nextafter(1.0, 2.0 + np.arange(7))
    complex_keys.sort_wide(device.array(keys))
    assert launched == ["measure_complex", "make_complex_word", "resolve_ties"]
    launched.clear()
    keys = spread(rng, tie_group_numbers("few but long", n))[rng.permutation(n)] + 1j * rng.standard_normal(n)
    complex_keys.sort_wide(device.array(keys))
    assert launched == ["measure_complex", "resolve_ties", "list_ties", "make_complex_word", "scatter"]
