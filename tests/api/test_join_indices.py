"""Tests of `join_indices` against pandas, and of what pandas has not; any dtypes are in test_functions.py."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support.pairs import HOW, pairs_of
from support.sorting import groups

import dask_gpusort

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
SIZES = 300, 200
NUMBERS = [RNG.integers(0, 60, size) for size in SIZES]
LABELS = [RNG.choice(["a", "bb", "ccc"], size) for size in SIZES]
COLUMNS = {
    "integers": NUMBERS,
    "floats": [np.where(own < 5, np.nan, own) for own in NUMBERS],
    "dates": [np.where(own < 5, np.datetime64("NaT"), own.astype("M8[ns]")) for own in NUMBERS],
    "other integers": [own.astype(kind) for own, kind in zip(NUMBERS, ("i1", "i8"), strict=True)],
    "strings": [own.astype(kind) for own, kind in zip(NUMBERS, ("U2", "U5"), strict=True)],
}


def joined(left, right, how="inner", scheduler="synchronous"):
    return dask.compute(*dask_gpusort.join_indices(left, right, how), scheduler=scheduler)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("how", ["inner", "left", "right"])
@pytest.mark.parametrize("name", COLUMNS)
def test_as_pandas(name, how, several, scheduler):
    tables, sides = [], []
    for keys, labels, chunk in zip(COLUMNS[name], LABELS, (70, 50), strict=True):
        tables.append(pd.DataFrame({"key": keys, "label": labels.astype(object), "row": np.arange(len(keys))}))
        arrays = da.from_array(keys, chunks=chunk), da.from_array(labels, chunks=chunk + 9)
        sides.append(arrays if several else arrays[0])
    by = ["key", "label"] if several else ["key"]
    wanted = pd.merge(*tables, on=by, how=how, sort=False)
    with groups(3):
        found = joined(*sides, how, scheduler)
    for rows, column in zip(found, ("row_x", "row_y"), strict=True):
        np.testing.assert_array_equal(rows, wanted[column].fillna(-1))


@pytest.mark.parametrize("how", HOW)
def test_chunks_are_those_of_a_side(how):
    left, right = (da.from_array(own, chunks=chunk) for own, chunk in zip(NUMBERS, (70, 50), strict=True))
    rows, others = dask_gpusort.join_indices(left, right, how)
    assert rows.numblocks == others.numblocks == ({"right": 4, "outer": 9}.get(how, 5),)
    first, second = dask.compute(rows.to_delayed().tolist(), others.to_delayed().tolist(), scheduler="synchronous")
    assert [*map(len, first)] == [*map(len, second)]


@pytest.mark.parametrize("how", HOW)
def test_all_elements_are_equal_or_none(how):
    ones, twos = da.ones(40, chunks=7), da.full(30, 2, chunks=4)
    for right in (ones[:30], twos):
        wanted = pairs_of([np.ones(40)], [right.compute(scheduler="synchronous")], how)
        np.testing.assert_array_equal(joined(ones, right, how), wanted)


@pytest.mark.parametrize("how", HOW)
def test_sides_without_elements(how):
    x, empty = da.from_array([1.0, 2.0], chunks=1), da.from_array(np.empty(0), chunks=1)
    for one, other in ((x, empty), (empty, x), (empty, empty)):
        wanted = pairs_of([np.asarray(one)], [np.asarray(other)], how)
        for found in (joined(one, other, how), joined((one,) * 2, (other,) * 2, how)):
            np.testing.assert_array_equal(found, wanted)


def test_integers_that_are_equal_as_floats_keep_their_order():
    x, y = da.from_array([2.0**53], chunks=1), da.from_array([2**53 + 1, 2**53, 2**53 + 2], chunks=1)
    np.testing.assert_array_equal(joined(x, y), [[0, 0], [0, 1]])


def test_columns_of_tables():
    """As in the guide: elements at the rows, missing where there is no row."""
    dd = pytest.importorskip("dask.dataframe")
    one, other = (dd.from_pandas(pd.DataFrame({"key": own, "value": own * 1.5}), npartitions=3) for own in NUMBERS)
    sides = [table["key"].to_dask_array(lengths=True) for table in (one, other)]
    rows, others = dask_gpusort.join_indices(*sides)
    values = [table["value"].to_dask_array(lengths=True) for table in (one, other)]
    first, second = dask.compute(dask_gpusort.take(values[0], rows), dask_gpusort.take(values[1], others))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("number", [0, 1])
def test_longer_strings_than_their_array_says_are_an_error(number):
    longer = da.from_array(np.array(["a", "b"])).map_blocks(lambda block: block.astype("U3"), dtype="U1")
    sides = (
        [longer, ["a", "b"]] if number == 0 else [(np.array([1, 2]), longer), (np.array([1, 2]), np.array(["a"] * 2))]
    )
    name = "left" if number == 0 else r"left\[1\]"
    with pytest.raises(TypeError, match=f"a chunk of {name} has dtype <U3 where its array says <U1"):
        joined(*sides)
