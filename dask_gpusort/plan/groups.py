"""How the output is divided into groups, and for GPUs the input into bundles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from ..plan import counting
from .terms import Exchange, Size, Workers

#: One group's keys on threads: large enough for a vectorised sort, small enough to stay near the cache.
THREADS_GROUP_BYTES = 8 << 20
#: One group's keys on a GPU: small arrays do not fill the device, and every task costs launches.
DEVICE_GROUP_BYTES = 1 << 30
#: Below this a group costs more in shards than it saves in memory.
SMALLEST_GROUP_BYTES = 4 << 20
#: More groups than this only add slices; memory alone is a reason for more.
MOST_GROUPS = 128
#: Groups a thread, so that no thread waits long for the last group. 16, 32 and 64 groups on two threads of a cluster
#: take the same time for 1,024 chunks, 128 take half as long again.
GROUPS_PER_THREAD = 8
#: Of a worker's memory, what one group's keys and values may take. While a group is finished, it is held up to three
#: times (shards as read, joined, output chunks), by each thread of the worker, beside the shuffle's buffers.
GROUP_MEMORY_FRACTION = 1 / 10
#: A GPU's keys above this are exchanged in two groups: the first is finished while the second arrives, and less memory
#: is held twice. Below it the tasks cost more than is gained.
DEVICE_SHARE_BYTES = 1 << 30
#: Of a GPU's memory, what one group may take: it is held four times while it is finished (slabs, joined, sorted and the
#: sort's scratch), beside slabs that wait and groups that are done.
DEVICE_GROUP_FRACTION = 1 / 16
#: Of a GPU's memory, what the chunks may take that one task sorts. Larger ones hide the cost of a task.
DEVICE_BUNDLE_FRACTION = 1 / 32
#: The same where the GPU's memory is not known.
DEVICE_BUNDLE_BYTES = 4 << 30
#: Of a GPU's memory, its share of the keys above which sorted chunks and finished groups are not held together: beside
#: an input that is kept, three shares would be more than results may take before they are spilled.
LEAST_APART_FRACTION = 1 / 5
#: Above this they have to be: what cut chunks leave free are fragments, too small for a finished group, so that two
#: shares and the last group must fit the pool. Counted with a best fit, 60 GB of 151 did, 65 did not.
MOST_APART_FRACTION = 3 / 8
#: Keys that are sorted as one run: with positions the kernels sort fewer than 2**32.
MOST_RUN_KEYS = 1 << 31


def count_groups(exchange: Exchange, total_bytes: float, num_chunks: int, workers: Workers) -> int:
    """How many groups the keys are exchanged between."""
    if exchange == "device":
        share = total_bytes / workers.threads
        by_memory = total_bytes / (workers.memory * DEVICE_GROUP_FRACTION) if workers.memory else 1
        return math.ceil(max(workers.threads * (1 if share <= DEVICE_SHARE_BYTES else 2), by_memory))
    if workers.devices:
        return max(1 if exchange == "gather" else workers.threads, math.ceil(total_bytes / DEVICE_GROUP_BYTES))
    if exchange == "gather":
        wanted = total_bytes / THREADS_GROUP_BYTES
        least = GROUPS_PER_THREAD * workers.threads
        # One task lists where all chunks are cut.
        most = min(MOST_GROUPS, counting.TABLE_BYTES // (counting.CUT_BYTES * num_chunks) - 1)
        return int(max(1, min(max(wanted, least), most, total_bytes // SMALLEST_GROUP_BYTES)))
    by_memory = 1.0
    if workers.memory is not None:
        by_memory = total_bytes / (workers.memory * GROUP_MEMORY_FRACTION)
    by_threads = min(GROUPS_PER_THREAD * workers.threads, total_bytes / SMALLEST_GROUP_BYTES)
    return max(1, math.ceil(max(by_memory, min(by_threads, MOST_GROUPS))))


def bundle_chunks(
    sizes: Sequence[Size], row_bytes: int, workers: Workers, places: Sequence[str | None]
) -> tuple[tuple[int, ...], ...]:
    """Input chunks that one task sorts together: those of one worker where that is known, else neighbours.

    Parameters
    ----------
    sizes : sequence of int
        Keys in each input chunk, nan where unknown.
    row_bytes : int
    workers : Workers
    places : sequence of str or None
        The worker that holds each chunk, None where it is not computed yet; empty if nothing is known.

    Returns
    -------
    tuple of tuples of int
        Every chunk once.
    """
    most = workers.memory * DEVICE_BUNDLE_FRACTION if workers.memory else DEVICE_BUNDLE_BYTES
    if any(map(math.isnan, sizes)):
        return tuple((chunk,) for chunk in range(len(sizes)))
    if places and None not in places:
        held: dict[str | None, list[int]] = {}
        for chunk, place in enumerate(places):
            held.setdefault(place, []).append(chunk)
        return tuple(bundle for chunks in held.values() for bundle in _split(chunks, sizes, most / row_bytes))
    total = sum(sizes)
    wanted = max(min(workers.threads, len(sizes)), math.ceil(total * row_bytes / most))
    bundles: dict[int, tuple[int, ...]] = {}
    for chunk, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False)):
        number = int((start + size / 2) * wanted / total) if total else 0
        bundles[number] = (*bundles.get(number, ()), chunk)
    return tuple(bundles.values())


def _split(chunks: Sequence[int], sizes: Sequence[Size], most: float) -> list[tuple[int, ...]]:
    """Consecutive chunks of at most so many keys together, or one that has more."""
    bundles: list[tuple[int, ...]] = []
    held = 0.0
    for chunk in chunks:
        if bundles and held + sizes[chunk] <= most:
            bundles[-1] += (chunk,)
            held += sizes[chunk]
        else:
            bundles.append((chunk,))
            held = sizes[chunk]
    return bundles


def holds_apart(total_bytes: float, workers: Workers) -> bool:
    """Whether all sorted chunks are cut up, and so are free, before the first group is finished on any GPU."""
    if workers.memory is None:
        return False
    share = total_bytes / workers.threads / workers.memory
    return LEAST_APART_FRACTION < share <= MOST_APART_FRACTION


def join_chunks(
    bundles: Sequence[Sequence[int]], sizes: Sequence[Size], alike: bool
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Input chunks that are sorted as one run, which costs a copy and saves sorts, answers and pieces to merge.

    Parameters
    ----------
    bundles : sequence of sequences of int
        Chunks that one task sorts, ascending in each.
    sizes : sequence of int
        Keys in each chunk.
    alike : bool
        Whether nobody can tell equal keys apart, so that any chunks can be joined; else neighbours alone, in which
        equal keys keep their order and positions count on.

    Returns
    -------
    runs : tuple of tuples of int
        Every chunk once; runs in the order of their first chunks.
    sources : tuple of tuples of int
        The runs of each bundle.
    """
    joined = [_stretches(bundle, sizes, alike) for bundle in bundles]
    runs = tuple(sorted(run for bundle in joined for run in bundle))
    number = {run: place for place, run in enumerate(runs)}
    return runs, tuple(tuple(number[run] for run in bundle) for bundle in joined)


def _stretches(bundle: Sequence[int], sizes: Sequence[Size], alike: bool) -> list[tuple[int, ...]]:
    stretches: list[tuple[int, ...]] = []
    held = 0.0
    for chunk in bundle:
        follows = bool(stretches) and (alike or stretches[-1][-1] + 1 == chunk)
        if follows and held + sizes[chunk] <= MOST_RUN_KEYS:
            stretches[-1] += (chunk,)
            held += sizes[chunk]
        else:
            stretches.append((chunk,))
            held = sizes[chunk]
    return stretches


def lay_out_groups(chunks: Sequence[Size], wanted: int) -> tuple[tuple[int, int, int, int], ...]:
    """Groups of about equal size: consecutive output chunks, or equal parts of one that is too large.

    Parameters
    ----------
    chunks : sequence of int
        Output chunk sizes; where any is nan they count as equal.
    wanted : int
        About how many groups.

    Returns
    -------
    tuple of (first output chunk, last + 1, part, parts)
    """
    unknown = any(map(math.isnan, chunks))
    sizes = [1.0] * len(chunks) if unknown else list(map(float, chunks))
    target = max(sum(sizes) / wanted, 1.0)
    groups: list[tuple[int, int, int, int]] = []
    first, held = 0, 0.0
    for number, size in enumerate(sizes):
        parts = 1 if unknown else min(wanted, round(size / target))
        if held and held + size > target * 1.001:
            groups.append((first, number, 0, 1))
            first, held = number, 0.0
        if parts > 1:
            if first < number:
                groups.append((first, number, 0, 1))
            groups += [(number, number + 1, part, parts) for part in range(parts)]
            first, held = number + 1, 0.0
        else:
            held += size
    if first < len(sizes):
        groups.append((first, len(sizes), 0, 1))
    return tuple(groups)
