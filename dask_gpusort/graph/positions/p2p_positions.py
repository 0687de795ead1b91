r"""Reads and writes through the P2P engine of distributed: no task's result is held while others are sent.

A read is two exchanges: the source and the requests go to the groups, and the replies come back. The task of a group
reads its source, then the requests in portions, and sends the replies of one portion before it reads the next::

    source chunk c          bundle o: take-requests, take-shapes
        |                       |
    take-rows c             take-send o          offsets in a group, positions in the bundle
          \                   /
           ~~~ engine, barrier
                   |
             take-reply s                       elements, positions in the bundle
                   |
           ~~~ engine, barrier
                   |
              take-fill o                        written to their positions

A write is one exchange: ``put-send``, the barrier, ``put-merge``. See `graph.p2p` for the engine.

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np

from ...chunk.run import Run
from .._dask import Task, TaskRef
from ..cut_runs import CutRun
from ..input_checks import changed_source, checked_chunk
from ..p2p import engine
from ..p2p_records import read_portions
from .put import GroupWriter, Put
from .requests import Requests, Rows, Shapes, fill_bundle, shapes_of
from .take import Take

#: Most requests of a portion: offsets, positions and replies take some 16 MiB where elements have 8 bytes, and the
#: messages as much again.
PORTION_REQUESTS = 1 << 19
#: The dtype of a run's keys where only its rows matter.
NO_KEY = np.dtype("u1")
#: The engine's number of the first run: run 0 would have a record for every group, even an empty one.
FIRST_RUN = 1


def take_by_p2p(take: Take) -> Iterator[Task]:
    """Tasks from the chunks of the source and the requests to the filled bundles."""
    token, groups, bundles = take.token, range(len(take.groups)), range(len(take.bundles))
    asked, replied = (engine.ShuffleId(f"take-{step}-{token}") for step in ("requests", "replies"))
    chunks = len(take.source_keys)
    rows = [
        Task(
            (f"take-rows-{token}", chunk), send_rows, TaskRef(take.source_keys[chunk]), asked, chunk, group, len(groups)
        )
        for group in groups
        for chunk in take.groups.chunks(group)
    ]
    sends = [_send(f"take-send-{token}", asked, f"take-requests-{token}", bundle, chunks) for bundle in bundles]
    yield from (*rows, *sends)
    yield (arrived := _barrier(asked, [*rows, *sends], len(groups)))
    replies = [
        Task(
            (f"take-reply-{token}", group),
            reply_portions,
            asked,
            arrived.ref(),
            Senders(group, len(groups), chunks, take.axis.size_of(group), len(bundles)),
            replied,
        )
        for group in groups
    ]
    yield from replies
    yield (done := _barrier(replied, replies, len(bundles)))
    for bundle in bundles:
        shapes = Task((f"take-shapes-{token}", bundle), shapes_of, TaskRef((f"take-requests-{token}", bundle)))
        yield shapes
        yield Task((f"take-fill-{token}", bundle), fill_received, shapes.ref(), take.rows, replied, bundle, done.ref())


def put_by_p2p(put: Put) -> Iterator[Task]:
    """Tasks from the requests to the written groups."""
    token, moved = put.token, engine.ShuffleId(f"put-{put.token}")
    sends = [_send(f"put-send-{token}", moved, f"put-requests-{token}", bundle) for bundle in range(len(put.bundles))]
    yield from sends
    yield (arrived := _barrier(moved, sends, len(put.groups)))
    for group in range(len(put.groups)):
        arguments = (put.before(group), moved, group, arrived.ref(), put.writer(group))
        yield Task((f"put-merge-{token}", group), write_received, *arguments)


def _send(name: str, shuffle_id: str, requests: str, bundle: int, runs_before: int = 0) -> Task:
    return Task((name, bundle), send_requests, TaskRef((requests, bundle)), shuffle_id, bundle, runs_before)


def _barrier(shuffle_id: str, sends: Sequence[Task], outputs: int) -> Any:
    return engine.P2PBarrierTask(
        engine.barrier_key(shuffle_id),  # the scheduler finds the spec by this name
        engine.p2p_barrier,
        shuffle_id,
        *(task.ref() for task in sends),
        spec=engine.SortSpec(id=shuffle_id, disk=True, num_groups=outputs),
    )


@dataclass(frozen=True)
class Senders:
    """What the task of a group receives, and who gets its replies.

    Attributes
    ----------
    group, groups : int
        Its number, and how many there are.
    chunks : int
        Of the source: their runs come before those of the requests.
    size : int
        Elements of the group.
    bundles : int
        How many request.
    """

    group: int
    groups: int
    chunks: int
    size: int
    bundles: int


def send_rows(block: Any, shuffle_id: str, chunk: int, group: int, groups: int) -> int:
    """Task: send a chunk of the source to its group; gives the number of the attempt."""
    checked_chunk(block, None)
    ends = np.array([0] * (group + 1) + [len(block)] * (groups - group), np.int64)
    run = Run(np.empty(len(block), NO_KEY), (block,))
    attempt: int = engine.send_run(shuffle_id, FIRST_RUN + chunk, CutRun(run, chunk, ends, ends))
    return attempt


def send_requests(requests: Requests, shuffle_id: str, bundle: int, runs_before: int) -> int:
    """Task: send a bundle's requests to their groups; gives the number of the attempt."""
    attempt: int = engine.send_run(shuffle_id, FIRST_RUN + runs_before + bundle, requests.cut(bundle))
    return attempt


@contextmanager
def _received(shuffle_id: str, group: int, attempt: int) -> Iterator[BinaryIO | None]:
    """The file of a group, open; None if nothing was sent."""
    file = engine.receive_group(shuffle_id, group, attempt)
    try:
        yield file
    finally:
        if file is not None:
            file.close()


def reply_portions(asked: str, arrived: int, own: Senders, replied: str) -> int:
    """Task: reply to the requests for a group.

    Parameters
    ----------
    asked, arrived : str, int
        The shuffle of the source and the requests, and its attempt.
    own : Senders
    replied : str
        The shuffle of the replies.

    Returns
    -------
    int
        Number of the attempt that received the first portion. If a worker is lost, later portions may go to another
        attempt; the barrier then finds that the numbers differ, and all is sent again.

    Raises
    ------
    RuntimeError
        If the source is not complete.
    """
    with _received(asked, own.group, arrived) as file:
        portions = read_portions(file, own.group, PORTION_REQUESTS, FIRST_RUN + own.chunks)
        first = next(portions, []) if own.size else []
        rows = Run.concat([run for _, run in first], copy=None).values[0] if first else np.empty(0)
        if len(rows) != own.size:
            raise changed_source(f"group {own.group} received {len(rows)} of {own.size} elements")
        attempt = engine.send_run(replied, FIRST_RUN + own.group, _replies(rows, [], own))
        # Each portion is a run of its own, whose number is the same when it is sent again.
        for portion, pieces in enumerate(portions, 1):
            number = FIRST_RUN + own.group + portion * own.groups
            engine.send_run(replied, number, _replies(rows, pieces, own))
    return int(attempt)


def _replies(rows: Any, pieces: Sequence[tuple[int, Run]], own: Senders) -> CutRun:
    """The elements that some bundles request of a group, in the order of the bundles, with their positions there."""
    counts = [0] * own.bundles
    for bundle, piece in pieces:
        counts[bundle] += len(piece)
    ends = np.array(list(accumulate(counts, initial=0)), np.int64)
    if not pieces:
        return CutRun(Run(np.empty(0, np.uint32), (rows[:0],)), own.group, ends, ends)
    asked = Run.concat([piece for _, piece in pieces], copy=None)
    return CutRun(Run(asked.values[0], (rows.take(asked.keys, 0),)), own.group, ends, ends)


def fill_received(shapes: Shapes, rows: Rows, shuffle_id: str, bundle: int, attempt: int) -> list[Any]:
    """Task: the elements that the chunks of a bundle requested, from the replies that arrived."""
    with _received(shuffle_id, bundle, attempt) as file:
        portions = read_portions(file, bundle, PORTION_REQUESTS)
        return fill_bundle(shapes, ((run.keys, run.values[0]) for pieces in portions for _, run in pieces), rows)


def write_received(
    chunks: list[Any], shuffle_id: str, group: int, attempt: int, writer: GroupWriter
) -> tuple[Any, ...]:
    """Task: a group with the values that arrived, read and written in portions."""
    with _received(shuffle_id, group, attempt) as file:
        portions = read_portions(file, group, PORTION_REQUESTS)
        return writer(chunks, (shard for pieces in portions for _, shard in pieces))
