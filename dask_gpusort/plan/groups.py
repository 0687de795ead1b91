"""How the output is divided into groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..plan import counting
from .terms import BY_TASKS, Exchange, Size, Workers

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
#: Most slices of runs, a read of some 10 us each, that groups of one chunk may take. Other groups wait in the memory of
#: Dask until all of their chunks are stored.
MOST_SLICES = 1 << 20
#: Groups for each thread, so that no thread waits long for the last group. On a cluster with two threads and 1,024
#: chunks, 16, 32 and 64 groups take the same time, 128 groups 1.4 times as long.
GROUPS_PER_THREAD = 4
#: The same on threads, where groups of equal size take equal time.
GROUPS_PER_LOCAL_THREAD = 2
#: Share of a worker's memory that one group's keys and values may take. While each thread of the worker finishes a
#: group, it holds the group up to three times: slices as read, concatenated, output chunks.
GROUP_MEMORY_FRACTION = 1 / 10
#: Above this many bytes, a GPU's keys are exchanged in two groups: the first is finished while the second arrives, and
#: less memory is held twice. Below it the tasks cost more than that gains.
DEVICE_SHARE_BYTES = 1 << 30


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
        # One task holds the cuts of all runs.
        most = min(MOST_GROUPS, counting.TABLE_BYTES // (counting.CUT_BYTES * num_runs) - 1)
        return int(max(1, min(max(wanted, least), most, total_bytes // SMALLEST_GROUP_BYTES)))
    by_memory = 1.0
    if workers.memory is not None:
        by_memory = total_bytes / (workers.memory * GROUP_MEMORY_FRACTION)
    by_threads = min(groups_of_threads(exchange, workers), total_bytes / SMALLEST_GROUP_BYTES)
    by_chunks = min(num_chunks, total_bytes / CHUNK_GROUP_BYTES, MOST_SLICES / num_runs) if exchange == "runs" else 0
    return max(1, math.ceil(max(by_memory, min(by_threads, MOST_GROUPS), by_chunks)))


def groups_of_threads(exchange: Exchange, workers: Workers) -> int:
    """Number of groups of equal size that keeps all threads busy, whatever the amount of keys."""
    if exchange in BY_TASKS:
        return workers.threads
    return (GROUPS_PER_LOCAL_THREAD if exchange == "gather" else GROUPS_PER_THREAD) * workers.threads


def lay_out_groups(chunks: Sequence[Size], wanted: int) -> tuple[tuple[int, int, int, int], ...]:
    """Lay out groups of about equal size: consecutive output chunks, or equal parts of one that is too large.

    Each is (first output chunk, last + 1, part, parts); unknown sizes count as equal.
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
