"""The table of sorts on many GPUs of one host: ours beside PyTorch with NCCL in one run, every result verified.

    python benchmarks/multi_gpu.py [--gpus 2 4] [--works u32-28 u32-30 ...] [--no-baseline] [--out PATH]

Rows that a call does not measure keep what an earlier call has written, so a table can be made in several calls. A
work that fails is written down as failed, and the next one has a fresh cluster. Times are wall times from the call of
`persist` to the last finished chunk, medians of 5 after two that warm up. The phases are read off the task stream of
one more run: for each the compute and transfer seconds of the worker that is busiest in it; the scheduler's part is
what remains of the run's wall time.

``--library numpy --keys-log2 14`` tries the script out on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

import dask_gpusort
from dask_gpusort.gpu_cluster import make_prompt

HERE = Path(__file__).parent
REPEATS = 5
#: Seconds after which a run has failed.
PATIENCE = 150
#: Host memory of a worker.
HOST_MEMORY = "90GB"
#: Seconds in which workers drop a result before the next run begins.
RELEASE = 0.1
#: Keys that are generated or checked at a time, so that neither takes much memory beside the keys.
PIECE = 1 << 26
PHASES = ("sort-local", "sort-count", "sort-scan", "sort-scatter", "sort-merge", "sort", "argsort")
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Work:
    """What is sorted: keys of each GPU, in chunks, and what travels with them."""

    dtype: str
    log2: float
    chunks: int = 1
    keys: str = "uniform"
    want: str = "keys"
    baseline: str | None = None
    placed: bool = True
    kept: bool = True
    repeats: int = REPEATS


WORKS = {
    "u32-28": Work("u4", 28, baseline="int32"),
    "u32-30": Work("u4", 30, baseline="int32"),
    "u64-29": Work("u8", 29, baseline="int64"),
    "pairs-29": Work("u4", 29, want="pairs", baseline="int32"),
    "u32-28-x4": Work("u4", 28, chunks=4),
    "u32-30-x4": Work("u4", 30, chunks=4),
    "u32-28-x4-spread": Work("u4", 28, chunks=4, placed=False),
    "pairs-29-x4": Work("u4", 29, chunks=4, want="pairs"),
    "zipf-28": Work("u4", 28, keys="zipf"),
    "equal-28": Work("u4", 28, keys="equal"),
    "sorted-28": Work("u4", 28, keys="sorted"),
    "zipf-30": Work("u4", 30, keys="zipf"),
    "equal-30": Work("u4", 30, keys="equal"),
    "sorted-30": Work("u4", 30, keys="sorted"),
    "argsort-28": Work("u4", 28, want="positions"),
    "f64-29": Work("f8", 29),
    # 75 GB a GPU, more than half of an H200's memory: the input is made by the tasks that sort it, and not kept.
    "large-u64": Work("u8", 33.13, chunks=8, repeats=1, kept=False),
}
DEFAULT = [name for name in WORKS if name not in ("large-u64", "zipf-30", "equal-30", "sorted-30", "f64-29")]


@dataclass
class Row:
    """One line of the table; times in seconds."""

    work: str
    gpus: int
    keys: int
    data_bytes: int = 0
    peak_bytes: int = 0
    seconds: list[float] = field(default_factory=list)
    baseline: float | None = None
    baseline_steps: dict[str, float] = field(default_factory=dict)
    phases: dict[str, dict[str, float]] = field(default_factory=dict)
    verified: bool = False
    error: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("nan")

    @property
    def peak(self) -> float:
        """Most memory of a GPU beside the input, in shares of the data."""
        return self.peak_bytes * self.gpus / self.data_bytes if self.data_bytes else float("nan")


def make_chunk(work: Work, start: int, stop: int, total: int, library: str) -> Any:
    """Task: keys of one chunk, on the device."""
    module = __import__(library)
    out = module.empty(stop - start, work.dtype)
    rng = module.random.default_rng(start + 1)
    for first in range(start, stop, PIECE):
        last = min(first + PIECE, stop)
        out[first - start : last - start] = make_piece(work, module, rng, first, last, total)
    if library == "cupy":
        module.cuda.get_current_stream().synchronize()
    return out


def make_block(work: Work, starts: range, library: str, block_id: Any = None) -> Any:
    """Task: keys of one chunk that is not kept."""
    chunk = block_id[0]
    return make_chunk(work, starts[chunk], starts[chunk + 1], starts[-1], library)


def facts_of_block(work: Work, starts: range, library: str, chunk: int) -> dict[str, Any]:
    """Task: facts of a chunk that was not kept, made again."""
    return chunk_facts(make_block(work, starts, library, (chunk,)), None)


def make_piece(work: Work, module: Any, rng: Any, first: int, last: int, total: int) -> Any:
    """Some keys of a distribution; every dtype by a cast from 64 bits."""
    size = last - first
    if work.keys == "equal":
        return module.full(size, 7, work.dtype)
    if work.keys == "sorted":
        return (module.arange(first, last, dtype="f8") * (2.0**31 / total)).astype(work.dtype)
    uniform = rng.random(size, dtype="f8")
    if work.keys == "zipf":
        # Ranks of a Pareto law of exponent 1.2, which are Zipf's but for the rounding.
        return module.minimum(uniform ** (-1 / 0.2), 2.0**31).astype(work.dtype)
    return (uniform * 2.0 ** min(53, 8 * np.dtype(work.dtype).itemsize)).astype(work.dtype)


def chunk_facts(keys: Any, values: Any | None) -> dict[str, Any]:
    """Task: what is checked of one chunk. Knows nothing of the package."""
    ordered, checksum = True, 0
    for first in range(0, len(keys), PIECE):
        part = keys[first : first + PIECE + 1]
        rising = part[:-1] <= part[1:]
        own = part[:PIECE]
        mixed = own.astype("f8").view("u8") if own.dtype.kind == "f" else own.astype("u8")
        if values is not None:
            companion = values[first : first + PIECE + 1]
            rising &= (part[:-1] < part[1:]) | (companion[:-1] < companion[1:])
            mixed = mixed * np.uint64(0xD1B54A32D192ED03) + companion[:PIECE].astype("u8")
        ordered = ordered and bool(rising.all())
        mixed = (mixed + np.uint64(1)) * np.uint64(GOLDEN)
        checksum += int(((mixed ^ (mixed >> np.uint64(29))) * np.uint64(GOLDEN)).sum(dtype="u8"))
    ends = [] if not len(keys) else [keys[0].item(), keys[-1].item()]
    if values is not None and len(keys):
        ends = [(ends[0], values[0].item()), (ends[1], values[-1].item())]
    return {"ordered": ordered, "checksum": checksum % (1 << 64), "size": len(keys), "ends": ends}


class Data:
    """Input arrays, computed and held by the workers."""

    def __init__(self, client: Any, work: Work, log2: float, library: str):
        self.client, self.work, self.library = client, work, library
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        self.chunks, size = work.chunks * len(addresses), int(2**log2) // work.chunks
        self.total = size * self.chunks
        self.row_bytes = np.dtype(work.dtype).itemsize + {"keys": 0, "pairs": 4, "positions": 8}[work.want]
        self.starts = range(0, self.total + 1, size)
        self.values = None
        if not work.kept:
            options = {"dtype": work.dtype, "meta": __import__(library).empty(0, work.dtype)}
            self.keys = da.map_blocks(
                make_block, work, self.starts, library, chunks=((size,) * self.chunks,), **options
            )
            return
        meta = __import__(library).empty(0, work.dtype)
        name = f"input-{time.perf_counter_ns()}"
        futures = {}
        for chunk in range(self.chunks):
            # Unplaced chunks go round the workers, as Dask itself places them.
            at = chunk // work.chunks if work.placed else chunk % len(addresses)
            futures[name, chunk] = client.submit(
                make_chunk,
                *(work, self.starts[chunk], self.starts[chunk + 1], self.total, library),
                key=(name, chunk),
                workers=[addresses[at]],
            )
        distributed.wait(list(futures.values()), timeout=PATIENCE)
        self.keys = da.Array(futures, name, ((size,) * self.chunks,), meta=meta)
        if work.want == "pairs":
            meta = __import__(library).empty(0, "u4")
            self.values = self.keys.map_blocks(number_keys, library, dtype="u4", meta=meta).persist()
            distributed.wait(self.values, timeout=PATIENCE)

    def sort(self) -> tuple[Any, ...]:
        """The lazy result."""
        if self.work.want == "pairs":
            return dask_gpusort.sort_by_key(self.keys, self.values)
        one = dask_gpusort.argsort if self.work.want == "positions" else dask_gpusort.sort
        return (one(self.keys),)

    def facts(self, keys: Any, values: Any | None) -> list[dict[str, Any]]:
        """Facts of every chunk, where it lies."""
        columns = chunk_futures(keys), [None] * self.chunks if values is None else chunk_futures(values)
        found = [self.client.submit(chunk_facts, *pair, pure=False) for pair in zip(*columns, strict=True)]
        return self.client.gather(found)

    def check(self, found: tuple[Any, ...]) -> bool:
        """Whether a result is the input in order, cut exactly."""
        if self.work.want == "positions":
            return self.check_positions(found[0])
        if self.work.kept:
            before = self.facts(self.keys, self.values)
        else:
            again = [
                self.client.submit(facts_of_block, self.work, self.starts, self.library, chunk, pure=False)
                for chunk in range(self.chunks)
            ]
            before = self.client.gather(again)
        after = self.facts(found[0], found[1] if len(found) > 1 else None)
        filled = [fact["ends"] for fact in after if fact["ends"]]
        return (
            all(fact["ordered"] for fact in after)
            and all(one[1] <= two[0] for one, two in itertools.pairwise(filled))
            and sum(fact["checksum"] for fact in before) % (1 << 64)
            == sum(fact["checksum"] for fact in after) % (1 << 64)
            and [fact["size"] for fact in before] == [fact["size"] for fact in after]
        )

    def check_positions(self, positions: Any) -> bool:
        """Whether positions are a permutation, by their sum and that of their squares."""
        sums = [self.client.submit(sums_of, future, self.library, pure=False) for future in chunk_futures(positions)]
        one, two = (sum(column) % (1 << 64) for column in zip(*self.client.gather(sums), strict=True))
        n = self.total
        return one == n * (n - 1) // 2 % (1 << 64) and two == (n - 1) * n * (2 * n - 1) // 6 % (1 << 64)


def number_keys(block: Any, library: str, block_id: Any = None) -> Any:
    """Task: number the keys of a chunk, so that stability can be seen."""
    module = __import__(library)
    start = block_id[0] * len(block)
    return (module.arange(len(block), dtype="u8") + np.uint64(start)).astype("u4")


def sums_of(positions: Any, library: str) -> tuple[int, int]:
    """Task: sum of the positions, and of their squares, modulo 2**64."""
    one = two = 0
    for first in range(0, len(positions), PIECE):
        part = positions[first : first + PIECE].astype("u8")
        one, two = one + int(part.sum(dtype="u8")), two + int((part * part).sum(dtype="u8"))
    return one, two


def chunk_futures(array: Any) -> list[Any]:
    """Futures of the chunks of an array that the workers hold, in order."""
    known = {future.key: future for future in distributed.futures_of(array)}
    return [known[array.name, chunk] for chunk in range(array.numblocks[0])]


def begin_counting() -> None:
    """On a worker: count what is allocated from RMM from now on."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        memory.enable_statistics()
        memory.push_statistics()


def counted_peak() -> int:
    """On a worker: most bytes allocated at a time since counting began, beside those before; 0 without RMM."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        counted = memory.pop_statistics()
        return 0 if counted is None else int(counted.peak_bytes)
    return 0


def run_once(data: Data) -> tuple[tuple[Any, ...], float]:
    """One sort: the result, held by the workers, and its seconds."""
    start = time.perf_counter()
    found = tuple(data.client.persist(list(data.sort())))
    distributed.wait(found, timeout=PATIENCE)
    seconds = time.perf_counter() - start
    for future in distributed.futures_of(found):
        if future.status == "error":
            future.result()
    return found, seconds


def phases_of(stream: list[dict[str, Any]], seconds: float) -> dict[str, dict[str, float]]:
    """Tasks of each phase of a task stream, seconds of the worker that is busiest in it, and when it ran."""
    tasks: dict[str, int] = defaultdict(int)
    busy: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for task in stream:
        key = task["key"]
        prefix = key[0] if isinstance(key, tuple) else str(key)
        name = next((phase for phase in PHASES if prefix.startswith(phase)), None)
        if name is None:
            continue
        tasks[name] += 1
        for part in task["startstops"]:
            busy[name, part["action"]][task["worker"]].append((part["start"], part["stop"]))
    moments = [moment for workers in busy.values() for spans in workers.values() for span in spans for moment in span]
    found: dict[str, dict[str, float]] = {}
    for name in (phase for phase in PHASES if phase in tasks):
        compute, transfer = (
            max(map(covered, busy[name, action].values()), default=0.0) for action in ("compute", "transfer")
        )
        mine = [span for action in ("compute", "transfer") for spans in busy[name, action].values() for span in spans]
        start, stop = min(span[0] for span in mine), max(span[1] for span in mine)
        found[name] = {"tasks": tasks[name], "compute": compute, "transfer": transfer}
        found[name] |= {"from": start - min(moments), "to": stop - min(moments)}
    spent = sum(phase["compute"] + phase["transfer"] for phase in found.values())
    scheduler = {"tasks": 0, "compute": max(0.0, seconds - spent), "transfer": 0.0, "from": 0.0, "to": seconds}
    return {**found, "scheduler": scheduler}


def covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that some spans cover together."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def measure(client: Any, name: str, work: Work, log2: float, library: str) -> Row:
    """One row of the table."""
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    data = Data(client, work, log2, library)
    row = Row(name, workers, data.total, data_bytes=data.row_bytes * data.total)
    for number in range(work.repeats + (2 if work.repeats > 1 else 0)):
        client.run(begin_counting)
        found, seconds = run_once(data)
        if number >= 2 or work.repeats == 1:
            row.seconds.append(seconds)
        row.peak_bytes = max(client.run(counted_peak).values())
        if number == 0:
            row.verified = data.check(found)
        del found
        time.sleep(RELEASE)
    if work.repeats > 1:
        with distributed.get_task_stream(client=client) as stream:
            found, seconds = run_once(data)
        row.phases = phases_of(stream.data, seconds)
        del found
    return row


@contextlib.contextmanager
def started(gpus: int, library: str, protocol: str | None) -> Iterator[Any]:
    """A client of a warm cluster."""
    if library == "numpy":
        cluster = distributed.LocalCluster(n_workers=gpus, threads_per_worker=1, dashboard_address=":0")
        make_prompt(cluster)
    else:
        # Some hosts grow their memory as it is used, so what they say at first is too little.
        cluster = dask_gpusort.cluster(gpus, protocol=protocol, dashboard_address=":0", memory_limit=HOST_MEMORY)
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
    out = HERE / "results" / f".baseline-{gpus}.json"
    out.unlink(missing_ok=True)
    sizes = [[work.baseline, log2 or work.log2, work.want == "pairs"] for work in asked.values()]
    command = [sys.executable, str(HERE / "nccl_baseline.py"), json.dumps(sizes), "--gpus", str(gpus)]
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


def measure_all(options: argparse.Namespace, gpus: int, rows: dict[tuple[str, int], Row]) -> None:
    """All works on some GPUs; a work that fails costs its row and a new cluster."""
    peers = baselines(options.works, gpus, options.keys_log2) if options.baseline else {}
    left = list(options.works)
    while left:
        try:
            with started(gpus, options.library, options.protocol) as client:
                while left:
                    name = left.pop(0)
                    work = WORKS[name]
                    row = rows[name, gpus] = Row(name, gpus, 0)
                    row = measure(client, name, work, options.keys_log2 or work.log2, options.library)
                    keep_baseline(row, peers.get(name))
                    rows[name, gpus] = row
                    report_row(row)
                    write_results(rows, options)
        except Exception as error:  # whatever it is, the other works are still to be measured
            traceback.print_exc(limit=4)
            failed = next((row for row in rows.values() if not row.seconds and not row.error), None)
            if failed is None:
                break
            failed.error = f"{type(error).__name__}: {str(error)[:200]}"
            write_results(rows, options)


def keep_baseline(row: Row, peer: dict[str, Any] | None) -> None:
    if peer:
        row.baseline = peer["seconds"]
        row.baseline_steps = {name: peer[name] for name in ("sort", "exchange", "sort_again")}


def report_row(row: Row) -> None:
    beside = f", PyTorch + NCCL {1e3 * row.baseline:.1f} ms" if row.baseline else ""
    runs = " ".join(f"{1e3 * seconds:.0f}" for seconds in row.seconds)
    print(
        f"{row.work:18} {row.gpus} GPUs {1e3 * row.median:8.1f} ms {row.keys / row.median / 1e9:6.1f} Gkeys/s "
        f"({runs}) peak {row.peak:.2f} verified {row.verified}{beside}",
        flush=True,
    )
    for name, phase in row.phases.items():
        print(
            f"    {name:13} {phase['tasks']:4.0f} tasks, compute {1e3 * phase['compute']:7.1f} ms, transfer "
            f"{1e3 * phase['transfer']:7.1f} ms, from {1e3 * phase['from']:6.1f} to {1e3 * phase['to']:6.1f}",
            flush=True,
        )


def machine() -> dict[str, str]:
    """Versions, and the devices if there are any."""
    found = {"Python": platform.python_version(), "NumPy": np.__version__, "distributed": distributed.__version__}
    for name in ("cupy", "torch", "ucxx", "dask_cuda", "rmm"):
        with contextlib.suppress(Exception):
            found[name] = str(__import__(name).__version__)
    with contextlib.suppress(Exception):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        found["GPUs"] = "; ".join(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines())
    return found


def write_results(rows: dict[tuple[str, int], Row], options: argparse.Namespace) -> None:
    """Markdown for people, JSON for programs."""
    out: Path = options.out
    out.parent.mkdir(parents=True, exist_ok=True)
    facts = machine()
    ordered = sorted(rows.values(), key=lambda row: (list(WORKS).index(row.work), row.gpus))
    document = {"machine": facts, "rows": [asdict(row) for row in ordered]}
    out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    lines = ["# Sorts on many GPUs of one host", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += [
        f"Medians of {REPEATS} warm runs, wall time from `persist` to the last chunk. Peak: most device memory "
        "that a GPU had allocated at a time, beside the input, in a GPU's shares of the data.",
        "",
    ]
    columns = ["work", "GPUs", "keys", "ours, ms", "Gkeys/s", "PyTorch + NCCL, ms", "ratio", "peak", "verified"]
    lines += [f"| {' | '.join(columns)} |", "|---|" + "--:|" * (len(columns) - 2) + "---|"]
    for row in ordered:
        if not row.seconds:
            lines.append(f"| {row.work} | {row.gpus} | {row.keys:,} | | | | | | {row.error} |")
            continue
        peer = f"{1e3 * row.baseline:.1f} | {row.baseline / row.median:.2f}" if row.baseline else " | "
        lines.append(
            f"| {row.work} | {row.gpus} | {row.keys:,} | {1e3 * row.median:.1f} | "
            f"{row.keys / row.median / 1e9:.1f} | {peer} | {row.peak:.2f} x | {'yes' if row.verified else '**no**'} |"
        )
    lines += ["", "Phases: tasks, and compute + transfer of the worker that is busiest in it, ms.", ""]
    names = [*PHASES, "scheduler"]
    lines += ["| work | GPUs | " + " | ".join(names) + " |", "|---|--:|" + "--:|" * len(names)]
    for row in ordered:
        cells = [row.phases.get(name) for name in names]
        text = (f"{c['tasks']:.0f}: {1e3 * c['compute']:.1f} + {1e3 * c['transfer']:.1f}" if c else "" for c in cells)
        if row.phases:
            lines.append(f"| {row.work} | {row.gpus} | " + " | ".join(text) + " |")
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


def earlier_rows(out: Path) -> dict[tuple[str, int], Row]:
    """Rows that an earlier call has written."""
    path = out.with_suffix(".json")
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["work"], row["gpus"]): Row(**row) for row in known if row["work"] in WORKS and row["seconds"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, nargs="*", default=[2], help="numbers of GPUs, one table row each")
    parser.add_argument("--works", nargs="*", choices=list(WORKS), default=DEFAULT)
    parser.add_argument("--keys-log2", type=int, help="keys of each GPU, for all works")
    parser.add_argument("--library", choices=("cupy", "numpy"), default="cupy")
    parser.add_argument("--protocol", choices=("ucx", "tcp"))
    parser.add_argument("--no-baseline", dest="baseline", action="store_false", help="without PyTorch and NCCL")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "multi_gpu")
    options = parser.parse_args()
    rows = earlier_rows(options.out)
    for gpus in options.gpus:
        measure_all(options, gpus, rows)
    wrong = [f"{row.work} on {row.gpus}" for row in rows.values() if row.seconds and not row.verified]
    print("wrong results:" if wrong else "every result verified", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
