"""The figures: what each shows, its data, and the command that measures them. Imports matplotlib only to draw."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ..harness.jobs import QUIET
from ..harness.records import Point, Record, read

BASELINE = "PyTorch + NCCL"


def sizes_of(path: Path) -> Record:
    """The rows of `gpu.table` that show times against n, as points."""
    stored = read(path)
    points = []
    for row in stored.rows:
        dtype, _, size = row.work.partition(" keys, 2^")
        if size and row.ours:
            for series, value in (("ours", row.ours), ("CUB", row.baselines["CUB"])):
                points.append(Point(f"sizes {dtype}", series, row.keys, [value / 1e3]))
    return Record(stored.machine, {}, points)


def dask_arrays_of(path: Path) -> Record:
    """The rows of `gpu.dask_arrays` that are in figures, as points."""
    stored = read(path)
    points = []
    for row in stored.rows:
        if row.details and row.ours:
            for series, value in {"ours": row.ours, **row.baselines}.items():
                points.append(Point(row.details["figure"], series, row.details["x"], [value / 1e3]))
    return Record(stored.machine, {}, points)


def gpus_of(path: Path) -> Record:
    """The rows of `gpu.multi` as points: keys a second against the number of GPUs, of works that ran on several."""
    stored = read(path)
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for row in stored.rows:
        if row.ours:
            numbers[row.work].add(row.details["gpus"])
    points = []
    for row in stored.rows:
        if row.ours and len(numbers[row.work]) > 1:
            gpus = row.details["gpus"]
            rates = [row.keys / seconds for seconds in row.samples["ours"]]
            points.append(Point("gpus", row.work, gpus, rates, "keys/s"))
            for name, seconds in row.baselines.items():
                points.append(Point("gpus", f"{name}, {row.work}", gpus, [row.keys / seconds], "keys/s"))
    device = stored.machine.get("GPUs", "no GPU").partition(";")[0]
    return Record({"device": device, **stored.machine}, {}, points)


@dataclass(frozen=True)
class Figure:
    """A figure of a file of results, drawn only if all its `parts`, figures of points, are stored.

    `command` is what ``python -m`` runs to measure the data, `draw` the module and function that draw it.
    `load` reads the file as a record of points.
    """

    shows: str
    data: str
    parts: tuple[str, ...]
    command: str
    draw: str
    load: Callable[[Path], Record] = read

    def record(self, results: Path) -> Record | None:
        path = results / self.data
        record = self.load(path) if path.exists() else None
        return record if record and all(record.lines(part) for part in self.parts) else None

    def digest(self, results: Path) -> str:
        """Digest of its data and of the code that draws it."""
        code = sorted(Path(__file__).parent.glob("*.py"))
        content = [path.read_bytes() for path in (results / self.data, *code)]
        return hashlib.sha256(b"\0".join(content)).hexdigest()

    def save(self, results: Path, path: Path) -> None:
        from .style import save

        record = self.record(results)
        assert record is not None
        module, function = self.draw.split(".")
        figure = getattr(import_module(f".{module}", __package__), function)(record)
        save(figure, path, self.source(record), self.digest(results))

    def source(self, record: Record) -> str:
        """The line below a figure: machine, commit, command, and the load by other programs if it was high."""
        machine = record.machine
        where = machine.get("device") or f"{machine.get('cpu')}, {machine.get('cores')} cores"
        # Sections of one record may come from several commits.
        commit = record.settings.get("commits", {}).get(self.parts[0].split()[0], machine.get("commit", "unknown"))
        text = "" if commit == "unknown" else f" · commit {commit[:10]}"
        shares = [point.others for point in record.points if point.figure in self.parts and point.others is not None]
        if shares and max(shares) > QUIET:
            text += f" · others used up to {100 * max(shares):.0f} % of the CPU"
        return f"{where}{text} · python -m {self.command}"


#: Name, data, parts (joined by a plus), command, what it shows.
CATALOGUE = """
baselines | baselines_cpu | baselines | baselines | \
    keys a second against n, for every library one could use instead
threads | scaling_cpu | threads sort+threads argsort | cpu.scaling threads | \
    times faster than NumPy on one thread (figures 12 and 13 of Satish et al.)
cores | cores_cpu | \
    threads sort int64+threads stable argsort int64+threads sort S20+threads lexsort two keys | cpu.cores | \
    times faster than NumPy on one thread against the number of threads, and Polars
phases | scaling_cpu | phases radix+phases merge | cpu.scaling phases | where the time goes (figure 9)
chunks | scaling_cpu | chunks tasks+chunks build+chunks wall | cpu.scaling chunks | \
    tasks, seconds to build and to run, for 4 to 10,000 chunks
entropy | scaling_cpu | entropy u4+entropy u8 | cpu.scaling entropy | \
    keys of low entropy: random words and-ed together
network | scaling_cpu | network | cpu.scaling network | \
    Batcher's network of the whole array against sorts of less work
soak | soak | soak memory+soak objects | cpu.soak | \
    memory and Python objects of client, scheduler and workers against time
cost | cost_cpu | cost threads+cost two workers | model.cost | \
    the prediction of the cost model against measurements
gpu_sizes | gpu_table | sizes uint32+sizes uint64 | gpu.table | keys a second against n on one GPU, and CUB's
gpu_dask_chunks | gpu_dask_arrays | chunks uint32+chunks int64 | gpu.dask_arrays chunks | \
    milliseconds against the number of CuPy chunks on one GPU, with Dask's no-op, our kernel and CuPy
gpu_dask_sizes | gpu_dask_arrays | sizes uint32+sizes int64 | gpu.dask_arrays sizes | \
    keys a second against n in 16 CuPy chunks on one GPU, and the same lines
gpu_baselines | baselines_gpu | baselines | baselines | \
    keys a second against n on one GPU: our kernels, ours with Dask, CUB, CuPy, PyTorch; NumPy
gpu_algorithms | algorithms_gpu | algorithms | gpu.algorithms algorithms | \
    the same for the algorithms of the papers (figure 8)
gpu_entropy | algorithms_gpu | entropy uint32+entropy uint64 | gpu.algorithms entropy | \
    keys of low entropy on one GPU
gpu_phases | algorithms_gpu | phases auto+phases merge+phases four_step | gpu.algorithms phases | \
    where the time goes on one GPU
gpu_network | algorithms_gpu | network | gpu.algorithms network | \
    10^9 keys by the network, by CUB, by us and on one thread of the host
gpus | multi_gpu | gpus | gpu.multi --gpus 1 2 | \
    keys a second against the number of GPUs, and PyTorch's with NCCL (`torch.sort` on one GPU)
"""


def catalogue() -> Iterator[tuple[str, Figure]]:
    for line in CATALOGUE.strip().splitlines():
        name, data, parts, command, shows = map(str.strip, line.split("|"))
        load = {"gpu_table": sizes_of, "gpu_dask_arrays": dask_arrays_of, "multi_gpu": gpus_of}.get(data, read)
        yield (
            name,
            Figure(shows, f"{data}.json", tuple(parts.split("+")), f"benchmarks.{command}", f"draw.draw_{name}", load),
        )


FIGURES = dict(catalogue())
