"""Order statistics from the keys at a few ranks: NumPy's bits, dtypes, warnings and errors."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import strategies as ours
from support.statistics import given_to_numpy, where_sums_fit

from dask_gpusort.table import METHODS, Statistic

REAL = [np.dtype(name) for name in ("i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8")] + [np.dtype(np.longdouble)]
TIMES = [np.dtype(name) for name in ("m8[s]", "M8[D]")]


def result_of(statistic, array):
    """The statistic along the last axis, from the keys at the ranks of each sorted lane."""
    ordered = np.sort(array, axis=-1)
    nans = np.isnan(array).sum(-1) if array.dtype.kind in "fcmM" else np.zeros(array.shape[:-1], np.int64)
    counts = array.shape[-1] - nans * statistic.skip_nan
    ranks = statistic.ranks(np.asarray(counts))
    assert ranks.dtype == np.int64
    assert ranks.shape[2:] == array.shape[:-1]
    keys = [np.moveaxis(np.take_along_axis(ordered, np.moveaxis(rank, 0, -1), -1), -1, 0) for rank in ranks]
    found = statistic.result(np.stack(keys), np.asarray(counts), np.asarray(nans))
    return found.reshape(statistic.shape + array.shape[:-1])


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def check(found, expected, dtype=None):
    """Equal in dtype, shape and bits, apart from the payloads of NaN."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == (dtype or expected.dtype)
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind in "fc":
        for part in ("real", "imag"):
            a, b = (np.signbit(getattr(each, part))[~np.isnan(found)] for each in (found, expected))
            np.testing.assert_array_equal(a, b)


@st.composite
def lanes(draw, dtypes, nan=True):
    """A matrix of lanes whose zeros have one sign: which of two zeros a partition puts at a rank is accidental."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 40)))
    kinds = ("constant", "few", "special", "small", "bits")
    array = ours.make(dtype, shape[0] * shape[1], draw(st.sampled_from(kinds)), draw(st.integers(0, 99))).reshape(shape)
    if dtype.kind in "fc":
        parts = array.view(array.real.dtype)
        parts[parts == 0] = 0
        if draw(st.booleans()):
            np.negative(parts, out=parts)
    if dtype.kind in "fcmM":
        share = draw(st.sampled_from([0, 0.1, 0.5, 1]))
        hidden = np.random.default_rng(draw(st.integers(0, 9))).random(shape) < share
        array[np.isnan(array) | hidden] = "NaT" if dtype.kind in "mM" else np.nan
        if not nan:
            array[np.isnan(array)] = 0
    return array


def quantiles():
    """Quantiles as Python numbers, NumPy scalars, and arrays of one and two dimensions."""
    number = st.sampled_from([0, 1, 0.0, 1.0, 0.5, 0.25, 1 / 3, 0.1, 0.9]) | st.floats(0, 1)
    dtypes = st.sampled_from([np.float16, np.float32, np.float64, np.longdouble])
    shapes = st.sampled_from([(), (1,), (3,), (2, 2)])
    arrays = st.builds(
        lambda shape, dtype, seed: np.asarray(np.random.default_rng(seed).random(shape) * 2 // 0.125 / 16, dtype),
        shapes,
        dtypes,
        st.integers(0, 99),
    )
    whole = st.sampled_from([np.array([0, 1]), np.array([1, 0], np.int8), np.array(1), True])
    return number | arrays | st.lists(st.floats(0, 1), max_size=3) | st.builds(np.float32, number) | whole


def each_lane(array, q, method):
    """Lanes by themselves: NumPy gives all the dtype of the first, which differs if that has only NaN."""
    return np.stack([np.nanquantile(lane, q, method=method) for lane in array], axis=-1)


@settings(max_examples=2 * settings().max_examples)
@given(lanes(REAL + TIMES), quantiles(), st.sampled_from(list(METHODS)), st.booleans())
def test_quantiles_have_the_bits_of_numpy(array, q, method, skip_nan):
    statistic = Statistic.quantiles(q, method, skip_nan=skip_nan)
    try:
        of_lanes = each_lane if skip_nan else functools.partial(np.quantile, axis=-1)
        expected, array = where_sums_fit(functools.partial(quietly, of_lanes, q=q, method=method), array)
    except TypeError:
        with pytest.raises(TypeError):
            statistic.dtype_of(array.dtype)
        return
    dtype = statistic.dtype_of(array.dtype)
    check(quietly(result_of, statistic, array), expected.astype(dtype) if skip_nan else expected)
    assert skip_nan or expected.dtype == dtype


@given(lanes([*REAL, np.dtype("?"), np.dtype("m8[s]"), np.dtype("c8"), np.dtype("c16")]), st.booleans())
def test_medians_have_the_bits_of_numpy(array, skip_nan):
    statistic = Statistic.median(skip_nan=skip_nan)
    # Up to 600 keys, nanmedian of several lanes adds the middle key to itself, which can overflow.
    of_lane = functools.partial(quietly, np.nanmedian if skip_nan else np.median)
    expected, array = where_sums_fit(lambda keys: np.stack(list(map(of_lane, keys))), array)
    found = quietly(result_of, statistic, array)
    check(found, expected)
    assert statistic.dtype_of(array.dtype) == found.dtype


@given(lanes(REAL), st.sampled_from([50, 33, 12.5, [1, 99], np.array([0, 100]), np.float32(70)]), st.booleans())
def test_percentiles_have_the_bits_of_numpy(array, q, skip_nan):
    statistic = Statistic.quantiles(q, skip_nan=skip_nan, percent=True)
    oracle = np.nanpercentile if skip_nan else np.percentile
    expected = np.stack([quietly(oracle, lane, q) for lane in array], axis=-1)
    check(quietly(result_of, statistic, array), expected.astype(statistic.dtype_of(array.dtype)))


@pytest.mark.parametrize("method", METHODS)
def test_booleans_interpolate_as_in_numpy(method):
    array = np.array([[True, False, True]])
    for q in (0.4, 1):
        statistic = Statistic.quantiles(q, method)
        try:
            expected = np.quantile(array, q, axis=-1, method=method)
        except TypeError as error:
            with pytest.raises(TypeError, match=r'bool.*astype\("i1"\)'):
                statistic.dtype_of(array.dtype)
            assert "boolean subtract" in str(error)
        else:
            check(result_of(statistic, array), expected)


def test_infinite_neighbours_give_nan_as_in_numpy():
    array = np.array([[1, np.inf, np.inf], [-np.inf, 1, np.inf], [-np.inf, -np.inf, np.inf]])
    for q in map(given_to_numpy, (0, 0.3, 0.5, 0.9, 1.0)):
        check(
            quietly(result_of, Statistic.quantiles(q), array),
            quietly(np.quantile, array, q, axis=-1),
        )


@pytest.mark.parametrize("method", METHODS)
def test_the_sign_of_a_zero_is_that_of_numpy(method):
    for length in range(1, 8):
        array = np.full((1, length), -0.0)
        for q in (np.linspace(0, 1, 33), 1.0, 0.5):
            check(result_of(Statistic.quantiles(q, method), array), np.quantile(array, q, axis=-1, method=method))
        check(result_of(Statistic.median(), array), np.median(array, axis=-1))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rounding_of_the_interpolation_is_that_of_numpy(dtype):
    array = np.random.default_rng(1).standard_normal((200, 6)).astype(dtype)
    for q in (0.1, 0.3, 0.7, [0.1, 0.3, 0.5, 0.7, 0.99], np.float32(0.3)):
        check(result_of(Statistic.quantiles(q), array), np.quantile(array, q, axis=-1))


@pytest.mark.parametrize("dtype", ["f4", "i4", "m8[s]", "c16"])
@pytest.mark.parametrize("skip_nan", [False, True])
def test_medians_of_empty_lanes_warn(dtype, skip_nan):
    zero, keys = np.zeros(2, np.int64), np.zeros((2, 1, 2), dtype)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        found = Statistic.median(skip_nan=skip_nan).result(keys, zero, zero)
    expected = quietly(np.nanmedian if skip_nan else np.median, np.zeros((0, 2), dtype), axis=0)
    check(found[0], expected)


def test_quantiles_of_empty_lanes():
    zero, keys = np.zeros(2, np.int64), np.zeros((2, 1, 2), np.float32)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
        Statistic.quantiles(0.5).result(keys, zero, zero)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
        Statistic.quantiles(0.5, "lower", skip_nan=True).result(keys.astype(int), zero, zero)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        found = Statistic.quantiles(0.5, skip_nan=True).result(keys, zero, zero)
    assert np.isnan(found).all()
    none = np.zeros(0, np.int64)
    assert Statistic.quantiles(0.5).result(keys[..., :0], none, none).shape == (1, 0)


@pytest.mark.parametrize("statistic", [Statistic.median(skip_nan=True), Statistic.quantiles([0.1, 0.5], skip_nan=True)])
@pytest.mark.parametrize("dtype", ["f2", "f8", "m8[s]"])
def test_lanes_of_nan_warn(statistic, dtype):
    array = np.array([[1, 2], [0, 0]]).astype(dtype)
    array[1] = "NaT" if dtype.startswith("m") else np.nan
    with pytest.warns(RuntimeWarning, match="All-NaN slice encountered"):
        found = result_of(statistic, array)
    assert not np.isnan(found[..., 0]).any()
    assert np.isnan(found[..., 1]).all()


def test_ranks_of_lanes_without_keys_are_zero():
    counts = np.array([[0, 1], [2, 0]])
    for statistic in (Statistic.median(), *(Statistic.quantiles([0.3, 1], method) for method in METHODS)):
        ranks = statistic.ranks(counts)
        assert (ranks[..., counts == 0] == 0).all()
        assert (ranks >= 0).all()
        assert (ranks < np.maximum(counts, 1)).all()


def test_ranks_in_a_narrow_dtype_stay_in_the_lane():
    for dtype in (np.float16, np.float32):
        for method in METHODS:
            counts = np.array([65_503, (1 << 24) + 3, (1 << 31) + 1])
            ranks = quietly(Statistic.quantiles(np.array([0, 0.7, 1], dtype), method).ranks, counts)
            assert (ranks >= 0).all()
            assert (ranks < counts).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_quantile_in_a_narrow_dtype_of_a_long_lane(method, dtype):
    array = np.arange(5_003.0)[None]
    q = np.array([0, 0.123, 0.7, 0.99], dtype)
    check(result_of(Statistic.quantiles(q, method), array), np.quantile(array, q, axis=-1, method=method))


def test_keys_that_numpy_refuses():
    with pytest.raises(TypeError, match="a must be an array of real numbers"):
        Statistic.quantiles(0.5).dtype_of(np.dtype("c16"))
    with pytest.raises(TypeError, match=r"datetime64\[s\] have none: use quantile with q=0.5$"):
        Statistic.median().dtype_of(np.dtype("M8[s]"))
    for statistic in (Statistic.median(), Statistic.quantiles(0.5)):
        for dtype in ("S3", "U3", "V3", [("a", "i4")], np.dtypes.StringDType()):
            with pytest.raises(TypeError, match='method="lower"'):
                statistic.dtype_of(np.dtype(dtype))
            assert Statistic.quantiles(0.5, "lower").dtype_of(np.dtype(dtype)) == np.dtype(dtype)
    assert Statistic.median().dtype_of(np.dtype("m8[s]")) == "m8[s]"
