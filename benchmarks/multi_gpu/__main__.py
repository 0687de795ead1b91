"""The table of sorts on many GPUs of one host: ours beside PyTorch with NCCL in one run, every result verified.

    python -m benchmarks.multi_gpu [--gpus 2 4] [--works u32-28 u32-30 ...] [--no-baseline] [--out PATH]

Rows that a call does not measure keep what an earlier call has written, commit and all, so a table can be made in
several calls. A
work that fails is written down as failed, and the next one has a fresh cluster. Times are wall times from the call of
`persist` to the last finished chunk, medians of 5 after two that warm up. The phases are read off the task stream of
one more run: for each the compute and transfer seconds of the worker that is busiest in it; the scheduler's part is
what remains of the run's wall time. A run that takes long says every few seconds which tasks are done.

``--library numpy --keys-log2 14`` tries the script out on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed

import dask_gpusort
from dask_gpusort.gpu_cluster import install_plugins

from ..points import RESULTS, ROOT, commit_of
from .measure import Row, measure
from .report import earlier_rows, machine, report_row, write_results
from .works import DEFAULT, PATIENCE, WORKS

BASELINE = ROOT / "benchmarks" / "nccl_baseline.py"
#: Host memory of a worker, of which it spills to disk from seven tenths on and stops from eight. Some hosts grow their
#: memory as it is used, so what they say at first is too little.
HOST_MEMORY = "90GB"


@contextlib.contextmanager
def started(gpus: int, library: str, protocol: str | None, host_memory: str) -> Iterator[Any]:
    """A client of a warm cluster."""
    if library == "numpy":
        cluster = distributed.LocalCluster(n_workers=gpus, threads_per_worker=1, dashboard_address=":0")
        install_plugins(cluster)
    else:
        cluster = dask_gpusort.cluster(gpus, protocol=protocol, dashboard_address=":0", memory_limit=host_memory)
    # What CuPy chunks get by themselves.
    forced = dask.config.set({"gpusort.exchange": "device"})
    with forced, cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(gpus, timeout=PATIENCE)
        dtypes = ("u4",) if library == "numpy" else ("u4", "u8")
        print(f"{gpus} workers over {cluster.scheduler_address.split(':')[0]}, warmed up in ", end="", flush=True)
        print(f"{dask_gpusort.warm_up(client, dtypes=dtypes):.1f} s", flush=True)
        yield client


def baselines(works: list[str], gpus: int, log2: int | None) -> dict[str, dict[str, float]]:
    """What PyTorch and NCCL take for some works, in processes of their own; nothing where that fails."""
    asked = {name: WORKS[name] for name in works if WORKS[name].baseline}
    if not asked:
        return {}
    out = RESULTS / f".baseline-{gpus}.json"
    out.unlink(missing_ok=True)
    sizes = [[work.baseline, log2 or work.log2, work.want == "pairs"] for work in asked.values()]
    command = [sys.executable, str(BASELINE), json.dumps(sizes), "--gpus", str(gpus)]
    try:
        done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            print("baseline failed:", done.stderr[-600:], flush=True)
    except subprocess.TimeoutExpired:
        print("baseline took longer than 240 s", flush=True)
    rows = json.loads(out.read_text()) if out.exists() else []
    out.unlink(missing_ok=True)
    # A failure leaves the rows before it.
    return dict(zip(asked, rows, strict=False))


def measure_all(
    options: argparse.Namespace, gpus: int, rows: dict[tuple[str, int], Row], facts: dict[str, Any]
) -> None:
    """All works on some GPUs; a work that fails costs its row and a new cluster."""
    peers = baselines(options.works, gpus, options.keys_log2) if options.baseline else {}
    left = list(options.works)
    while left:
        try:
            with started(gpus, options.library, options.protocol, options.host_memory) as client:
                while left:
                    name = left.pop(0)
                    work = WORKS[name]
                    row = rows[name, gpus] = Row(name, gpus, 0, commit=options.commit)
                    print(f"{name} begins", flush=True)
                    log2 = options.keys_log2 or work.log2
                    row = measure(client, name, work, log2, options.library, options.commit)
                    keep_baseline(row, peers.get(name))
                    rows[name, gpus] = row
                    report_row(row)
                    write_results(rows, options.out, facts)
        except Exception as error:  # whatever it is, the other works are still to be measured
            traceback.print_exc(limit=4)
            failed = next((row for row in rows.values() if not row.seconds and not row.error), None)
            if failed is None:
                break
            failed.error = f"{type(error).__name__}: {str(error)[:200]}"
            write_results(rows, options.out, facts)


def keep_baseline(row: Row, peer: dict[str, Any] | None) -> None:
    if peer:
        row.baseline = peer["seconds"]
        row.baseline_steps = {name: peer[name] for name in ("sort", "exchange", "sort_again")}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multi_gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="*", default=[2], help="numbers of GPUs, one table row each")
    parser.add_argument("--works", nargs="*", choices=list(WORKS), default=DEFAULT)
    parser.add_argument("--keys-log2", type=int, help="keys of each GPU, for all works")
    parser.add_argument("--library", choices=("cupy", "numpy"), default="cupy")
    parser.add_argument("--protocol", choices=("ucx", "tcp"))
    parser.add_argument("--host-memory", default=HOST_MEMORY, help="of each worker (default: %(default)s)")
    parser.add_argument("--no-baseline", dest="baseline", action="store_false", help="without PyTorch and NCCL")
    parser.add_argument("--out", type=Path, default=RESULTS / "multi_gpu")
    parser.add_argument("--commit", default=commit_of(ROOT), help="what is measured, where there is no git")
    options = parser.parse_args()
    rows, facts = earlier_rows(options.out), machine(options.commit)
    for gpus in options.gpus:
        measure_all(options, gpus, rows, facts)
    wrong = [f"{row.work} on {row.gpus}" for row in rows.values() if row.seconds and not row.verified]
    print("wrong results:" if wrong else "every result verified", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
