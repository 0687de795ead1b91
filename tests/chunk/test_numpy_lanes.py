"""Order statistics of the lanes of a NumPy chunk: NumPy's results over axes, layouts and batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from support import strategies as ours
from support.statistics import given_to_numpy, statistics_of, without_extremes

from dask_gpusort.chunk import lanes, numpy_radix, numpy_select, reducers
from dask_gpusort.chunk.tie_groups import METHODS, Ranking, rank_rows
from dask_gpusort.table import Statistic

DTYPES = ["i1", "u8", "f2", "f4", ">f8", "m8[s]", np.longdouble]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@st.composite
def chunks(draw):
    """A chunk of up to three dimensions, in some memory layout, and axes to reduce."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    kind = draw(st.sampled_from(["few", "small", "special"]))
    array = without_extremes(ours.make(dtype, int(np.prod(shape)), kind, draw(st.integers(0, 99)))).reshape(shape)
    if dtype.kind == "f" and draw(st.booleans()):
        array[np.random.default_rng(1).random(shape) < 0.3] = np.nan
    layout = draw(st.sampled_from(["C", "F", "reversed"]))
    array = array[::-1] if layout == "reversed" else array.copy(layout)
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return array, tuple(sorted(axes))


@given(chunks(), statistics_of(), st.booleans(), st.sampled_from([1, 64, 1 << 20]))
def test_lanes_over_axes(chunk, of, keepdims, batch):
    array, axes = chunk
    statistic, oracle = of
    before = array.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_select, "_BATCH_BYTES", batch)
        found = numpy_select.reduce_lanes(array, statistic, axes, keepdims)
    expected = oracle(array, axis=axes, keepdims=keepdims)
    assert found.dtype == statistic.dtype_of(array.dtype)
    # NumPy gives all lanes the dtype of the first, which differs if that has only NaN to skip.
    np.testing.assert_array_equal(found, expected.astype(found.dtype) if statistic.skip_nan else expected)
    np.testing.assert_array_equal(array, before)


@given(
    ours.arrays([*ours.CODED, *ours.SWAPPED, np.longdouble, "c16", "S3"], shape=st.tuples(*[st.integers(1, 40)] * 2)),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from([4, 256]),
    st.sampled_from([1, 1 << 20]),
)
def test_distinct_keys_and_ranks_of_rows(array, axis, equal_nan, widened, batch):
    before = array.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_radix, "WIDENED_ROW", widened)
        patch.setitem(lanes.BATCH_BYTES, "numpy", batch)
        counts = reducers.reduce_lanes(array, reducers.count_distinct(equal_nan), (axis,))
        found = {name: rank_rows(array, Ranking(name, "omit", False), axis) for name in METHODS}
    np.testing.assert_array_equal(array.view(np.uint8), before.view(np.uint8))
    for at, row in enumerate(np.moveaxis(array, axis, 1)):
        numbers, ranks = row[row == row], {name: ranks.take(at, 1 - axis) for name, ranks in found.items()}
        nans = len(row) - len(numbers)
        assert counts[at] == len(np.unique(numbers)) + (min(nans, 1) if equal_nan else nans)
        dense = np.unique(numbers, return_inverse=True)[1]
        for name, of_row in ranks.items():
            assert np.isnan(of_row[row != row]).all()
            np.testing.assert_array_equal(of_row[row == row], rankdata(dense, name))


@pytest.mark.parametrize("share", [0, 0.1])
@pytest.mark.parametrize("length", [1, 2, 73, 730, 40_000])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "m8[s]", "?"])
def test_long_lanes_by_partitions_and_sorts(dtype, length, share):
    rng = np.random.default_rng(length)
    array = rng.standard_normal((3, length)) * 1000
    array = array > 0 if dtype == "?" else array.astype("i8").astype(dtype) if dtype[0] == "m" else array.astype(dtype)
    if share and dtype[0] in "fm":
        array[rng.random(array.shape) < share] = "NaT" if dtype[0] == "m" else np.nan
    for skip_nan, functions in ((False, (np.median, np.quantile)), (True, (np.nanmedian, np.nanquantile))):
        for rows in (array, array[:1]):
            found = numpy_select.reduce_lanes(rows, Statistic.median(skip_nan=skip_nan), (1,))
            np.testing.assert_array_equal(found, functions[0](rows, axis=1))
            for q in (0, 0.0, 0.37, 1.0, [0.5, 0.1], [0.25, 0.5, 0.75], np.linspace(0, 1, 40)):
                q, method = given_to_numpy(q), "nearest" if dtype == "?" else "linear"
                found = numpy_select.reduce_lanes(rows, Statistic.quantiles(q, method, skip_nan=skip_nan), (1,))
                np.testing.assert_array_equal(found, functions[1](rows, q, axis=1, method=method))


@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=12), st.integers(0, 99))
def test_partition_puts_keys_at_their_ranks(length, wanted, seed):
    rows = np.random.default_rng(seed).integers(0, 30, (3, length))
    ranks = np.array(sorted(rank for rank in wanted if rank < length), np.int64)
    ordered = np.sort(rows, axis=1)
    numpy_select._partition(rows, ranks)
    np.testing.assert_array_equal(rows[:, ranks], ordered[:, ranks])


@given(st.lists(st.integers(0, 6), max_size=4), st.integers(1, 50))
def test_batches_cover_a_shape_once(shape, most):
    array = np.zeros(shape, int)
    for batch in numpy_select.batches(tuple(shape), most):
        assert array[batch].size <= most or array[batch].size == array.size == 1
        array[batch] += 1
    assert (array == 1).all()


def test_a_batch_is_a_part_of_the_chunk(monkeypatch):
    seen = []
    reduce_rows = numpy_select._reduce_rows
    monkeypatch.setattr(
        numpy_select, "_reduce_rows", lambda rows, *more: seen.append(rows.nbytes) or reduce_rows(rows, *more)
    )
    numpy_select.reduce_lanes(np.zeros((100, 30, 1000), "f4"), Statistic.median(), (0,))
    assert len(seen) >= 12
    assert max(seen) <= numpy_select._BATCH_BYTES
    seen.clear()
    # Many quantiles of short lanes take more memory than the lanes.
    numpy_select.reduce_lanes(np.zeros((2, 10_000), "f4"), Statistic.quantiles(np.linspace(0, 1, 100)), (0,))
    assert len(seen) > 50


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_empty_chunks(shape, keepdims):
    array = np.zeros(shape, "f4")
    for axis in (0, 1):
        found = numpy_select.reduce_lanes(array, Statistic.median(), (axis,), keepdims)
        np.testing.assert_array_equal(found, np.median(array, axis=axis, keepdims=keepdims))
        statistic = Statistic.quantiles([0.1, 0.2])
        if array.shape[axis] or not array.shape[1 - axis]:
            assert numpy_select.reduce_lanes(array, statistic, (axis,)).shape == (2, array.shape[1 - axis])
        else:
            with pytest.raises(IndexError):
                numpy_select.reduce_lanes(array, statistic, (axis,))


def test_objects_and_strings_as_in_numpy():
    objects = np.array([[3, 1.5, 2], [7, 5, 6]], object)
    for statistic, expected in (
        (Statistic.median(), np.median(objects, axis=1)),
        (Statistic.quantiles(0.3), np.quantile(objects, 0.3, axis=1)),
        (Statistic.quantiles([0.3, 1], "lower"), np.quantile(objects, [0.3, 1], axis=1, method="lower")),
    ):
        np.testing.assert_array_equal(numpy_select.reduce_lanes(objects, statistic, (1,)), expected)
    texts = np.array([["c", "a", "b"]])
    found = numpy_select.reduce_lanes(texts, Statistic.quantiles([0.4, 1], "higher"), (1,))
    np.testing.assert_array_equal(found, np.quantile(texts, [0.4, 1], axis=1, method="higher"))


def test_a_scalar_chunk():
    assert numpy_select.reduce_lanes(np.array(3.0), Statistic.median(), ()) == 3
