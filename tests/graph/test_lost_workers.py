"""What a sorted order gives, on a cluster that loses a worker in the middle of it."""

from __future__ import annotations

from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import groups

import dask_gpusort

xr = pytest.importorskip("xarray")
scipy_stats = pytest.importorskip("scipy.stats")
pytest.importorskip("dask_gpusort.xarray")
runs = pytest.importorskip("support.runs")

SIZE, CHUNK = 20_000, 2000
ARRAY = ours.make("i8", SIZE, "zipf", seed=1)
OTHERS = np.concatenate([ARRAY[::4], np.arange(SIZE) * 3])
AT = np.random.default_rng(0).integers(-SIZE, SIZE, SIZE)


def source(array):
    """An array of chunks that tasks make, and make again."""
    return da.from_array(array, chunks=CHUNK).map_blocks(np.copy)


def rank():
    return dask_gpusort.rank(source(ARRAY)), scipy_stats.rankdata(ARRAY)


def unique():
    found = dask_gpusort.unique(source(ARRAY), return_index=True, return_inverse=True, return_counts=True)
    return found, np.unique(ARRAY, return_index=True, return_inverse=True, return_counts=True)


def nunique():
    return dask_gpusort.nunique(source(ARRAY)), len(np.unique(ARRAY))


def setdiff():
    return dask_gpusort.setdiff1d(source(ARRAY), source(OTHERS)[::2]), np.setdiff1d(ARRAY, OTHERS[::2])


def searchsorted():
    keys = np.sort(OTHERS)
    return dask_gpusort.searchsorted(source(keys), source(ARRAY)), np.searchsorted(keys, ARRAY)


def isin():
    return dask_gpusort.isin(source(ARRAY), source(OTHERS)), np.isin(ARRAY, OTHERS)


def take_along_axis():
    return dask_gpusort.take_along_axis(source(ARRAY), source(AT), 0), ARRAY[AT]


def put_along_axis():
    written = ARRAY.copy()
    written[AT] = OTHERS[:SIZE]
    return dask_gpusort.put_along_axis(source(ARRAY), source(AT), source(OTHERS[:SIZE]), 0), written


def sortby():
    columns = {"k": ("x", ARRAY), "v": (("x", "y"), np.stack([ARRAY, AT], 1)), "at": ("x", AT)}
    ds = xr.Dataset({name: (dims, source(array)) for name, (dims, array) in columns.items()})
    wanted = xr.Dataset(columns).sortby("k")
    found = ds.gpusort.sortby("k")
    return [found[name].data for name in columns], [wanted[name].values for name in columns]


STAGES = {
    (rank, "runs"): ["unique-local", "sort-local", "sort-list", "unique-scan", "unique-number", "output"],
    (rank, "tasks"): ["unique-local", "sort-scatter", "unique-scan", "unique-number", "output"],
    (unique, "runs"): ["unique-local", "sort-list", "sort-merge", "unique-edges", "unique-number", "output"],
    (unique, "tasks"): ["unique-local", "sort-merge", "unique-number", "output"],
    (nunique, "runs"): ["unique-edges"],
    (setdiff, "runs"): ["sort-merge", "output"],
    (searchsorted, "tasks"): ["search-join", "search-sort", "search-piece", "search-rank", "search-scatter", "output"],
    (searchsorted, "runs"): [
        "search-join",
        "search-scan",
        "search-sort",
        "search-cut",
        "search-asked",
        "search-rank",
        "search-found",
        "search-scatter",
        "output",
    ],
    (isin, "tasks"): ["sort-merge", "search-join", "search-scan", "search-rank", "output"],
    (isin, "runs"): ["sort-merge", "search-join", "search-rank", "output"],
    (take_along_axis, "tasks"): ["take-requests", "take-source", "take-reply", "take-fill", "output"],
    (take_along_axis, "runs"): [
        "take-rows",
        "take-requests",
        "take-asked",
        "take-reply",
        "take-replied",
        "take-fill",
        "output",
    ],
    (put_along_axis, "tasks"): ["put-requests", "put-shard", "put-merge", "output"],
    (put_along_axis, "runs"): ["put-requests", "put-asked", "put-merge", "output"],
    (sortby, "runs"): ["sort-local", "sort-list", "sort-merge", "output"],
    (sortby, "tasks"): ["sort-scatter", "sort-merge", "output"],
}
#: Stages of one task. Of others, the worker of the second task is lost.
SINGLE = (
    "sort-list",
    "take-asked",
    "take-replied",
    "put-asked",
    "unique-scan",
    "search-scan",
    "search-sort",
    "search-cut",
    "search-asked",
    "search-found",
    "search-scatter",
)
CASES = [(function, exchange, stage) for (function, exchange), stages in STAGES.items() for stage in stages]


@contextmanager
def losing(exchange, number):
    """A cluster, and what makes it lose the worker that finishes the task of a number with some prefix."""
    lost = []

    def lose(scheduler, address):
        lost.append(address)
        return runs.lose(scheduler, address)

    with runs.cluster(3) as client, dask.config.set({"gpusort.exchange": exchange}), groups(4):
        yield client, lambda prefix: runs.call_at(client, prefix, (number,), lose)
    assert lost, "no worker was lost"


@pytest.mark.parametrize(("function", "exchange", "stage"), CASES)
def test_the_result_is_right_after_a_lost_worker(monkeypatch, function, exchange, stage):
    # Test elements are sorted, as many of them are.
    monkeypatch.setattr("dask_gpusort.plan.search.is_small", lambda *_: False)
    with losing(exchange, 1 if stage in SINGLE else 2) as (client, lose_at):
        found, wanted = function()
        several = isinstance(found, (list, tuple))
        lose_at(stage if stage != "output" else (found[-1] if several else found).name)
        got = client.gather(client.compute(found, retries=3))
    for one, other in zip(got, wanted, strict=True) if several else [(got, wanted)]:
        np.testing.assert_array_equal(one, other)


def inverse_of(x):
    return dask_gpusort.unique(x, return_inverse=True)[1]


@pytest.mark.parametrize("function", [dask_gpusort.rank, inverse_of])
def test_a_source_that_changes_when_a_worker_is_lost(tmp_path, function):
    def block(block_id):
        # The chunk has fewer distinct keys each time, and the same size.
        times = len(list(tmp_path.glob(f"block-{block_id[0]}-*")))
        (tmp_path / f"block-{block_id[0]}-{times}").touch()
        return np.arange(1000) // (1 + times)

    x = da.map_blocks(block, chunks=((1000,) * 8,), dtype="i8", meta=np.empty(0, "i8"))
    with losing("runs", 1) as (client, lose_at):
        found = function(x)
        lose_at("unique-number")
        with pytest.raises((RuntimeError, ValueError), match="(?i)persist"):
            client.compute(found, retries=1).result(timeout=120)
    assert list(tmp_path.glob("block-*-1"))
