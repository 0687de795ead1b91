"""Every step on one chunk, compared with its definition, for each library of chunks."""

from __future__ import annotations

import dask
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours

from dask_gpusort.chunk import numpy_columns, numpy_ops, numpy_radix, steps
from dask_gpusort.chunk.run import Run
from dask_gpusort.order import Order, of_words

# All examples use the same backend.
shared = settings(suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture])

#: CuPy lacks times, byte orders and the dtypes that need comparisons.
ON_DEVICE = [dtype for dtype in ours.CODED if dtype.kind not in "mM"]


@pytest.fixture
def draw_keys(backend):
    """A function that draws an array for the backend, and its order."""

    def draw(data, dtypes=ours.EVERY, sizes=None, **kwargs):
        allowed = ON_DEVICE if backend.name == "cupy" else dtypes
        array = data.draw(ours.arrays(dtypes=allowed, **({} if sizes is None else {"sizes": sizes}), **kwargs))
        return array, Order(array.dtype, data.draw(st.booleans()), data.draw(st.booleans()))

    return draw


def local_sort(backend, array, order, values=(), positions=False):
    return backend.ops.local_sort(
        backend.asarray(array), [backend.asarray(value) for value in values], order, positions=positions
    )


def keys_of(backend, run, order):
    """The keys of a run in the user's dtype."""
    return backend.asnumpy(backend.ops.decode(run.keys.copy(), order))


@shared
@given(data=st.data())
def test_local_sort(backend, draw_keys, data):
    array, order = draw_keys(data)
    run = local_sort(backend, array, order)
    assert run.keys.dtype == order.transit_dtype
    got = keys_of(backend, run, order)
    if order.stable:
        oracle.assert_same_bits(got, oracle.sort(array, descending=order.descending))
    else:
        oracle.assert_sorts(got, array, descending=order.descending)


@shared
@given(data=st.data())
def test_local_sort_with_values_and_positions(backend, draw_keys, data):
    array, order = draw_keys(data)
    order = Order(order.dtype, order.descending, True)
    values = [np.arange(len(array)), np.arange(len(array) * 6).reshape(len(array), 3, 2)]
    run = local_sort(backend, array, order, values, positions=True)
    positions = oracle.argsort(array, descending=order.descending)
    oracle.assert_same_bits(keys_of(backend, run, order), array[positions])
    for got, value in zip(run.values, (*values, np.arange(len(array))), strict=True):
        np.testing.assert_array_equal(backend.asnumpy(got), value[positions])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "i8", ">M8[s]", "c8"])
def test_codes_are_made_again_where_high_parts_tie(dtype, descending):
    least = np.finfo(np.float32 if dtype == "f4" else np.float64).eps
    few = np.array([-0.0, 0.0, 1, 1 + least, np.nan, -np.nan, 1e30, -1e30], f"f{least.itemsize}")
    keys = few.astype(dtype) if np.dtype(dtype).kind == "f" else few.view(dtype)
    rng = np.random.default_rng(0)
    block = rng.choice(keys, 40_000)[::2]  # enough for words, with strides
    order = Order(block.dtype, descending, stable=True)
    run = numpy_ops.local_sort(block, [np.arange(len(block))], order, positions=True)
    wanted = oracle.argsort(block, descending=descending)
    oracle.assert_same_bits(numpy_ops.decode(run.keys.copy(), order), block[wanted])
    assert np.array_equal(run.values[0], wanted)
    assert np.array_equal(run.values[1], wanted)


@pytest.mark.parametrize("side", ["left", "right"])
@given(data=st.data(), descending=st.booleans())
def test_search_by_columns_agrees_with_numpy(side, data, descending):
    dtype = data.draw(st.sampled_from(["c16", ">c16", "S1", "S5", "S17", "U1", "U4"]))
    array = oracle.sort(data.draw(ours.arrays(dtypes=[np.dtype(dtype)])), descending=descending)
    needles = data.draw(ours.arrays(dtypes=[np.dtype(dtype)]))
    order = Order(np.dtype(dtype), descending)
    got = numpy_ops.search(array, needles, order, side)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, numpy_columns.search(array, needles, order, side))


@pytest.mark.parametrize("num_words", [2, 3])
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, 250), min_size=1, max_size=9))
def test_words_are_sorted_and_merged_as_rows(num_words, seed, lengths):
    order = of_words(num_words)
    rng = np.random.default_rng(seed)
    blocks = [rng.integers(5, 8, (length, num_words), np.uint64) for length in lengths]
    positions = [np.arange(len(block)) for block in blocks]
    together = np.concatenate(blocks)
    wanted = np.lexsort(together.T[::-1])
    alone = [numpy_ops.local_sort(block, (), order, positions=False) for block in blocks]
    np.testing.assert_array_equal(numpy_ops.merge(alone, order).keys, together[wanted])
    starts = np.cumsum([0, *lengths])
    runs = [
        numpy_ops.local_sort(block, [position + start], order, positions=False)
        for block, position, start in zip(blocks, positions, starts, strict=False)
    ]
    merged = numpy_ops.merge(runs, order)
    np.testing.assert_array_equal(merged.keys, together[wanted])
    np.testing.assert_array_equal(merged.values[0], wanted)
    assert all(numpy_ops.first_descent(run.keys, order) is None for run in runs)


def test_local_sort_does_not_change_the_chunk(backend):
    for dtype in ("i8", "f4", "u1"):
        array = ours.make(dtype, 500)
        block = backend.asarray(array.copy())
        local_sort(backend, block, Order(array.dtype))
        oracle.assert_same_bits(backend.asnumpy(block), array)


def test_values_of_another_length_are_refused(backend):
    with pytest.raises(ValueError, match=r"5 keys.*4 values.*compute_chunk_sizes"):
        local_sort(backend, np.arange(5), Order(np.dtype("i8")), [np.arange(4)])


@shared
@given(data=st.data())
def test_keys_in_transit_are_restored(backend, draw_keys, data):
    array, order = draw_keys(data)
    there = backend.ops.encode(backend.asarray(array), order)
    assert there.dtype == order.transit_dtype
    oracle.assert_same_bits(backend.asnumpy(backend.ops.decode(there, order)), array)


def definition_of_counts(array, needle, order, side):
    """Number of keys less than one key (left) or up to it (right)."""
    both = np.concatenate([array, needle], dtype=array.dtype)
    columns = oracle._columns(both)
    signed = [-values if order.descending and not fixed else values for values, fixed in columns]
    ranks = list(zip(*(column.tolist() for column in signed), strict=True))
    return sum(rank < ranks[-1] if side == "left" else rank <= ranks[-1] for rank in ranks[:-1])


@shared
@given(data=st.data(), samples=st.sampled_from([40, *range(1, 13)]))
def test_rank_summary_of_the_whole_chunk(backend, draw_keys, data, samples):
    array, order = draw_keys(data, dtypes=[d for d in ours.EVERY if d.kind != "O"], sizes=st.integers(0, 40))
    run = local_sort(backend, array, order)
    summary = backend.ops.summarize_run(run, order, samples=samples)
    assert isinstance(summary.keys, np.ndarray)
    assert summary.size == len(array)
    # The summary has both ends, because they bound the brackets.
    if len(array):
        assert summary.left[0] == 0
        assert summary.right[-1] == len(array)
    assert len(summary.keys) <= samples + 1
    found = backend.asnumpy(backend.ops.decode(backend.asarray(summary.keys.copy()), order))
    for index, (key, left, right) in enumerate(zip(found, summary.left, summary.right, strict=True)):
        needle = np.array([key], array.dtype) if array.dtype.names is None else np.array([tuple(key)], array.dtype)
        less, upto = (definition_of_counts(array, needle, order, side) for side in ("left", "right"))
        if order.coded and not order.stable:
            # Zeros and NaNs compare equal but may differ in their codes. The summary counts codes.
            codes = backend.asnumpy(run.keys)
            assert less <= left < right <= upto
            assert set(np.flatnonzero(codes == summary.keys[index])) == set(range(left, right))
        else:
            assert (left, right) == (less, upto)
    if samples >= len(array):
        # The summary has every distinct key, so no key is between its entries.
        np.testing.assert_array_equal(summary.right[:-1], summary.left[1:])


@shared
@given(data=st.data(), radix_bits=st.integers(1, 16))
def test_histogram(backend, draw_keys, data, radix_bits):
    array, order = draw_keys(data, dtypes=[*ours.CODED, *ours.SWAPPED], sizes=st.integers(1, 100))
    run = local_sort(backend, array, order)
    digits = steps.count_digits(backend.ops.sorted_keys(run, order), radix_bits)
    codes = backend.asnumpy(run.keys).astype(object)
    if order.has_ties:
        # Equal keys have the digit of the least of their codes.
        from dask_gpusort import keys

        codes = keys.tie_floor(backend.asnumpy(run.keys), array.dtype, descending=order.descending).astype(object)
    counted = np.zeros(len(digits.counts), np.int64)
    for code in codes:
        counted[(int(code) >> digits.shift) - digits.first] += 1
    np.testing.assert_array_equal(digits.counts, counted)
    assert len(digits.counts) <= 1 << radix_bits
    assert digits.counts.sum() == len(array)


def test_zeros_have_one_digit_in_every_chunk(backend):
    # Digits may be single codes, and the zeros have two.
    order = Order(np.dtype("f2"), stable=True)
    for keys in ([0.0, -0.0], [-0.0, 0.0, 6e-8]):
        run = local_sort(backend, np.array(keys, "f2"), order)
        digits = steps.count_digits(backend.ops.sorted_keys(run, order), 2)
        assert (digits.shift, digits.counts[0]) == (0, 2)


@shared
@given(data=st.data(), parts=st.integers(1, 6), with_values=st.booleans())
def test_merge(backend, draw_keys, data, parts, with_values):
    array, order = draw_keys(data)
    order = Order(order.dtype, order.descending, order.stable or with_values)
    cuts = [
        0,
        *sorted(data.draw(st.lists(st.integers(0, len(array)), min_size=parts - 1, max_size=parts - 1))),
        len(array),
    ]
    values = np.arange(len(array))
    runs = [
        local_sort(backend, array[a:b], order, [values[a:b]] if with_values else [])
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    merged = backend.ops.merge(runs, order)
    got = keys_of(backend, merged, order)
    if order.stable:
        positions = oracle.argsort(array, descending=order.descending)
        oracle.assert_same_bits(got, array[positions])
        if with_values:
            np.testing.assert_array_equal(backend.asnumpy(merged.values[0]), positions)
    else:
        oracle.assert_sorts(got, array, descending=order.descending)


def test_equal_keys_of_other_bits_are_merged_in_the_order_of_the_runs():
    order, first = Order(np.dtype("c8"), stable=True), np.arange(3).astype("c8")
    runs = [np.append(first, np.array([bits], "u8").view("c8")) for bits in (0x7FC00002_7FC00002, 0x7FC00001_7FC00001)]
    with dask.config.set({"gpusort.merged_runs": 1 << 20}):
        merged = numpy_ops.merge([numpy_ops.local_sort(run, [], order, positions=False) for run in runs], order)
    oracle.assert_same_bits(numpy_ops.decode(merged.keys, order), oracle.sort(np.concatenate(runs)))


def test_merge_of_adjacent_runs(backend):
    # The exchange through files gives such runs: writable views of one array.
    order = Order(np.dtype("i8"), stable=True)
    array, values = ours.make("i8", 300, "few"), np.arange(300)
    runs = [local_sort(backend, array[a : a + 100], order, [values[a : a + 100]]) for a in (0, 100, 200)]
    whole = Run.concat(runs)
    merged = backend.ops.merge([whole[0:100], whole[100:200], whole[200:300]], order)
    np.testing.assert_array_equal(backend.asnumpy(merged.values[0]), np.argsort(array, kind="stable"))


@shared
@given(data=st.data())
def test_rows(backend, draw_keys, data):
    array, order = draw_keys(data, shape=st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple))
    axis = data.draw(st.integers(0, array.ndim - 1))
    block = backend.asarray(array)
    got = backend.asnumpy(backend.ops.sort_rows(block, order, axis))
    if order.stable:
        oracle.assert_same_bits(np.ascontiguousarray(got), oracle.sort(array, axis, descending=order.descending))
    else:
        oracle.assert_sorts(got, array, axis, descending=order.descending)
    stable = Order(order.dtype, order.descending, True)
    indices = backend.ops.argsort_rows(block, stable, axis)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(backend.asnumpy(indices), oracle.argsort(array, axis, descending=order.descending))
    taken = backend.asnumpy(backend.ops.take_rows(block, indices, axis))
    oracle.assert_same_bits(np.ascontiguousarray(taken), oracle.sort(array, axis, descending=order.descending))


def test_rows_keep_the_bits_of_nan(backend, monkeypatch):
    # Which of NumPy's sorts keep them depends on its version and on the processor: as if none did.
    sort = numpy_radix.sort

    def sort_alike(array):
        nans = array != array
        array[nans] = array[nans][:1]
        sort(array)

    monkeypatch.setattr(numpy_radix, "sort", sort_alike)
    keys = np.full((3, 40), 1.0)
    keys.view("u8")[:, 5:9] = np.array([0x7FF8000000000001, 0xFFF8000000000002, 0x7FF8000000000003, 0xFFF8 << 48], "u8")
    got = backend.asnumpy(backend.ops.sort_rows(backend.asarray(keys), Order(keys.dtype), 1))
    oracle.assert_sorts(got, keys, 1)


@pytest.mark.parametrize("dtype", [">c16", ">U3", ours.PADDED_RECORD, ours.ARRAY_RECORD, "S5", "f8"], ids=str)
def test_joining_keeps_the_dtype(dtype):
    array = ours.make(dtype, 20)
    oracle.assert_same_bits(numpy_ops.concatenate([array[:5], array[5:]]), array)
    oracle.assert_same_bits(Run.concat([Run(array[:5], (array[:5],)), Run(array[5:], (array[5:],))]).values[0], array)


@pytest.mark.parametrize("dtype", ["i8", "U40", np.dtypes.StringDType()], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_of_a_part_of_an_array(dtype, axis):
    array = np.array([f"{one:030}" for one in range(24)]).reshape(4, 3, 2).astype(dtype)
    for part in (np.s_[:, :1, :1], np.s_[:1, :, :1], np.s_[:1, :1], np.s_[:, 1:], np.s_[::2, :, ::-1]):
        indices = np.array([0, 0]) if array[part].shape[axis] == 1 else np.array([1, 0, 1])
        wanted = array.astype(object)[part].take(indices, axis)
        assert numpy_ops.take(array[part], indices, axis).tolist() == wanted.tolist()


def test_arrays_of_the_device_are_moved_to_the_host():
    array = np.arange(3)
    on_device = type("ndarray", (), {"__module__": "cupy", "get": lambda _: array})()
    oracle.assert_same_bits(numpy_ops.moved_here(on_device), array)
    oracle.assert_same_bits(numpy_ops.moved_here(array), array)
