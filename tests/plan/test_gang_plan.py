"""The division of a gang into members, their bundles and groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, fits_gang, make_plan
from dask_gpusort.plan.division import gang_bundles, member_chunks

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
def test_members_share_the_output_chunks(sizes, members):
    ranges = member_chunks(sizes, members)
    assert len(ranges) == members
    assert [chunk for own in ranges for chunk in own] == list(range(len(sizes)))
    if not any(map(math.isnan, sizes)):
        # A member has at most half of a chunk more than its share at either end.
        assert max(sum(sizes[chunk] for chunk in own) for own in ranges) <= sum(sizes) / members + max(sizes)


def test_members_have_equal_numbers_of_keys_where_chunks_allow():
    assert member_chunks((1, 7, 7), 2) == (range(2), range(2, 3))
    assert member_chunks((7, 7, 1), 2) == (range(1), range(1, 3))
    assert member_chunks((5,) * 6, 3) == (range(2), range(2, 4), range(4, 6))
    assert member_chunks((0, 0), 2) == (range(1), range(1, 2))


def gang_plan(sizes, members, groups=None, memory=None):
    given = InputChunks(sizes, workers=[f"w{number % members}" for number in range(len(sizes))])
    workers = Workers(members, memory, devices=True, processes=members)
    order = Order(np.dtype("u4"))
    return make_plan(order, given, sizes, method="auto", exchange="gang", workers=workers, groups=groups)


@given(SIZES, st.integers(1, 9), st.integers(1, 40))
def test_each_output_chunk_is_made_by_one_member(sizes, members, groups):
    plan = gang_plan(sizes, members, groups)
    members = len(plan.sources)
    assert [group for own in plan.member_groups for group in own] == list(range(len(plan.groups)))
    for groups_of, chunks_of in zip(plan.member_groups, plan.member_chunks, strict=True):
        parts = [plan.groups[group] for group in groups_of]
        covered = [chunk for first, last, part, parts in parts for chunk in range(first, last) if part == 0]
        assert covered == list(chunks_of)
        assert [part for _, _, part, parts in parts if parts > 1] == [
            part for chunk in chunks_of for part in range(sum(one[0] == chunk and one[3] > 1 for one in parts))
        ]


def test_a_large_share_is_several_pieces():
    for log2_keys, pieces in ((20, 1), (28, 1), (29, 2), (30, 2), (33, 2)):
        for chunks in (2, 16):
            plan = gang_plan((2 << log2_keys) // chunks * np.ones(chunks, int), 2)
            assert [len(own) for own in plan.member_groups] == [pieces, pieces]
    assert [len(own) for own in gang_plan((1 << 30,) * 2, 2, groups=16).member_groups] == [8, 8]
    assert [len(own) for own in gang_plan((1 << 30,) * 2, 2, groups=1).member_groups] == [1, 1]


def test_the_projected_bytes_of_a_member():
    one, four = (gang_plan((1 << 20,) * 2, 2, groups=groups) for groups in (2, 8))
    share = 4 << 20
    # Bundle, half of it received; outputs and the group once more while it is merged.
    assert one.projected_bytes == pytest.approx((1 + 0.5 + 2) * share, rel=0.02)
    # Bundle and copies of it, half of it received; outputs and a quarter of them once more.
    assert four.projected_bytes == pytest.approx((2 + 0.5 + 1.25) * share, rel=0.02)


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
