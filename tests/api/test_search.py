"""Tests of `searchsorted` and `isin` against NumPy, and against counts of the keys before each needle."""

from __future__ import annotations

from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed

import dask_gpusort

INTEGERS = [
    (np.array([2**63 + 1, 2**63], np.uint64), np.array([2**63 - 1, -1, 5])),
    (np.array([2**63 - 1, -1, 5]), np.array([2**63, 2**64 - 1, 5], np.uint64)),
    (np.array([-1, 5], np.int8), np.array([255, 2**64 - 1, 5], np.uint64)),
    (np.array([255, 3], np.uint8), np.array([-1, 3], np.int8)),
]


@pytest.mark.parametrize("order", ["=", ">"])
@pytest.mark.parametrize(("elements", "test"), INTEGERS)
def test_integers_of_different_dtypes_are_compared_exactly(elements, test, order):
    x, y = (da.from_array(one.astype(one.dtype.newbyteorder(order)), chunks=1) for one in (elements, test))
    inside = [int(one) in {*map(int, test)} for one in elements]
    assert computed(dask_gpusort.isin(x, y)).tolist() == inside
    others = [int(one) for one, found in zip(elements, inside, strict=True) if not found]
    assert computed(dask_gpusort.setdiff1d(x, y, assume_unique=True)).tolist() == others
    assert computed(dask_gpusort.setdiff1d(x, y)).tolist() == sorted(others)


def test_objects_may_be_equal_to_strings():
    objects, strings = np.array(["a", 1, None, "b"], object), np.array(["b", "c"])
    for elements, test in ((objects, strings), (strings, objects)):
        found = computed(dask_gpusort.isin(da.from_array(elements, chunks=1), test))
        np.testing.assert_array_equal(found, np.isin(elements, test), strict=True)


@pytest.mark.parametrize("side", ["left", "right"])
def test_dates_of_other_units_are_promoted_as_in_numpy(side):
    keys, needles = np.array(["2020", "2021", "NaT"], "M8[Y]"), np.array(["2020-06-01", "NaT"], "M8[D]")
    for count in (None, 2):
        with dask.config.set({"gpusort.groups": count}):
            found = computed(dask_gpusort.searchsorted(da.from_array(keys, chunks=2), needles, side))
        assert found.tolist() == np.searchsorted(keys, needles, side).tolist()


def test_needles_without_dimensions_and_lists():
    x = da.from_array(np.array([1, 3, 5]), chunks=2)
    assert computed(dask_gpusort.searchsorted(x, 4)) == 2
    assert dask_gpusort.searchsorted(x, 4).shape == ()
    assert computed(dask_gpusort.searchsorted([1, 3, 5], [[0, 9]], "right")).tolist() == [[0, 3]]


@pytest.mark.parametrize("as_dask", [False, True])
def test_sorter(as_dask):
    keys = ours.make("f8", 50, "special")
    sorter = np.argsort(keys, kind="stable")
    needles = ours.make("f8", 30, "special", seed=1)
    given_sorter = da.from_array(sorter, chunks=11) if as_dask else sorter
    lazy = dask_gpusort.searchsorted(
        da.from_array(keys, chunks=7), da.from_array(needles, chunks=8), "right", given_sorter
    )
    assert computed(lazy).tolist() == np.searchsorted(keys, needles, "right", sorter).tolist()


def test_a_sorter_out_of_range():
    with pytest.raises(ValueError, match="Sorter index out of range"):
        computed(dask_gpusort.searchsorted(da.arange(6, chunks=2), 1, sorter=[0, 1, 2, 3, 4, 6]))


TEXT = ["fig" * 6, "pear" * 5, "a", "aa", "", "pear", "b"]


WIDTHS = [(1, 2), (2, 1), (3, 4), (4, 3), (7, 8), (8, 9), (9, 1), (16, 17), (17, 2)]
EVERY_WIDTH = pytest.param([*product(range(1, 18), repeat=2)], marks=pytest.mark.thorough)


@pytest.mark.parametrize("kind", ["S", "<U", ">U"])
@pytest.mark.parametrize("widths", [WIDTHS, EVERY_WIDTH], ids=["some", "all"])
def test_text_of_two_widths(kind, widths):
    for (first, second), count in product(widths, (None, 2)):
        elements, test = (np.array(TEXT).astype(f"{kind}{width}") for width in (first, second))
        with dask.config.set({"gpusort.groups": count}):
            found = dask_gpusort.isin(da.from_array(elements, chunks=2), da.from_array(test[[0, 1, 2, -1]], chunks=3))
        np.testing.assert_array_equal(computed(found), np.isin(elements, test[[0, 1, 2, -1]]), strict=True)


@pytest.mark.parametrize("kind", ["S", "U"])
def test_chunks_of_text_narrower_and_wider_than_their_array_says(kind):
    text, widths = (
        np.array([["", "a", "ab"], ["abcd", "ac", "b"], ["b", "bcdefghij", "c"]]).astype(f"{kind}9"),
        (2, 4, 9),
    )
    x = da.from_array(np.zeros(9), chunks=3).map_blocks(
        lambda block, block_id: text[block_id[0]].astype(f"{kind}{widths[block_id[0]]}"),
        dtype=f"{kind}4",
        meta=np.empty(0, f"{kind}4"),
    )
    test = text[1:, 1]
    for count in (None, 2):
        with dask.config.set({"gpusort.groups": count}):
            found = computed(dask_gpusort.isin(x, test)), computed(dask_gpusort.isin(test, x))
        np.testing.assert_array_equal(found[0], np.isin(text.ravel(), test))
        assert found[1].all()
    assert computed(dask_gpusort.is_sorted(x))
    assert not computed(dask_gpusort.is_sorted(x, descending=True))


NEVER_EQUAL = [
    (np.array([b"a", b"\xff"]), np.array(["a", "b"])),
    (np.array(["a", "b"]), np.array([b"a", b"\xff"])),
    (np.array([1, 2], "M8[s]"), np.array([1, 2], "m8[s]")),
    (np.array([1, 2], "m8[s]"), np.array([1, 2], "M8[s]")),
    (np.array([1, 2], "m8[s]"), np.array([1.0, 2])),
    (np.array([1, 2], "M8[s]"), np.array([1, 2])),
    (np.array([1, 2]), np.array(["1", "2"])),
    (np.array([1, 2]), np.array([1, 2], "M8[s]")),
    (np.array([2.0, 1]), np.array([1, 2], "M8[s]")),  # None, a dtype in which nothing is equal, is equal to float64
    (np.array(["a", "b"]).astype("T"), np.array([b"a", b"b"])),
]


@pytest.mark.parametrize("dtype", ["i4,f8", "V8", "f8", "O", "U2", "M8[s]"])
def test_no_test_elements(dtype):
    """NumPy compares nothing with none, so dtypes that cannot be compared are no error."""
    elements = np.zeros(3, dtype)
    for array, test in ((elements, []), (elements, elements[:0]), (np.arange(3), elements[:0])):
        for invert in (False, True):
            found = computed(dask_gpusort.isin(da.from_array(array, chunks=2), test, invert=invert))
            np.testing.assert_array_equal(found, np.isin(array, test, invert=invert), strict=True)


@pytest.mark.parametrize(("elements", "test"), NEVER_EQUAL, ids=[f"{a.dtype}-{b.dtype}" for a, b in NEVER_EQUAL])
def test_elements_of_two_kinds_that_are_never_equal(elements, test):
    x, y = da.from_array(elements, chunks=1), da.from_array(test, chunks=1)
    for invert in (False, True):
        wanted = np.isin(elements, test, invert=invert)
        np.testing.assert_array_equal(computed(dask_gpusort.isin(x, y, invert=invert)), wanted, strict=True)
    for unique in (False, True):
        found = computed(dask_gpusort.setdiff1d(x, y, assume_unique=unique))
        np.testing.assert_array_equal(found, np.setdiff1d(elements, test, assume_unique=unique), strict=True)


@pytest.mark.parametrize("invert", [False, True])
def test_records_with_objects_that_have_no_order(invert):
    elements = np.array([(None, 2), ("a", 1), ("a", 2), (None, 2)], "O,i4")
    for test in (elements[[0, 1]], np.array([(None, 2), ("a", 2)], "O,i8"), elements[:0]):
        for chunks in (1, 4):
            x, y = da.from_array(elements, chunks=chunks), da.from_array(test, chunks=chunks)
            found = computed(dask_gpusort.isin(x, y, invert=invert))
            np.testing.assert_array_equal(found, np.isin(elements, test, invert=invert), strict=True)


@pytest.mark.parametrize("test", ["fig", ["fig", "a"], ("apple",), [["fig"], ["b"]], np.array("fig"), []], ids=repr)
def test_test_elements_that_are_no_dask_array(test):
    words = np.array([["fig", "apple"], ["a", "b"]])
    found = computed(dask_gpusort.isin(da.from_array(words, chunks=1), test))
    np.testing.assert_array_equal(found, np.isin(words, test), strict=True)


@pytest.mark.parametrize("element", [lambda x: x[1], lambda x: x.max(), lambda x: da.from_array(np.array("c", object))])
def test_one_element_of_objects(element):
    names = np.array(["b", "c", "a", "c"], object)
    x = da.from_array(names, chunks=2)
    one = element(x)  # Dask gives some as objects, which are no arrays
    found = dask.compute(
        dask_gpusort.isin(x, one),
        dask_gpusort.isin(one, x),
        dask_gpusort.searchsorted(dask_gpusort.sort(x), one),
        dask_gpusort.setdiff1d(x, one),
        dask_gpusort.unique(one),
        dask_gpusort.put_along_axis(x, [0], one, 0),
    )
    expected = names == "c", True, 2, ["a", "b"], ["c"], ["c", "c", "a", "c"]
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
