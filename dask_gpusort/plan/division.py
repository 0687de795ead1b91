"""How chunks are divided into runs and bundles, and the output into groups; for a gang (see `graph.gang`) by members.

::

    output chunks    | 0 | 1 |   2   |   3   |     whole chunks for each member, so that it writes each chunk once
    members          |   0   |   1   |   2   |     each finishes one group
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, zip_longest

from tlz import partition_all

from ..chunk.memory import USABLE_FRACTION, step_bytes
from ..order import Order
from . import counting
from .memory import Turns
from .terms import BY_TASKS, Exchange, InputChunks, Runs, Size, Workers, chunks_of_workers

#: Bytes of one group's keys on threads, for each thread: NumPy takes the interpreter's lock for every piece that it
#: copies into a group. Many threads wait for it, so their pieces should be larger. On 16 threads of a Xeon, 2^25 S20 in
#: 64 chunks take 1.41 s with 64 groups and 1.06 with 32, stable argsort of 2^26 int64 0.85 and 0.79.
THREAD_GROUP_BYTES = 4 << 20
#: Bytes of one group's keys on a GPU: smaller arrays do not fill the device, and every task costs kernel launches.
DEVICE_GROUP_BYTES = 1 << 30
#: Smaller groups cost more in shards than they save in memory.
SMALLEST_GROUP_BYTES = 4 << 20
#: More groups only add slices; only memory is a reason for more.
MOST_GROUPS = 128
#: Least bytes of a group that is one output chunk. The task of that chunk finishes the group, which is not cut again.
CHUNK_GROUP_BYTES = 8 << 20
#: Most slices of runs, a read of some 40 us each, that groups of one chunk may take. Other groups wait in the memory of
#: Dask until all of their chunks are stored.
MOST_SLICES = 1 << 20
#: Groups for each thread, so that no thread waits long for the last group. On a cluster with two threads and 1,024
#: chunks, 16, 32 and 64 groups take the same time, 128 groups 1.4 times as long.
GROUPS_PER_THREAD = 4
#: The same on threads, where groups of equal size take equal time.
GROUPS_PER_LOCAL_THREAD = 2
#: Groups that are sorted once, if there are fewer threads, and their least bytes: two of them are in memory beside all
#: keys. Each is divided from others in every chunk: 2^26 int64 in 64 chunks on 16 threads of a Xeon take 0.26 s in 16
#: groups, 0.31 in 32; on 8 threads 0.36 in 8, 0.35 in 16.
GROUPS_SORTED_LAST, SORTED_LAST_BYTES = 8, 1 << 20
#: Share of a worker's memory that one group's keys and values may take. While each thread of the worker finishes a
#: group, it holds the group up to three times: slices as read, concatenated, output chunks.
GROUP_MEMORY_FRACTION = 1 / 10
#: Above this many bytes, a GPU's keys are exchanged in two groups: the first is finished while the second arrives, and
#: less memory is held twice. Below it the tasks cost more than that gains.
DEVICE_SHARE_BYTES = 1 << 30
#: Most bytes, or about as many, of neighbouring chunks that are one run, or whose needles are looked up together. Each
#: run costs tasks, and a piece in each group: 800 chunks of 50,000 int64 take 1.0 s of CPU time as 800 runs, 0.73 in
#: runs of 1 MiB, 0.50 in runs of 8 MiB and more (`argsort` 1.9, 1.9 and 1.0 s). Each piece also waits for the
#: interpreter's lock: on 16 threads, `sort` of 2^24 int64 takes 167 ms in 64 chunks of 2 MiB, 93 ms in 16 of 8 MiB
#: (float64 162 and 85). Larger runs leave the cache: 2^26 float64 take 261 ms in 64 chunks, 305 in 16. On a cluster, to
#: move a MiB takes about as long as a task. 2^24 needles in 2^22 int64, in parts of 0.5 / 1 / 2 / 4 / 8 / 16 MiB, take
#: 3.3 / 2.4 / 1.5 / 1.4 / 1.3 / 1.5 s.
RUN_BYTES = 8 << 20
#: Least runs for each thread of a cluster if chunks are joined: a run fetches chunks of other workers, and Dask waits
#: without an end for one that does not answer.
RUNS_PER_THREAD = 8
#: Chunks of unknown size that one task of the host sorts.
UNKNOWN_BUNDLE_CHUNKS = 16
#: Bytes of the chunks that one task sorts on a GPU whose memory is unknown.
DEVICE_BUNDLE_BYTES = 4 << 30
#: Most keys of one run, so that positions inside a run fit 32 bits. Longer arrays sort with positions too, but part by
#: part, and their positions take 64 bits.
MOST_RUN_KEYS = 1 << 31
#: Most keys of a run where each chunk is one, the empty ones too.
ALONE = -1
#: A GPU's share of the keys, as a fraction of its memory, above which a gang does not fit: with an input that is kept,
#: sorted chunks and finished groups, three shares would exceed the limit above which results are spilled.
MOST_SHARE_FRACTION = 1 / 5
#: Copies of what a gang gathers in each member: as received, and joined.
GATHERED_COPIES = 2
#: Chunks that fit the GPU side by side: one is sorted while the others are copied. The memory copies of one thread take
#: some five times as long as the bus, in each direction.
CHUNKS_IN_FLIGHT = 8
#: Groups that fit the GPU side by side. Chunks are divided into views, but the parts of an output chunk are copied once
#: more, so groups may be larger.
GROUPS_IN_FLIGHT = 4
#: Bytes of a group below which launches, and waits for the sort's counters, take longer than its copies.
LEAST_GROUP_BYTES = 64 << 20


def count_groups(exchange: Exchange, total_bytes: float, num_runs: int, num_chunks: int, workers: Workers) -> int:
    """Count the groups of an exchange; `total_bytes` includes the companions."""
    if exchange in BY_TASKS and workers.devices:
        large = workers.threads > 1 and total_bytes / workers.threads > DEVICE_SHARE_BYTES
        return workers.threads * (2 if large else 1)
    if workers.devices:
        return max(1 if exchange == "gather" else workers.threads, math.ceil(total_bytes / DEVICE_GROUP_BYTES))
    if exchange == "gather":
        wanted = total_bytes / (THREAD_GROUP_BYTES * workers.threads)
        least = groups_of_threads(exchange, workers)
        most = min(MOST_GROUPS, counting.most_groups(num_runs))
        return int(max(1, min(max(wanted, least), most, total_bytes // SMALLEST_GROUP_BYTES)))
    by_memory = 1.0
    if workers.memory is not None:
        by_memory = total_bytes / (workers.memory * GROUP_MEMORY_FRACTION)
    by_threads = min(groups_of_threads(exchange, workers), total_bytes / SMALLEST_GROUP_BYTES)
    by_slices = num_chunks / math.ceil(max(1, num_chunks * num_runs / MOST_SLICES))  # as many chunks for each group
    by_chunks = min(by_slices, total_bytes / CHUNK_GROUP_BYTES) if exchange == "runs" else 0
    return max(1, math.ceil(max(by_memory, min(by_threads, MOST_GROUPS), by_chunks)))


def groups_sorted_last(total_bytes: float, threads: int) -> int:
    """Count the groups of keys that are sorted once: equal parts of all chunks."""
    wanted = max(threads, GROUPS_SORTED_LAST)
    return int(max(1, wanted if math.isnan(total_bytes) else min(wanted, total_bytes // SORTED_LAST_BYTES)))


def groups_of_threads(exchange: Exchange, workers: Workers) -> int:
    """Number of groups of equal size that keeps all threads busy, whatever the amount of keys."""
    if exchange in BY_TASKS:
        return workers.threads
    return (GROUPS_PER_LOCAL_THREAD if exchange == "gather" else GROUPS_PER_THREAD) * workers.threads


def lay_out_groups(chunks: Sequence[Size], wanted: int) -> tuple[tuple[int, int, int, int], ...]:
    """Lay out groups of about equal size: consecutive output chunks, or equal parts of one that is too large."""
    # Each is (first output chunk, last + 1, part, parts); unknown sizes count as equal.
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


def join_small_chunks(given: InputChunks, row_bytes: int, workers: Workers) -> Runs:
    """Join neighbouring chunks of the host into one run: fewer tasks, summaries and pieces."""
    # Each chunk is alone if a size is unknown, and on a device.
    if workers.devices or workers.staging_memory is not None or math.isnan(sum(given.sizes)):
        return tuple(chunk_ranges(range(len(given.sizes)), given.sizes, ALONE))
    return runs_of_threads(given.sizes, max(row_bytes, 1), workers, RUNS_PER_THREAD if workers.processes else 1)


def runs_of_threads(sizes: Sequence[Size], row_bytes: int, workers: Workers, least: int = 1) -> Runs:
    """Neighbouring chunks of the host in equal parts, as many for each thread, and at least so many."""
    share = max(1.0, sum(sizes) * row_bytes / (workers.threads * least))
    share /= math.ceil(share / min(RUN_BYTES, _bundle_bytes(workers)))
    return tuple(even_parts(range(len(sizes)), sizes, share / row_bytes, math.inf))


def bundle_chunks(given: InputChunks, row_bytes: int, workers: Workers, turns: Turns | None = None) -> Runs:
    """Choose input chunks that one task sorts together: those of one worker if known, else neighbours."""
    sizes = given.sizes
    if any(map(math.isnan, sizes)):
        width = 1 if workers.devices else UNKNOWN_BUNDLE_CHUNKS
        return tuple(partition_all(width, range(len(sizes))))
    chunks_of = chunks_of_workers(given)
    most = turns.bundle_keys if turns else _bundle_bytes(workers) / max(row_bytes, 1)
    if chunks_of and workers.devices:
        return tuple(bundle for chunks in chunks_of for bundle in chunk_ranges(chunks, sizes, most))
    share = sum(sizes) / workers.threads
    if workers.devices and share:
        share /= math.ceil(share / most)  # as many bundles for each GPU
    return tuple(
        bundle for chunks in chunks_of or [list(range(len(sizes)))] for bundle in even_parts(chunks, sizes, share, most)
    )


def _bundle_bytes(workers: Workers) -> float:
    """Most bytes of the chunks that one task sorts."""
    if workers.devices:
        return DEVICE_BUNDLE_BYTES
    return workers.memory * GROUP_MEMORY_FRACTION if workers.memory else math.inf


def even_parts(chunks: Sequence[int], sizes: Sequence[Size], share: float, most: float) -> Iterator[tuple[int, ...]]:
    """Chunk ranges of about equal numbers of keys: about `share`, and about `most` at most."""
    own = [sizes[chunk] for chunk in chunks]
    total = sum(own)
    wanted = min(max(1, round(total / share), math.ceil(total / most)), len(chunks)) if total else 1
    parts: dict[int, list[int]] = {}
    for chunk, (start, size) in zip(chunks, zip(accumulate(own, initial=0), own, strict=False), strict=False):
        parts.setdefault(int((start + size / 2) * wanted / total) if total else 0, []).append(chunk)
    return map(tuple, parts.values())


def join_chunks(bundles: Sequence[Sequence[int]], sizes: Sequence[Size], interchangeable: bool) -> tuple[Runs, Runs]:
    """Join chunks of a bundle into runs, and list the runs of each bundle: a copy more, and fewer sorts and pieces."""
    # Interchangeable keys let any chunks be joined; otherwise only neighbours are, so that equal keys keep their order
    # and positions are consecutive. Output chunks of unknown sizes have the sizes of the runs, so each chunk is then
    # alone.
    most = ALONE if math.isnan(sum(sizes)) else MOST_RUN_KEYS
    joined = [chunk_ranges(bundle, sizes, most, interchangeable=interchangeable) for bundle in bundles]
    runs = tuple(sorted(run for bundle in joined for run in bundle))
    number = {run: index for index, run in enumerate(runs)}
    return runs, tuple(tuple(number[run] for run in bundle) for bundle in joined)


def chunk_ranges(
    chunks: Sequence[int], sizes: Sequence[Size], most: float, *, interchangeable: bool = True
) -> list[tuple[int, ...]]:
    """Chunk ranges of at most `most` keys, only of neighbours unless interchangeable; a larger chunk is alone."""
    ranges: list[list[int]] = []
    held = 0.0
    for chunk in chunks:
        follows = bool(ranges) and (interchangeable or ranges[-1][-1] + 1 == chunk)
        if follows and held + sizes[chunk] <= most:
            ranges[-1].append(chunk)
            held += sizes[chunk]
        else:
            ranges.append([chunk])
            held = sizes[chunk]
    return list(map(tuple, ranges))


def gang_bundles(given: InputChunks, workers: Workers) -> Runs:
    """Give each member chunks: those of one worker if all are held by workers, else neighbours in equal parts."""
    if held := chunks_of_workers(given):
        return tuple(map(tuple, held))
    unknown = any(map(math.isnan, given.sizes))
    sizes = [1.0] * len(given.sizes) if unknown else list(given.sizes)
    members = max(1, min(workers.processes or workers.threads, len(sizes)))
    return tuple(even_parts(range(len(sizes)), sizes, sum(sizes) / members, math.inf))


def lay_out_members(chunks: Sequence[Size], members: int) -> tuple[tuple[int, int, int, int], ...]:
    """Groups of a gang, as `lay_out_groups` describes them: one a member, neighbouring chunks of about as many keys."""
    # Unknown sizes count as equal, and some groups are empty if there are fewer chunks than members.
    unknown = any(map(math.isnan, chunks)) or not any(chunks)
    weights = [1.0] * len(chunks) if unknown else chunks
    middles = [end - size / 2 for end, size in zip(accumulate(weights), weights, strict=True)]
    bounds = [bisect_left(middles, sum(weights) * rank / members) for rank in range(members)]
    return tuple((first, last, 0, 1) for first, last in pairwise([*bounds, len(chunks)]))


def fits_gang(order: Order, given: InputChunks, workers: Workers) -> bool:
    """Whether a gang is the best exchange: each chunk is on one of several GPUs, which can hold all keys at once."""
    row_bytes = order.transit_dtype.itemsize + given.companion_bytes
    return fits_members(given, workers, sum(given.sizes) * row_bytes / max(len(chunks_of_workers(given)), 1))


def fits_members(given: InputChunks, workers: Workers, share: float) -> bool:
    """Whether each chunk is on one of several GPUs, each of which has memory for a share of so many bytes."""
    if not workers.devices or len(chunks_of_workers(given)) < 2:
        return False
    return not share > (workers.memory or math.inf) * MOST_SHARE_FRACTION


def gang_of_gather(given: InputChunks, gathered: int, workers: Workers, asked: str) -> Runs:
    """The chunks of each member of a gang that gathers the first chunks in all members; empty if other tasks should.

    The sizes are bytes, of the `gathered` chunks, and then of those that read from them and of what they read.
    """
    if asked not in ("auto", "gang") or gathered < 2 or math.isnan(sum(given.sizes)):
        return ()
    held, sources = bool(chunks_of_workers(given)), gang_bundles(given, workers)
    if not held:  # then each member has a part of both sides
        sides = InputChunks(given.sizes[:gathered]), InputChunks(given.sizes[gathered:])
        pairs = zip_longest(*(gang_bundles(side, workers) for side in sides), fillvalue=())
        sources = tuple((*first, *(gathered + chunk for chunk in second)) for first, second in pairs)
    own = max(sum(given.sizes[chunk] for chunk in chunks) for chunks in sources)
    fits = fits_members(given, workers, GATHERED_COPIES * sum(given.sizes[:gathered]) + own)
    return sources if len(sources) > 1 and (fits or asked == "gang") else ()


def _steps(order: Order, rows: float, companion_bytes: int, memory: int, in_flight: int) -> int:
    """Steps in which some keys are sorted, so that several steps fit a GPU side by side."""
    return math.ceil(step_bytes(order, rows, companion_bytes) / (USABLE_FRACTION * memory / in_flight))


def divide_chunks(order: Order, given: InputChunks, memory: int) -> tuple[Size, ...]:
    """Divide input chunks of known sizes that are too large for a step of a GPU's `memory` into equal parts."""
    sizes: list[Size] = []
    for size in given.sizes:
        parts = max(1, _steps(order, size, given.companion_bytes, memory, CHUNKS_IN_FLIGHT))
        sizes += [size] if parts == 1 else [size * (part + 1) // parts - size * part // parts for part in range(parts)]
    return tuple(sizes)


def count_staged_groups(order: Order, given: InputChunks, num_runs: int, chunks: Sequence[Size], memory: int) -> int:
    """Count groups of chunks of known sizes, each small enough for a step of a GPU's `memory`."""
    # Where memory allows, a group is one output chunk: the parts of a chunk, and the chunks of a group, are copied once
    # more.
    rows = sum(given.sizes)
    total_bytes = rows * (order.transit_dtype.itemsize + given.companion_bytes)
    least = _steps(order, rows, given.companion_bytes, memory, GROUPS_IN_FLIGHT)
    most = min(MOST_GROUPS, counting.most_groups(num_runs))
    return int(max(1, least, min(len(chunks), most, total_bytes // LEAST_GROUP_BYTES)))
