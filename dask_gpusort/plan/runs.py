"""How the input is divided: runs, the chunks that are sorted as one, and bundles, the chunks that one task sorts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

from tlz import partition_all

from .groups import GROUP_MEMORY_FRACTION
from .terms import Exchange, InputChunks, Runs, Size, Workers, chunks_of_workers
from .turns import Turns

#: Most bytes of neighbouring chunks that are sorted as one run on threads. Each run costs tasks, a summary, and a piece
#: in each group: 800 chunks of 50,000 int64 take 1.0 s of CPU time as 800 runs, 0.73 in runs of 1 MiB, 0.50 in runs of
#: 8 MiB and more (`argsort` 1.9, 1.9 and 1.0 s); 100 chunks of 4 MB take the same time alone or joined.
THREADS_RUN_BYTES = 32 << 20
#: The same on a cluster, where the chunks of a run may be on several workers: to move a MiB takes about as long
#: as a task, a millisecond. 1,024 chunks of 50,000 int64 take 0.4 times as long in runs of 8 MiB as alone.
KEPT_RUN_BYTES = 8 << 20
#: Least runs for each thread if chunks are joined, so that no thread waits long for the last run.
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


def join_small_chunks(given: InputChunks, row_bytes: int, exchange: Exchange, workers: Workers) -> Runs:
    """Join neighbouring chunks of the host into one run: fewer tasks, summaries and pieces."""
    # Each chunk is alone if a size is unknown, and on a device.
    total = sum(given.sizes) * row_bytes
    most: float = ALONE
    on_host = not workers.devices and workers.staging_memory is None
    if on_host and not math.isnan(total):
        limit = KEPT_RUN_BYTES if exchange == "runs" else THREADS_RUN_BYTES
        most = min(limit, _bundle_bytes(workers), total / (RUNS_PER_THREAD * workers.threads))
    return tuple(chunk_ranges(range(len(given.sizes)), given.sizes, most / max(row_bytes, 1)))


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
    """Join chunks of a bundle into runs, and list the runs of each bundle: a copy more, and fewer sorts and pieces.

    Interchangeable keys let any chunks be joined; otherwise only neighbours are, so that equal keys keep their order
    and positions are consecutive.
    """
    # Output chunks of unknown sizes have the sizes of the runs, so each chunk is then alone.
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
