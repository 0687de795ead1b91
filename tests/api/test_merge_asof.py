"""Tests of `merge_asof` against pandas, and of what pandas has not; any dtypes are in test_functions.py."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support.sorting import groups

import dask_gpusort

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
LEFT, RIGHT = np.sort(RNG.integers(0, 400, 300)), np.sort(RNG.integers(0, 400, 200))
LABELS = RNG.integers(0, 5, 300), RNG.integers(0, 5, 200)
VALUES = RNG.random(200)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("options", [{}, {"tolerance": 2}, {"allow_exact_matches": False}])
@pytest.mark.parametrize("kind", ["i8", "M8[ns]", "f8"])
def test_as_pandas(labelled, direction, options, kind):
    left, right = LEFT.astype(kind), RIGHT.astype(kind)
    if kind == "M8[ns]" and "tolerance" in options:
        options = {"tolerance": pd.Timedelta(2, "ns")}
    tables = pd.DataFrame({"on": left, "by": LABELS[0]}), pd.DataFrame({"on": right, "by": LABELS[1], "value": VALUES})
    names = {"on": "on", "by": "by"} if labelled else {"on": "on"}
    wanted = pd.merge_asof(*tables, **names, direction=direction, **options)["value"].to_numpy()
    given = [da.from_array(one, chunks=size) for one, size in ((left, 70), (right, 50), (VALUES, 60))]
    by = (da.from_array(LABELS[0], chunks=70), LABELS[1]) if labelled else None
    with groups(3):
        found = dask_gpusort.merge_asof(*given, by, direction=direction, **options)
    assert found.chunks == given[0].chunks
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), wanted)


def test_several_values_and_rows():
    x, y = da.from_array([[5, 1], [0, 9]], chunks=1), da.from_array([1, 4, 4], chunks=2)
    columns = da.from_array([7, 8, 9], chunks=1), da.from_array(np.arange(6.0).reshape(3, 2), chunks=2)
    found = dask.compute(
        *dask_gpusort.merge_asof(x, y, columns), dask_gpusort.merge_asof(x, y), scheduler="synchronous"
    )
    np.testing.assert_array_equal(found[0], [[9, 7], [np.nan, 9]])
    np.testing.assert_array_equal(found[1], [[[4, 5], [0, 1]], [[np.nan, np.nan], [4, 5]]])
    np.testing.assert_array_equal(found[2], [[2, 0], [-1, 2]])


@pytest.mark.parametrize("label", [0, 2.5, "a", b"a", np.datetime64("2020")])
def test_one_element_with_a_label(label):
    by = da.from_array(np.array(label)), da.from_array(np.array([label, label]), chunks=1)
    found = dask_gpusort.merge_asof(da.from_array(np.array(1.5)), da.from_array([1, 2], chunks=1), by=by)
    assert found.shape == ()
    assert found.compute(scheduler="synchronous") == 0


def test_distances_do_not_overflow():
    x, y = (da.from_array(np.array(one, "i1")) for one in ([127, -128], [-128, 127]))
    found = dask_gpusort.merge_asof(x, y, direction="backward", allow_exact_matches=False, tolerance=254)
    assert found.compute(scheduler="synchronous").tolist() == [-1, -1]
    far = dask_gpusort.merge_asof(x, y, direction="backward", allow_exact_matches=False, tolerance=255)
    assert far.compute(scheduler="synchronous").tolist() == [0, -1]
    infinite = da.from_array([np.inf, -np.inf])
    found = dask_gpusort.merge_asof(infinite, da.from_array([-np.inf, np.inf]), tolerance=1)
    assert found.compute(scheduler="synchronous").tolist() == [1, 0]


def test_nothing_to_join():
    x, empty = da.from_array([1.0, 2.0], chunks=1), da.from_array(np.empty(0), chunks=1)
    for by in (None, (["a", "b"], np.empty(0, "U1"))):
        found = dask_gpusort.merge_asof(x, empty, empty.astype("M8[s]"), by)
        assert np.isnat(found.compute(scheduler="synchronous")).tolist() == [True, True]
        assert dask_gpusort.merge_asof(empty, x, by=by and by[::-1]).compute(scheduler="synchronous").shape == (0,)


def test_longer_labels_than_their_array_says_are_told():
    labels = da.from_array(np.array(["a", "b"])).map_blocks(lambda block: block.astype("U3"), dtype="U1")
    found = dask_gpusort.merge_asof(da.from_array([1, 2]), da.from_array([1, 2]), by=(labels, ["a", "b"]))
    with pytest.raises(TypeError, match="a chunk of by has dtype <U3 where its array says <U1"):
        found.compute(scheduler="synchronous")
