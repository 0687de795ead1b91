"""Projects the cost model to 100 TB on 100 hosts with 8 GPUs each.

    python -m benchmarks.model.projection [--chunks ...] [--exchanges ...] [--results DIRECTORY] [--output DIRECTORY]

Writes results/projection.json. Nothing is sorted. The package plans the sorts for that cluster, `dask_gpusort.cost`
counts their costs, and graphs with few enough tasks are built to verify the counts. Rates come from stored measurements
(int64 on one H200; the rest on the CPU of results/cost_cpu.json); the assumed rates are stored with their names.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dask_gpusort.cost import Rates, cost_of, predict
from dask_gpusort.graph.sort.finish import Finish
from dask_gpusort.graph.sort.local import LocalSort
from dask_gpusort.graph.sort.recipe import SortRecipe
from dask_gpusort.plan import Exchange, Plan, Workers

from ..harness.command import parse, parser_of
from ..harness.machine import RESULTS, describe_machine
from ..harness.records import read
from .cost import FILE as RATES_FILE
from .cost import ORDER, plan_of

FILE = "projection.json"
GPU_FILE = "gpu_table.json"
GPU_ROW = "int64 keys, random bits"
TOTAL_BYTES = 100 * 10**12
HOSTS, GPUS_A_HOST = 100, 8
#: Assumed: cores of a host. They run the exchange that moves only NumPy chunks.
CORES_A_HOST = 96
#: Assumed: memory of an H200, and memory of a host, which its cores share.
GPU_MEMORY, HOST_MEMORY = 141 * 10**9, 2 * 10**12
#: Assumed: a 400 Gbit/s adapter for each GPU, and 25 GB/s of local storage for each host.
WIRE_BYTES, STORAGE_BYTES = 50e9, 25e9
CHUNKS = (1_000, 10_000, 100_000)
#: NumPy chunks on the cores of the hosts, and CuPy chunks.
EXCHANGES: tuple[Exchange, ...] = ("runs", "device")
#: Tasks of the largest graph that is built. Larger ones fit neither the memory of this machine nor a scheduler.
MOST_TASKS = 4_000_000


def workers_of(exchange: Exchange) -> Workers:
    """The GPUs, or the cores for the exchange of NumPy chunks."""
    if exchange == "runs":
        return Workers(HOSTS * CORES_A_HOST, HOST_MEMORY // CORES_A_HOST, processes=HOSTS)
    return Workers(HOSTS * GPUS_A_HOST, GPU_MEMORY, devices=True)


def count_tasks(plan: Plan) -> tuple[int, float]:
    """Number of tasks of a whole graph, and the seconds to build it."""
    how = LocalSort(plan.order, positions=False), Finish(plan.order, with_keys=True, with_positions=False)
    recipe = SortRecipe(plan, *how, names=("x",), extra_dims=(0,))
    start = time.perf_counter()
    tasks = len(recipe.stages()) + len(recipe.output("sorted", 0, (plan.chunks,)))
    return tasks, time.perf_counter() - start


def rates_of(results: Path, exchange: Exchange) -> Rates:
    """Rates of the cluster: the measured rate of one GPU or one CPU thread times their number."""
    here = Rates(**json.loads((results / RATES_FILE).read_text())["settings"]["rates"]["two workers"])
    host_wire = WIRE_BYTES * GPUS_A_HOST
    if exchange == "runs":
        return replace(here, workers=HOSTS, threads=HOSTS * CORES_A_HOST, exchange_bytes=host_wire)
    row = read(results / GPU_FILE).row(GPU_ROW)
    assert row.ours
    keys, gpus = row.keys / (row.ours / 1e3), HOSTS * GPUS_A_HOST
    # A group sorts the keys that it receives. A message costs as much as a task.
    here = replace(here, workers=gpus, threads=gpus, sort_keys=keys, merge_keys=keys)
    return replace(here, exchange_bytes=WIRE_BYTES, message_seconds=0.0)


def project(chunks: int, exchange: Exchange, results: Path) -> dict[str, Any]:
    """Cost and predicted seconds of one plan, and the tasks of its graph if it can be built."""
    plan = plan_of(chunks, TOTAL_BYTES // ORDER.dtype.itemsize, exchange, workers_of(exchange))
    cost = cost_of(plan)
    built, seconds = count_tasks(plan) if cost.tasks <= MOST_TASKS else (None, None)
    if built is not None and built != cost.tasks:
        raise AssertionError(f"the plan says {cost.tasks} tasks, the graph has {built}")
    return {
        "chunks": chunks,
        "exchange": exchange,
        "groups": len(plan.groups),
        "samples": plan.samples,
        "cost": asdict(cost),
        "built_tasks": built,
        "build_seconds": seconds,
        "seconds": predict(plan, rates_of(results, exchange)),
    }


def report(row: dict[str, Any]) -> None:
    stages = ", ".join(f"{stage} {seconds:,.3g} s" for stage, seconds in row["seconds"].items())
    built = "not built" if row["built_tasks"] is None else f"built in {row['build_seconds']:.3g} s"
    print("{exchange:7} {chunks:>9,} chunks, {groups:,} groups".format(**row), end=", ")
    print(
        "{rounds} rounds: {tasks:,} tasks ({built}), {messages:,} messages".format(built=built, **row["cost"]), end="; "
    )
    print(stages)


def main() -> None:
    parser = parser_of("benchmarks.model.projection", __doc__, quick=False)
    parser.add_argument("--chunks", type=int, nargs="+", default=CHUNKS)
    parser.add_argument("--exchanges", nargs="+", choices=EXCHANGES, default=EXCHANGES)
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the measured rates")
    options = parse(parser)
    rows = []
    for exchange in options.exchanges:
        for chunks in options.chunks:
            rows.append(project(chunks, exchange, options.results))
            report(rows[-1])
    gpus = rates_of(options.results, "device")
    # Two copies of the data do not fit the GPUs, so all data are read from local storage and written back.
    storage = 2 * TOTAL_BYTES / (HOSTS * STORAGE_BYTES)
    sorting = 2 * TOTAL_BYTES / ORDER.dtype.itemsize / (gpus.sort_keys * gpus.threads)
    needed = TOTAL_BYTES / HOSTS * (1 - 1 / HOSTS) / sorting
    print(f"to read and write storage: {storage:.0f} s;", end=" ")
    print(f"to exchange as fast as GPUs sort: {needed / 1e9:,.0f} GB/s a host")
    assumed = {"cores_a_host": CORES_A_HOST, "gpu_memory": GPU_MEMORY, "host_memory": HOST_MEMORY}
    assumed |= {"wire_bytes_a_gpu": WIRE_BYTES, "storage_bytes_a_host": STORAGE_BYTES}
    settings = {"total_bytes": TOTAL_BYTES, "hosts": HOSTS, "gpus_a_host": GPUS_A_HOST, "assumed": assumed}
    settings["rates"] = {exchange: asdict(rates_of(options.results, exchange)) for exchange in options.exchanges}
    settings |= {"storage_seconds": storage, "network_bytes_a_host": needed}
    content = {"machine": describe_machine(commit=options.commit), "settings": settings, "rows": rows}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / FILE).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
