"""Keys of several columns: they are split, sorted, compared and searched with NumPy's results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours

from dask_gpusort.chunk import numpy_columns, numpy_sorts
from dask_gpusort.order import Order


@given(ours.arrays(), st.booleans())
def test_columns_sort_every_dtype(array, descending):
    # Dtypes with codes occur as columns too, as fields of a record.
    columns = numpy_columns.columns_of(array, Order(array.dtype, descending))
    assert columns
    got = numpy_columns.argsort_columns(columns)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, oracle.argsort(array, descending=descending))


@given(st.data(), ours.arrays(dtypes=ours.RECORDS), st.booleans())
def test_order_of_fields(data, array, descending):
    order = tuple(data.draw(st.lists(st.sampled_from(array.dtype.names), unique=True)))
    columns = numpy_columns.columns_of(array, Order(array.dtype, descending, fields=order))
    got = numpy_columns.argsort_columns(columns)
    np.testing.assert_array_equal(got, oracle.argsort(array, descending=descending, order=order))


def classes(array, descending):
    """Rank of each key among the distinct keys."""
    ranks = np.empty(len(array), np.int64)
    columns = [values for values, _ in oracle._columns(array)]
    order = oracle.argsort(array, descending=descending)
    rank = -1
    previous = None
    for position in order:
        key = tuple(column[position] for column in columns)
        rank += key != previous
        previous = key
        ranks[position] = rank
    return ranks


@given(ours.arrays(dtypes=[d for d in ours.COMPARED if d.kind != "O"], sizes=st.integers(1, 50)), st.booleans())
def test_comparisons(array, descending):
    order = Order(array.dtype, descending)
    ranks = classes(array, descending)
    other = np.roll(np.arange(len(array)), 1)
    columns, others = (numpy_columns.columns_of(part, order) for part in (array, array[other]))
    np.testing.assert_array_equal(numpy_columns.less(columns, others), ranks < ranks[other])
    np.testing.assert_array_equal(numpy_columns.differ(array, array[other], order), ranks != ranks[other])


@pytest.mark.parametrize("side", ["left", "right"])
@given(data=st.data())
def test_search(side, data):
    array = data.draw(ours.arrays(dtypes=[d for d in ours.COMPARED if d.kind != "O"], sizes=st.integers(0, 40)))
    descending = data.draw(st.booleans())
    needles = ours.make(array.dtype, 10, data.draw(st.sampled_from(ours.DISTRIBUTIONS)))
    ranks = classes(np.concatenate([array, needles], dtype=array.dtype), descending)
    got = numpy_columns.search(oracle.sort(array, descending=descending), needles, Order(array.dtype, descending), side)
    wanted = np.searchsorted(np.sort(ranks[: len(array)]), ranks[len(array) :], side=side)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["V0", "V3", "S0", "U0", "S7", "S8", "S9", "S13", "U1", "U2", "U3", ">U3", "c16"])
def test_widths_that_do_not_fill_a_word(dtype):
    for size in (0, 1, 33):
        array = np.zeros(size, dtype) if dtype[1:] == "0" else ours.make(dtype, size, "bits")
        columns = numpy_columns.columns_of(array, Order(array.dtype))
        assert all(len(column.values) == size for column in columns)
        np.testing.assert_array_equal(numpy_columns.argsort_columns(columns), np.argsort(array, kind="stable"))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("greatest", [0x7F, 0xFF, 0x100, 0x10FFFF])
@pytest.mark.parametrize("dtype", ["U1", "U3", ">U9", "U13", ">U40"])
def test_text_of_which_each_character_fits_a_byte_or_not(dtype, greatest, descending):
    rng = np.random.default_rng(greatest)
    width = np.dtype(dtype).itemsize // 4
    array = rng.integers(0x61, 0x64, (3000, width)).astype("u4").view(f"U{width}")[:, 0].astype(dtype)
    array[[7, 2000]] = chr(greatest)
    order = Order(array.dtype, descending)
    assert numpy_columns.fits_bytes(array) == (greatest < 0x100)
    wanted = (
        len(array) - 1 - np.argsort(array[::-1], kind="stable")[::-1]
        if descending
        else np.argsort(array, kind="stable")
    )
    np.testing.assert_array_equal(numpy_columns.argsort(array, order), wanted)
    np.testing.assert_array_equal(numpy_sorts.sort_keys(array.copy(), order), array[wanted])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_keys_with_nan_in_either_part(dtype):
    parts = [1, np.nan, -np.inf]
    array = np.array([complex(real, imag) for real in parts[::-1] for imag in parts[::-1]] * 2, dtype)
    columns = numpy_columns.columns_of(array, Order(array.dtype))
    np.testing.assert_array_equal(numpy_columns.argsort_columns(columns), np.argsort(array, kind="stable"))


def test_a_record_without_fields():
    array = np.zeros(4, [])
    columns = numpy_columns.columns_of(array, Order(array.dtype))
    np.testing.assert_array_equal(numpy_columns.argsort_columns(columns), np.arange(4))


def test_later_columns_are_read_only_for_ties_in_earlier_ones():
    sizes_read = []

    class Spy(numpy_columns.Column):
        def __getitem__(self, index):
            sizes_read.append(np.size(self.values[index]))
            return Spy(self.values[index], self.descending)

    first = numpy_columns.Column(np.array([3, 1, 2, 1, 0], "u1"))
    second = Spy(np.array([0, 9, 0, 5, 0], "u1"))
    np.testing.assert_array_equal(numpy_columns.argsort_columns([first, second]), [4, 3, 1, 2, 0])
    assert max(sizes_read) == 2
    sizes_read.clear()
    numpy_columns.argsort_columns([numpy_columns.Column(np.arange(5, dtype="u1")), second])
    assert not sizes_read


@pytest.mark.parametrize("elements", [[1, "a"], [2, 1, None], [1, 2.5, b"x", 3], [(1, 2), (1, "b")], [1, 1j, 2]])
def test_message_names_incomparable_elements(elements):
    array = ours._objects(elements)
    for descending in (False, True):
        columns = numpy_columns.columns_of(array, Order(array.dtype, descending))
        with pytest.raises(TypeError, match=r"could not compare .*key="):
            numpy_columns.argsort_columns(columns)
