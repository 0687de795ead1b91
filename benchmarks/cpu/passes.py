"""How often each public function reads its source, and how many tasks it has: counted, not timed.

    python -m benchmarks.cpu.passes [--quick] [--output DIRECTORY]

Writes results/passes.json. The source is 64 chunks of float64 on two workers; its task adds a byte to a file whenever
it runs. Tasks are those of the graph without the source's, before Dask fuses any. They are counted twice: for 20,000
keys a chunk on two workers that hold everything, and for 4 million a chunk on two workers of 2 GiB, where larger arrays
pass through the disk. The reads of the small source are counted, where order statistics may hold it between their
passes and where they may not (`gpusort.held_share`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

import dask_gpusort
from dask_gpusort.graph.explain import count_tasks

from ..harness.command import arguments, measure
from ..harness.jobs import two_workers
from ..harness.records import Row

CHUNKS = 64
SMALL, LARGE = 20_000, 4_000_000
QUICK_CHUNKS, QUICK_SMALL = 4, 100
SMALL_MEMORY, LARGE_MEMORY = "4 GiB", "2 GiB"
#: Keys of a short lane, and largest keys that are asked for.
LANE, MOST = 64, 10


def make_keys(path: str, seed: int, block_info: Any = None) -> np.ndarray:
    """Task: a chunk of random keys. The file is as long as chunks have been made."""
    with Path(path).open("ab") as file:
        file.write(b".")
    block = block_info[None]
    rng = np.random.default_rng([seed, *block["chunk-location"]])
    keys: np.ndarray = rng.random(block["chunk-shape"])
    return keys


class Sources(NamedTuple):
    """Arrays whose chunks count how often they are made."""

    path: Path
    chunks: int
    keys: int

    def array(self, seed: int = 0) -> Any:
        """An array of one dimension."""
        return self._made(((self.keys,) * self.chunks,), seed)

    def rows(self, in_one: bool) -> Sequence[Any]:
        """A matrix of short rows, each in one chunk, or in four."""
        if in_one:
            return [self._made(((self.keys // LANE,) * self.chunks, (LANE,)), 0)]
        return [self._made(((4 * self.keys // LANE,) * (self.chunks // 4), (LANE // 4,) * 4), 0)]

    def _made(self, chunks: Any, seed: int) -> Any:
        return da.map_blocks(
            make_keys, str(self.path), seed, chunks=chunks, dtype=float, meta=np.empty((0,) * len(chunks))
        )

    def reads(self) -> int:
        """How many chunks have been made since the last call."""
        made = self.path.stat().st_size if self.path.exists() else 0
        self.path.unlink(missing_ok=True)
        return made


#: A function, and what makes its inputs: their tasks are not counted.
Call = tuple[Callable[..., Any], Callable[[Sources], Sequence[Any]]]


def one(sources: Sources) -> Sequence[Any]:
    return [sources.array()]


def two(sources: Sources) -> Sequence[Any]:
    return [sources.array(seed) for seed in range(2)]


def in_order(sources: Sources) -> Sequence[Any]:
    """Keys that are sorted, as all are equal, and other ones."""
    return [sources.array() * 0, sources.array(1)]


def both_in_order(sources: Sources) -> Sequence[Any]:
    return [x * 0 for x in two(sources)]


def with_positions(sources: Sources) -> Sequence[Any]:
    """Keys, and positions among them."""
    x, y = two(sources)
    return [x, (y * y.shape[0]).astype(np.int64)]


FIVE = np.linspace(0, 1, 5)
every = {"return_index": True, "return_inverse": True, "return_counts": True}
median = partial(dask_gpusort.quantile, q=0.5, axis=1)
whole_rows, parts_of_rows = partial(Sources.rows, in_one=True), partial(Sources.rows, in_one=False)
CALLS: dict[str, Call] = {
    "sort": (dask_gpusort.sort, one),
    "argsort": (dask_gpusort.argsort, one),
    "sort_by_key": (dask_gpusort.sort_by_key, two),
    "lexsort": (lambda x, y: dask_gpusort.lexsort([x, y]), two),
    "merge_sorted": (dask_gpusort.merge_sorted, both_in_order),
    "is_sorted": (dask_gpusort.is_sorted, one),
    "quantile/long-lanes": (partial(dask_gpusort.quantile, q=FIVE, strategy="samples"), one),
    "quantile/short-lanes-in-whole-rows": (median, whole_rows),
    "quantile/short-lanes-in-several-chunks": (median, parts_of_rows),
    "topk": (partial(dask_gpusort.topk, k=MOST), one),
    "argtopk": (partial(dask_gpusort.argtopk, k=MOST), one),
    "partition": (partial(dask_gpusort.partition, kth=5), one),
    "argpartition": (partial(dask_gpusort.argpartition, kth=5), one),
    "rank/whole-lanes": (partial(dask_gpusort.rank, axis=1), whole_rows),
    "rank/a-long-lane": (dask_gpusort.rank, one),
    "unique": (dask_gpusort.unique, one),
    "nunique": (dask_gpusort.nunique, one),
    "unique/counts": (partial(dask_gpusort.unique, return_counts=True), one),
    "unique/all": (partial(dask_gpusort.unique, **every), one),
    "union1d": (dask_gpusort.union1d, two),
    "intersect1d": (dask_gpusort.intersect1d, two),
    "searchsorted": (dask_gpusort.searchsorted, in_order),
    "isin": (dask_gpusort.isin, two),
    "take": (dask_gpusort.take, with_positions),
    "put_along_axis": (lambda x, at: dask_gpusort.put_along_axis(x, at, x, 0), with_positions),
}


def as_arrays(found: Any) -> list[Any]:
    """The arrays of a result."""
    return list(found) if isinstance(found, tuple) else [found]


def count_reads(call: Call, sources: Sources, held: bool) -> float:
    """Reads of each chunk of the source by one call."""
    with dask.config.set({} if held else {"gpusort.held_share": 0.0}):
        function, inputs = call[0], call[1](sources)
        found = function(*inputs)
        sources.reads()
        dask.compute(*as_arrays(found))
    return sources.reads() / sum(x.npartitions for x in inputs)


def tasks_a_chunk(call: Call, sources: Sources) -> float:
    """Tasks of one call for each chunk of its inputs."""
    function, inputs = call[0], call[1](sources)
    return count_tasks(as_arrays(function(*inputs)), inputs) / sum(x.npartitions for x in inputs)


def count(quick: bool) -> Iterator[Row]:
    """A row for each call."""
    chunks, small, large = (QUICK_CHUNKS, QUICK_SMALL, QUICK_SMALL) if quick else (CHUNKS, SMALL, LARGE)
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
                counted[work]["tasks a chunk, disk"] = tasks_a_chunk(call, sources._replace(keys=large))
    for work, details in counted.items():
        yield Row(work, work, details["reads"], "reads", details=details)


if __name__ == "__main__":
    options = arguments("cpu.passes", __doc__)
    measure(options, "passes", {"all": count}, options.effort.quick)
