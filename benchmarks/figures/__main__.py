"""Draw the figures from stored results.

    python -m benchmarks.figures [names] [--measure] [--results DIRECTORY] [--output DIRECTORY]

A figure without its data is not drawn: the command that measures it is told instead. ``--measure`` runs those commands
first, where this machine can.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from ..measured import QUIET
from ..points import RESULTS, ROOT, Record, read
from . import cpu, gpu
from .style import save


@dataclass(frozen=True)
class Figure:
    """What a figure is drawn from, and how.

    Attributes
    ----------
    data : str
        File in the directory of results.
    parts : tuple of str
        Figures of points that it shows; it is drawn where all of them are there.
    command : str
        What measures its data.
    draw : callable
    load : callable
        Makes a record of the file.
    out : bool
        Whether the command is told the file, less its suffix, by ``--out``; others get the directory by ``--output``.
    """

    data: str
    parts: tuple[str, ...]
    command: str
    draw: Callable[[Record], Drawing]
    load: Callable[[Path], Record] = read
    out: bool = False

    def measure(self, results: Path) -> None:
        """Run its command, which keeps its data in a directory."""
        place = ["--out", str((results / self.data).with_suffix(""))] if self.out else ["--output", str(results)]
        subprocess.run([sys.executable, *self.command.split()[1:], *place], cwd=ROOT, check=True)

    def record(self, results: Path) -> Record | None:
        """Its data, None if they were not measured yet."""
        path = results / self.data
        if not path.exists():
            return None
        record = self.load(path)
        return record if all(record.lines(part) for part in self.parts) else None


PEERS, SCALING = "python -m benchmarks.peers", "python -m benchmarks.scaling"
GPU, TABLE = "python benchmarks/gpu_figures.py", "python benchmarks/gpu_table.py"
GPUS = "python -m benchmarks.multi_gpu --gpus 1 2"
GPU_FILE = "figures_gpu.json"
FIGURES = {
    "peers": Figure("peers_cpu.json", ("peers",), PEERS, cpu.draw_peers),
    "threads": Figure("scaling_cpu.json", ("threads sort", "threads argsort"), f"{SCALING} threads", cpu.draw_threads),
    "phases": Figure("scaling_cpu.json", ("phases radix", "phases merge"), f"{SCALING} phases", cpu.draw_phases),
    "chunks": Figure(
        "scaling_cpu.json", ("chunks tasks", "chunks build", "chunks wall"), f"{SCALING} chunks", cpu.draw_chunks
    ),
    "entropy": Figure("scaling_cpu.json", ("entropy u4", "entropy u8"), f"{SCALING} entropy", cpu.draw_entropy),
    "network": Figure("scaling_cpu.json", ("network",), f"{SCALING} network", cpu.draw_network),
    "cost": Figure("cost_cpu.json", ("cost threads", "cost two workers"), "python -m benchmarks.cost", cpu.draw_cost),
    "gpu_sizes": Figure(
        "gpu_table.json", ("sizes uint32", "sizes uint64"), TABLE, gpu.draw_sizes, gpu.read_table, True
    ),
    "gpu_peers": Figure("peers_gpu.json", ("peers",), PEERS, gpu.draw_peers),
    "gpu_algorithms": Figure(GPU_FILE, ("algorithms",), f"{GPU} --sections algorithms", gpu.draw_algorithms),
    "gpu_entropy": Figure(
        GPU_FILE, ("entropy uint32", "entropy uint64"), f"{GPU} --sections entropy", gpu.draw_entropy
    ),
    "gpu_phases": Figure(
        GPU_FILE, ("phases auto", "phases merge", "phases four_step"), f"{GPU} --sections phases", gpu.draw_phases
    ),
    "gpu_network": Figure(GPU_FILE, ("network",), f"{GPU} --sections network", gpu.draw_network),
    "gpus": Figure("multi_gpu.json", ("gpus",), GPUS, gpu.draw_gpus, gpu.read_gpus, True),
}


def source_of(record: Record, figure: Figure) -> str:
    """What stands below a figure: machine, commit, command, and how much of the machine others took."""
    machine = record.machine
    where = machine.get("device") or f"{machine.get('cpu')}, {machine.get('cores')} cores"
    # Sections of one record may be of several commits.
    commits = record.settings.get("commits", {})
    commit = commits.get(figure.parts[0].split()[0], machine.get("commit", "unknown"))
    told = "" if commit == "unknown" else f" · commit {commit[:10]}"
    shares = [point.others for point in record.points if point.figure in figure.parts and point.others is not None]
    if shares and max(shares) > QUIET:
        told += f" · others used up to {100 * max(shares):.0f} % of the CPU"
    return f"{where}{told} · {figure.command}"


def main() -> None:
    """Draw what can be drawn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(FIGURES)} (default: all)")
    parser.add_argument("--measure", action="store_true", help="measure what is drawn first")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the stored results")
    parser.add_argument("--output", type=Path, help="directory of the figures (default: beside the results)")
    options = parser.parse_args()
    unknown = set(options.names) - FIGURES.keys()
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}: choose from {', '.join(FIGURES)}")
    for name in options.names or FIGURES:
        figure = FIGURES[name]
        if options.measure:
            figure.measure(options.results.resolve())
        record = figure.record(options.results)
        if record is None:
            print(f"{name}: not drawn, nothing is stored of it: measure it by `{figure.command}`")
            continue
        path = (options.output or options.results) / f"{name}.svg"
        save(figure.draw(record), path, source_of(record, figure))
        print(f"{name}: {path}")


if __name__ == "__main__":
    main()
