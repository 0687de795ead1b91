"""The division of a gang into members, their bundles and groups."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, fits_gang
from dask_gpusort.plan.gang import gang_bundles, member_groups

SIZES = st.lists(st.integers(0, 100) | st.just(math.nan), min_size=1, max_size=40)


@given(SIZES, st.integers(1, 9), st.data())
def test_bundles_hold_each_chunk_once(sizes, workers, data):
    holders = data.draw(st.just([]) | st.lists(st.sampled_from("abc"), min_size=len(sizes), max_size=len(sizes)))
    bundles = gang_bundles(InputChunks(sizes, workers=holders), Workers(workers, processes=workers))
    assert sorted(chunk for bundle in bundles for chunk in bundle) == list(range(len(sizes)))
    assert all(list(bundle) == sorted(bundle) and bundle for bundle in bundles)
    if holders:
        assert [{holders[chunk] for chunk in bundle} for bundle in bundles] == [{one} for one in dict.fromkeys(holders)]
    else:
        assert len(bundles) <= workers
        assert [chunk for bundle in bundles for chunk in bundle] == list(range(len(sizes)))


def test_bundles_of_equal_chunks_are_equal():
    for sizes in ((10,) * 12, (math.nan,) * 12):
        bundles = gang_bundles(InputChunks(sizes, workers=("a", None) * 6), Workers(9, processes=3))
        assert [len(bundle) for bundle in bundles] == [4, 4, 4]


@given(SIZES, st.integers(1, 9))
def test_members_share_the_groups(sizes, members):
    ranges = member_groups(sizes, members)
    assert len(ranges) == members
    assert [group for own in ranges for group in own] == list(range(len(sizes)))
    if not any(map(math.isnan, sizes)):
        # A member has at most half of a group more than its share at either end.
        assert max(sum(sizes[group] for group in own) for own in ranges) <= sum(sizes) / members + max(sizes)


def test_members_have_equal_numbers_of_keys_where_groups_allow():
    assert member_groups((1, 7, 7), 2) == (range(2), range(2, 3))
    assert member_groups((7, 7, 1), 2) == (range(1), range(1, 3))
    assert member_groups((5,) * 6, 3) == (range(2), range(2, 4), range(4, 6))
    assert member_groups((0, 0), 2) == (range(1), range(1, 2))


def test_a_gang_is_chosen_for_chunks_on_several_gpus():
    order, gpus = Order(np.dtype("u4")), Workers(2, 1 << 30, devices=True)
    held = InputChunks((1 << 20,) * 4, workers=("a", "b", "a", "b"))
    assert fits_gang(order, held, gpus)
    assert fits_gang(order, InputChunks((np.nan,) * 2, workers=("a", "b")), gpus)
    assert fits_gang(order, held, Workers(2, None, devices=True))
    assert not fits_gang(order, held, Workers(2, 1 << 30))
    assert not fits_gang(order, InputChunks((1 << 26,) * 4, workers=("a", "b", "a", "b")), gpus)
    assert not fits_gang(order, InputChunks((1 << 20,) * 2, workers=("a", "a")), gpus)
    assert not fits_gang(order, InputChunks((1 << 20,) * 2, workers=("a", None)), gpus)
    assert not fits_gang(order, InputChunks((1 << 20,) * 2), gpus)
