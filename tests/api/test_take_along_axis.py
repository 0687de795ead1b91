"""Tests of `take_along_axis` and `put_along_axis` against NumPy: any axis, any chunks, any exchange."""

from __future__ import annotations

import warnings
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import positions as ours_at
from support import strategies as ours
from support.sorting import computed

import dask_gpusort


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
def test_the_last_value_for_a_position_stays(exchange):
    at = np.random.default_rng(0).integers(-5, 5, 500)
    x, indices, values = da.zeros(5, chunks=2), da.from_array(at, chunks=70), da.arange(500, chunks=90)
    found = ours_at.built(dask_gpusort.put_along_axis, exchange, 3, x, indices, values, 0)
    wanted = [max(np.flatnonzero(at % 5 == position)) for position in range(5)]
    assert computed(found).tolist() == wanted
    # The order of the memory is not C order.
    backwards = da.from_array(np.zeros((1, 40), "i8")[:, ::-1], chunks=-1)
    written = dask_gpusort.put_along_axis(da.zeros((1, 2)), backwards, np.arange(40)[::-1][None], 1)
    assert computed(written).tolist() == [[0, 0]]


#: Values for an element of an array of a dtype; NumPy converts Python's as strictly as it can, and casts its own.
VALUES = [
    *(
        ("u1", value)
        for value in (300, -1, 255, [[300]], 1 << 70, 1.5, np.nan, 1j, True, "1", None, np.int64(300), [np.array(300)])
    ),
    *(
        (dtype, value)
        for dtype in ("f4", "i8")
        for value in (1j, [2 + 0j], Fraction(1, 2), np.array([1j]), "x", [None])
    ),
    *(("M8[D]", value) for value in (3, 1.5, "2020-01-01", "day", np.timedelta64(3, "D"))),
    *(("S2", value) for value in ("abc", "\u00e9", 12, b"a")),
    *((ours.PLAIN_RECORD, value) for value in ((b"a", 1.5, 3), (1, 2), 7)),
    ("?", 300),
]


@pytest.mark.parametrize(("dtype", "value"), VALUES, ids=str)
def test_values_are_converted_as_numpy_does(dtype, value, raise_if_computes):
    """What cannot be is refused when the graph is built."""
    wanted, x = np.zeros(3, dtype), da.zeros(3, dtype=dtype, chunks=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)  # of casts
        try:
            np.put_along_axis(wanted, np.array([1]), value, 0)
        except (OverflowError, TypeError, ValueError) as error:
            kind = next(kind for kind in (OverflowError, TypeError, ValueError) if isinstance(error, kind))
            with raise_if_computes(), pytest.raises(kind, match="^values (do not fit|must be)"):
                dask_gpusort.put_along_axis(x, np.array([1]), value, 0)
            return
        oracle.assert_same_bits(computed(dask_gpusort.put_along_axis(x, np.array([1]), value, 0)), wanted)


def test_values_may_be_a_list_of_lazy_ones(raise_if_computes):
    with raise_if_computes():
        found = dask_gpusort.put_along_axis(da.zeros(3, chunks=2), np.array([2, 0]), [da.asarray(7), 8], 0)
    assert computed(found).tolist() == [8, 0, 7]


def test_lost_imaginary_parts_warn_in_the_computation():
    found = dask_gpusort.put_along_axis(da.zeros(3, chunks=2), np.array([1]), np.array([2 + 1j]), 0)
    with pytest.warns(np.exceptions.ComplexWarning):
        assert computed(found).tolist() == [0, 2, 0]


def test_without_an_axis_the_array_is_flattened():
    array = np.arange(12).reshape(3, 4)
    x, at = da.from_array(array, chunks=(2, 3)), np.array([11, -12, 5])
    assert computed(dask_gpusort.take_along_axis(x, at, None)).tolist() == [11, 0, 5]
    found = dask_gpusort.put_along_axis(x, at, -1, None)
    np.put_along_axis(array, at, -1, None)
    assert found.chunks == x.chunks
    assert computed(found).tolist() == array.tolist()
    one = da.from_array(array[:1, :1], chunks=((1,), (0, 1)))
    assert computed(dask_gpusort.put_along_axis(one, at[2:] - 5, 7, None)).tolist() == [[7]]


@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_of_unknown_sizes(axis):
    array = ours.make("i4", 60, "bits").reshape(6, 10)
    indices = np.random.default_rng(0).integers(0, 6, (6, 10))
    x = ours.dask_array(array, (6, 10), unknown=True)
    at = ours.forget_sizes(da.from_array(indices, chunks=(6, 10)))
    oracle.assert_same_bits(
        computed(dask_gpusort.take_along_axis(x, at, axis)), np.take_along_axis(array, indices, axis)
    )
    line = ours.forget_sizes(da.from_array(indices.ravel(), chunks=7))
    for exchange in ("auto", "gather", "tasks"):
        found = ours_at.built(
            dask_gpusort.take_along_axis, exchange, 3, da.from_array(array.ravel(), chunks=13), line, 0
        )
        oracle.assert_same_bits(computed(found), array.ravel()[indices.ravel()])
    several = ours.dask_array(array, (4, 3), unknown=True)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.take_along_axis(several, at, axis)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        ours_at.built(dask_gpusort.take_along_axis, "tasks", 2, several, at, axis)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.put_along_axis(several, at, 0, axis)


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
@pytest.mark.parametrize("wrong", [10, -11, 2**62])
def test_indices_out_of_range(exchange, wrong):
    x, at = da.arange(10, chunks=3), da.from_array([0, wrong, 3], chunks=2)
    message = f"index {wrong} is out of bounds for axis 0 with size 10"
    for found in (
        ours_at.built(dask_gpusort.take_along_axis, exchange, 2, x, at, 0),
        ours_at.built(dask_gpusort.take, exchange, 2, x, at),
        ours_at.built(dask_gpusort.put_along_axis, exchange, 2, x, at, 1, 0),
    ):
        with pytest.raises(IndexError, match=message):
            computed(found)
