"""Measures sorts on several GPUs of one host, against PyTorch with NCCL in the same run.

    python -m benchmarks.gpu.multi [--gpus 2 4] [--works u32-28 u32-30 ...] [--no-baseline] [--output DIRECTORY]

Writes results/multi_gpu.json. Rows that a call does not measure keep the results and the commit of an earlier call, so
several calls can make one table. A work that fails is stored as failed, and the workers start again.

Times are wall times from the call of `persist` to the last finished chunk, medians of 7 after two warm-ups. The phases
come from the task stream of one more run: for each phase, the compute and transfer seconds of the busiest worker. The
scheduler takes the rest of the wall time. Every result is verified.

``--library numpy --keys-log2 14 --output DIRECTORY`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed

import dask_gpusort
from dask_gpusort.gpu_cluster import install_plugins

from ...harness.command import arguments
from ...harness.machine import ROOT, describe_machine
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


@contextlib.contextmanager
def started(options: Any, gpus: int) -> Iterator[Any]:
    if numpy := options.library == "numpy":
        cluster = distributed.LocalCluster(
            n_workers=gpus, threads_per_worker=1, processes=False, dashboard_address=":0"
        )
        install_plugins(cluster)
    else:
        kinds = {"protocol": options.protocol, "memory_limit": options.host_memory}
        cluster = dask_gpusort.cluster(gpus, dashboard_address=":0", **kinds)
    # NumPy chunks try the same graph as CuPy chunks that are kept.
    forced = dask.config.set({"gpusort.exchange": "gang" if numpy else "auto"})
    with forced, cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(gpus, timeout=PATIENCE)
        seconds = dask_gpusort.warm_up(client, dtypes=("u4",) if numpy else ("u4", "u8"))
        protocol = cluster.scheduler_address.split(":")[0]
        print(f"{gpus} workers over {protocol}, warmed up in {seconds:.1f} s", flush=True)
        yield client


def baselines(options: Any, gpus: int) -> dict[str, float]:
    """Milliseconds of PyTorch and NCCL for several works, in separate processes, up to the first work that fails."""
    asked = {name: WORKS[name] for name in options.works if WORKS[name].baseline and options.baseline}
    if not asked:
        return {}
    sizes = [[work.baseline, options.keys_log2 or work.log2, work.want == "pairs"] for work in asked.values()]
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "baseline.json"
        command = [sys.executable, str(SCRIPT), json.dumps(sizes), "--gpus", str(gpus), "--out", str(out)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=BASELINE_PATIENCE, check=False)
        rows = json.loads(out.read_text()) if out.exists() else []
    return {name: 1e3 * row["seconds"] for name, row in zip(asked, rows, strict=False)}


def measured(client: Any, name: str, options: Any, gpus: int, baseline: float | None) -> Row:
    """A row for a work; it has no times if the work fails."""
    work = WORKS[name]
    try:
        row = measure(client, name, work, options.keys_log2 or work.log2, options.library, options.commit)
    except Exception as error:  # go on with the other works
        traceback.print_exc(limit=4)
        client.restart()
        details = {"GPUs": gpus, "commit": options.commit, "error": f"{type(error).__name__}: {str(error)[:200]}"}
        return Row(slug(name, gpus), name, None, verified=False, details=details)
    row.baselines = {BASELINE: baseline} if baseline else {}
    return row


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
    rows = {row.name: row for row in before if row.work in WORKS and row.ours}
    machine = describe_machine(*PACKAGES, commit=options.commit)
    for gpus in options.gpus:
        theirs = baselines(options, gpus)
        with started(options, gpus) as client:
            for name in options.works:
                row = measured(client, name, options, gpus, theirs.get(name))
                rows[row.name] = row
                print(row, flush=True)
                ordered = sorted(rows.values(), key=lambda row: (list(WORKS).index(row.work), row.details["GPUs"]))
                Record(machine, {"repeats": REPEATS}, rows=ordered).write(path)
    wrong = [row.name for row in rows.values() if row.ours and not row.verified]
    print("wrong results:" if wrong else "every result verified", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
