"""Measures sorts on several GPUs of one host, against PyTorch with NCCL in the same run.

    python -m benchmarks.gpu.multi [u32-28 u32-30 ...] [--gpus 2] [--output DIRECTORY] [--commit COMMIT]

Writes results/multi_gpu.json. Times are wall times from the call of `persist` to the last finished chunk, medians of 7
after two warm-ups, one right after another, then the same after pauses. Every result is verified. Without PyTorch there
is no baseline.

``--library numpy --keys-log2 14 --output DIRECTORY`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
import distributed

import dask_gpusort
from dask_gpusort.gpu_cluster import install_plugins

from ..harness.command import arguments, measure
from ..harness.machine import ROOT
from ..harness.records import Row, slug, timed_row
from .works import PATIENCE, REPEATS, WORKS, Data

SCRIPT = ROOT / "benchmarks" / "baselines" / "nccl.py"
PACKAGES = ("torch", "ucxx-cu13", "ucxx-cu12", "dask-cuda", "rmm-cu13", "rmm-cu12")
#: Seconds for the baseline of all works.
BASELINE_PATIENCE = 240
#: Host memory of a worker. It spills to disk above 70 % and pauses above 80 %. A host that grows its memory on demand
#: reports too little at first.
HOST_MEMORY = "90GB"
#: Seconds for the workers to drop a result before the next run.
RELEASE = 0.1
#: Runs of a work before those that are timed.
WARM_UPS = 2


@contextlib.contextmanager
def started(options: Any) -> Iterator[Any]:
    if numpy := options.library == "numpy":
        kinds = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        install_plugins(cluster := distributed.LocalCluster(n_workers=options.gpus, **kinds))
    else:
        cluster = dask_gpusort.cluster(options.gpus, dashboard_address=":0", memory_limit=HOST_MEMORY)
    # NumPy chunks try the same graph as CuPy chunks that are kept.
    forced = dask.config.set({"gpusort.exchange": "gang" if numpy else "auto"})
    with forced, cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(options.gpus, timeout=PATIENCE)
        dask_gpusort.warm_up(client, dtypes=("u4",) if numpy else ("u4", "u8"))
        yield client


def baselines(options: Any) -> dict[str, float]:
    """Milliseconds of PyTorch and NCCL for several works, in separate processes, up to the first work that fails."""
    asked = {name: WORKS[name] for name in options.sections if WORKS[name].baseline}
    if options.library == "numpy" or not find_spec("torch") or not asked:
        return {}
    sizes = [[work.baseline, options.keys_log2 or work.log2, work.want == "pairs"] for work in asked.values()]
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "baseline.json"
        command = [sys.executable, str(SCRIPT), json.dumps(sizes), str(options.gpus), str(out)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=BASELINE_PATIENCE, check=False)
        found = json.loads(out.read_text()) if out.exists() else []
    return {name: 1e3 * seconds for name, seconds in zip(asked, found, strict=False)}


def begin_counting() -> None:
    """On a worker: start to count RMM allocations."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        memory.enable_statistics()
        memory.push_statistics()


def counted_peak() -> int:
    """On a worker: peak bytes allocated since counting began, without earlier allocations; 0 without RMM."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        counted = memory.pop_statistics()
        return 0 if counted is None else int(counted.peak_bytes)
    return 0


def run_once(data: Data) -> tuple[tuple[Any, ...], float]:
    """Run one sort. Return the result, which the workers hold, and the seconds."""
    start = time.perf_counter()
    found = tuple(data.client.persist(list(data.sort())))
    distributed.wait(found, timeout=data.work.patience)
    seconds = time.perf_counter() - start
    for future in distributed.futures_of(found):
        if future.status == "error":
            future.result()
    return found, seconds


def run_many(data: Data, repeats: int, pause: float = 0) -> list[float]:
    """Seconds of some sorts, each after a pause and the release of the result before."""
    seconds = []
    for _ in range(repeats):
        time.sleep(pause)
        found, took = run_once(data)
        seconds.append(took)
        del found
    return seconds


def rows(client: Any, options: Any, name: str, theirs: dict[str, float]) -> Iterator[Row]:
    """The row of a work."""
    work, gpus = WORKS[name], options.gpus
    data = Data(client, work, options.keys_log2 or work.log2, options.library)
    details: dict[str, Any] = {"GPUs": gpus}
    seconds: list[float] = []
    if work.repeats > 1:
        run_many(data, WARM_UPS)
        # The baseline runs without pauses too. After a pause processors and workers wake up more slowly.
        seconds = run_many(data, work.repeats)
        details["after a pause, ms"] = 1e3 * statistics.median(run_many(data, work.repeats, RELEASE))
    # Workers that count their allocations are slower, so a run of its own tells the peak, except of a large work.
    client.run(begin_counting)
    found, took = run_once(data)
    peak = max(client.run(counted_peak).values())
    verified = data.check(found)
    del found
    time.sleep(RELEASE)
    details["peak, shares of the data"] = peak * gpus / (data.row_bytes * data.total)
    row = timed_row(slug(name, gpus), name, {"ours": seconds or [took]}, keys=data.total, verified=verified)
    row.details, row.baselines = details, {"PyTorch + NCCL": theirs[name]} if name in theirs else {}
    yield row


def main() -> None:
    more: dict[str, dict[str, Any]] = {
        "--gpus": {"type": int, "default": 2},
        "--keys-log2": {"type": int, "help": "keys of each GPU, for all works"},
        "--library": {"choices": ("cupy", "numpy"), "default": "cupy"},
    }
    options = arguments("gpu.multi", __doc__, list(WORKS), more, quick=False)
    theirs = baselines(options)
    with started(options) as client:
        sections = {name: partial(rows, client, options, name, theirs) for name in WORKS}
        measure(options, "multi_gpu", sections, packages=PACKAGES, repeats=REPEATS)


if __name__ == "__main__":
    main()
