"""The division of a gang into members, their bundles and groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, fits_gang, make_plan
from dask_gpusort.plan.division import gang_bundles, lay_out_members

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
    groups = lay_out_members(sizes, members)
    assert len(groups) == members
    assert [chunk for first, last, *_ in groups for chunk in range(first, last)] == list(range(len(sizes)))
    assert all(group[2:] == (0, 1) for group in groups)
    if not any(map(math.isnan, sizes)):
        # A member has at most half of a chunk more than its share at either end.
        assert max(sum(sizes[first:last]) for first, last, *_ in groups) <= sum(sizes) / members + max(sizes)


def test_members_have_equal_numbers_of_keys_where_chunks_allow():
    for sizes, members, ends in (
        ((1, 7, 7), 2, [2, 3]),
        ((7, 7, 1), 2, [1, 3]),
        ((5,) * 6, 3, [2, 4, 6]),
        ((0, 0), 2, [1, 2]),
        ((9,), 3, [0, 1, 1]),
    ):
        assert [last for _, last, *_ in lay_out_members(sizes, members)] == ends


def gang_plan(sizes, members, memory=None):
    given = InputChunks(sizes, workers=[f"w{number % members}" for number in range(len(sizes))])
    workers = Workers(members, memory, devices=True, processes=members)
    order = Order(np.dtype("u4"))
    return make_plan(order, given, sizes, method="auto", exchange="gang", workers=workers, groups=None)


def test_the_projected_bytes_of_a_member():
    share = 4 << 20
    # Bundle, half of it received; outputs and the group once more while it is merged.
    assert gang_plan((1 << 20,) * 2, 2).stated.peak == pytest.approx((1 + 0.5 + 2) * share, rel=0.02)


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
