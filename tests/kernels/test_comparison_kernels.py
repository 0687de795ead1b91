"""Comparison sorts, merging and wide keys on the host, with random thread orders, and on a GPU, against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support import oracle
from support.gpu_checks import assert_bits
from support.gpu_data import DISTRIBUTIONS, make_keys, special_keys
from support.gpu_data import DTYPES as OF_GPUS
from support.host_kernels import MERGE_TILE, use_small_merges
from support.marks import by_device, only_gpu

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import complex_keys, merging
from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.kernels.merge import merge_sort
from dask_gpusort.kernels.papers import odd_even_merge, sampled_merge_sort
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.wide import columns, word_sort

pytestmark = pytest.mark.slow

MIDDLE = 300_007  # several levels of merging and a partial last run; a prime
LARGE = (1 << 24) + 3
TILES = {MERGE_TILE.keys}, {shape.keys for shape in tuning.MERGE.values()}
SORTS = {"merge": merge_sort.sort, "sampled": sampled_merge_sort.sort}
NETWORKS = odd_even_merge.odd_even_merge, odd_even_merge.odd_even_transposition
DTYPES = ("u1", "u4", "i8")
INTEGERS = [dtype for dtype in OF_GPUS if dtype[0] in "?iu"]
LESS = "a % 10 < b % 10"
#: Expression, and a function of the keys by which NumPy sorts in the same order.
EXPRESSIONS = {
    "a < b": lambda keys: keys,
    "b < a": lambda keys: ~keys,
    LESS: lambda keys: keys % 10,
    "(a & 255) > (b & 255)  // low bytes, largest first": lambda keys: -(keys & 255).astype("i8"),
}
#: On the host, the first three.
NOT_AN_ORDER = ("true", "a != b", "(a ^ b) & 1", "a <= b", "(a * 2654435761u) % 7 < b % 5")
COMPANIONS = ([], ["f4"], ["f8"], ["i2", "f8"])
#: Dtypes of runs, and numbers of the words of their rows; a GPU alone merges the others.
RUNS, MORE_RUNS = ("u1", "u8", 2, 5), ("u2", "u4", 1, 3, 4, 6)


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_merges(patch)
        record_sorts_and_merges(recorder)
        # In the values that the recorder reads back no bit varies, so widths are given here.
        for bits in (64, 15, 3):
            for module in (columns, complex_keys):
                patch.setattr(module, "read_widths", lambda ranges, bits=bits: widths_of_bits(ranges, bits))
            record_sorts_of_words(recorder)


def record_sorts_and_merges(recorder):
    empty = recorder.empty
    for sort in SORTS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merge_sort, "sort", sort)
            cases = [*product((5, MERGE_TILE.keys + 1, 4500), DTYPES, ["a < b"])]
            for n, dtype, less in [*cases, *product([1, 4500], ["u4"], ["b < a", LESS, *NOT_AN_ORDER[:3]])]:
                recorder.record(merging.sort_by_comparison, empty(n, dtype), less=less)
                recorder.record(merging.argsort_by_comparison, empty(n, dtype), less=less)
    for network, dtype in product(NETWORKS, DTYPES):
        recorder.record(network, empty(5, dtype))
        recorder.record(network, empty(5, dtype), empty(5, "u4"))
    for kind, chosen in product(RUNS, COMPANIONS):
        run = empty(9, kind) if isinstance(kind, str) else empty((9, kind), "u8")
        recorder.record(merging.merge_runs, [run] * 3, [[empty(9, dtype)] * 3 for dtype in chosen])
    keys = empty(9, "i8")
    recorder.record(merging.merge_runs, [keys] * 2, [[empty(9, "f4")] * 2], less=LESS)
    recorder.record(kernels.compare_elements, keys, keys, LESS)
    for side in ("left", "right"):
        recorder.record(kernels.search_by_comparison, keys, keys, side, LESS)
    for dtype, descending in product(("f2", "f4", "f8", "c8"), (False, True)):
        codes = empty(9, f"u{np.dtype(dtype).itemsize}")
        recorder.record(kernels.floor_codes, codes, dtype, descending)
        recorder.record(merging.merge_runs, [codes] * 2, ties_of=dtype, descending=descending)
    record_sorts_of_words(recorder)


def record_sorts_of_words(recorder):
    for n in (9, 2 * TIE_TILE):
        for words in (2, 3, 5):
            recorder.record(word_sort.argsort_words, recorder.empty((n, words), "u8"))
        for descending in (False, True):
            for sort in (complex_keys.sort_wide, complex_keys.argsort_wide):
                recorder.record(sort, recorder.empty(n, "c16"), descending=descending)
    for side in ("left", "right"):
        recorder.record(word_sort.search_words, recorder.empty((9, 3), "u8"), recorder.empty((9, 3), "u8"), side)


def widths_of_bits(ranges, first_bits):
    """Widths of columns: `first_bits` for the first one, 64 for the others."""
    others = ranges.size // columns.RANGE_WORDS - 1
    return [columns.Width(0, 0, bits) for bits in (first_bits, *[64] * others)]


@pytest.fixture
def host(host, monkeypatch):
    """The host, with small tiles."""
    use_small_merges(monkeypatch)
    return host


@pytest.fixture(params=SORTS)
def sort(request, monkeypatch):
    """The merge sort that the functions call: ours, or the paper's."""
    monkeypatch.setattr(merge_sort, "sort", SORTS[request.param])


def check_sorts(device, keys, less="a < b", by=None):
    wanted = np.argsort(keys if by is None else by, kind="stable")
    out, positions = device.empty(keys.size, keys.dtype), device.empty(keys.size, "i8")
    merging.sort_by_comparison(device.array(keys), less=less, out=out)
    merging.argsort_by_comparison(device.array(keys), less=less, out=positions)
    assert_bits(out, keys[wanted])
    assert_bits(positions, wanted)


@pytest.mark.parametrize("kind", ["random", "few", "sorted"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("sort")
def test_sorts_around_the_tile(device, dtype, kind):
    """Sizes around one tile and around two, and several tiles with a partial last one."""
    edges = [tiles * edge + d for edge in TILES[not device.is_small] for tiles in (1, 2) for d in (-1, 0, 1)]
    for n in (0, 1, 2, 5, 63, *edges, 1100, 2203, 4500, *device.large(65_537)):
        check_sorts(device, make_keys(dtype, n, kind))


@only_gpu
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.usefixtures("sort")
def test_sorts_of_any_distribution(device, dtype, distribution):
    keys = make_keys(dtype, MIDDLE, distribution)
    for less in ("a < b", "b < a"):
        check_sorts(device, keys, less, EXPRESSIONS[less](keys))


@only_gpu
@pytest.mark.parametrize("dtype", ["u4", "u8"])
@pytest.mark.usefixtures("sort")
def test_sorts_of_many_levels(device, dtype):
    check_sorts(device, make_keys(dtype, LARGE, "random"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("sort")
def test_sorts_in_place_and_unaligned(device, dtype):
    for n in (50, 1000, *device.large(MIDDLE)):
        keys = make_keys(dtype, n, "random")
        for skip in (0, 1, 3):
            array = device.array(keys)[skip:]
            assert merging.sort_by_comparison(array, less="a < b", out=array) is array
            assert_bits(array, np.sort(keys[skip:]))


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "special"])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(device, network, kind):
    for dtype in DTYPES if device.is_small else INTEGERS:
        for n in (0, 1, 2, 3, 5, 63, 100, *device.large(255, 1000)):
            for less in ("a < b", *device.large("b < a")):
                check_network(device, network, make_keys(dtype, n, kind), less)


@only_gpu
def test_odd_even_merge_of_a_large_array(device):
    check_network(device, odd_even_merge.odd_even_merge, make_keys("u4", MIDDLE, "random"), "a < b")


def check_network(device, network, keys, less):
    alone, paired, positions = (device.empty(keys.size, dtype) for dtype in (keys.dtype, keys.dtype, "u4"))
    alone[...] = paired[...] = device.array(keys)
    positions[...] = device.array(np.arange(keys.size, dtype="u4"))
    network(alone, less=less)
    network(paired, positions, less)
    wanted = np.argsort(EXPRESSIONS[less](keys), kind="stable")
    for found in (alone, paired):
        assert_bits(found, keys[wanted])
    assert_bits(positions, wanted.astype("u4"))


# Orders given by expressions.


@by_device("expression", ["b < a", LESS], EXPRESSIONS)
@pytest.mark.usefixtures("sort")
def test_less_is_stable(device, expression):
    for dtype in ("u4", *device.large("u1", "i4", "i8")):
        keys = np.abs(make_keys(dtype, 1500 if device.is_small else 20_011, "random") // 2)
        check_sorts(device, keys, expression, EXPRESSIONS[expression](keys))


@only_gpu
def test_less_on_complex_numbers(device):
    keys = np.random.default_rng(2).integers(0, 50, (1500, 2)).astype(float).view(complex).ravel()
    check_sorts(device, keys, "a.imag() < b.imag()", keys.imag)


@by_device("expression", NOT_AN_ORDER[:3], NOT_AN_ORDER)
@pytest.mark.usefixtures("sort")
def test_less_that_is_no_order_yields_valid_positions(device, expression):
    for n in (1, 1500, *device.large(MIDDLE)):
        keys, out, positions = make_keys("u4", n, "random"), device.empty(n, "u4"), device.empty(n, "i8")
        merging.sort_by_comparison(device.array(keys), less=expression, out=out)
        merging.argsort_by_comparison(device.array(keys), less=expression, out=positions)
        assert positions.get().min() >= 0
        assert positions.get().max() < n


def test_compare_and_search_by_less(device):
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 1000, 5000)
    keys = keys[np.argsort(keys % 10, kind="stable")]
    needles = rng.integers(0, 1000, 777)
    for side in ("left", "right"):
        got = kernels.search_by_comparison(device.array(keys), device.array(needles), side, LESS)
        assert_bits(got, np.searchsorted(keys % 10, needles % 10, side))
    got = kernels.compare_elements(device.array(keys[:777]), device.array(needles), LESS)
    assert_bits(got, keys[:777] % 10 < needles % 10)


@only_gpu
@pytest.mark.parametrize("expression", ["a <", "a < c", "foo(a)", "a < b; }", "a.real() < b.real()"])
def test_less_that_does_not_compile(device, expression):
    with pytest.raises(ValueError, match="`less` does not compile"):
        kernels.sort_by_comparison(device.array(np.arange(100)), less=expression)


def test_invalid_less_raises(device):
    with pytest.raises(TypeError, match="float16"):
        kernels.sort_by_comparison(device.empty(3, np.float16), less="a < b")
    with pytest.raises(TypeError, match="CUDA C\\+\\+ expression"):
        kernels.sort_by_comparison(device.empty(3, float), less=" ")


# Merging.


def make_runs(rng, kind, sizes, most):
    if isinstance(kind, str):
        most = min(most, np.iinfo(kind).max)
        return [np.sort(rng.integers(0, most, n, dtype=kind, endpoint=True)) for n in sizes]
    rows = [rng.integers(0, most, (n, kind), dtype="u8") for n in sizes]
    return [row[np.lexsort(row.T[::-1])] for row in rows]


def check_merge(device, runs, rows, wanted, **options):
    keys, moved = merging.merge_runs(
        [device.array(run) for run in runs], [[device.array(part) for part in row] for row in rows], **options
    )
    assert_bits(keys, np.concatenate(runs)[wanted])
    for got, row in zip(moved, rows, strict=True):
        assert_bits(got, np.concatenate(row)[wanted])


@pytest.mark.parametrize("most", [2, 100, 1 << 40])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_merge_runs(device, count, most):
    for number in (count, *device.large(2 * count, 4 * count + 1)):
        rng = np.random.default_rng(number)
        sizes = rng.integers(0, 3 * MERGE_TILE.keys if device.is_small else 30_000, number)
        sizes[rng.integers(0, number, number // 3)] = 0
        for kind in (*RUNS, *device.large(*MORE_RUNS)):
            runs = make_runs(rng, kind, sizes, most)
            joined = np.concatenate(runs)
            wanted = np.lexsort(joined.T[::-1]) if joined.ndim == 2 else np.argsort(joined, kind="stable")
            for chosen in COMPANIONS:
                rows = [[rng.integers(0, 9999, n).astype(dtype) for n in sizes] for dtype in chosen]
                check_merge(device, runs, rows, wanted)


def test_merge_runs_by_less(device):
    rng = np.random.default_rng(5)
    runs = [rng.integers(0, 1 << 30, n) for n in (3_000, 0, 777, 1_234, *device.large(30_000))]
    runs = [run[np.argsort(run % 10, kind="stable")] for run in runs]
    rows = [[np.arange(len(run), dtype=np.float32) for run in runs]]
    check_merge(device, runs, rows, np.argsort(np.concatenate(runs) % 10, kind="stable"), less=LESS)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_merge_runs_keeps_ties_in_order(device, dtype, descending):
    runs = []
    for seed in range(5):
        keys = make_keys(dtype, 307 if device.is_small else 10_007, "special", seed)
        runs.append(codes_of.encode(keys[oracle.argsort(keys, descending=descending)], descending=descending))
    floors = codes_of.tie_floor(np.concatenate(runs), np.dtype(dtype), descending=descending)
    check_merge(device, runs, [], np.argsort(floors, kind="stable"), ties_of=dtype, descending=descending)


def test_merge_empty_runs(device):
    keys, _ = merging.merge_runs([device.empty(0, "u4")] * 3)
    assert keys.size == 0


def test_merge_runs_with_invalid_arguments(device):
    keys, floats = device.empty(3, "u4"), device.empty(3, float)
    for error, message, arguments in (
        (ValueError, "no runs", [[]]),
        (TypeError, "unsigned codes", [[floats]]),
        (ValueError, "like the first one", [[keys, device.empty(3, "u8")]]),
        (ValueError, "not those of the runs", [[keys] * 2, [[floats, device.empty(2, float)]]]),
    ):
        with pytest.raises(error, match=message):
            kernels.merge_runs(*arguments)


# Wide keys.


def ranks_of_rows(rows, needles, side):
    """Ranks of rows among sorted rows, by the dense ranks of whole rows."""
    _, dense = np.unique(np.concatenate([rows, needles]), axis=0, return_inverse=True)
    dense = dense.ravel()
    return np.searchsorted(dense[: len(rows)], dense[len(rows) :], side)


def check_words(device, rows):
    wanted, out = np.lexsort(rows.T[::-1]), device.empty(len(rows), "i8")
    word_sort.argsort_words(device.array(rows), out=out)
    assert_bits(out, wanted)
    return rows[wanted]


@pytest.mark.parametrize("most", [1, 2, 3, 1000, 1 << 33, 1 << 40, 1 << 63])
def test_argsort_words_and_search_words(device, most):
    for width in (3, *device.large(1, 2, 5)):
        for n in (0, 1, 2, 900, *device.large(MIDDLE)):
            rng = np.random.default_rng([width, n])
            ordered = check_words(device, rng.integers(0, most, (n, width), dtype="u8"))
            needles = np.concatenate([ordered[:: max(1, n // 300)], rng.integers(0, most, (40, width), dtype="u8")])
            for side in ("left", "right"):
                got = word_sort.search_words(device.array(ordered), device.array(needles), side)
                assert_bits(got, ranks_of_rows(ordered, needles, side))


def check_complex(device, keys):
    """Sort up and down, to arrays that are given."""
    for descending in (False, True):
        wanted = oracle.argsort(keys, descending=descending)
        out, positions = device.empty(len(keys), "c16"), device.empty(len(keys), "i8")
        assert complex_keys.sort_wide(device.array(keys), descending=descending, out=out) is out
        complex_keys.argsort_wide(device.array(keys), descending=descending, out=positions)
        assert_bits(out, keys[wanted])
        assert_bits(positions, wanted)


KINDS = {
    "bits": lambda rng, n: rng.integers(0, 1 << 64, n, "u8").view("f8"),
    "normal": lambda rng, n: rng.standard_normal(n),
    "special": lambda rng, n: rng.choice(special_keys(np.dtype("f8")), n),
    "few": lambda rng, n: rng.integers(-2, 3, n).astype("f8"),
    "equal real parts": lambda rng, n: np.where(np.arange(n) % 2, rng.standard_normal(n), 1.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_complex_keys(device, kind):
    for n in (0, 1, 900, *device.large(MIDDLE)):
        check_complex(device, KINDS[kind](np.random.default_rng(n), 2 * n).view("c16"))


@only_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_words_and_ranks_of_complex_keys(device, kind):
    keys = KINDS[kind](np.random.default_rng(7), 2 * 1009).view("c16")
    for descending in (False, True):
        wanted = oracle.argsort(keys, descending=descending)
        words = kernels.encode_words(device.array(keys), descending)
        assert_bits(kernels.argsort_words(words), wanted)
        ordered, needles = words.get()[wanted], words.get()[:300]
        for side in ("left", "right"):
            got = kernels.search_wide(device.array(keys[wanted]), device.array(keys[:300]), side, descending=descending)
            assert_bits(got, ranks_of_rows(ordered, needles, side))


@only_gpu
def test_many_complex_keys(device):
    rng = np.random.default_rng(7)
    for real in (rng.standard_normal(LARGE), rng.integers(0, 16, LARGE)):
        check_complex(device, real + 1j * rng.standard_normal(LARGE))


def test_columns_are_as_narrow_as_the_bits_that_vary(device):
    rows = device.array(np.random.default_rng(9).integers(0, 100, (900, 4)).astype("u8") << np.uint64(20))
    assert len(columns.lay_out(columns.WordColumns(rows).measure())) == 1  # one word of 64 bits for four words
    assert_bits(word_sort.argsort_words(rows), np.lexsort(rows.get().T[::-1]))


#: Lengths of the groups that tie in the first word. Each list is repeated. SHORT is the longest group that one thread
#: sorts.
SHORT, TIE_TILE = word_sort.SMALL_GROUP, word_sort.TIE_TILE
TIE_GROUPS = {
    "none": [1],
    "a pair": [*[1] * 700, 2, *[1] * 10**6],
    "short": [SHORT, 1, 3],
    "shortest long": [SHORT + 1, 1],
    "short and long": [1, SHORT, SHORT + 1, 2 * SHORT, 2],
    "few but long": [*[1] * 1500, 900, *[1] * 10**6],
    "across tiles": [300, 2 * TIE_TILE + 7, 100_000],
    "starting at the last key of a tile": [*[1] * (TIE_TILE - 1), 3, *[1] * (TIE_TILE - 3), 20, *[1] * 10**6],
    "equal": [10**6],
}
TIE_SIZES = (1, SHORT, SHORT + 1, TIE_TILE - 1, TIE_TILE, TIE_TILE + 1, 2 * TIE_TILE + 500)


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


def sizes_of_ties(device):
    return (*TIE_SIZES, *device.large(MIDDLE))


@pytest.mark.parametrize("kind", TIE_GROUPS)
def test_tied_real_parts(device, kind):
    for n in sizes_of_ties(device):
        rng = np.random.default_rng(n)
        real = spread(rng, tie_group_numbers(kind, n))[rng.permutation(n)]
        for imag in (few(rng, n), rng.standard_normal(n)):
            keys = np.empty(n, "c16")
            keys.real, keys.imag = real, imag
            check_complex(device, keys)


@pytest.mark.parametrize("distinct", [1, 2, 16, 500])
def test_few_real_parts(device, distinct):
    for n in (TIE_TILE + 77, *device.large(MIDDLE)):
        rng = np.random.default_rng(distinct)
        for divisor in (1, 3):  # the quotients need many bits
            for imag in (rng.standard_normal(n), rng.standard_normal(20)[rng.integers(0, 20, n)]):
                check_complex(device, rng.integers(0, distinct, n) / divisor + 1j * imag)


@pytest.mark.parametrize("share", [0.001, 0.5, 1])
def test_complex_keys_with_nan(device, share):
    rng = np.random.default_rng(10)
    n = TIE_TILE + 300
    parts = np.where(rng.random((n, 2)) < share, few(rng, 2 * n).reshape(n, 2), rng.standard_normal((n, 2)))
    check_complex(device, parts.ravel().view("c16"))


@pytest.mark.parametrize("kind", TIE_GROUPS)
def test_ties_in_the_second_word(device, kind):
    for n in sizes_of_ties(device):
        rng = np.random.default_rng(n)
        order, halves = rng.permutation(n), np.arange(n) // 5  # in the second word, tie groups of five keys
        first = spread(rng, tie_group_numbers(kind, n))[order]
        for last in (rng.integers(0, 3, n).astype("u8"), rng.integers(0, 1 << 63, n, "u8")):
            for second in (spread(rng, halves), halves.astype("f8"), spread(rng, rng.integers(0, 3, n))):
                check_words(device, np.stack([codes_of.encode(key) for key in (first, second[order], last)], axis=1))


@pytest.mark.parametrize("distinct", [2, 3, 6])
def test_ties_in_many_words(device, distinct):
    values = np.array([0, (1 << 64) - 1, 1, 1 << 63, 5, 6], "u8")[:distinct]
    for n in (TIE_TILE + 500, *device.large(MIDDLE)):
        rng, shape = np.random.default_rng([distinct, n]), (n, 5)
        ties = values[rng.integers(0, distinct, shape)]
        # Every word resolves the ties of some keys.
        check_words(device, np.where(rng.random(shape) < 0.1, rng.integers(0, 1 << 63, shape, "u8"), ties))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_floor_codes(device, dtype, descending):
    codes = codes_of.encode(make_keys(dtype, 1009, "special"), descending=descending)
    floors = codes_of.tie_floor(codes, np.dtype(dtype), descending=descending)
    assert_bits(kernels.floor_codes(device.array(codes), dtype, descending), floors)


def test_wide_keys_with_invalid_arguments(device):
    with pytest.raises(TypeError, match="complex128"):
        kernels.sort_wide(device.empty(3, float))
    with pytest.raises(TypeError, match="uint64"):
        kernels.argsort_words(device.empty((3, 2), float))


@pytest.fixture
def launched(monkeypatch):
    """Names of the launched kernels in wide/, and of those that scatter."""
    names, run_launch = [], Launch.run

    def run(launch):
        name = launch.kernel.partition("<")[0]
        if launch.source.startswith("wide/") or name == "scatter":
            names.append(name)
        run_launch(launch)

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
