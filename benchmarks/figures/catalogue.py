"""The figures: what each shows, its data, and the command that measures them. Imports matplotlib only to draw."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
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
    """A figure.

    Attributes
    ----------
    shows : str
    data : str
        File in the directory of results.
    parts : tuple of str
        Figures of points that it shows; it is drawn only if all are stored.
    command : str
        Arguments of ``python -m`` that measure its data.
    draw : str
        Module and function that draw it.
    load : callable
        Reads the file as a record of points.
    """

    shows: str
    data: str
    parts: tuple[str, ...]
    command: str
    draw: str
    load: Callable[[Path], Record] = read

    def record(self, results: Path) -> Record | None:
        """Its data, None if they are not stored."""
        path = results / self.data
        record = self.load(path) if path.exists() else None
        return record if record and all(record.lines(part) for part in self.parts) else None

    def digest(self, results: Path) -> str:
        """Digest of its data and of the code that draws it."""
        code = sorted(Path(__file__).parent.glob("*.py"))
        content = [path.read_bytes() for path in (results / self.data, *code)]
        return hashlib.sha256(b"\0".join(content)).hexdigest()

    def save(self, results: Path, path: Path) -> None:
        """Draw the figure."""
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


SCALING, COST, ALGORITHMS = "scaling_cpu.json", "cost_cpu.json", "algorithms_gpu.json"
MEASURE_SCALING, MEASURE_ALGORITHMS = "benchmarks.cpu.scaling", "benchmarks.gpu.algorithms"
FIGURES = {
    "baselines": Figure(
        "keys a second against n, for every library one could use instead",
        "baselines_cpu.json",
        ("baselines",),
        "benchmarks.baselines",
        "cpu.draw_baselines",
    ),
    "threads": Figure(
        "times faster than NumPy on one thread (figures 12 and 13 of Satish et al.)",
        SCALING,
        ("threads sort", "threads argsort"),
        f"{MEASURE_SCALING} threads",
        "cpu.draw_threads",
    ),
    "phases": Figure(
        "where the time goes (figure 9)",
        SCALING,
        ("phases radix", "phases merge"),
        f"{MEASURE_SCALING} phases",
        "cpu.draw_phases",
    ),
    "chunks": Figure(
        "tasks, seconds to build and to run, for 4 to 10,000 chunks",
        SCALING,
        ("chunks tasks", "chunks build", "chunks wall"),
        f"{MEASURE_SCALING} chunks",
        "cpu.draw_chunks",
    ),
    "entropy": Figure(
        "keys of low entropy: random words and-ed together",
        SCALING,
        ("entropy u4", "entropy u8"),
        f"{MEASURE_SCALING} entropy",
        "cpu.draw_entropy",
    ),
    "network": Figure(
        "Batcher's network of the whole array against sorts of less work",
        SCALING,
        ("network",),
        f"{MEASURE_SCALING} network",
        "cpu.draw_network",
    ),
    "cost": Figure(
        "the prediction of the cost model against measurements",
        COST,
        ("cost threads", "cost two workers"),
        "benchmarks.model.cost",
        "cpu.draw_cost",
    ),
    "gpu_sizes": Figure(
        "keys a second against n on one GPU, and CUB's",
        "gpu_table.json",
        ("sizes uint32", "sizes uint64"),
        "benchmarks.gpu.table",
        "gpu.draw_sizes",
        sizes_of,
    ),
    "gpu_baselines": Figure(
        "keys a second against n on one GPU: our kernels, ours with Dask, CUB, CuPy, PyTorch; NumPy",
        "baselines_gpu.json",
        ("baselines",),
        "benchmarks.baselines",
        "gpu.draw_baselines",
    ),
    "gpu_algorithms": Figure(
        "the same for the algorithms of the papers (figure 8)",
        ALGORITHMS,
        ("algorithms",),
        f"{MEASURE_ALGORITHMS} algorithms",
        "gpu.draw_algorithms",
    ),
    "gpu_entropy": Figure(
        "keys of low entropy on one GPU",
        ALGORITHMS,
        ("entropy uint32", "entropy uint64"),
        f"{MEASURE_ALGORITHMS} entropy",
        "gpu.draw_entropy",
    ),
    "gpu_phases": Figure(
        "where the time goes on one GPU",
        ALGORITHMS,
        ("phases auto", "phases merge", "phases four_step"),
        f"{MEASURE_ALGORITHMS} phases",
        "gpu.draw_phases",
    ),
    "gpu_network": Figure(
        "10^9 keys by the network, by CUB, by us and on one thread of the host",
        ALGORITHMS,
        ("network",),
        f"{MEASURE_ALGORITHMS} network",
        "gpu.draw_network",
    ),
    "gpus": Figure(
        "keys a second against the number of GPUs, and PyTorch's with NCCL (`torch.sort` on one GPU)",
        "multi_gpu.json",
        ("gpus",),
        "benchmarks.gpu.multi --gpus 1 2",
        "gpu.draw_gpus",
        gpus_of,
    ),
}
