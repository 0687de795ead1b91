"""Tests of the searches of one NumPy chunk against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.chunk import numpy_search
from dask_gpusort.chunk.numpy_search import make_value_set, occur
from dask_gpusort.order import Order


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(numpy_search, "LEAST_KEYS", 4)
    monkeypatch.setattr(numpy_search, "LEAST_NEEDLES", 4)
    monkeypatch.setattr(numpy_search, "BLOCK_NEEDLES", 4)


def codes(most_keys):
    values = st.integers(0, 30)
    return st.lists(values, max_size=most_keys).map(lambda some: np.array(some, np.uint64))


@given(codes(60), codes(60), st.sampled_from(["left", "right"]))
def test_rank(keys, needles, side):
    keys = np.sort(keys)
    order = Order(keys.dtype)
    before = keys[:, None] < needles if side == "left" else keys[:, None] <= needles
    ordered = np.sort(needles)
    for some, ranks in (needles, before.sum(0)), (ordered, np.sort(before.sum(0))):
        for step in (1, -1):
            before_needles = some[::step].tolist()
            assert numpy_search.rank(keys, some[::step], order, side).tolist() == ranks[::step].tolist()
            assert some[::step].tolist() == before_needles
    found = numpy_search.rank_sorted(keys, ordered, order, side)
    assert found.tolist() == np.sort(before.sum(0)).tolist()
    assert found.dtype == np.int64


@given(codes(30), codes(30))
def test_equal_before(keys, needles):
    keys = np.sort(keys)
    order = Order(keys.dtype)
    ranks = numpy_search.rank(keys, needles, order, "right")
    found = numpy_search.equal_before(keys, needles, ranks, order)
    assert found.tolist() == [needle in keys.tolist() for needle in needles.tolist()]


@given(st.data(), st.sampled_from(["u1", "u2", "u8"]))
def test_value_sets(data, name):
    top = int(np.iinfo(name).max)
    start = data.draw(st.sampled_from([0, 5, top - 40]))
    values = st.lists(st.integers(start, start + 40), max_size=20)
    test = np.array(data.draw(values), name)
    elements = np.array(data.draw(st.lists(st.integers(0, top) | st.integers(start, start + 40), max_size=20)), name)
    found = make_value_set(test, 41)
    if not len(test):
        assert found is None
        return
    occurs, least = found
    assert occur(elements, occurs, least).tolist() == np.isin(elements, test).tolist()
    width = int(test.max()) - int(test.min())
    assert len(occurs) == width + 1
    assert make_value_set(test, width) is None


@pytest.mark.parametrize("ends", [(None, None), (-7.0, 2j)])
def test_interpolation_of_needles_in_any_order(ends):
    rng = np.random.default_rng(0)
    keys = np.sort(rng.random(numpy_search.LEAST_KEYS))
    values = rng.random(len(keys)) * (1 if ends[1] is None else 1j)
    needles = np.r_[rng.uniform(-0.5, 1.5, 2 * numpy_search.BLOCK_NEEDLES), np.nan, keys[:3], -np.inf, np.inf]
    for some in (needles, np.sort(needles)):
        found = numpy_search.interpolate(some, keys, values, ends)
        np.testing.assert_array_equal(found, np.interp(some, keys, values, *ends))
