"""Stage 1: sort each run, nothing moves. Tasks ``sort-local``, one a run.

A large chunk is a run alone; small neighbours are concatenated (see `plan.division.join_small_chunks`). Presorted
chunks are checked instead, and merged where a run has several. Tasks ``sort-check``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask.typing import Key
from tlz import concat, partition

from ...chunk import complete, ops_for
from ...chunk.run import Run
from ...chunk.steps import draw_keys, summarize_run
from ...order import Order
from ...plan import Plan, Size
from .._dask import List, TaskRef
from ..input_checks import check_key_shapes, checked_chunk, wrong_size
from ..tasks import NOTHING, Tasks, chunk_of


@dataclass(frozen=True)
class LocalSort:
    """Say how a run is made from its chunks."""

    order: Order
    positions: bool  # whether the keys' positions in the run travel with them
    staged: bool = False  # whether NumPy chunks are sorted on a GPU
    #: Dtypes of several arrays of keys, most significant first, which are packed into one; else empty.
    packed: tuple[np.dtype[Any], ...] = ()
    directions: tuple[bool, ...] = ()  # whether each of them descends


@dataclass(frozen=True)
class RunSource:
    """Describe the chunks of one run."""

    chunks: tuple[int, ...]  # their numbers
    sizes: tuple[Size, ...]  # keys in each, nan where unknown
    #: For presorted chunks, the user's array and the chunk's number in it; else empty.
    origins: tuple[tuple[int, int], ...] = ()


def run_sources(plan: Plan, arrays: Sequence[tuple[int, int]] = ()) -> list[RunSource]:
    """The chunks of each run; for presorted chunks with (number, chunks) of the user's arrays."""
    origins = chunk_origins(arrays)
    return [
        RunSource(run, tuple(plan.sizes[chunk] for chunk in run), tuple(origins[chunk] for chunk in run if origins))
        for run in plan.runs
    ]


def chunk_origins(arrays: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The array and the chunk number in it of each chunk, from (number, chunks) of the arrays."""
    return [(number, chunk) for number, chunks in arrays for chunk in range(chunks)]


def checked_block(
    block: Sequence[Any], order: Order, packed: Sequence[np.dtype[Any]], what: str, dims: int = 1
) -> Sequence[Any]:
    """Refuse masked keys and companions, keys whose dtype is not that of their array, and sizes that differ.

    A block has the keys and the companions of one chunk, or several arrays of keys, which are given as they are packed.
    """
    if packed:
        parts = zip(block, packed, strict=True)
        block = [checked_chunk(part, dtype, what, exact=True, ndim=dims) for part, dtype in parts]
        check_key_shapes(block)
        return block
    # The words of a key are one more dimension.
    checked_chunk(block[0], order.dtype.base, what, ndim=dims + bool(order.words))
    for number, value in enumerate(block[1:]):
        checked_chunk(value, None, f"a chunk of values {number}")
    ops_for(block[0]).check_lengths(block[0], block[1:], dims)
    return block


def sort_run(arrays: list[Any], source: RunSource, local: LocalSort, summarize: Callable[..., Any]) -> tuple[Run, Any]:
    """Task: make a sorted run from keys and companions of the first chunk, then of the next one; and its summary."""
    # The size of a chunk alone is checked with the counts.
    run = sorted_run(arrays, source, local)
    summary = summarize(run, local.order)
    complete(run.keys)
    return run, summary


def summarizers(plan: Plan) -> Iterator[Callable[..., Any]]:
    """What summarizes each run, for one round of counting, or draws keys of it for a second one."""
    total = sum(plan.run_sizes)
    for number, size in enumerate(plan.run_sizes):
        if not plan.candidates:
            yield partial(summarize_run, samples=plan.samples, radix_bits=plan.radix_bits)
            continue
        share = 1 / len(plan.runs) if math.isnan(total) else size / max(total, 1)
        yield partial(draw_keys, samples=math.ceil(plan.candidates * share), seed=number)


def run_columns(arrays: Sequence[Any], source: RunSource, local: LocalSort) -> tuple[Any, list[Any]]:
    """The checked keys and companions of a run that is not sorted yet."""
    blocks = checked_blocks(arrays, source, local)
    columns = zip(*blocks, strict=True)
    keys, *values = (one[0] if len(one) == 1 else ops_for(one[0]).concatenate(one) for one in columns)
    return keys, values


def checked_blocks(arrays: Sequence[Any], source: RunSource, local: LocalSort) -> list[Sequence[Any]]:
    """The keys and the companions of each chunk of a run."""
    blocks: list[Sequence[Any]] = list(partition(len(arrays) // len(source.chunks), arrays))
    if not source.origins:
        what = [f"chunk {number} of the input" for number in source.chunks]
        blocks = [checked_block(block, local.order, local.packed, one) for block, one in zip(blocks, what, strict=True)]
    for number, block, size in zip(source.chunks, blocks, source.sizes, strict=True):
        if len(blocks) > 1 and len(block[0]) != size:
            raise wrong_size(f"chunk {number} of the input has {len(block[0])} keys", size)
    return blocks


def sorted_run(arrays: Sequence[Any], source: RunSource, local: LocalSort) -> Run:
    """A sorted run, as `sort_run`; on a device it may still be in progress."""
    if source.origins:
        blocks = checked_blocks(arrays, source, local)
        origins = zip(blocks, source.origins, strict=True)
        runs = [check_presorted(*block, order=local.order, origin=origin) for block, origin in origins]
        run: Run = runs[0] if len(runs) == 1 else ops_for(runs[0].keys).merge(runs, local.order)
        return run
    keys, values = run_columns(arrays, source, local)
    if local.packed:
        keys, values = ops_for(keys).pack([keys, *values], local.directions), []
    run = ops_for(keys, staged=local.staged).local_sort(keys, values, local.order, positions=local.positions)
    return run


def check_presorted(block: Any, *values: Any, order: Order, origin: tuple[int, int]) -> Run:
    """Make a run of a presorted chunk, or refuse one that is not sorted; on a device it may still be in progress."""
    number, chunk = origin
    checked_block((block, *values), order, (), f"chunk {chunk} of array {number}")
    ops = ops_for(block)
    keys = ops.encode(block, order)
    descent = ops.first_descent(keys, order)
    if descent is not None:
        raise ValueError(
            f"chunk {chunk} of array {number} is not sorted: element {descent} comes before element {descent - 1}; "
            "sort the array first, or give the order in which it is sorted"
        )
    return Run(keys, values)


def chunk_arrays(source: RunSource, keys: Sequence[Sequence[Key]], held: Mapping[Key, Any] = NOTHING) -> List:
    """Make the argument `arrays` of `sort_run`: chunks by key, and those in `held` as they are."""
    # A chunk that is part of the task is no key of the graph. Dask orders and culls graphs in time that grows with
    # their keys.
    names = concat(keys[chunk] for chunk in source.chunks)
    return List(*(chunk_of(key, held) for key in names))


def local_sorts(
    tasks: Tasks,
    plan: Plan,
    sources: Sequence[RunSource],
    local: LocalSort,
    keys: Sequence[Sequence[Key]],
    held: Mapping[Key, Any] = NOTHING,
) -> list[TaskRef]:
    """Add the stage from `keys` of shape (num_chunks, arrays); `held` chunks become part of the tasks.

    Each task, ``sort-local``, or ``sort-check`` of presorted chunks, gives a `Run` and its summary.
    """
    stage = "sort-check" if sources[0].origins else "sort-local"
    return [
        tasks.add(stage, number, sort_run, chunk_arrays(source, keys, held), source, local, summarize)
        for number, (source, summarize) in enumerate(zip(sources, summarizers(plan), strict=True))
    ]
