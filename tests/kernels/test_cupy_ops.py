"""Steps on CuPy chunks, on the host and on a GPU, against those on NumPy chunks, for every kind of order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from distributed.protocol import deserialize, serialize
from support import gangs, host_cuda, oracle, programs
from support.host_cuda.launches import record_ranks_of_samples
from support.host_kernels import replace_cupy_of_steps, use_small_merges
from support.marks import by_device, grid, only_host

import dask_gpusort
from dask_gpusort import kernels
from dask_gpusort.chunk import numpy_ops, reducers
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.distinct import Columns, find_distinct
from dask_gpusort.chunk.labels import on_host
from dask_gpusort.chunk.reducers import count_distinct, most_common, top_keys
from dask_gpusort.chunk.run import Run
from dask_gpusort.chunk.tie_groups import METHODS
from dask_gpusort.drivers import gang, turns
from dask_gpusort.functions import selection
from dask_gpusort.graph import serialization
from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.order import Order, of_words
from dask_gpusort.plan.select import BOTH_PASSES
from dask_gpusort.table import METHODS as OF_Q
from dask_gpusort.table import Statistic

cupy_sorts = pytest.importorskip("dask_gpusort.chunk.cupy_sorts", reason="no CuPy: install dask_gpusort[cu13]")
cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")

ORDERS = {
    "codes": Order(np.dtype("f4"), stable=True),
    "descending codes": Order(np.dtype("f8"), descending=True, stable=True),
    "complex": Order(np.dtype("c16"), stable=True),
    "descending complex": Order(np.dtype("c16"), descending=True, stable=True),
    "words": of_words(2),
    "less": Order(np.dtype("u4"), stable=True, less="a % 10 < b % 10"),
}


#: Every dtype with a code.
CODED = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "M8[s]", "m8[s]"]
#: One of each width and kind: the kernels of the others differ in the order alone, and have tests of their own.
KINDS = ["?", "u1", "f2", "i4", "M8[s]", "c8", "c16"]
#: Keys of a GPU.
LARGE = (1 << 22) + 3
SUMMARY_FIELDS = ("keys", "left", "right")


def python_order(order):
    """The same order with a Python function as `less`, which NumPy chunks need."""
    return order if order.less is None else replace(order, less=lambda a, b: a % 10 < b % 10)


def draw(order, n, seed=0):
    rng = np.random.default_rng(seed)
    if order.words:
        return rng.integers(0, 4, (n, order.words)).astype("u8")
    if order.less is not None:
        return rng.integers(0, 1000, n).astype(order.dtype)
    special = rng.choice([0.0, -0.0, np.nan, 1.0, 2.0, -3.0], (2, n))
    return special[0].astype(order.dtype) if order.dtype.kind == "f" else special[0] + 1j * special[1]


def calls(recorder):
    """Kernel calls that rank samples of codes."""
    record_ranks_of_samples(recorder)


@pytest.fixture(autouse=True)
def steps(device, monkeypatch):
    if device.is_small:
        use_small_merges(monkeypatch)
        replace_cupy_of_steps(monkeypatch, device.cupy)
        monkeypatch.setattr(host_cuda.HostArray, "__module__", "cupy")


def assert_equal(found, wanted, message=""):
    """Compare arrays of the device or of the host."""
    np.testing.assert_array_equal(on_host(found), on_host(wanted), message)


def assert_runs(got, wanted):
    for found, expected in zip(got.arrays, wanted.arrays, strict=True):
        assert on_host(found).tobytes() == expected.astype(found.dtype).tobytes()


@pytest.mark.parametrize("kind", ORDERS)
def test_local_sort_and_merge(device, kind):
    order = ORDERS[kind]
    chunks = [draw(order, n, n) for n in (300, 0, 451, 120)]
    for num_values, positions in ((0, False), (1, False), (0, True), (2, True)):
        ours, theirs = [], []
        for chunk in chunks:
            values = [np.arange(len(chunk), dtype="f8"), np.arange(len(chunk), dtype="i2")][:num_values]
            on_device = [device.array(value) for value in values]
            ours.append(cupy_ops.local_sort(device.array(chunk), on_device, order, positions=positions))
            theirs.append(numpy_ops.local_sort(chunk, values, python_order(order), positions=positions))
            assert_runs(ours[-1], theirs[-1])
        wanted = numpy_ops.merge(theirs, python_order(order))
        assert_runs(cupy_ops.merge(ours, order), wanted)


@pytest.mark.parametrize("kind", ORDERS)
def test_rank_summary(device, kind):
    order = ORDERS[kind]
    run = numpy_ops.local_sort(draw(order, 500), [], python_order(order), positions=False)
    mine = Run(device.array(run.keys))
    for samples, bits in ((20, 5 * order.coded), (500, 0)):
        got = cupy_ops.summarize_run(mine, order, samples=samples, radix_bits=bits)
        wanted = numpy_ops.summarize_run(run, python_order(order), samples=samples, radix_bits=bits)
        assert_same_digits(got.digits, wanted.digits)
        for name in SUMMARY_FIELDS:
            assert_equal(getattr(got, name), getattr(wanted, name))


def assert_same_digits(got, wanted):
    if wanted is None:
        assert got is None
    else:
        assert (got.shift, got.first) == (wanted.shift, wanted.first)
        assert_equal(got.counts, wanted.counts)


def assert_same_summary(got, wanted):
    assert got.size == wanted.size
    for name in SUMMARY_FIELDS:
        found, expected = getattr(got, name), getattr(wanted, name)
        assert found.dtype == expected.dtype, name
        assert_equal(found, expected, name)


def drawn_keys(dtype, n, kind):
    """Keys of a dtype: random bits, few distinct keys (for floats with zeros of both signs and NaN), or one key."""
    rng = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 1 if kind == "equal" else 2, n).astype(dtype)
    bits = rng.integers(0, 256, (n if kind == "random" else 4, dtype.itemsize), dtype="u1")
    some = np.ascontiguousarray(bits).view(dtype).ravel()
    if kind == "few" and dtype.kind in "fc":
        some = np.array([0.0, -0.0, np.nan, 1.0, np.inf]).astype(dtype)
        some = np.concatenate([some, -some])
    return some if kind == "random" else some[rng.integers(0, 1 if kind == "equal" else len(some), n)]


@only_host
@pytest.mark.parametrize(("dtype", "how"), grid(CODED, list(product((False, True), repeat=2))))
def test_rank_summary_of_codes_takes_one_launch_and_one_copy(device, monkeypatch, dtype, how):
    order = Order(np.dtype(dtype), *how)
    launches, copies = [], []
    get = device.cupy.ndarray.get
    monkeypatch.setattr(Launch, "run", lambda launch: (launches.append(launch), device.launch(launch)))
    monkeypatch.setattr(device.cupy.ndarray, "get", lambda array: (copies.append(array), get(array))[1])
    replace_cupy_of_steps(monkeypatch, None)
    for kind in ("random", "few", "equal"):
        for n in (1, 2, 3, 64, 517):
            run = numpy_ops.local_sort(drawn_keys(dtype, n, kind), [], order, positions=False)
            mine = Run(device.array(run.keys))
            for samples in (1, 2, 16, 64, 65, n, 2 * n):
                launches.clear(), copies.clear()
                got = cupy_ops.summarize_run(mine, order, samples=samples)
                assert (len(launches), len(copies)) == (1, 1)
                assert_same_summary(got, numpy_ops.summarize_run(run, order, samples=samples))
    nothing = Run(device.empty(0, order.transit_dtype))
    assert_same_summary(
        cupy_ops.summarize_run(nothing, order, samples=5),
        numpy_ops.summarize_run(Run(np.empty(0, order.transit_dtype)), order, samples=5),
    )


def test_rank_samples_rejects_codes_of_another_width(device):
    with pytest.raises(ValueError, match="give those of the sort, uint32"):
        kernels.rank_samples(device.empty(3, "u8"), 1, ties_of="f4")


@pytest.mark.parametrize("kind", ORDERS)
def test_first_descents_and_edges(device, kind):
    order = ORDERS[kind]
    run = numpy_ops.local_sort(draw(order, 300), [], python_order(order), positions=False)
    mixed = numpy_ops.encode(draw(order, 300, 1), order)
    for keys in (run.keys, mixed, run.keys[:1], run.keys[:0]):
        assert cupy_ops.first_descent(device.array(keys), order) == numpy_ops.first_descent(keys, python_order(order))
    block = draw(order, 60).reshape(20, 3, *draw(order, 1).shape[1:])
    got, wanted = cupy_ops.edges(device.array(block), order, 0), numpy_ops.edges(block, python_order(order), 0)
    assert got[0] == wanted[0]
    for found, expected in zip(got[1:], wanted[1:], strict=True):
        assert_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ORDERS)
def test_rows(device, kind, axis):
    order = ORDERS[kind]
    keys = draw(order, 7 * 40)
    block = keys.reshape(7, 40, *keys.shape[1:])
    found = on_host(cupy_ops.argsort_rows(device.array(block), order, axis))
    assert_equal(found, numpy_ops.argsort_rows(block, python_order(order), axis))
    assert_equal(cupy_ops.first_indices(device.array(block), order, 3, axis), found.take(range(3), axis))
    if not order.words:
        for rows, along in ((block, axis), (keys, 0)):
            expected = numpy_ops.sort_rows(rows, python_order(order), along)
            for overwrite in (False, True):
                ordered = cupy_ops.sort_rows(device.array(rows.copy()), order, along, overwrite=overwrite)
                assert np.ascontiguousarray(on_host(ordered)).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("values", ["random", "ties", "few numbers"])
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("dtype", ["u2", "f4", "M8[s]"])
def test_first_of_long_rows(device, monkeypatch, dtype, count, values):
    monkeypatch.setattr(cupy_sorts, "_LONG_ROW", 1000)
    monkeypatch.setattr(cupy_sorts, "_SAMPLES", 400)
    rng = np.random.default_rng(count)
    keys = (rng.standard_normal(1501) * (3 if values == "ties" else 1e4)).round().astype(np.int64).astype(dtype)
    if keys.dtype.kind in "fM":
        keys[rng.random(len(keys)) < (0.999 if values == "few numbers" else 0.1)] = (
            "NaT" if keys.dtype.kind == "M" else "nan"
        )
    if keys.dtype.kind == "f":
        keys[rng.random(len(keys)) < 0.1] *= -0.0
    for descending in (False, True):
        order = Order(keys.dtype, descending)
        found = cupy_ops.first_indices(device.array(keys.reshape(1, -1, 1)), order, count, 1)
        assert (found.dtype, found.shape) == (np.int64, (1, count, 1))
        expected = oracle.argsort(keys, descending=descending)[:count]
        assert_equal(on_host(found).ravel(), expected)


@pytest.mark.filterwarnings("ignore:.*slice:RuntimeWarning")
@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1, 2)])
@by_device("dtype", ["f4", "i8", "u2"], ["f2", "f4", "f8", "i1", "u2", "i8"])
def test_order_statistics_of_lanes(device, dtype, axes):
    rng = np.random.default_rng(0)
    for shape in ((7, 6, 5), (0, 3, 2), (3, 0, 2), *device.large((40, 30, 20))):
        block = rng.integers(-50, 50, shape).astype(dtype)
        if block.dtype.kind == "f":
            block[rng.random(shape) < 0.3] = np.nan
        for skip_nan in (False, True):
            quantiles = [0.3, 1, np.float32(0.7), [[0.2], [0.9]]] if block.size else []
            statistics = [Statistic.median(skip_nan=skip_nan)]
            statistics += [Statistic.quantiles(q, skip_nan=skip_nan) for q in quantiles]
            if block.size:
                statistics += [Statistic.quantiles([0, 0.37, 0.5, 1], method, skip_nan=skip_nan) for method in OF_Q]
            for statistic, keepdims in product(statistics, (False, True)):
                found = cupy_ops.reduce_lanes(device.array(block), statistic, axes, keepdims)
                expected = numpy_ops.reduce_lanes(block, statistic, axes, keepdims)
                assert device.is_small or isinstance(found, device.cupy.ndarray)
                assert found.dtype == expected.dtype
                assert_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "?"])
@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1, 2)])
def test_reducers_of_lanes(device, monkeypatch, dtype, axes):
    block = np.random.default_rng(0).integers(-3, 4, (7, 6, 5)).astype(dtype)
    if block.dtype.kind == "f":
        block[block % 3 == 0] = np.nan
    found = [top_keys(k, positions) for k in (-3, 2, 40) for positions in (False, True)]
    found += [count_distinct(equal_nan) for equal_nan in (False, True)]
    found += [reducer for policy in ("propagate", "omit") for reducer in most_common(policy)]
    for reducer in found:
        into = np.dtype("f8") if reducer.fill is None else reducer.dtype_of(block.dtype)
        expected = reducers.reduce_lanes(block, reducer, axes, dtype=into)
        with monkeypatch.context() as patched:
            patched.setattr(reducers, "ops_for", lambda array: cupy_ops)
            got = reducers.reduce_lanes(device.array(block), reducer, axes, dtype=into)
        assert_equal(on_host(got), expected)


@pytest.mark.parametrize(("dtype", "first"), grid(CODED, [1 << 16, 1]))
def test_keys_inside_brackets(device, monkeypatch, dtype, first):
    """At first there is memory for all keys, or for few. Ends that NumPy calls equal have the same counts."""
    monkeypatch.setattr("dask_gpusort.chunk.cupy_select._FEWEST", first)
    order = Order(np.dtype(dtype), stable=True)
    for kind in ("random", "few", "equal"):
        for n in (1, 2, 700, *(device.large(LARGE) if kind == "few" else ())):
            keys = drawn_keys(dtype, n, kind)
            codes = np.sort(numpy_ops.encode(keys, order))
            ends = codes[[0, n // 3, n // 2, n - 1]]
            counts, inside = cupy_ops.extract(device.array(keys), *numpy_ops.decode(ends.copy(), order).reshape(2, 2))
            floors, wanted = numpy_ops.floor(codes, order), numpy_ops.floor(ends, order).reshape(2, 2)
            sides = [np.searchsorted(floors, end, side) for end in wanted for side in ("left", "right")]
            sides[2] = np.maximum(sides[1], sides[2])
            assert_equal(counts, sides)
            is_inside = ((wanted[0] < floors[:, None]) & (floors[:, None] < wanted[1])).any(axis=1)
            assert_equal(np.sort(numpy_ops.encode(on_host(inside), order)), codes[is_inside])
            assert (counts.dtype, inside.dtype) == (np.int64, keys.dtype)
    counts, inside = cupy_ops.extract(device.array(keys[:0]), keys[:3], keys[:3])
    assert (counts.tolist(), inside.size) == ([[0] * 3] * 4, 0)


@pytest.mark.parametrize("few", [0, 1 << 22])
@pytest.mark.parametrize("dtype", CODED)
def test_nan_counts_samples_and_keys_at_ranks(device, monkeypatch, dtype, few):
    monkeypatch.setattr("dask_gpusort.chunk.cupy_select._FEW_KEYS", few)
    for kind, n in product(("random", "few"), (700, *device.large(LARGE))):
        keys = drawn_keys(dtype, n, kind)
        nans = np.isnat(keys) if keys.dtype.kind in "mM" else np.isnan(keys)
        assert cupy_ops.count_nans(device.array(keys)) == nans.sum()
        positions = np.array([3, 699, 0, 3])
        parts = [device.array(keys[:300]), device.array(keys[300:])]
        assert_equal(cupy_ops.keys_at(parts, positions), np.sort(keys)[positions])
    assert cupy_ops.count_nans(device.array(keys[:0])) == 0


@pytest.mark.parametrize("sorts", [0, 1, BOTH_PASSES])
@pytest.mark.parametrize("dtype", ["f4", "i8", "u2"])
def test_a_selection_by_samples(device, monkeypatch, dtype, sorts):
    """All supersteps of a selection, over two rounds."""
    if device.is_small:
        monkeypatch.setattr(selection, "ops_for", lambda array: cupy_ops)
    keys = np.concatenate([drawn_keys(dtype, 700, kind) for kind in ("random", "few")])
    statistic = Statistic.quantiles([0.01, 0.3, 0.5, 1], skip_nan=True)
    chunks = [[device.array(part)] for part in np.split(keys, [300, 900])]
    rounds = (3.0, 2.0), (sorts == BOTH_PASSES, sorts > 0)
    steps = selection.selection_steps(statistic, (0,), keys.dtype, False, *rounds)
    with np.errstate(invalid="ignore"):
        *_, (made,) = programs.run(steps, chunks, 1)
        assert_equal(made.arrays[0], np.nanquantile(keys, [0.01, 0.3, 0.5, 1]))


@only_host
@pytest.mark.parametrize("sorts", [0, 1, BOTH_PASSES])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_a_selection_by_a_gang(device, monkeypatch, dtype, sorts):
    """Two lanes in chunks of two members, over two rounds."""
    for module in (selection, gang, turns):
        monkeypatch.setattr(module, "ops_for", lambda array: cupy_ops)
    for module in (gang, turns):
        monkeypatch.setattr(module, "complete", lambda array: array)
    monkeypatch.setattr("dask_gpusort.chunk.run.concatenate", cupy_ops.concatenate)
    keys = np.concatenate([drawn_keys(dtype, 700, kind) for kind in ("random", "few")]).reshape(2, -1)
    statistic = Statistic.quantiles([0.01, 0.5, 1], "lower", skip_nan=True)
    rounds = (3.0, 2.0), (sorts == BOTH_PASSES, sorts > 0), 2
    steps = selection.selection_steps(statistic, (1,), keys.dtype, True, *rounds)
    declared, sources = declared_chunks("x", keys.dtype, ((2,), (300, 0, 400))), ((0, 2), (1,))
    job = gang.ProgramJob(steps, ((4, 0),), tuple(declared), sources, sources, ((0,), (1,), (2,)), ((), ()))
    first, empty, last = (device.array(part) for part in np.split(keys, [300, 300], 1))
    works = [job([first, last], 0), job([empty], 1)]
    count, (made, _) = gangs.attempt(works)
    assert count == 5
    expected = np.nanquantile(keys, [0.01, 0.5, 1], axis=1, method="lower", keepdims=True)
    assert_equal(made[0][0], expected)


@pytest.mark.parametrize("dtypes", [("i4", "f4"), ("f8", "?", "c16"), ("u1", "i2")], ids=str)
def test_pack(device, dtypes):
    rng = np.random.default_rng(1)
    parts = [rng.choice([0.0, -0.0, 1.0, 3.0], (6, 50)).astype(dtype) for dtype in dtypes]
    directions = [position % 2 == 0 for position in range(len(parts))]
    packed = cupy_ops.pack([device.array(part) for part in parts], directions)
    expected = numpy_ops.pack(parts, directions)
    assert packed.dtype == expected.dtype
    assert_equal(packed, expected)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(dtype, marks=() if dtype in KINDS else pytest.mark.thorough) for dtype in [*CODED, "c16"]],
)
@pytest.mark.parametrize("kind", ["random", "few", "equal"])
def test_tie_groups(device, monkeypatch, dtype, kind):
    """Of sorted keys, and back at the positions of the unsorted keys."""
    library = {True: cupy_ops, False: numpy_ops}
    monkeypatch.setattr(
        "dask_gpusort.chunk.tie_groups.ops_for", lambda array: library[isinstance(array, device.cupy.ndarray)]
    )
    order = Order(np.dtype(dtype), stable=True)
    keys = drawn_keys(dtype, 700, kind)
    ordered, positions = numpy_ops.sort_and_argsort(keys, order)
    mine, at = cupy_ops.sort_and_argsort(device.array(keys), order)
    assert_equal(at, positions)
    for equal_nan in (True, False):
        wanted, found = numpy_ops.tie_groups(ordered, equal_nan), cupy_ops.tie_groups(mine, equal_nan)
        for name in ("count", "values", "counts", "bounds", "numbers"):
            assert_equal(getattr(found, name), getattr(wanted, name), name)
        assert_equal(found.of_firsts(at), wanted.of_firsts(positions))
        assert_scattered(found, wanted, at, positions)
    rows = np.sort(keys.reshape(7, 100), axis=1).reshape(-1)
    wanted, found = numpy_ops.tie_groups(rows, True, 100), cupy_ops.tie_groups(device.array(rows), True, 100)
    shuffled = np.random.default_rng(0).permutation(700)
    assert_scattered(found, wanted, device.array(shuffled.astype("u4")), shuffled)
    assert_scattered(found, wanted, device.array(shuffled), shuffled)
    for method in METHODS:
        matrix = keys.reshape(7, 100)
        for descending in (False, True):
            got = cupy_ops.rank_keys(device.array(matrix), method, "f8", descending)
            assert_equal(on_host(got).ravel(), numpy_ops.rank_keys(matrix, method, "f8", descending))


@pytest.mark.parametrize(("dtype", "kind", "equal_nan"), grid(CODED, ["random", "few", "positive"], [True, False]))
def test_distinct_keys_that_are_few(device, monkeypatch, dtype, kind, equal_nan):
    """They are found as a sort finds them, unless keys of different bits are equal."""
    monkeypatch.setattr("dask_gpusort.chunk.cupy_ties.LEAST_OF_FEW", 1)
    order, keys = Order(np.dtype(dtype), stable=True), drawn_keys(dtype, 2_500, kind.replace("positive", "few"))
    keys = (np.abs(keys).astype(dtype) if kind == "positive" and order.has_ties else keys).reshape(25, 100)
    codes = np.unique(numpy_ops.encode(keys, order))
    is_few = len(codes) <= kernels.MOST_FEW and len(np.unique(numpy_ops.floor(codes, order))) == len(codes)
    is_few &= equal_nan or order.dtype.kind not in "fcmM"
    for columns in (Columns(), Columns(counts=True, inverse=True)):
        wanted = find_distinct(keys, order, columns, equal_nan)
        for block in (device.array(keys), device.array(np.ascontiguousarray(keys.T)).T):
            found = cupy_ops.find_few(block, order, columns, equal_nan)
            assert (found is not None) == is_few
            if is_few:
                assert on_host(found.values).tobytes() == wanted.values.tobytes()
                assert_equal(found.counts, wanted.counts)
                assert_equal(found.inverse, wanted.inverse)
    for other in (Columns(firsts=True), Columns(repeats=True)):
        assert cupy_ops.find_few(device.array(keys), order, other, equal_nan) is None


def assert_scattered(found, wanted, at, positions):
    assert_equal(found.scatter_repeats(at, "u4"), wanted.scatter_repeats(positions, "u4"))
    assert_equal(found.scatter_numbers(at, "u4"), wanted.scatter_numbers(positions, "u4"))
    for method in METHODS:
        for dtype in ("i8", "f8") if method != "average" else ("f8",):
            got = found.scatter_ranks(at, method, dtype)
            assert got.dtype == dtype
            assert_equal(got, wanted.scatter_ranks(positions, method, dtype))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["u1", "f4", "i8", "c16"])
def test_ranks_of_needles(device, monkeypatch, dtype, side):
    monkeypatch.setattr("dask_gpusort.chunk.cupy_search.LEAST_KEYS", 1)
    monkeypatch.setattr("dask_gpusort.chunk.cupy_search.LEAST_NEEDLES", 1)
    order = Order(np.dtype(dtype), stable=True)
    keys, needles = (
        numpy_ops.floor(numpy_ops.encode(drawn_keys(dtype, n, "random"), order), order) for n in (900, 300)
    )
    keys = numpy_ops.local_sort(keys, (), Order(keys.dtype), positions=False).keys
    transit = Order(keys.dtype, stable=True)
    found = cupy_ops.rank(device.array(keys), device.array(needles), transit, side)
    assert found.dtype == np.int64
    assert_equal(found, numpy_ops.rank(keys, needles, transit, side))


@only_host
@pytest.mark.parametrize("exchange", ["gather", "tasks"])
def test_shuffles_of_both_libraries(device, monkeypatch, exchange):
    monkeypatch.setattr(cupy_ops, "synchronize", lambda: None)
    array, order = np.arange(900), dask_gpusort.permutation(900, seed=7).compute()
    arrays = [da.from_array(one, chunks=400, asarray=False) for one in (device.array(array), array)]
    with dask.config.set({"gpusort.exchange": exchange, "scheduler": "synchronous"}):
        found = dask_gpusort.shuffle(*arrays, seed=7)
        for one, library in zip(found, (device.cupy.ndarray, np.ndarray), strict=True):
            assert type(one.to_delayed()[0].compute()) is library
        for one in dask.compute(*found):
            assert_equal(one, array[order])
        monkeypatch.setattr(numpy_ops, "random_keys", None)  # the device makes those of CuPy chunks
        assert_equal(dask_gpusort.shuffle(arrays[0], seed=7).compute(), array[order])


@pytest.mark.parametrize("dtype", ["u1", "f4", "i8", "c16"])
def test_take(device, dtype):
    block = drawn_keys(dtype, 100, "random")
    for shape in ((100,), (50, 2), (20, 5)):
        values = block.reshape(shape)
        indices = np.random.default_rng(1).integers(-len(values), len(values), (7, 9))
        for given in (indices, indices.astype("i1"), indices[:0]):
            found = cupy_ops.take(device.array(values), device.array(given), 0)
            assert found.tobytes() == values[given].tobytes()
            assert found.shape == values[given].shape
        for wrong in (len(values), -len(values) - 1):
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size {len(values)}"):
                cupy_ops.take(device.array(values), device.array(np.array([0, wrong])), 0)


def test_less_that_is_no_strict_weak_order_is_reported(device):
    keys = draw(ORDERS["less"], 400)
    for less in ("a <= b", "a != b"):
        with pytest.raises(ValueError, match="no strict weak order"):
            cupy_ops.local_sort(device.array(keys), [], replace(ORDERS["less"], less=less), positions=False)


@pytest.mark.parametrize("family", ["cuda", "dask"])
def test_runs_without_keys_are_serialized(family):
    cupy, copies = pytest.importorskip("cupy"), pytest.importorskip("dask_gpusort.chunk.cupy_staging")
    serialization.register()
    with copies.metadata_without_device():
        run = Run(cupy.empty(0, "u8"), (cupy.empty((0, 3), "f4"),))
        back = deserialize(*serialize(run, serializers=(family,), on_error="raise"))
    assert [(one.dtype, one.shape) for one in back.arrays] == [("u8", (0,)), ("f4", (0, 3))]
    assert all(isinstance(one, cupy.ndarray) for one in back.arrays)
