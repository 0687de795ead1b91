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

    def rows(self, in_one: bool) -> Any:
        """A matrix of short rows, each in one chunk, or in four."""
        if in_one:
            return self._made(((self.keys // LANE,) * self.chunks, (LANE,)), 0)
        return self._made(((4 * self.keys // LANE,) * (self.chunks // 4), (LANE // 4,) * 4), 0)

    def _made(self, chunks: Any, seed: int) -> Any:
        return da.map_blocks(
            make_keys, str(self.path), seed, chunks=chunks, dtype=float, meta=np.empty((0,) * len(chunks))
        )

    def reads(self) -> int:
        """How many chunks have been made since the last call."""
        made = self.path.stat().st_size if self.path.exists() else 0
        self.path.unlink(missing_ok=True)
        return made


#: A call for some sources: the result and its inputs.
Call = Callable[[Sources], tuple[Any, Sequence[Any]]]


def of_one(function: Callable[..., Any], **options: Any) -> Call:
    """A call with one array."""

    def call(sources: Sources) -> tuple[Any, Sequence[Any]]:
        x = sources.array()
        return function(x, **options), [x]

    return call


def of_two(function: Callable[..., Any], *prepared: Callable[[Any], Any]) -> Call:
    """A call with two arrays, each prepared by a function; the tasks of that are not counted."""

    def call(sources: Sources) -> tuple[Any, Sequence[Any]]:
        inputs = [sources.array(seed) for seed in range(2)]
        inputs = [prepare(x) for prepare, x in zip(prepared or (as_it_is, as_it_is), inputs, strict=True)]
        return function(*inputs), inputs

    return call


def as_it_is(x: Any) -> Any:
    return x


def zeros(x: Any) -> Any:
    """Keys that are sorted, as all are equal."""
    return x * 0


def positions(x: Any) -> Any:
    """Positions in an array as long as this one."""
    return (x * x.shape[0]).astype(np.int64)


def of_rows(function: Callable[..., Any], in_one: bool) -> Call:
    """A call with a matrix, along its rows."""

    def call(sources: Sources) -> tuple[Any, Sequence[Any]]:
        x = sources.rows(in_one)
        return function(x, axis=1), [x]

    return call


def put(where: Any, values: Any) -> Any:
    """The values at positions in themselves."""
    return dask_gpusort.put_along_axis(values, where, values, 0)


FIVE = np.linspace(0, 1, 5)
median = partial(dask_gpusort.quantile, q=0.5)
CALLS: dict[str, Call] = {
    "sort": of_one(dask_gpusort.sort),
    "argsort": of_one(dask_gpusort.argsort),
    "sort_by_key": of_two(dask_gpusort.sort_by_key),
    "lexsort": of_two(lambda x, y: dask_gpusort.lexsort([x, y])),
    "merge_sorted": of_two(dask_gpusort.merge_sorted, zeros, zeros),
    "is_sorted": of_one(dask_gpusort.is_sorted),
    "quantile/long-lanes": of_one(dask_gpusort.quantile, q=FIVE, strategy="samples"),
    "quantile/short-lanes-in-whole-rows": of_rows(median, True),
    "quantile/short-lanes-in-several-chunks": of_rows(median, False),
    "topk": of_one(dask_gpusort.topk, k=MOST),
    "argtopk": of_one(dask_gpusort.argtopk, k=MOST),
    "partition": of_one(dask_gpusort.partition, kth=5),
    "argpartition": of_one(dask_gpusort.argpartition, kth=5),
    "rank/whole-lanes": of_rows(dask_gpusort.rank, True),
    "rank/a-long-lane": of_one(dask_gpusort.rank),
    "unique": of_one(dask_gpusort.unique),
    "nunique": of_one(dask_gpusort.nunique),
    "unique/counts": of_one(dask_gpusort.unique, return_counts=True),
    "unique/all": of_one(dask_gpusort.unique, return_index=True, return_inverse=True, return_counts=True),
    "union1d": of_two(dask_gpusort.union1d),
    "intersect1d": of_two(dask_gpusort.intersect1d),
    "searchsorted": of_two(dask_gpusort.searchsorted, zeros, as_it_is),
    "isin": of_two(dask_gpusort.isin),
    "take": of_two(dask_gpusort.take, as_it_is, positions),
    "put_along_axis": of_two(put, positions, as_it_is),
}


def as_arrays(found: Any) -> list[Any]:
    """The arrays of a result."""
    return list(found) if isinstance(found, tuple) else [found]


def count_reads(call: Call, sources: Sources, held: bool) -> float:
    """Reads of each chunk of the source by one call."""
    with dask.config.set({} if held else {"gpusort.held_share": 0.0}):
        found, inputs = call(sources)
        sources.reads()
        dask.compute(*as_arrays(found))
    return sources.reads() / sum(x.npartitions for x in inputs)


def tasks_a_chunk(call: Call, sources: Sources) -> float:
    """Tasks of one call for each chunk of its inputs."""
    found, inputs = call(sources)
    return count_tasks(as_arrays(found), inputs) / sum(x.npartitions for x in inputs)


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
