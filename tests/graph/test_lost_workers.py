"""What functions give on a cluster that loses a worker, or from which one retires, at each of their stages."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import groups

import dask_gpusort

distributed = pytest.importorskip("distributed")
xr = pytest.importorskip("xarray")
scipy_stats = pytest.importorskip("scipy.stats")
pytest.importorskip("dask_gpusort.xarray")
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")

SIZE, CHUNK = 6000, 1000
#: Sorts have twice as many chunks and groups, so that some groups are still to be merged when a worker is lost.
CHUNKS, GROUPS = 2 * SIZE // CHUNK, 3
ARRAY = ours.make("i8", SIZE, "zipf", seed=1)
FLOATS = ours.make("f8", SIZE, "zipf", seed=2)
SORTED = oracle.sort(FLOATS)
OTHERS = np.concatenate([ARRAY[::4], np.arange(SIZE) * 3])
AT = np.random.default_rng(0).integers(-SIZE, SIZE, SIZE)


def source(array, chunks=CHUNK):
    """An array of chunks that tasks make, and make again."""
    return da.from_array(array, chunks=chunks).map_blocks(np.copy)


def sort(method="auto"):
    return dask_gpusort.sort(source(FLOATS, SIZE // CHUNKS), stable=True, method=method), SORTED


def radix_sort():
    return sort("radix")


def merge_sort():
    return sort("merge")


def half_of_a_sort():
    return radix_sort()[0][: SIZE // 2], SORTED[: SIZE // 2]


SORTS = (sort, radix_sort, merge_sort, half_of_a_sort)


def quantile():
    q = [0.05, 0.25, 0.5, 0.95]
    return dask_gpusort.quantile(source(FLOATS), q, strategy="samples"), np.quantile(FLOATS, q)


def quantile_of_groups():
    labels = AT // 1500
    found = dask_gpusort.quantile(source(FLOATS), 0.3, by=source(labels), strategy="sort")
    return found, np.array([np.quantile(FLOATS[labels == group], 0.3) for group in np.unique(labels)])


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


#: By function and exchange, the stages at which a worker is lost.
STAGES = {
    (rank, "runs"): "unique-local unique-scan unique-cut unique-list unique-merge unique-replies output",
    (quantile_of_groups, "runs"): "sort-merge group-edge group-edges group-pick group-heads output",
    (quantile_of_groups, "tasks"): "group-pick output",
    (rank, "tasks"): "unique-local unique-cut-shard unique-replies unique-merge-shard output",
    (unique, "runs"): "unique-cut unique-merge output",
    (unique, "tasks"): "unique-local unique-merge output",
    (nunique, "runs"): "unique-list",
    (setdiff, "runs"): "unique-merge output",
    (searchsorted, "tasks"): "search-join search-sort search-piece search-rank search-scatter output",
    (searchsorted, "runs"): "search-join search-scan search-sort search-cut search-asked search-rank search-found "
    "search-scatter output",
    (isin, "tasks"): "sort-merge search-join search-scan search-rank output",
    (isin, "runs"): "sort-merge search-join search-rank output",
    (take_along_axis, "tasks"): "take-requests take-source take-reply take-fill output",
    (take_along_axis, "runs"): "take-source take-requests take-asked take-reply take-replied take-fill output",
    (put_along_axis, "tasks"): "put-requests put-shard put-merge output",
    (put_along_axis, "runs"): "put-requests put-asked put-merge output",
    (sort, "runs counted"): "sort-scan sort-count sort-sums sort-keep sort-list",
    (sortby, "runs"): "sort-local sort-scan sort-merge output",
    (sortby, "tasks"): "sort-scatter sort-merge output",
}
#: The same for workers that retire.
RETIRED = {
    (sort, "runs"): "sort-local sort-scan sort-merge",
    (sort, "tasks"): "sort-local sort-merge",
    (sort, "gather"): "sort-merge",
    (sort, "gang"): "sort-gang output",
    (rank, "runs"): "unique-merge",
}
#: The same for processes that are killed.
KILLED = {
    (radix_sort, "runs"): "sort-local sort-scan sort-merge output",
    (radix_sort, "tasks"): "sort-local sort-count sort-scan sort-scatter sort-freed sort-merge output",
    (radix_sort, "gather"): "sort-local sort-scan sort-merge output",
    (radix_sort, "join"): "sort-local output",
    (radix_sort, "gang"): "sort-gang output",
    (half_of_a_sort, "gang"): "sort-joined",
    (merge_sort, "runs"): "sort-merge",
    (merge_sort, "tasks"): "sort-scatter sort-merge",
    (merge_sort, "gather"): "sort-scan sort-merge",
    (quantile, "auto"): "select-extract",
    (quantile, "not held"): "select-extract",
    (quantile_of_groups, "auto"): "group-pick",
}
#: Those of the default run, while chunks are exchanged. Workers that are lost are in the same process, and faster.
KILLED_FIRST = [
    (radix_sort, "runs", "sort-merge"),
    (radix_sort, "tasks", "sort-scatter"),
    (radix_sort, "tasks", "sort-freed"),
    (radix_sort, "gather", "sort-scan"),
    (radix_sort, "gang", "sort-gang"),
    (quantile, "auto", "select-extract"),
    (quantile, "not held", "select-extract"),
]
#: Stages of one task, or of one for each worker. Of others, the worker of the second task is lost.
SINGLE = {
    "group-edges",
    "group-heads",
    "sort-scan",
    "sort-sums",
    "sort-keep",
    "sort-list",
    "sort-gang",
    "sort-joined",
    "take-asked",
    "take-replied",
    "put-asked",
    "unique-scan",
    "unique-list",
    "unique-totals",
    "unique-replies",
    "search-scan",
    "search-sort",
    "search-cut",
    "search-asked",
    "search-found",
    "search-scatter",
    "join sort-local",
}
#: Kept runs of a sort: the stage, which of its tasks, and whether their workers are lost or another one.
OF_RUNS = (
    ("sort-local", (2,), "lost"),
    ("sort-local", (CHUNKS - 1,), "another lost"),
    ("sort-scan", (1,), "lost"),
    ("sort-scan", (1,), "another lost"),
    ("sort-merge", (2,), "lost"),
    ("sort-merge", (3,), "another lost"),
    ("sort-merge", (1, 3), "lost"),
    ("output", (3,), "lost"),
    ("output", (4,), "another lost"),
)


def cases(stages, event):
    return [
        (function, exchange, stage, (1 if {stage, f"{exchange} {stage}"} & SINGLE else 2,), event)
        for (function, exchange), some in stages.items()
        for stage in some.split()
    ]


def first_of_each(cases):
    """In a default run, the first case of each stage, and the output of each function."""
    seen = set()
    for case in cases:
        function, _, stage, *_ = case
        new = function if stage == "output" else stage
        yield pytest.param(*case, marks=pytest.mark.thorough if new in seen else ())
        seen.add(new)


def sorts_by_runs():
    """Each event of memory or of files; in a thorough run, of both."""
    for number, event in enumerate(OF_RUNS):
        for where, exchange in enumerate(("runs in files", "runs")):
            marks = pytest.mark.thorough if (number + where) % 2 else ()
            yield pytest.param(sort, exchange, *event, marks=marks)


def prefix_of(found, stage):
    last = found[-1] if isinstance(found, (list, tuple)) else found
    return last.name if stage == "output" else stage


@pytest.fixture(scope="module")
def threads():
    with runs.cluster(4, **runs.RETIRING) as client:
        yield client


@pytest.fixture
def client(threads):
    """A cluster of four workers in this process: those that were lost have been replaced."""
    runs.refill(threads, 4)
    with threads.as_current():
        yield threads


@pytest.fixture(scope="module")
def processes():
    with gangs.cluster(2) as client:
        yield client


def check(client, case, setting, act):
    """Compute a case while `act(scheduler, address)` is called at its tasks, and assert that the results are right."""
    function, exchange, stage, numbers, _ = case
    acted = []

    def at(scheduler, address):
        acted.append(address)
        return act(scheduler, address)

    held = {"gpusort.held_share": 0} if exchange == "not held" else {}
    exchange, how = exchange.split()[0].replace("not", "auto"), exchange
    config = {"scheduler": "distributed", "gpusort.exchange": exchange, "optimization.fuse.active": False, **held}
    with dask.config.set(config), groups(GROUPS << (function in SORTS)):
        if how.endswith("counted"):
            setting("dask_gpusort.plan.counting.TASK_SAMPLES", 1)
            setting("dask_gpusort.plan.counting.MOST_TASK_SAMPLES", 1)
        # Test elements are sorted, as many of them are.
        setting("dask_gpusort.plan.search.is_small", lambda *_: False)
        # The exchange by tasks cuts first where the case needs it.
        setting("dask_gpusort.plan.make.cuts_first", lambda *_: stage == "sort-freed")
        found, wanted = function()
        with runs.call_at(client, prefix_of(found, stage), numbers, at):
            got = client.gather(client.compute(found, retries=3))
    assert len(acted) == len(numbers), "no worker was lost"
    several = isinstance(found, (list, tuple))
    for one, other in zip(got, wanted, strict=True) if several else [(got, wanted)]:
        np.testing.assert_array_equal(one, other)
    return acted


@pytest.mark.parametrize(
    ("function", "exchange", "stage", "numbers", "event"),
    [*first_of_each(cases(STAGES, "lost")), *sorts_by_runs(), *cases(RETIRED, "retired")],
)
def test_a_worker_is_lost_or_retires(client, monkeypatch, function, exchange, stage, numbers, event):
    if exchange == "runs in files":
        monkeypatch.setattr("dask_gpusort.graph.runs.store.MEMORY_SHARE", 0)
    act = {"lost": runs.lose, "another lost": runs.lose_another, "retired": runs.retire}[event]
    acted = check(client, (function, exchange, stage, numbers, event), monkeypatch.setattr, act)
    if exchange.startswith("runs"):
        runs.check_nothing_is_left(client)
    if event == "retired":
        gangs.until(lambda: acted[0] not in gangs.addresses(client), "the end of a worker")


@pytest.mark.parametrize(
    ("function", "exchange", "stage", "numbers", "event"),
    [
        pytest.param(*case, marks=() if case[:3] in KILLED_FIRST else pytest.mark.thorough)
        for case in cases(KILLED, "killed")
    ],
)
def test_a_process_is_killed(processes, monkeypatch, function, exchange, stage, numbers, event):
    processes.wait_for_workers(2, timeout=gangs.LONG)
    pids = processes.run(os.getpid)
    with processes.as_current():
        check(
            processes,
            (function, exchange, stage, numbers, event),
            monkeypatch.setattr,
            lambda _, address: os.kill(pids[address], signal.SIGKILL),
        )


def inverse(x):
    return dask_gpusort.unique(x, return_inverse=True)[1]


#: How often chunks of a source that changes were made. Workers in this process share it.
MADE = Counter()


def other_keys(block_id):
    MADE[block_id] += 1
    return np.arange(1000) // MADE[block_id]


def fewer_keys(block_id):
    MADE[block_id] += 1
    return np.arange(1001 - MADE[block_id])


def lose_sorted(scheduler, address):
    """Lose a worker that has sorted chunks, another one than that of the cuts."""
    of_sorts = (state for key, state in scheduler.tasks.items() if key[0].startswith(("sort-local", "sort-gang")))
    having = {worker.address for state in of_sorts for worker in state.who_has or ()}
    return runs.lose(scheduler, min(having - {address} or having or {address}))


@pytest.mark.parametrize("change", [other_keys, fewer_keys])
@pytest.mark.parametrize(
    ("function", "exchange", "stage", "lose"),
    [
        (dask_gpusort.sort, "runs", "sort-merge", lose_sorted),
        (dask_gpusort.sort, "tasks", "sort-scatter", lose_sorted),
        (dask_gpusort.sort, "gather", "sort-scan", lose_sorted),
        (dask_gpusort.sort, "gang", "sort-gang", lose_sorted),
        (dask_gpusort.rank, "runs", "unique-merge", runs.lose),
        (inverse, "runs", "unique-merge", runs.lose),
    ],
)
def test_a_source_that_changes_when_a_worker_is_lost(client, function, exchange, stage, lose, change):
    MADE.clear()
    x = da.map_blocks(change, chunks=((1000,) * 8,), dtype="i8", meta=np.empty(0, "i8"))
    config = {"scheduler": "distributed", "gpusort.exchange": exchange, "optimization.fuse.active": False}
    with dask.config.set(config), groups(4), runs.call_at(client, stage, (1,), lose):
        error = gangs.error_of(client.compute(function(x), retries=1))
    # All shards may have been cut before: then none is made again. Of the exchange `gather`, one task has all sorted
    # chunks: if it is lost, all of them are made again, and none of them otherwise.
    made = set(MADE.values())
    if exchange not in ("tasks", "gather") or (len(made) > 1 if exchange == "gather" else max(made) > 1):
        assert isinstance(error, (RuntimeError, ValueError))
        assert re.search("(?i)persist", str(error)), error
    if exchange == "runs":
        runs.check_nothing_is_left(client)
