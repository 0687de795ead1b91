"""The load on scheduler, workers and disks of a sort by the exchange `runs`, up to 100 TB on 1,000 workers: counted.

    python -m benchmarks.cpu.scheduler_load [--quick] [--output DIRECTORY]

Writes results/scheduler_load.json. Nothing is sorted. The package plans each sort. Where the graph has at most 80,000
tasks it is pickled, built and ordered as Dask does it, and a real scheduler with our plugin drives it. Its workers are
stubs: each answers at once that a task has run, and that it has fetched what the task needs. Work is not stolen. What
larger graphs take is projected from the largest one that was driven: by their tasks, and the longest stop of the
scheduler by runs x workers. Seconds are those of the processor.
"""

from __future__ import annotations

import asyncio
import heapq
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
import psutil
from dask.base import collections_to_expr
from dask.core import flatten
from dask.order import order
from distributed import Scheduler
from distributed.core import Status
from distributed.protocol import Serialize, deserialize, dumps, serialize
from distributed.scheduler import WorkerState, _materialize_graph

from dask_gpusort.builders.global_sort import _steps
from dask_gpusort.chunk.memory import return_free_memory
from dask_gpusort.chunk.run import Run
from dask_gpusort.drivers.recipe import Input, ProgramRecipe, Result
from dask_gpusort.functions.sort import Finish, LocalSort
from dask_gpusort.graph.collection import Output, new_arrays
from dask_gpusort.graph.runs.files import Piece
from dask_gpusort.graph.runs.handles import Handle
from dask_gpusort.graph.runs.plugins import NAME, RunSchedulerPlugin
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, SortPlan, Workers, make_plan
from dask_gpusort.plan.counting import ENTRY_BYTES, FAN_IN
from dask_gpusort.plan.sort import HANDLE_BYTES

from ..harness.command import arguments, measure
from ..harness.records import Row, slug

ORDER = Order(np.dtype("i8"))
MIB, GIB = 1 << 20, 1 << 30
#: Bytes to sort, and workers.
SIZES = {"8 GiB": (8 * GIB, 4), "100 GB": (10**11, 100), "1 TB": (10**12, 1000), "10 TB": (10**13, 1000)}
SIZES["100 TB"] = 10**14, 1000
#: Bytes of a chunk, and threads of a worker.
SHAPES = (128 * MIB, 16), (GIB, 16), (GIB, 4), (4 * GIB, 4)
MEMORY = 64 * GIB
#: Bytes of the two ends of a group's rows in a run.
CUT_BYTES = 16
#: A handle and the checksums of a run, as in a list of runs.
KEY, PIECES = ("sort-local-" + 32 * "0", 4000), (Piece(0, 1 << 27, 1 << 27),)
LIKE = Handle(
    32 * "0", KEY, "tcp://10.0.0.1:40000", 86 * "/", 1 << 24, Run(np.empty(0, np.uint64)), 1 << 31, PIECES, 1 << 27
)
MARK = 1 << 31, 1 << 31
#: Tasks of the largest graph that is driven.
MOST_DRIVEN, QUICK_DRIVEN = 80_000, 500


def plan_of(total: int, chunk: int, workers: int, threads: int) -> SortPlan:
    """The plan of a sort of int64 on a cluster that is not there."""
    sizes = (chunk // 8,) * -(-total // chunk)
    cluster = Workers(workers * threads, MEMORY // threads, processes=workers)
    return make_plan(ORDER, InputChunks(sizes), sizes, method="auto", exchange="runs", workers=cluster, groups=None)


def make_keys() -> np.ndarray:
    """Task: keys, which nobody asks for."""
    raise AssertionError


def recipe_of(plan: SortPlan, name: str = "x") -> ProgramRecipe:
    """What the tasks of the sort of an array are made from."""
    how = LocalSort(plan.order, positions=False), Finish(plan.order, with_keys=True, with_positions=False)
    steps, own = _steps(plan, *how), Input("the input", plan.order.dtype, (plan.sizes,), plan.runs)
    results = (Result(len(steps) - 1, 0),)
    return ProgramRecipe(steps, results, (name,), (own,), len(plan.groups), "kept", plan.groups)


def counted(plan: SortPlan, workers: int, threads: int) -> dict[str, float]:
    """What follows from the plan alone."""
    runs, groups, total = len(plan.runs), len(plan.groups), sum(plan.sizes) * plan.row_bytes
    recipe = recipe_of(plan)
    # If there are candidates, all handles are listed with those of tables, else with the cuts.
    tables, cuts = (1 / FAN_IN, 0) if plan.candidates else (0, CUT_BYTES * groups)
    listed = runs * (len(pickle.dumps(((LIKE,), MARK))) + tables * len(pickle.dumps(LIKE)) + cuts)
    summary = plan.samples * (ORDER.transit_dtype.itemsize + ENTRY_BYTES) + 8 * plan.candidates
    return {
        "tasks": len({**recipe.stages(), **recipe.output("sort", 0, (plan.chunks,))}) + runs,
        "pairs": runs * workers,
        "runs": runs,
        "groups": groups,
        "candidates": plan.candidates,
        "list of runs, MiB": listed / MIB,
        "all cuts, MiB": CUT_BYTES * runs * groups / MIB,
        "summary, % of a run": 100 * summary / (total / runs),
        "table, % of a thread's memory": 100 * plan.table_bytes / (MEMORY / threads),
        "slices of a worker": runs * groups / workers,
        "a slice, KiB": total / (runs * groups) / 1024,
        "messages": groups * min(workers - 1, runs),
    }


class Cluster:
    """A scheduler whose workers are stubs."""

    def __init__(self, workers: int, threads: int, sizes: Callable[[Any], float]):
        self.scheduler, self.sizes = Scheduler(dashboard=False, dashboard_address=":0", extensions={}), sizes
        self.waiting: defaultdict[str, list[Any]] = defaultdict(list)
        self.found: defaultdict[str, float] = defaultdict(float)
        plugin = RunSchedulerPlugin()
        plugin.scheduler, self.scheduler.plugins[NAME] = self.scheduler, plugin
        plugin.restart(self.scheduler)
        for number in range(workers):
            address = f"tcp://10.0.{number // 256}.{number % 256}:40000"
            own: dict[str, Any] = {"address": address, "name": address, "server_id": address, "nthreads": threads}
            own |= {"pid": 0, "local_directory": "", "nanny": "", "memory_limit": MEMORY, "status": Status.running}
            own |= {"services": {}, "versions": {}, "extra": {}, "scheduler": self.scheduler}
            state = WorkerState(**own)
            self.scheduler.workers[address] = state
            self.scheduler.running.add(state)
            self.scheduler.total_nthreads += threads
            self.scheduler.check_idle_saturated(state)
            self.scheduler.stream_comms[address] = Wire(self, address)  # type: ignore[assignment]

    def finish(self, address: str) -> None:
        """Let a worker fetch what its most urgent task needs, and say that the task has run."""
        _, _, message = heapq.heappop(self.waiting[address])
        key, start = message["key"], time.process_time()
        fetched = [name for name, holders in message["who_has"].items() if address not in holders]
        if fetched:
            self.scheduler.add_keys(worker=address, keys=fetched, stimulus_id="fetched")
        ran = {"startstops": [{"action": "compute", "start": 0.0, "stop": 1.0}], "metadata": {}, "thread": 0}
        result = {"nbytes": int(self.sizes(key)), "type": b"", "typename": "", "run_id": message["run_id"]}
        self.scheduler.handle_task_finished(key, address, "finished", status="OK", **result, **ran)
        took = time.process_time() - start
        self.found["scheduler, s"] += took
        self.found["its longest stop, s"] = max(self.found["its longest stop, s"], took)
        self.found["messages to the scheduler"] += 1 + bool(fetched)


class Wire:
    """Takes the place of the connection to a worker."""

    def __init__(self, cluster: Cluster, address: str):
        self.cluster, self.address = cluster, address

    def send(self, *messages: dict[str, Any]) -> None:
        """Pickle messages, as a connection does, and keep the tasks."""
        dumps(list(messages))
        for message in messages:
            if message["op"] == "compute-task":
                entry = message["priority"], message["run_id"], message
                heapq.heappush(self.cluster.waiting[self.address], entry)


async def driven(plan: SortPlan, workers: int, threads: int) -> dict[str, float]:
    """What the making and the driving of the graph take."""
    busy = 0.0

    def timed(function: Callable[..., Any], *args: Any) -> Any:
        nonlocal busy
        start = time.process_time()
        result = function(*args)
        busy += time.process_time() - start
        return result

    x = da.map_blocks(make_keys, chunks=(plan.sizes,), dtype="i8", meta=np.empty(0, "i8"))
    recipe = recipe_of(plan, x.name)
    (y,) = new_arrays(recipe, (x,), [Output(x._meta, (plan.chunks,))], "sort")
    wrapped = Serialize(collections_to_expr([y]).optimize())
    expr, process = deserialize(*serialize(wrapped.data, serializers=["pickle"])), psutil.Process()
    return_free_memory()
    before = process.memory_info().rss
    graph, _ = timed(_materialize_graph, expr, False)
    edges = sum(len(task.dependencies) for task in graph.values())
    keys, ordered = set(flatten(y.__dask_keys__())), timed(order, graph)
    drawn, counts = plan.samples * (plan.order.transit_dtype.itemsize + ENTRY_BYTES), 8 * plan.candidates
    # Of one round, the scan lists all runs; of two, it has the candidates, and another task lists the runs.
    scan, listed = (2 * counts, "sort-list") if plan.candidates else (0, "sort-scan")
    made: dict[str, float] = {"sort-local": HANDLE_BYTES + drawn, "sort-keep": HANDLE_BYTES, "sort-scan": scan}
    made |= {"sort-count": counts, "sort-sum": counts, "sort-sums": 2 * CUT_BYTES * len(plan.groups)}
    made[listed] = counted(plan, workers, threads)["list of runs, MiB"] * MIB
    made["sort-merge"] = plan.group_bytes
    cluster = Cluster(workers, threads, lambda key: made.get(key[0].rpartition("-")[0], 8 * plan.sizes[0]))
    scheduler = cluster.scheduler
    state: dict[str, Any] = {"start": 0.0, "client": "client", "annotations_by_type": {}, "global_annotations": None}
    state |= {"stimulus_id": "graph", "submitting_task": None, "span_metadata": {"collections": []}}
    timed(lambda: scheduler._create_taskstate_from_graph(dsk=graph, keys=keys, ordered=ordered, **state))
    memory = max(process.memory_info().rss - before, 0) / MIB
    while any(cluster.waiting.values()):
        for address in [address for address, tasks in cluster.waiting.items() if tasks]:
            for _ in range(min(threads, len(cluster.waiting[address]))):
                cluster.finish(address)
    assert all(scheduler.tasks[key].state == "memory" for key in keys)
    timed(scheduler.client_releases_keys, list(keys), "client", "released")
    start = time.process_time()
    while scheduler.tasks:
        await asyncio.sleep(0)
    cluster.found["scheduler, s"] += busy + time.process_time() - start
    scheduler.stream_comms.clear()
    await scheduler.close()
    return {"edges": edges, "its memory, MiB": memory, **cluster.found}


def load(most: int) -> Iterator[Row]:
    """A row for each sort."""
    found: dict[str, dict[str, float]] = {}
    for name, (total, workers) in SIZES.items():
        for chunk, threads in SHAPES:
            plan = plan_of(total, chunk, workers, threads)
            details = counted(plan, workers, threads)
            if details["tasks"] <= most:
                details |= asyncio.run(driven(plan, workers, threads))
            found[f"{name} in {chunk // MIB:,} MiB, {workers:,} workers of {threads} threads"] = details
    largest = max((one for one in found.values() if "edges" in one), key=lambda one: one["tasks"])
    for details in found.values():
        if "edges" not in details:
            for what, by in (("scheduler, s", "tasks"), ("its memory, MiB", "tasks"), ("its longest stop, s", "pairs")):
                details[what] = largest[what] * details[by] / largest[by]
            details["projected"] = True
    for work, details in found.items():
        shown = {name: value for name, value in details.items() if name not in ("tasks", "pairs")}
        yield Row(slug(work), work, details["tasks"], "tasks", details=shown)


if __name__ == "__main__":
    options = arguments("cpu.scheduler_load", __doc__)
    measure(options, "scheduler_load", {"all": load}, options.effort.size(MOST_DRIVEN, QUICK_DRIVEN))
