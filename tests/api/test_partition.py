"""Tests of `partition` and `argpartition`: the keys at the ranks in place, for every strategy."""

from __future__ import annotations

import math
import re
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import computed

import dask_gpusort
from dask_gpusort.builders import partitions
from dask_gpusort.plan.choose import Lanes, choose
from dask_gpusort.plan.select import cuts_by_samples


def test_many_equal_keys_keep_their_order_between_the_ranks():
    array = ours.make("i4", 5000, "small")
    kth = [0, 2500, 2501, 4000]
    # As if the sizes had chosen the strategy.
    with mock.patch.multiple(partitions, choose=lambda *_: ("samples", ""), cuts_by_samples=lambda *_: True):
        positions = computed(dask_gpusort.argpartition(da.from_array(array, chunks=300), kth))
    cuts = np.unique(np.sort(array)[kth])
    bucket = np.searchsorted(cuts, array, "left") + np.searchsorted(cuts, array, "right")
    oracle.assert_same_bits(positions, np.argsort(bucket, kind="stable"))


@pytest.mark.skipif(da.array_expr_enabled(), reason="Dask cannot rechunk unknown sizes with query planning")
@pytest.mark.parametrize("chunks", [20, 7])
def test_unknown_chunk_sizes(chunks):
    array = ours.make("f8", 60, "special").reshape(3, 20)
    x = ours.forget_sizes(da.from_array(array, chunks=(2, chunks)), axes=(0,))
    keys, positions = dask_gpusort.partition(x, [3, 17], 1), dask_gpusort.argpartition(x, [3, 17], 1)
    assert keys.numblocks == positions.numblocks == x.numblocks
    for found in (computed(keys), np.take_along_axis(array, computed(positions), 1)):
        oracle.assert_partitions(found, array, [3, 17], 1)
    with pytest.raises(ValueError, match=r"kth.*call a\.compute_chunk_sizes"):
        dask_gpusort.partition(x, 1, 0)


def test_the_sizes_choose_the_strategy():
    def chosen(count=1, keys=10**8, chunks=100, *, ranks=1, positions=False, searchable=True, held=True):
        lanes = Lanes(count, keys, count, chunks, 1, 8, 2**27, searchable)
        where, _ = choose(lanes, "partition")
        return "sort" if where == "samples" and not cuts_by_samples(lanes, ranks, positions, held) else where

    assert chosen() == "samples"
    assert chosen(held=False) == chosen(searchable=False) == chosen(ranks=5) == "sort"
    assert chosen(ranks=4) == chosen(ranks=16, positions=True) == "samples"
    assert chosen(chunks=1) == "blocks"
    assert chosen(keys=10**5) == chosen(count=10**4, keys=10**5) == "rechunk"
    assert chosen(keys=math.nan) == "samples"


def test_fields_of_records_and_kinds():
    array = ours.make(ours.PLAIN_RECORD, 60, "few")
    x = da.from_array(array, chunks=9)
    got = computed(dask_gpusort.partition(x, 30, kind="introselect", order="weight"))
    oracle.assert_same_bits(got["weight"][30], np.sort(array, order="weight")["weight"][30])
    oracle.assert_same_elements(got, array)


def test_an_array_without_dimensions():
    x = da.from_array(np.array(3.0))
    for axis in (None, 0, -1):
        assert computed(dask_gpusort.argpartition(x, 0, axis)).tolist() == [0]
    assert computed(dask_gpusort.partition(x, -1, None)).tolist() == [3.0]
    with pytest.raises(np.exceptions.AxisError):
        dask_gpusort.partition(x, 0)
    with pytest.raises(ValueError, match=re.escape("kth(=1) out of bounds (1)")):
        dask_gpusort.argpartition(x, 1)
