"""Tests of `interp` against NumPy: points on both sides of where groups begin, unknown sizes, and errors."""

from __future__ import annotations

from unittest import mock

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.sorting import check_sizes, computed, groups, no_computation

import dask_gpusort
from dask_gpusort.builders import searches

#: Runs of equal points that groups cut, and infinite ends.
POINTS = np.repeat([-np.inf, -2.0, -1.0, 0.0, 0.5, 4.0, np.inf], [1, 3, 1, 7, 1, 4, 2])
VALUES = np.random.default_rng(0).standard_normal(len(POINTS))
AROUND = np.array([-np.inf, -9, -2, -1.5, -1, -0.3, -0.0, 0, 0.2, 0.5, 2, 4, 5, np.inf, np.nan])


@given(st.data(), ours.groups, st.sampled_from([slice(None), slice(1, -2), slice(2, 3), slice(4, 12)]))
def test_points_in_any_groups(data, count, part):
    xp = POINTS[part]
    fp = VALUES[part] * (1 + 2j if data.draw(st.booleans()) else 1)
    sizes = data.draw(ours.chunk_sizes(len(xp)))
    x = ours.dask_array(AROUND.reshape(3, 5), data.draw(ours.chunkings((3, 5))))
    unknown = data.draw(st.booleans())
    points = [ours.dask_array(one, (sizes,), unknown=unknown) for one in (xp, fp)]
    if not unknown:
        points[1] = data.draw(st.sampled_from([points[1], fp, da.from_array(fp, chunks=3)]))
    with groups(count), no_computation():
        found = dask_gpusort.interp(x, *points, right=7)
    assert found.chunks == x.chunks
    with np.errstate(all="ignore"):
        check_sizes(found)
        oracle.assert_same_values(computed(found), np.interp(AROUND.reshape(3, 5), xp, fp, right=7))


def test_elements_of_unknown_sizes_and_one_element():
    x = ours.forget_sizes(da.from_array(AROUND, chunks=4))
    np.testing.assert_array_equal(computed(dask_gpusort.interp(x, [-1, 1], [4, 5])), np.interp(AROUND, [-1, 1], [4, 5]))
    one = dask_gpusort.interp(0, da.from_array([-1, 1], chunks=1), [4, 5])
    assert (one.shape, one.dtype, float(computed(one))) == ((), np.float64, 4.5)


def test_no_task_has_all_points():
    x, fp = (da.arange(6400, chunks=100, dtype=float) for _ in range(2))
    joined = []

    def join(chunks, *given):
        joined.append(found := JOIN(chunks, *given))
        return found

    with groups(8), mock.patch.object(searches, "join_keys", join):
        found = dask_gpusort.interp(x + 0.5, x, 2 * fp)
        assert computed(found)[:-1].tolist() == list(range(1, 12798, 2))
    assert [(len(keys), len(values)) for keys, values in joined] == [(800, 800)] * 8


JOIN = searches.join_keys


def test_errors_of_sizes():
    x, unknown = da.arange(6, chunks=2), ours.forget_sizes(da.arange(6, chunks=2))
    for fp in (np.arange(6), ours.forget_sizes(x.rechunk(3))):
        with pytest.raises(ValueError, match="fp and xp, of unknown chunk sizes, .*: call compute_chunk_sizes"):
            dask_gpusort.interp(x, unknown, fp)
    for points in ((unknown, x), (x, unknown)):
        with pytest.raises(ValueError, match=r"[xf]p has an unknown size along axis 0: call [xf]p.compute_chunk_sizes"):
            dask_gpusort.interp(x, *points, period=4)
    longer = ours.forget_sizes(da.arange(9, chunks=3))
    nothing = ours.forget_sizes(da.zeros(6, chunks=2)[:0].rechunk(((0, 0, 0),)))
    for count in (None, 3):
        with groups(count):
            with pytest.raises(ValueError, match="a chunk of 2 keys has 3 values: .*compute_chunk_sizes"):
                computed(dask_gpusort.interp(x, unknown, longer))
            with pytest.raises(ValueError, match="array of sample points is empty"):
                computed(dask_gpusort.interp(x, nothing, nothing))
