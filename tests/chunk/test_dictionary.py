"""Dictionary encoding of columns with few distinct values, and columns that are not encoded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.chunk import numpy_words
from dask_gpusort.chunk.numpy_words import MOST_VALUES, dictionary_encode


def column_of(seed, num_values, size, dtype):
    """A column of `num_values` distinct values, each at least once."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    values = np.unique(rng.integers(0, info.max, num_values, dtype=np.uint64, endpoint=True)).astype(dtype)
    column = rng.choice(values, size)
    column[rng.permutation(size)[: len(values)]] = values
    return column


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, MOST_VALUES // 2),
    st.sampled_from(["u8", "u4", "u2", ">u8"]),
    st.integers(1, 3),
)
def test_ranks_among_the_distinct_values(seed, num_values, dtype, stride):
    column = column_of(seed, num_values, 5000, dtype)[::stride]
    found = dictionary_encode(column)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.unique(column, return_inverse=True)[1])


@pytest.mark.parametrize("extra", [0, 1, 300])
def test_values_that_the_sample_misses(extra):
    column = np.zeros(1 << 16, "u8")
    # Every 65th key is sampled.
    column[1 : 1 + 2 * (MOST_VALUES - 1 + extra) : 2] = np.arange(MOST_VALUES - 1 + extra) << 40 | 7
    column[0 :: (1 << 16) // (1 << 10) + 1] = 0
    distinct, ranks = np.unique(column, return_inverse=True)
    found = dictionary_encode(column)
    if len(distinct) > MOST_VALUES:
        assert found is None
    else:
        np.testing.assert_array_equal(found, ranks)


def test_columns_of_many_values_are_not_encoded(monkeypatch):
    column = np.random.default_rng(1).integers(0, 1 << 62, 5000, dtype=np.uint64)
    assert dictionary_encode(column) is None
    # For random keys, a sample is enough to decide.
    monkeypatch.setattr(np, "sort", lambda array: pytest.fail("the column was sorted"))
    assert dictionary_encode(column) is None


def test_columns_without_a_perfect_hash_are_not_encoded(monkeypatch):
    column = column_of(1, 10, 5000, "u8")
    monkeypatch.setattr(numpy_words, "_MULTIPLIERS", np.zeros(3, np.uint64))
    assert dictionary_encode(column) is None
