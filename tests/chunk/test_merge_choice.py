"""Merges of sorted runs or fresh sorts: chosen by one measurement, fixed by a setting, the same bits."""

from __future__ import annotations

import time

import dask
import numpy as np
import pytest

from dask_gpusort.chunk import merge_choice
from dask_gpusort.chunk.merge_choice import most_merged_runs, prefers_merge

DTYPES = ["u4", "u8", "c8", "c16", "S1", "S20", "S5000", "U1", "U9"]


@pytest.fixture
def forgotten():
    most_merged_runs.cache_clear()
    yield
    most_merged_runs.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.usefixtures("forgotten")
def test_every_dtype_is_measured_once(dtype, monkeypatch):
    sorted_arrays = []

    def fresh(keys):
        sorted_arrays.append(keys)
        keys.sort()

    first = most_merged_runs(np.dtype(dtype), fresh)
    assert first >= 0
    assert len(sorted_arrays) == merge_choice._REPEATS
    assert {keys.dtype for keys in sorted_arrays} == {np.dtype(dtype)}
    assert sorted_arrays[0].nbytes <= max(merge_choice._BYTES, 64 * np.dtype(dtype).itemsize)
    assert most_merged_runs(np.dtype(dtype), fresh) == first
    assert len(sorted_arrays) == merge_choice._REPEATS


@pytest.mark.usefixtures("forgotten")
def test_a_slow_sort_makes_merges_preferred():
    def slow(keys):
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            keys.sort()

    assert prefers_merge(np.dtype("u8"), 1000, slow)


@pytest.mark.usefixtures("forgotten")
def test_a_sort_of_no_time_makes_merges_of_many_runs_rejected():
    assert not prefers_merge(np.dtype("u8"), 64, lambda keys: None)


@pytest.mark.parametrize(("fresh", "merge", "most"), [(2.0, 1.0, np.inf), (1.0, 2.0, 0), (1.0, 1.0, 0)])
@pytest.mark.usefixtures("forgotten")
def test_merges_that_take_the_same_time_for_any_number_of_runs(fresh, merge, most, monkeypatch):
    def sort(keys):
        keys.sort()

    monkeypatch.setattr(merge_choice, "_seconds", lambda keys, used: fresh if used is sort else merge)
    assert most_merged_runs(np.dtype("u8"), sort) == most


@pytest.mark.usefixtures("forgotten")
def test_the_setting_replaces_the_measurement():
    def fresh(keys):
        raise AssertionError("measured")

    with dask.config.set({"gpusort.merged_runs": 7}):
        assert prefers_merge(np.dtype("u8"), 7, fresh)
        assert not prefers_merge(np.dtype("u8"), 8, fresh)


@pytest.mark.parametrize("wrong", [-1, 2.5, "many", True])
def test_a_wrong_setting_is_refused(wrong):
    with dask.config.set({"gpusort.merged_runs": wrong}), pytest.raises(ValueError, match="merged_runs"):
        prefers_merge(np.dtype("u8"), 2)
