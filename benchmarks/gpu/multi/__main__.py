"""Measures sorts on several GPUs of one host, against PyTorch with NCCL in the same run.

    python -m benchmarks.gpu.multi [--gpus 2 4] [--works u32-28 u32-30 ...] [--no-baseline] [--output DIRECTORY]

Writes results/multi_gpu.json. Rows that a call does not measure keep the results and the commit of an earlier call, so
several calls can make one table. A work that fails is stored as failed, and the next work starts a new cluster.

Times are wall times from the call of `persist` to the last finished chunk, medians of 5 after two warm-ups. The phases
come from the task stream of one more run: for each phase, the compute and transfer seconds of the busiest worker. The
scheduler takes the rest of the wall time. A long run reports its progress every few seconds. Every result is verified.

``--library numpy --keys-log2 14`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dask
import distributed

import dask_gpusort
from dask_gpusort.gpu_cluster import install_plugins

from ...harness.command import arguments
from ...harness.machine import RESULTS, ROOT, describe_machine, version_of
from ...harness.records import Record, Row, read, slug
from .data import DEFAULT, PATIENCE, REPEATS, WORKS
from .measure import measure

FILE, BASELINE = "multi_gpu.json", "PyTorch + NCCL"
SCRIPT = ROOT / "benchmarks" / "baselines" / "nccl.py"
PACKAGES = ("torch", "ucxx-cu13", "ucxx-cu12", "dask-cuda", "rmm-cu13", "rmm-cu12")
#: Seconds for the baseline of all works.
BASELINE_PATIENCE = 240
#: Host memory of a worker. It spills to disk above 70 % and pauses above 80 %. A host that grows its memory on demand
#: reports too little at first.
HOST_MEMORY = "90GB"


def machine(commit: str) -> dict[str, Any]:
    found = describe_machine(commit=commit)
    found.pop("device", None)
    found["versions"] |= {name: version_of(name) for name in PACKAGES if version_of(name) != "none"}
    with contextlib.suppress(Exception):  # a host without CuPy, or without a driver
        found["versions"]["cupy"] = str(__import__("cupy").__version__)
    with contextlib.suppress(Exception):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["GPUs"] = "; ".join(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines())
    return found


@contextlib.contextmanager
def started(gpus: int, library: str, protocol: str | None, host_memory: str) -> Iterator[Any]:
    if library == "numpy":
        cluster = distributed.LocalCluster(
            n_workers=gpus, threads_per_worker=1, processes=False, dashboard_address=":0"
        )
        install_plugins(cluster)
    else:
        cluster = dask_gpusort.cluster(gpus, protocol=protocol, dashboard_address=":0", memory_limit=host_memory)
    # NumPy chunks try the same graph as CuPy chunks that are kept.
    forced = dask.config.set({"gpusort.exchange": "auto" if library == "cupy" else "gang"})
    with forced, cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(gpus, timeout=PATIENCE)
        seconds = dask_gpusort.warm_up(client, dtypes=("u4",) if library == "numpy" else ("u4", "u8"))
        protocol = cluster.scheduler_address.split(":")[0]
        print(f"{gpus} workers over {protocol}, warmed up in {seconds:.1f} s", flush=True)
        yield client


def baselines(works: list[str], gpus: int, log2: int | None) -> dict[str, dict[str, float]]:
    """Seconds of PyTorch and NCCL for several works, in separate processes, up to the first work that fails."""
    asked = {name: WORKS[name] for name in works if WORKS[name].baseline}
    if not asked:
        return {}
    out = RESULTS / f".baseline-{gpus}.json"
    out.unlink(missing_ok=True)
    sizes = [[work.baseline, log2 or work.log2, work.want == "pairs"] for work in asked.values()]
    command = [sys.executable, str(SCRIPT), json.dumps(sizes), "--gpus", str(gpus), "--out", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BASELINE_PATIENCE, check=False)
        if done.returncode:
            print("baseline failed:", done.stderr[-600:], flush=True)
    except subprocess.TimeoutExpired:
        print(f"baseline took longer than {BASELINE_PATIENCE} s", flush=True)
    rows = json.loads(out.read_text()) if out.exists() else []
    out.unlink(missing_ok=True)
    return dict(zip(asked, rows, strict=False))


def keep_baseline(row: Row, found: Mapping[str, Any] | None) -> None:
    if found and row.ours:
        row.baselines = {BASELINE: 1e3 * found["seconds"]}
        row.details["baseline_steps"] = {name: found[name] for name in ("sort", "exchange", "sort_again")}


def report(row: Row) -> None:
    print(row, *(f"{milliseconds:.0f}" for milliseconds in row.samples["ours"]), flush=True)
    for name, phase in row.details["phases"].items():
        print(
            f"    {name:13} {phase['tasks']:4.0f} tasks, compute {1e3 * phase['compute']:7.1f} ms, transfer "
            f"{1e3 * phase['transfer']:7.1f} ms, from {1e3 * phase['from']:6.1f} to {1e3 * phase['to']:6.1f}",
            flush=True,
        )


def write(rows: dict[tuple[str, int], Row], facts: dict[str, Any], path: Path) -> None:
    ordered = sorted(rows.values(), key=lambda row: (list(WORKS).index(row.work), row.details["gpus"]))
    Record(facts, {"repeats": REPEATS}, rows=ordered).write(path)


def measure_all(
    options: argparse.Namespace, gpus: int, rows: dict[tuple[str, int], Row], facts: dict[str, Any]
) -> None:
    """Measure all works on a number of GPUs. A work that fails has no times, and a new cluster follows."""
    path = options.output / FILE
    theirs = baselines(options.works, gpus, options.keys_log2) if options.baseline else {}
    waiting = list(options.works)
    while waiting:
        name = ""
        try:
            with started(gpus, options.library, options.protocol, options.host_memory) as client:
                while waiting:
                    name = waiting.pop(0)
                    work = WORKS[name]
                    print(f"{name} begins", flush=True)
                    row = measure(client, name, work, options.keys_log2 or work.log2, options.library, options.commit)
                    keep_baseline(row, theirs.get(name))
                    rows[name, gpus] = row
                    report(row)
                    write(rows, facts, path)
                    name = ""
        except Exception as error:  # go on with the other works
            traceback.print_exc(limit=4)
            if not name:  # the cluster failed, not a work
                break
            details = {"gpus": gpus, "commit": options.commit, "error": f"{type(error).__name__}: {str(error)[:200]}"}
            rows[name, gpus] = Row(slug(name, gpus), name, None, verified=False, details={"phases": {}, **details})
            write(rows, facts, path)


def main() -> int:
    more: dict[str, dict[str, Any]] = {
        "--gpus": {"type": int, "nargs": "*", "default": [2], "help": "numbers of GPUs, one table row each"},
        "--works": {"nargs": "*", "choices": list(WORKS), "default": DEFAULT},
        "--keys-log2": {"type": int, "help": "keys of each GPU, for all works"},
        "--library": {"choices": ("cupy", "numpy"), "default": "cupy"},
        "--protocol": {"choices": ("ucx", "tcp")},
        "--host-memory": {"default": HOST_MEMORY, "help": "of each worker (default: %(default)s)"},
        "--no-baseline": {"dest": "baseline", "action": "store_false", "help": "without PyTorch and NCCL"},
    }
    options = arguments("gpu.multi", __doc__, more=more, quick=False)
    path = options.output / FILE
    before = read(path).rows if path.exists() else []
    rows = {(row.work, row.details["gpus"]): row for row in before if row.work in WORKS and row.ours}
    facts = machine(options.commit)
    for gpus in options.gpus:
        measure_all(options, gpus, rows, facts)
    wrong = [row.name for row in rows.values() if row.ours and not row.verified]
    print("wrong results:" if wrong else "every result verified", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
