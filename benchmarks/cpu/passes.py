"""How often each public function reads its source, and how many tasks it has: counted, not timed.

    python -m benchmarks.cpu.passes [--quick] [--output DIRECTORY]

Writes results/passes.json. The source is 64 chunks of float64 on two workers; its task adds a byte to a file whenever
it runs. Tasks are those of the graph without the source's, before Dask fuses any. They are counted twice: for 20,000
keys a chunk on two workers that hold everything, and for 4 million a chunk on two workers of 2 GiB, where larger arrays
pass through the disk. The reads of the small source are counted, where order statistics may hold it between their
passes and where they may not (`gpusort.held_share`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from dask_gpusort.graph.explain import count_tasks

from ..asv.calls import CALLS, LANE, Call
from ..harness.command import arguments, measure
from ..harness.jobs import two_workers
from ..harness.records import Row

CHUNKS, QUICK_CHUNKS = 64, 4
SMALL, LARGE, QUICK = 20_000, 4_000_000, 100
SMALL_MEMORY, LARGE_MEMORY = "4 GiB", "2 GiB"


def make_keys(path: str, seed: int, block_info: Any = None) -> np.ndarray:
    """Task: a chunk of random keys. The file is as long as chunks have been made."""
    with Path(path).open("ab") as file:
        file.write(b".")
    block = block_info[None]
    keys: np.ndarray = np.random.default_rng([seed, *block["chunk-location"]]).random(block["chunk-shape"])
    return keys


class Sources(NamedTuple):
    """Arrays whose chunks count how often they are made; those in order are equal keys."""

    path: Path
    chunks: int
    size: int

    def _made(self, chunks: Any, seed: int = 0) -> Any:
        meta = np.empty((0,) * len(chunks))
        return da.map_blocks(make_keys, str(self.path), seed, chunks=chunks, dtype=float, meta=meta)

    def keys(self, number: int = 0) -> Any:
        return self._made(((self.size,) * self.chunks,), number)

    def rows(self, parts: int) -> Any:
        return self._made(((parts * self.size // LANE,) * (self.chunks // parts), (LANE // parts,) * parts))

    def in_order(self, number: int = 0) -> Any:
        return self.keys(number) * 0

    def positions(self) -> Any:
        return (self.keys(1) * self.size * self.chunks).astype(np.int64)

    def reads(self) -> int:
        """How many chunks have been made since the last call."""
        made = self.path.stat().st_size if self.path.exists() else 0
        self.path.unlink(missing_ok=True)
        return made

    def called(self, call: Call) -> tuple[list[Any], list[Any], int]:
        """The arrays that a call gives, its inputs, and their chunks."""
        inputs = list(call[1](self))
        found = call[0](*inputs)
        return list(found) if isinstance(found, tuple) else [found], inputs, sum(x.npartitions for x in inputs)


def count_reads(call: Call, sources: Sources, held: bool) -> float:
    """Reads of each chunk of the source by one call."""
    with dask.config.set({} if held else {"gpusort.held_share": 0.0}):
        found, _, chunks = sources.called(call)
        sources.reads()
        dask.compute(*found)
    return sources.reads() / chunks


def tasks_a_chunk(call: Call, sources: Sources) -> float:
    """Tasks of one call for each chunk of its inputs."""
    found, inputs, chunks = sources.called(call)
    return count_tasks(found, inputs) / chunks


def count(quick: bool) -> Iterator[Row]:
    """A row for each call."""
    chunks, small, large = (QUICK_CHUNKS, QUICK, QUICK) if quick else (CHUNKS, SMALL, LARGE)
    counted: dict[str, dict[str, float]] = {}
    with TemporaryDirectory() as folder:
        sources = Sources(Path(folder) / "reads", chunks, small)
        with two_workers(memory=SMALL_MEMORY):
            for work, call in CALLS.items():
                counted[work] = {
                    "reads": count_reads(call, sources, held=True),
                    "reads, not held": count_reads(call, sources, held=False),
                    "tasks a chunk, held": tasks_a_chunk(call, sources),
                }
        with two_workers(memory=LARGE_MEMORY):
            for work, call in CALLS.items():
                counted[work]["tasks a chunk, disk"] = tasks_a_chunk(call, sources._replace(size=large))
    for work, details in counted.items():
        yield Row(work, work, details["reads"], "reads", details=details)


if __name__ == "__main__":
    options = arguments("cpu.passes", __doc__)
    measure(options, "passes", {"all": count}, options.effort.quick)
