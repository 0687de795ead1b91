"""The input of a work, made and held by the workers, and the check that a result is the input in order."""

from __future__ import annotations

import itertools
import time
from typing import Any

import dask.array as da
import distributed
import numpy as np

import dask_gpusort

from .works import PATIENCE, Work

#: Keys made or checked at a time, so that neither takes much memory compared with the keys.
PIECE = 1 << 26
GOLDEN = 0x9E3779B97F4A7C15


def make_chunk(work: Work, start: int, stop: int, total: int, library: str) -> Any:
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
    chunk = block_id[0]
    return make_chunk(work, starts[chunk], starts[chunk + 1], starts[-1], library)


def facts_of_block(work: Work, starts: range, library: str, chunk: int) -> dict[str, Any]:
    """Task: facts of an input chunk that was not kept, made again."""
    return chunk_facts(make_block(work, starts, library, (chunk,)), None)


def make_piece(work: Work, module: Any, rng: Any, first: int, last: int, total: int) -> Any:
    """Some keys of a distribution, cast from 64 bits."""
    size = last - first
    if work.keys == "equal":
        return module.full(size, 7, work.dtype)
    if work.keys == "sorted":
        return (module.arange(first, last, dtype="f8") * (2.0**31 / total)).astype(work.dtype)
    uniform = rng.random(size, dtype="f8")
    if work.keys == "zipf":
        # Ranks of a Pareto law of exponent 1.2: Zipf's apart from rounding.
        return module.minimum(uniform ** (-1 / 0.2), 2.0**31).astype(work.dtype)
    return (uniform * 2.0 ** min(53, 8 * np.dtype(work.dtype).itemsize)).astype(work.dtype)


def chunk_facts(keys: Any, values: Any | None) -> dict[str, Any]:
    """Task: order, checksum, size and ends of one chunk. Uses nothing of the package."""
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
            # Unplaced chunks go to the workers in turn, as Dask places them.
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
        if self.work.want == "pairs":
            return dask_gpusort.sort_by_key(self.keys, self.values)
        one = dask_gpusort.argsort if self.work.want == "positions" else dask_gpusort.sort
        return (one(self.keys),)

    def facts(self, keys: Any, values: Any | None) -> list[dict[str, Any]]:
        """Facts of every chunk, found on its worker."""
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
    """Task: number the keys of a chunk, so that stability can be checked."""
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
