"""Works of the sorts on several GPUs: their input on the workers, and the check of a result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import dask.array as da
import distributed
import numpy as np

import dask_gpusort

from ..harness.verify import Part, checksums, fault_of, summarize

#: Keys made at a time. They take little memory compared with all keys.
PIECE = 1 << 26

REPEATS = 7
#: Seconds after which a run counts as failed; more for large works, which may spill to the host's memory.
PATIENCE = 150
LARGE_PATIENCE = 400


@dataclass(frozen=True)
class Work:
    """One sort to measure: `2**log2` keys for each GPU, their chunks, and the arrays that travel with them."""

    dtype: str
    log2: float
    chunks: int = 1
    keys: str = "uniform"
    want: str = "keys"
    baseline: str | None = None
    placed: bool = True
    kept: bool = True
    repeats: int = REPEATS
    patience: float = PATIENCE


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
    "argsort-28": Work("u4", 28, want="positions"),
    # 75 GB, half of an H200's memory. The tasks that sort the input also make it, so it is not kept.
    "large-u64": Work("u8", 33.13, chunks=64, repeats=1, kept=False, patience=LARGE_PATIENCE),
}


def make_block(work: Work, starts: range, library: str, block_id: Any = None) -> Any:
    """Task: the keys of a chunk, made piece by piece."""
    module, start, stop = __import__(library), starts[block_id[0]], starts[block_id[0] + 1]
    out, rng = module.empty(stop - start, work.dtype), module.random.default_rng(start + 1)
    for first in range(start, stop, PIECE):
        last = min(first + PIECE, stop)
        out[first - start : last - start] = make_piece(work, module, rng, first, last, starts[-1])
    if library == "cupy":
        module.cuda.get_current_stream().synchronize()
    return out


def summarize_block(work: Work, starts: range, library: str, chunk: int) -> Part:
    """Task: make an input chunk again that was not kept, and summarize it."""
    return summarize_chunk(make_block(work, starts, library, (chunk,)))


def make_piece(work: Work, module: Any, rng: Any, first: int, last: int, total: int) -> Any:
    """A piece of the keys of a distribution, cast from 64 bits."""
    size = last - first
    if work.keys == "equal":
        return module.full(size, 7, work.dtype)
    if work.keys == "sorted":
        return (module.arange(first, last, dtype="f8") * (2.0**31 / total)).astype(work.dtype)
    uniform = rng.random(size, dtype="f8")
    if work.keys == "zipf":
        # A Pareto distribution with exponent 1.2, rounded to integers, is close to a Zipf distribution.
        return module.minimum(uniform ** (-1 / 0.2), 2.0**31).astype(work.dtype)
    return (uniform * 2.0 ** min(53, 8 * np.dtype(work.dtype).itemsize)).astype(work.dtype)


def summarize_chunk(keys: Any, values: Any = None) -> Part:
    """Task: summarize keys that are not negative, or keys of 32 bits with the positions that are their values."""
    # Words of keys and positions are distinct, so those of a stable sort ascend.
    return summarize(keys if values is None else keys.astype("u8") << np.uint64(32) | values)


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
        made, meta = (work, self.starts, library), __import__(library).empty(0, work.dtype)
        if not work.kept:
            self.keys = da.map_blocks(make_block, *made, chunks=((size,) * self.chunks,), dtype=work.dtype, meta=meta)
            return
        name, futures = f"input-{time.perf_counter_ns()}", {}
        for chunk in range(self.chunks):
            # Unplaced chunks go to the workers in turn, as Dask places them.
            at = addresses[chunk // work.chunks if work.placed else chunk % len(addresses)]
            futures[name, chunk] = client.submit(make_block, *made, (chunk,), key=(name, chunk), workers=[at])
        distributed.wait(list(futures.values()), timeout=PATIENCE)
        self.keys = da.Array(futures, name, ((size,) * self.chunks,), meta=meta)
        if work.want == "pairs":
            meta = __import__(library).empty(0, "u4")
            self.values = self.keys.map_blocks(number_keys, library, dtype="u4", meta=meta).persist()
            distributed.wait(self.values, timeout=PATIENCE)

    def sort(self) -> tuple[Any, ...]:
        if self.work.want == "pairs":
            return dask_gpusort.sort_by_key(self.keys, self.values)
        one = dask_gpusort.argsort if self.work.want == "positions" else dask_gpusort.sort
        return (one(self.keys),)

    def summaries(self, keys: Any, values: Any = None) -> list[Part]:
        """Summaries of all chunks, made on their workers."""
        columns = [chunk_futures(array) for array in (keys, values) if array is not None]
        found = [self.client.submit(summarize_chunk, *chunk, pure=False) for chunk in zip(*columns, strict=True)]
        return self.client.gather(found)

    def check(self, found: tuple[Any, ...]) -> bool:
        """Whether a result holds the input in order, cut into chunks of the right sizes."""
        if self.work.want == "positions":
            return self.check_positions(found[0])
        if self.work.kept:
            before = self.summaries(self.keys, self.values)
        else:
            made = self.work, self.starts, self.library
            again = [self.client.submit(summarize_block, *made, chunk, pure=False) for chunk in range(self.chunks)]
            before = self.client.gather(again)
        after = self.summaries(*found)
        same_sizes = [part.keys for part in before] == [part.keys for part in after]
        return same_sizes and not fault_of(after, checksums(before))

    def check_positions(self, positions: Any) -> bool:
        """Whether positions are a permutation, by their number, their sum and that of their squares."""
        n = self.total
        wanted = n, n * (n - 1) // 2 % (1 << 64), (n - 1) * n * (2 * n - 1) // 6 % (1 << 64)
        return checksums(self.summaries(positions)) == wanted


def number_keys(block: Any, library: str, block_id: Any = None) -> Any:
    """Task: number the keys of a chunk, so that stability can be checked."""
    module = __import__(library)
    start = block_id[0] * len(block)
    return (module.arange(len(block), dtype="u8") + np.uint64(start)).astype("u4")


def chunk_futures(array: Any) -> list[Any]:
    """Futures, in order, of the chunks of an array that the workers hold."""
    known = {future.key: future for future in distributed.futures_of(array)}
    return [known[array.name, chunk] for chunk in range(array.numblocks[0])]
