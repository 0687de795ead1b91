"""Sort an array that is distributed over the GPUs of this host, and verify the result independently.

Random keys are made on the GPUs, a part on each, and all GPUs sort them together. If UCX is installed, the keys move
over NVLink, never through the host. Then each chunk is checked on its GPU: its order, its ends against those of its
neighbours, and a checksum of all keys that does not depend on their order, before and after.

    python examples/multi_gpu.py                       # every GPU of this host
    python examples/multi_gpu.py --gpus 1 --keys 1e9   # one GPU
    python examples/multi_gpu.py --library numpy       # no GPU: the same graph with NumPy chunks on two processes

GPUs need ``dask-cuda``. ``distributed-ucxx`` and ``rmm`` make the exchange fast.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from importlib import import_module
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np

try:
    from distributed import Client, LocalCluster, get_task_stream, wait
except ImportError as error:
    raise SystemExit(f"{error}: pip install '.[examples]'") from None

import dask_gpusort

#: Keys that are made or checked at a time, so that neither takes much memory.
BATCH_KEYS = 1 << 26
#: Multipliers of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): keys that differ in one bit differ in half the bits of
#: their hashes.
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
PHASES = {
    "sort-local": "sort each chunk",
    "sort-count": "count",
    "sort-scan": "scan",
    "sort-scatter": "cut",
    "sort-merge": "exchange and merge",
}


def random_keys(dtype: str, library: str, block_info: Any = None) -> Any:
    """Task: make the keys of one chunk from random bits."""
    xp = import_module(library)
    info = block_info[None]
    size, seed = info["chunk-shape"][0], info["chunk-location"][0]
    keys = xp.empty(size, dtype)
    rng = xp.random.default_rng(seed)
    for start in range(0, size, BATCH_KEYS):
        part = keys[start : start + BATCH_KEYS]
        part[:] = (rng.random(len(part)) * 2.0 ** min(53, 8 * keys.itemsize)).astype(dtype)
    return keys


def facts(keys: Any) -> dict[str, Any]:
    """Task: size, order, checksum and ends of one chunk. Only these few numbers leave the worker."""
    in_order, checksum = True, 0
    for start in range(0, len(keys), BATCH_KEYS):
        part = keys[start : start + BATCH_KEYS + 1]
        in_order = in_order and bool((part[:-1] <= part[1:]).all())
        mixed = part[:BATCH_KEYS].astype("u8") + np.uint64(1)
        for factor in MIX:
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(factor)
        checksum += int(mixed.sum(dtype="u8"))
    ends = (int(keys[0]), int(keys[-1])) if len(keys) else None
    return {"size": len(keys), "in_order": in_order, "checksum": checksum, "ends": ends, "type": type(keys).__module__}


def chunk_facts(client: Client, array: da.Array) -> list[dict[str, Any]]:
    """Compute the facts of every chunk, in the order of the chunks."""
    tasks = [dask.delayed(facts)(block) for block in array.to_delayed()]
    return [future.result() for future in client.compute(tasks)]


def errors(before: list[dict[str, Any]], after: list[dict[str, Any]], sizes: tuple[int, ...]) -> list[str]:
    """List what is wrong with a result."""
    found = [f"chunk {number} is not in order" for number, fact in enumerate(after) if not fact["in_order"]]
    ends = [(number, fact["ends"]) for number, fact in enumerate(after) if fact["ends"]]
    found += [
        f"chunk {number} begins below the end of the previous one"
        for (_, last), (number, first) in pairwise(ends)
        if first[0] < last[1]
    ]
    if tuple(fact["size"] for fact in after) != sizes:
        found.append("the chunks do not have the requested sizes")
    if len({sum(fact["checksum"] for fact in side) % (1 << 64) for side in (before, after)}) > 1:
        found.append("the result does not contain the keys of the input")
    if {fact["type"] for fact in before} != {fact["type"] for fact in after}:
        found.append("the chunks and those of the input have different types")
    return found


def timed_sort(client: Client, keys: da.Array) -> tuple[da.Array, float, list[dict[str, Any]]]:
    """Sort and return the array on the workers, the seconds, and the stream of tasks."""
    with get_task_stream(client=client) as stream:
        start = time.perf_counter()
        result = dask_gpusort.sort(keys).persist()
        wait(result)
        seconds = time.perf_counter() - start
    return result, seconds, stream.data


def print_phases(stream: list[dict[str, Any]]) -> None:
    """Print the tasks of each phase and the time of the worker that is busiest in it."""
    tasks: Counter[str] = Counter()
    busy: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for task in stream:
        name = task["key"][0] if isinstance(task["key"], tuple) else task["key"]
        phase = next((phase for phase in PHASES if name.startswith(phase)), None)
        if phase is None:
            continue
        tasks[phase] += 1
        for part in task["startstops"]:
            busy[phase, part["action"]][task["worker"]] += part["stop"] - part["start"]
    for phase, text in PHASES.items():
        if tasks[phase]:
            compute, transfer = (1e3 * max(busy[phase, what].values(), default=0) for what in ("compute", "transfer"))
            print(f"  {text:20} {tasks[phase]:5} tasks, {compute:8.1f} ms, transfers {transfer:8.1f} ms")


def run(client: Client, options: argparse.Namespace) -> list[str]:
    """Make, sort and check keys; return a list of errors."""
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    size = max(1, int(options.keys) // (workers * options.chunks))
    chunks = ((size,) * (workers * options.chunks),)
    meta = import_module(options.library).empty(0, options.dtype)
    keys = da.map_blocks(random_keys, options.dtype, options.library, chunks=chunks, dtype=options.dtype, meta=meta)
    keys = keys.persist()
    wait(keys)
    before = chunk_facts(client, keys)
    print(dask_gpusort.explain(keys))

    print(f"warm-up: {dask_gpusort.warm_up(client, dtypes=[options.dtype]):.1f} s")
    seconds = []
    for _ in range(options.repeat):
        result = None  # so that the workers release the previous result
        result, took, stream = timed_sort(client, keys)
        seconds.append(took)
    best = min(seconds)
    gigabytes = keys.nbytes / 1e9
    print(f"{keys.size:,} keys ({gigabytes:.2f} GB) on {workers} workers: {1e3 * best:.1f} ms, ", end="")
    print(f"{keys.size / best / 1e9:.2f} Gkeys/s, {gigabytes / best:.1f} GB/s (best of {options.repeat})")
    print_phases(stream)
    return errors(before, chunk_facts(client, result), result.chunks[0])


def main() -> int:
    """Run the example; the exit code is 1 if the result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, help="number of GPUs (default: all visible ones)")
    parser.add_argument("--keys", type=float, help="total number of keys")
    parser.add_argument("--dtype", default="u4", help="unsigned dtype, such as u4 or u8")
    parser.add_argument("--chunks", type=int, default=1, help="chunks on each worker")
    parser.add_argument("--repeat", type=int, default=3, help="number of runs (default: %(default)s)")
    parser.add_argument("--library", choices=("cupy", "numpy"), default="cupy", help="library of the chunks")
    options = parser.parse_args()
    if options.library == "cupy":
        try:
            cluster = dask_gpusort.cluster(options.gpus, dashboard_address=":0")
        except ImportError as error:
            raise SystemExit(str(error)) from None
        exchange = "auto"
    else:
        cluster = LocalCluster(n_workers=options.gpus or 2, threads_per_worker=1, dashboard_address=":0")
        exchange = "device"  # as "auto" chooses for CuPy chunks
    options.keys = options.keys or (1 << 30 if options.library == "cupy" else 1 << 22)
    with dask.config.set({"gpusort.exchange": exchange}), cluster, Client(cluster) as client:
        client.wait_for_workers(options.gpus or 1)
        wrong = run(client, options)
    print("wrong: " + "; ".join(wrong) if wrong else "verified: in order, exactly cut, the same keys")
    if not wrong:
        print("next: persist() leaves the result on the workers, for searchsorted, unique, or to_zarr(...)")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
