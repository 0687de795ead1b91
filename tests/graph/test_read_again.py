"""Sources that are read again: every task of theirs runs twice, and no chunk waits for the other pass."""

from __future__ import annotations

import pickle
import sys
import threading
import tracemalloc
from collections import Counter
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from dask.graph_manipulation import bind, checkpoint, clone, wait_on
from support.marks import grid
from support.sorting import computed

import dask_gpusort
from dask_gpusort.builders import statistics as build

xr = pytest.importorskip("xarray")
distributed = pytest.importorskip("distributed")

CHUNK, CHUNKS = 40_000, 40

made: Counter = Counter()


def values(number):
    return np.random.default_rng(number).integers(0, 10**6, CHUNK).astype(float)


def make(block_info=None, offset=0):
    (number,) = block_info[None]["chunk-location"]
    made[number + offset] += 1
    return values(number + offset)


def make_delayed(number):
    made[number] += 1
    return values(number)


class Handle:
    """An array that is read by slices, like one of Zarr."""

    shape, dtype, ndim = (CHUNK * CHUNKS,), np.dtype(float), 1

    def __getitem__(self, index):
        number, first = divmod(index[0].start, CHUNK)
        made[number] += 1
        return values(number)[first : index[0].stop - number * CHUNK]


def source(chunks=CHUNKS, offset=0):
    return da.map_blocks(make, offset=offset, chunks=((CHUNK,) * chunks,), dtype=float, meta=np.empty(0))


def from_delayed():
    parts = [dask.delayed(make_delayed, pure=False)(number) for number in range(CHUNKS)]
    return da.concatenate([da.from_delayed(part, (CHUNK,), float) for part in parts])


def labelled(x):
    return xr.DataArray(x, dims="t", coords={"t": np.arange(x.size)})


#: Name of a source: how it is made, from an array of `CHUNKS` chunks.
SOURCES = {
    "plain": lambda x: x,
    "arithmetic": lambda x: (x + 1) * 2,
    "slice": lambda x: x[5:-5],
    "slice of arithmetic": lambda x: (x + 1)[5:-5] * 2,
    "step": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "concatenate": lambda x: da.concatenate([x[: CHUNK * 20], x[CHUNK * 20 :]]),
    "stack": lambda x: da.stack([x, x + 1]).reshape(-1),
    "reshape": lambda x: x.reshape(CHUNKS * 10, -1),
    "transpose": lambda x: x.reshape(CHUNKS * 10, -1).T,
    "rechunk": lambda x: x.rechunk(3 * CHUNK // 2),
    "other chunks": lambda x: x + x.rechunk(CHUNK // 2),
    "roll": lambda x: da.roll(x, 7),
    "overlap": lambda x: da.overlap.overlap(x, 3, "reflect"),
    "delayed": lambda x: from_delayed(),
    "array-like": lambda x: da.from_array(Handle(), chunks=CHUNK),
    "array-like, sliced": lambda x: da.from_array(Handle(), chunks=CHUNK, inline_array=True)[5:-5],
    "array-like, lock": lambda x: da.from_array(Handle(), chunks=CHUNK, lock=threading.Lock()),
    "isel": lambda x: labelled(x).isel(t=slice(3, -3)).data,
    "sel": lambda x: labelled(x).sel(t=slice(CHUNK // 2, None)).data,
    "optimized": lambda x: dask.optimize(x[5:-5])[0],
    "positions": lambda x: da.take(x, np.arange(7, x.size - 3)),
    "data beside": lambda x: x + da.from_array(np.arange(x.size), chunks=CHUNK),
}
#: Share of the source that may be alive: an edge of a chunk keeps all of it.
MOST_ALIVE = {"overlap": 0.55}
#: Those of which several chunks are made from one.
SHARED = ("rechunk", "overlap", "positions")
#: Those that keep all chunks between their own tasks. So what a pass takes is not bounded.
GATHERED = {
    "sort": lambda x: dask_gpusort.sort(x),
    "sort, sliced": lambda x: dask_gpusort.sort(x)[5:-5],
    "sort of a sort": lambda x: dask_gpusort.sort(-dask_gpusort.sort(x)),
    "two outputs": lambda x: dask_gpusort.sort_by_key(x, x + 1)[1],
    "by tasks": lambda x: dask_gpusort.sort(x, exchange="tasks"),
    "mask": lambda x: x[(x > 10).compute_chunk_sizes()].compute_chunk_sizes(),
}


def peak_of(array):
    """What computing an array gives, and takes in bytes: in one thread, where they do not depend on the machine."""
    dask.utils.key_split.cache_clear()  # Dask's cache of names may take megabytes more when it grows
    tracemalloc.start()
    try:
        return array.compute(scheduler="synchronous"), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_again():
    return dask.config.set({"gpusort.held_share": 0, "num_workers": 2, "scheduler": "threads"})


@pytest.mark.parametrize(("name", "statistic"), grid(list(SOURCES), ["median", "quantile"]))
def test_a_source_that_is_read_again_is_not_kept(name, statistic):
    array = SOURCES[name](source())
    axis = None if array.ndim == 1 else tuple(range(array.ndim))
    with read_again():
        plan = dask_gpusort.explain_quantile(array, 0.5, axis=axis, strategy="samples")
        if statistic == "median":
            found = dask_gpusort.median(array, axis=axis, strategy="samples")
        else:
            found = dask_gpusort.quantile(array, [0.1, 0.9], axis=axis, strategy="samples")
    assert "read again" in plan.detail
    made.clear()
    result, peak = peak_of(found)
    counts = Counter(made.values())
    whole = computed(array)
    np.testing.assert_array_equal(result, np.median(whole) if statistic == "median" else np.quantile(whole, [0.1, 0.9]))
    assert peak < MOST_ALIVE.get(name, 0.4) * array.nbytes
    assert counts == {2: CHUNKS} or (name in ("stack", "other chunks", "overlap") and set(counts) <= {2, 4})
    assert peak < 4 * plan.peak


@pytest.mark.parametrize("name", SHARED)
def test_chunks_in_memory_do_not_grow_with_the_source(name, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "CHUNK", 100)
    array = SOURCES[name](source(160))
    with read_again():
        found = dask_gpusort.median(array, strategy="samples")
    alive = []

    def count(key, result, graph, state, worker):
        alive.append(sum(getattr(value, "size", 0) > 25 for value in state["cache"].values()))

    with Callback(posttask=count):
        middle = found.compute(scheduler="synchronous")
    assert middle == np.median(computed(array))
    assert max(alive) < 16


@pytest.mark.parametrize("name", GATHERED)
def test_tasks_of_our_own_sources_run_again(name):
    array = GATHERED[name](source(8))
    with read_again():
        found = dask_gpusort.median(array, strategy="samples")
        both = dask.compute(found, dask_gpusort.quantile(array, 0.9, strategy="samples"))
    whole = computed(array)
    assert both == (np.median(whole), np.quantile(whole, 0.9))
    made.clear()
    assert computed(found) == both[0]
    assert set(made.values()) == {2}


def test_selections_of_one_source_share_both_passes():
    x = source(8)[5:-5]
    with read_again():
        found = [dask_gpusort.quantile(x, q, strategy="samples") for q in (0.1, 0.5, 0.9)]
    made.clear()
    dask.compute(*found, scheduler="synchronous")
    assert set(made.values()) == {2}


@pytest.mark.parametrize("optimized", [False, True])
def test_statistics_of_statistics(optimized):
    x = source(8)[5:-5]
    with read_again():
        middle = dask_gpusort.median(x, strategy="samples")
        if optimized:
            (middle,) = dask.optimize(middle)
        spread = dask_gpusort.median(abs(x - middle), strategy="samples")
        scaled = dask_gpusort.quantile((x - middle) / spread, 0.9, strategy="samples")
    whole = computed(x)
    mad = np.median(abs(whole - np.median(whole)))
    assert computed(spread) == mad
    assert computed(scaled) == np.quantile((whole - np.median(whole)) / mad, 0.9)


def test_annotations_of_a_source_hold_for_both_passes():
    with dask.annotate(priority=7):
        x = source(4)[5:-5]
    with read_again():
        found = dask_gpusort.median(x, strategy="samples")
    annotated = [layer for layer in found.dask.layers.values() if layer.annotations == {"priority": 7}]
    assert len(annotated) == 2 * len(x.dask.layers)


def test_no_layer_of_a_source_is_made_before_it_is_used():
    x = dask_gpusort.sort(source(4))
    with read_again():
        found = dask_gpusort.median(x, strategy="samples")
    assert not any(layer.is_materialized() for name, layer in found.dask.layers.items() if "sort" in name)
    again = dask_gpusort.median(x, strategy="samples")
    assert pickle.loads(pickle.dumps(found.dask)).keys() == found.dask.keys()
    assert again.name != found.name


CALLS = {
    "sort": lambda x: dask_gpusort.sort(x),
    "by tasks": lambda x: dask_gpusort.sort(x, exchange="tasks"),
    "positions": lambda x: dask_gpusort.argsort(x),
    "two outputs": lambda x: dask_gpusort.sort_by_key(x, x + 1)[1],
    "rank": lambda x: dask_gpusort.rank(x),
    "topk": lambda x: dask_gpusort.topk(x, 5),
    "median": lambda x: dask_gpusort.median(x, strategy="samples"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("again", [False, True])
def test_graph_manipulation_of_results(name, again):
    x = source(4)
    y = CALLS[name](x)
    if again:
        with read_again():
            y = dask_gpusort.median(y, strategy="samples")
    expected = computed(y)
    made.clear()
    both = dask.compute(y, clone(y))
    assert set(made.values()) == ({4} if again else {2})
    for found in (*both, *dask.compute(wait_on(y), bind(y, x.sum()), clone(y, omit=x))):
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    assert checkpoint(y).compute() is None


# On a cluster.


def by_p2p(x):
    with dask.config.set({"array.rechunk.method": "p2p"}):
        return x.rechunk(3 * CHUNK // 2)


#: Name of a source: how it is made on a cluster. Two copies of one exchange must not take each other's shards.
ON_CLUSTERS = {
    "rechunk by P2P": by_p2p,
    "rechunk by P2P, optimized": lambda x: dask.optimize(by_p2p(x + 1) + 1)[0],
    "sort by kept runs": lambda x: dask_gpusort.sort(x, exchange="runs"),
    "sort by kept runs, sliced": lambda x: dask_gpusort.sort(x, exchange="runs")[5:-5],
    "two outputs by kept runs": lambda x: dask_gpusort.sort_by_key(x, x + 1, exchange="runs")[1],
    "sort by tasks": lambda x: dask_gpusort.sort(x, exchange="tasks"),
    "sort by a gang": lambda x: dask_gpusort.sort(x, exchange="gang"),
    "two outputs by a gang": lambda x: dask_gpusort.sort_by_key(x, x + 1, exchange="gang")[1],
    "kept input": lambda x: (x.persist() + 1)[5:-5],
    "delayed": lambda x: from_delayed(),
}


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_sources_of_a_cluster_are_read_again(on_cluster, name):
    array = ON_CLUSTERS[name](source(8))
    # This cluster has no limit of memory.
    with mock.patch.object(build, "fits_held", return_value=False):
        assert "read again" in dask_gpusort.explain_quantile(array, 0.5, strategy="samples").detail
        found = dask_gpusort.quantile(array, 0.5, strategy="samples")
    distributed.wait(distributed.futures_of(array))
    made.clear()
    middle = found.compute()
    assert set(made.values()) == (set() if name == "kept input" else {2})
    assert middle == np.median(array.compute())


def test_workers_do_not_keep_a_source_that_is_read_again():
    settings = {"n_workers": 2, "processes": False, "memory_limit": "8GiB", "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster):
        array = da.random.default_rng(0).random(2**23, chunks=2**18)[5:-5]
        sampler = distributed.diagnostics.MemorySampler()
        with dask.config.set({"gpusort.held_share": 0}):
            found = dask_gpusort.median(array, strategy="samples")
        with sampler.sample(measure="managed", interval=0.02):
            middle = found.compute()
    assert abs(middle - 0.5) < 1e-3
    (measured,) = sampler.samples.values()
    assert max(size for _, size in measured) < 0.4 * array.nbytes
