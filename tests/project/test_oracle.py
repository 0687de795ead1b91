"""The oracle, compared with NumPy where NumPy has the same sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.lib import NumpyVersion
from support import oracle
from support import strategies as ours

SORTS_DESCENDING = NumpyVersion(np.__version__) >= "2.5.0"
#: Dtypes for which NumPy 2.5 has no descending sort.
ONLY_ASCENDING = "VOT"


@given(ours.arrays())
def test_ascending_agrees_with_numpy(array):
    oracle.assert_same_bits(oracle.sort(array), np.sort(array, kind="stable"))
    np.testing.assert_array_equal(oracle.argsort(array), np.argsort(array, kind="stable"))


@given(ours.arrays(dtypes=ours.RECORDS))
def test_order_of_fields_agrees_with_numpy(array):
    for name in array.dtype.names:
        np.testing.assert_array_equal(oracle.argsort(array, order=name), np.argsort(array, kind="stable", order=name))


@pytest.mark.skipif(not SORTS_DESCENDING, reason="np.sort(descending=) is new in NumPy 2.5")
@given(ours.arrays(dtypes=[dtype for dtype in ours.EVERY if dtype.kind not in ONLY_ASCENDING]))
def test_descending_agrees_with_numpy(array):
    np.testing.assert_array_equal(
        oracle.argsort(array, descending=True), np.argsort(array, stable=True, descending=True)
    )
    oracle.assert_same_bits(oracle.sort(array, descending=True), np.sort(array, stable=True, descending=True))


@given(ours.arrays(shape=ours.st.tuples(*[ours.st.integers(0, 5)] * 3), dtypes=ours.CODED))
def test_any_axis(array):
    for axis in (0, 1, -1, None):
        oracle.assert_same_bits(oracle.sort(array, axis), np.sort(array, axis, kind="stable"))


def test_the_checksum_ignores_order_and_detects_changes():
    keys = ours.make("i8", 1000)
    assert oracle.checksum([keys]) == oracle.checksum([keys[500:], keys[:500]])
    for position in (0, 999):
        changed = keys.copy()
        changed[position] += 1
        assert oracle.checksum([changed]) != oracle.checksum([keys])
    with pytest.raises(AssertionError, match="block boundary"):
        oracle.assert_ascends([np.array([1, 2]), np.array([1, 5])])


def test_equal_keys_with_different_bits_are_distinguished():
    for pair in ([0.0, -0.0], [np.nan, -np.nan]):
        first, second = oracle.bits(np.array(pair))
        assert first != second
    first, second = oracle.bits(ours._objects([1, 1.0]))
    assert first != second
