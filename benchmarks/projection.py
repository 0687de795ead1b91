"""What the cost model says of 100 TB on 100 hosts of 8 GPUs: ``python -m benchmarks.projection``.

Nothing is sorted. Plans are made for that machine by the package's own planner, their costs counted by
`dask_gpusort.cost`, and the graphs of those that have few enough tasks are built, so that the counts are not only
formulas. Rates come from stored measurements where there are any (int64 on one H200; the rest on the CPU of
``results/cost_cpu.json``) and are assumptions where there are none: those are named in what is written.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dask_gpusort.cost import Rates, cost_of, predict
from dask_gpusort.graph.recipe import Recipe
from dask_gpusort.order import Order
from dask_gpusort.plan import Exchange, InputChunks, Plan, Workers, make_plan

from .cost import FILE as RATES_FILE
from .measured import describe_machine
from .points import RESULTS

FILE = "projection.json"
GPU_FILE = "gpu_table.json"
GPU_ROW = "int64 keys, random bits"
ORDER = Order(np.dtype("i8"))
TOTAL_BYTES = 100 * 10**12
HOSTS, GPUS_A_HOST = 100, 8
#: Assumed, for the exchange that moves NumPy chunks alone: cores of a host.
CORES_A_HOST = 96
#: Assumed: memory of an H200, and of a host, of which each core has its share.
GPU_MEMORY, HOST_MEMORY = 141 * 10**9, 2 * 10**12
#: Assumed: a 400 Gbit/s adapter for each GPU, and 25 GB/s of local storage for each host.
WIRE_BYTES, STORAGE_BYTES = 50e9, 25e9
CHUNKS = (1_000, 10_000, 100_000)
#: Of NumPy chunks on the hosts' cores, and of CuPy chunks.
EXCHANGES: tuple[Exchange, ...] = ("p2p", "device")
#: Tasks above which a graph is not built: it would not fit this machine's memory, and no scheduler.
MOST_TASKS = 4_000_000


def workers_of(exchange: Exchange) -> Workers:
    """Those who would run it: the GPUs, or for the exchange of NumPy chunks the cores."""
    if exchange == "p2p":
        return Workers(HOSTS * CORES_A_HOST, HOST_MEMORY // CORES_A_HOST)
    return Workers(HOSTS * GPUS_A_HOST, GPU_MEMORY, devices=True)


def plan_of(chunks: int, exchange: Exchange) -> Plan:
    """The plan for this machine."""
    keys = TOTAL_BYTES // ORDER.dtype.itemsize
    sizes = (keys // chunks,) * chunks
    return make_plan(
        ORDER,
        InputChunks(sizes),
        sizes,
        method="auto",
        exchange=exchange,
        workers=workers_of(exchange),
        groups=None,
    )


def count_tasks(plan: Plan) -> tuple[int, float]:
    """Tasks of a graph that is built whole, and the seconds that building takes."""
    recipe = Recipe(plan, with_keys=True, with_positions=False, names=("x",), extra_dims=(0,))
    start = time.perf_counter()
    tasks = len(recipe.stages()) + len(recipe.output("sorted", 0, 0))
    return tasks, time.perf_counter() - start


def rates_of(results: Path, exchange: Exchange) -> Rates:
    """Rates of all hosts: of one GPU, or of one CPU thread, as measured, times their number."""
    here = Rates(**json.loads((results / RATES_FILE).read_text())["settings"]["rates"]["two workers"])
    host_wire = WIRE_BYTES * GPUS_A_HOST
    if exchange == "p2p":
        return replace(here, workers=HOSTS, threads=HOSTS * CORES_A_HOST, exchange_bytes=host_wire)
    rows = json.loads((results / GPU_FILE).read_text())["rows"]
    row = next(row for row in rows if row["work"] == GPU_ROW)
    keys, gpus = row["keys"] / (row["ours"] / 1e3), HOSTS * GPUS_A_HOST
    # A group is finished by a sort of what it received. A message is a task, and costs what a task does.
    return replace(
        here,
        workers=gpus,
        threads=gpus,
        sort_keys=keys,
        merge_keys=keys,
        exchange_bytes=WIRE_BYTES,
        message_seconds=0.0,
    )


def project(chunks: int, exchange: Exchange, results: Path) -> dict[str, Any]:
    """Cost and predicted seconds of one plan, and the tasks of its graph where it can be built."""
    plan = plan_of(chunks, exchange)
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


def storage_seconds() -> float:
    """Seconds to read 100 TB from local storage and write them back: they do not fit the GPUs beside a copy."""
    return 2 * TOTAL_BYTES / (HOSTS * STORAGE_BYTES)


def network_bytes(seconds: float) -> float:
    """Bytes a second that a host has to send so that the exchange takes no longer than some seconds."""
    return TOTAL_BYTES / HOSTS * (1 - 1 / HOSTS) / seconds


def main() -> None:
    """Project, build, and keep what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.projection", description=__doc__.partition("\n")[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=CHUNKS)
    parser.add_argument("--exchanges", nargs="+", choices=EXCHANGES, default=EXCHANGES)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the measured rates are")
    parser.add_argument("--output", type=Path, default=RESULTS, help="directory for what is found")
    options = parser.parse_args()
    console = Console()
    rows = []
    for exchange in options.exchanges:
        for chunks in options.chunks:
            rows.append(row := project(chunks, exchange, options.results))
            stages = ", ".join(f"{stage} {seconds:,.3g} s" for stage, seconds in row["seconds"].items())
            built = "not built" if row["built_tasks"] is None else f"built in {row['build_seconds']:.3g} s"
            text = (
                f"{exchange:7} {chunks:>9,} chunks, {row['groups']:,} groups, {row['cost']['rounds']} rounds: "
                f"{row['cost']['tasks']:,} tasks ({built}), {row['cost']['messages']:,} messages; {stages}"
            )
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    gpus = rates_of(options.results, "device")
    needed = network_bytes(2 * TOTAL_BYTES / ORDER.dtype.itemsize / (gpus.sort_keys * gpus.threads))
    told = f"to exchange as fast as GPUs sort: {needed / 1e9:,.0f} GB/s a host"
    console.print(f"to read and write storage: {storage_seconds():.0f} s; {told}")
    content = {
        "machine": describe_machine(),
        "settings": {
            "total_bytes": TOTAL_BYTES,
            "hosts": HOSTS,
            "gpus_a_host": GPUS_A_HOST,
            "assumed": {
                "cores_a_host": CORES_A_HOST,
                "gpu_memory": GPU_MEMORY,
                "host_memory": HOST_MEMORY,
                "wire_bytes_a_gpu": WIRE_BYTES,
                "storage_bytes_a_host": STORAGE_BYTES,
            },
            "rates": {exchange: asdict(rates_of(options.results, exchange)) for exchange in options.exchanges},
            "storage_seconds": storage_seconds(),
            "network_bytes_a_host": needed,
        },
        "rows": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / FILE).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
