"""Medians, quantiles and percentiles against NumPy, for every strategy."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import product

import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.marks import for_each
from support.sorting import computed

import dask_gpusort

STRATEGIES = ("auto", "samples", "rechunk", "join")


def expected_of(name, array, *arguments, **options):
    """NumPy's result, without the warnings of its arithmetic."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(np, name)(array, *arguments, **options)


def check(name, array, darr, *arguments, **options):
    strategy = options.pop("strategy", "auto")
    expected = expected_of(name, array, *arguments, **options)
    found = getattr(dask_gpusort, name)(darr, *arguments, strategy=strategy, **options)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = computed(found)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_all_nan_lanes_warn_as_in_numpy():
    darr = da.from_array(np.full(100, np.nan), chunks=30)
    for strategy in STRATEGIES:
        with pytest.warns(RuntimeWarning, match="All-NaN slice encountered"):
            computed(dask_gpusort.nanmedian(darr, strategy=strategy))


@pytest.mark.parametrize("dtype", [">f8", ">m8[s]"])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_nan_in_swapped_byte_order(dtype, shape):
    array = np.array(["NaT" if dtype[1] == "m" else np.nan, 1, 2, 3], dtype).reshape(shape)
    for strategy, axis, name in product(STRATEGIES, (None, 0), ("quantile", "nanquantile")):
        found = getattr(dask_gpusort, name)(
            da.from_array(array, chunks=1), [0.5], axis, method="lower", strategy=strategy
        )
        assert computed(found).dtype == found.dtype == array.dtype
    parts = dask_gpusort.partition(da.from_array(array, chunks=1), [0, 1], None)
    assert computed(parts).dtype == parts.dtype


def test_complex_medians():
    array = ours.make("c16", 2000, "small")
    array[array != array] = 0
    check("median", array, da.from_array(array, chunks=300), strategy="samples")
    with pytest.raises(TypeError, match="must be an array of real numbers"):
        dask_gpusort.quantile(da.from_array(array), 0.5)


def test_unknown_chunk_sizes():
    array = np.random.default_rng(0).random((60, 50))
    darr = da.from_array(array, chunks=(20, 10))
    mask = array > 0.3
    masked = darr[darr > 0.3]
    assert np.isnan(masked.chunks[0]).all()
    np.testing.assert_array_equal(
        computed(dask_gpusort.quantile(masked, [0.1, 0.6])), np.quantile(array[mask], [0.1, 0.6])
    )
    rows = darr[da.from_array(mask[:, 0], chunks=20)]
    np.testing.assert_array_equal(computed(dask_gpusort.median(rows)), np.median(array[mask[:, 0]]))
    np.testing.assert_array_equal(computed(dask_gpusort.median(rows, 0)), np.median(array[mask[:, 0]], 0))
    whole = rows.rechunk({1: -1})
    np.testing.assert_array_equal(computed(dask_gpusort.median(whole, 1)), np.median(array[mask[:, 0]], 1))
    with pytest.raises(ValueError, match=r"a has chunks of unknown sizes.*call a\.compute_chunk_sizes"):
        dask_gpusort.median(rows, 1)


@pytest.mark.parametrize("shape", [(3, 40), (0, 40), (3, 0, 40)])
def test_chunks_without_lanes(shape):
    array = np.random.default_rng(0).random(shape)
    darr = da.from_array(array, chunks=((0, *shape[:1]), *((size,) for size in shape[1:-1]), (20, 20)))
    for strategy in STRATEGIES:
        for keepdims in (False, True):
            check("quantile", array, darr, [0.1, 0.5], -1, keepdims=keepdims, strategy=strategy)


def test_no_quantiles():
    array = np.random.default_rng(0).random(1000)
    for strategy in STRATEGIES:
        check("quantile", array, da.from_array(array, chunks=300), [], strategy=strategy)


def test_an_array_without_dimensions():
    check("quantile", np.array(3.0), da.from_array(np.array(3.0)), [0.1, 0.5])
    check("median", np.array(3), da.from_array(np.array(3)), keepdims=True)


def test_many_long_lanes_are_searched_side_by_side():
    array = np.random.default_rng(0).random((5, 4000, 2))
    array[2, 7, 1] = np.nan
    darr = da.from_array(array, chunks=(2, 900, 1))
    for axis in (1, (0, 1), (1, 2)):
        for keepdims in (False, True):
            check("quantile", array, darr, [[0.3, 0.5], [0.2, 1]], axis, keepdims=keepdims, strategy="samples")


def as_objects(elements):
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


OBJECT_KEYS = {
    "fractions": as_objects([Fraction(n * 5 % 8, 2) for n in range(8)]),
    "decimals": as_objects([Decimal(n * 5 % 8) / 2 for n in range(8)]),
    "with NaN": as_objects([Fraction(1), float("nan"), Fraction(3), Fraction(2)]),
    "int64": np.arange(8)[::-1],
    "uint8": np.arange(8, dtype="u1"),
    "float32": np.arange(8, dtype="f4"),
    "timedelta64": np.arange(8).astype("m8[s]"),
    "bool": np.array([False, True] * 4),
}
OBJECT_Q = [
    0,
    1,
    0.5,
    Fraction(1, 2),
    Fraction(1, 3),
    [Fraction(1, 3)],
    [[Fraction(1, 2)]],
    Decimal("0.5"),
    [Decimal("0.25")],
]


@for_each(product(OBJECT_KEYS, OBJECT_Q, ["linear", "lower", "hazen", "midpoint", "inverted_cdf"]))
def test_quantiles_of_objects_are_those_of_numpy(keys, q, method):
    array = OBJECT_KEYS[keys]
    for name in ("quantile", "nanquantile"):
        try:
            expected = getattr(np, name)(array, q, method=method)
        except (AttributeError, TypeError):
            # Keys that are objects themselves, and differ in type from `q`, are seen when they are computed.
            with pytest.raises(TypeError):
                computed(getattr(dask_gpusort, name)(da.from_array(array, chunks=3), q, method=method))
            continue
        for chunks in (-1, 3):
            found = computed(getattr(dask_gpusort, name)(da.from_array(array, chunks=chunks), q, method=method))
            assert type(found) is type(expected)
            assert repr(found) == repr(expected)


@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "m8[s]", "f2"])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), None)])
@pytest.mark.parametrize("q", [0.5, [0.2, 0.5]], ids=str)
def test_nanquantile_of_empty_arrays(dtype, shape, axis, q):
    array = np.empty(shape, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for options in ({}, {"weights": np.ones(shape), "method": "inverted_cdf"}):
            expected = np.nanquantile(array, q, axis, **options)
            lazy = dask_gpusort.nanquantile(da.from_array(array), q, axis, **options)
            found = computed(lazy)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape) == (lazy.dtype, lazy.shape)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_result_without_dimensions_is_a_scalar(strategy):
    darr = da.from_array(np.arange(100.0), chunks=30)
    assert type(computed(dask_gpusort.median(darr, strategy=strategy))) is np.float64
    assert type(computed(dask_gpusort.quantile(darr, 0.3, method="lower", strategy=strategy))) is np.float64


def test_other_arrays_are_converted():
    assert float(dask_gpusort.median([3, 1, 2])) == 2.0
    assert float(dask_gpusort.quantile(np.arange(5), 0.5)) == 2.0


def test_the_median_of_fractions():
    array = OBJECT_KEYS["fractions"]
    assert computed(dask_gpusort.median(da.from_array(array, chunks=4))) == np.median(array)


def test_objects_without_arithmetic_name_the_remedy() -> None:
    names = da.from_array(np.array(["b", "a", "c"], object), chunks=2)
    with pytest.raises(TypeError, match="keys of object have none: use quantile.*lower"):
        dask_gpusort.median(names).compute()
    with pytest.raises(TypeError, match="those of object are no numbers: give method=.lower"):
        dask_gpusort.quantile(names, 0.5).compute()
    assert dask_gpusort.quantile(names, 0.5, method="lower").compute() == "b"
    with pytest.raises(TypeError, match="or q of a type that multiplies them"):
        dask_gpusort.quantile(np.array([Decimal(1), Decimal(2)]), 0.5).compute()
    mixed = da.from_array(np.array([1, "a"], object), chunks=2)
    for method in ("linear", "lower"):
        with pytest.raises(TypeError, match="^'<' not supported between instances of 'str' and 'int'$"):
            dask_gpusort.quantile(mixed, 0.5, method=method).compute()


@pytest.mark.parametrize("name", ["fractions", "decimals", "with NaN"])
def test_medians_of_lanes_and_groups_of_objects_leave_out_nan(name) -> None:
    """NumPy itself takes one lane of objects."""
    keys = np.stack([OBJECT_KEYS[name], OBJECT_KEYS[name][::-1]])
    labels = np.arange(keys.shape[1]) % 2
    array = da.from_array(keys, chunks=(1, 2))
    wanted = [np.nanmedian(lane) for lane in keys]
    assert dask_gpusort.nanmedian(array, axis=1).compute().tolist() == wanted
    wanted = [[np.nanmedian(lane[labels == group]) for group in (0, 1)] for lane in keys]
    assert dask_gpusort.nanmedian(array, axis=1, by=labels).compute().tolist() == wanted
