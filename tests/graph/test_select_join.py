"""Order statistics by a join: one task for all chunks of some lanes."""

from __future__ import annotations

from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed
from support.statistics import given_to_numpy

import dask_gpusort
from dask_gpusort.chunk import numpy_select
from dask_gpusort.plan.select import (
    MOST_COMPARED,
    Lanes,
    fits_join,
    make_select_plan,
)
from dask_gpusort.plan.terms import Workers
from dask_gpusort.table import selection

Q = [0, 0.05, 0.25, 0.5, 0.999, 1]
#: So many that lanes are sorted, on a GPU too.
MANY = np.linspace(0, 1, 40).tolist()


@pytest.fixture
def searched(monkeypatch):
    """Lanes of any length are searched by brackets."""
    monkeypatch.setattr(selection, "_LEAST_SEARCHED", 0)
    monkeypatch.setattr("dask_gpusort.plan.choose.LEAST_LANE_KEYS", 1)
    monkeypatch.setattr("dask_gpusort.plan.choose.SMALL_BYTES", 0)


def is_searched(array, q):
    return selection.stratum_of(array.size, np.size(q)) > 1


@pytest.mark.usefixtures("searched")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("distribution", ["bits", "few", "special", "zipf", "sorted"])
@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "u2", "i8"])
def test_quantiles_of_long_lanes(dtype, distribution):
    array = ours.make(dtype, 40_000, distribution)
    x = da.from_array(array, chunks=7_001)
    assert is_searched(array, 0.5)
    with np.errstate(all="ignore"):
        for q in map(given_to_numpy, (0.3, Q, MANY)):
            np.testing.assert_array_equal(
                computed(dask_gpusort.nanquantile(x, q, strategy="join")), np.nanquantile(array, q)
            )
            np.testing.assert_array_equal(computed(dask_gpusort.quantile(x, q, strategy="join")), np.quantile(array, q))
        np.testing.assert_array_equal(computed(dask_gpusort.median(x, strategy="join")), np.median(array))


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize("axis", [0, 1, (0, 2)])
def test_several_long_lanes(axis):
    array = np.random.default_rng(0).normal(size=(30, 20, 40)).astype("f4")
    array[3, 4, 5] = np.nan
    x = da.from_array(array, chunks=(10, 5, 40))
    for name in ("quantile", "nanquantile"):
        found = getattr(dask_gpusort, name)(x, Q, axis, strategy="join", keepdims=True)
        np.testing.assert_array_equal(computed(found), getattr(np, name)(array, Q, axis, keepdims=True))


@pytest.mark.usefixtures("searched")
def test_a_bracket_that_misses_its_rank_is_searched_again(monkeypatch):
    """Samples of the least keys alone: the last resort is a sort."""
    array = np.random.default_rng(0).permutation(100_000)
    drawn = []

    def least(parts, stratum):
        drawn.append(stratum)
        return np.arange(len(array) // stratum) % 100

    monkeypatch.setattr("dask_gpusort.chunk.numpy_ops.draw", least)
    x = da.from_array(array, chunks=30_000)
    assert computed(dask_gpusort.median(x, strategy="join")) == np.median(array)
    assert drawn == sorted(drawn, reverse=True)
    assert len(drawn) > 1


def test_samples_are_of_each_stratum():
    parts = np.split(np.arange(5001), [3, 3, 1700])
    for stratum in (1, 7, 1000, 5001, 6000):
        sample = numpy_select.draw(parts, stratum)
        np.testing.assert_array_equal(sample // stratum, np.arange(5001 // stratum))


def test_one_task():
    x = da.from_array(np.arange(1000.0), chunks=10).persist(scheduler="sync")
    found = dask_gpusort.quantile(x, Q, strategy="join")
    (optimised,) = dask.optimize(found)
    assert len(dict(optimised.__dask_graph__())) == 1
    assert "join: one task" in dask_gpusort.explain_quantile(x, Q, strategy="join").detail


def test_unknown_sizes():
    x = da.from_array(np.arange(1000.0), chunks=100)
    assert computed(dask_gpusort.median(x[x > 500], strategy="join")) == 750


def test_what_is_joined():
    """The chunks are in the memory of one GPU, and there is memory to copy them, or for the keys inside brackets."""
    lanes = Lanes(1, 1 << 30, 1, 16, 1, 8, 1 << 27, True)
    gpu = Workers(1, 20 << 30, devices=True)
    assert fits_join(lanes, gpu, True, True)
    assert not fits_join(lanes, gpu, False, True)
    assert not fits_join(lanes, Workers(1, 10 << 30, devices=True), True, True)
    assert not fits_join(lanes, Workers(2, 20 << 30, devices=True), True, True)
    assert not fits_join(lanes, Workers(1, 20 << 30), True, True)
    assert make_select_plan(lanes, 5, gpu, True).strategy == "join"
    assert make_select_plan(lanes, 5, gpu, True, "samples").strategy == "samples"
    assert make_select_plan(lanes, 5, gpu, True).stated.peak == 12 << 30


def test_what_is_sorted():
    """Joined lanes of which many quantiles are wanted, on a GPU if its memory suffices for that."""
    lanes = Lanes(1, 1 << 30, 1, 16, 1, 8, 1 << 27, True)
    gpu = Workers(1, 24 << 30, devices=True)
    for workers, strategy in ((Workers(1), "join"), (gpu, None)):
        counts = (MOST_COMPARED, MOST_COMPARED + 1)
        few, many = (make_select_plan(lanes, count, workers, True, strategy) for count in counts)
        assert (few.sorts, many.sorts, many.stated.peak) == (False, True, 24 << 30)
        assert "each joined lane is sorted" in many.stated.text
    assert not make_select_plan(lanes, 1000, gpu, True, "samples").sorts
    assert not make_select_plan(lanes, 1000, replace(gpu, memory=23 << 30), True).sorts
