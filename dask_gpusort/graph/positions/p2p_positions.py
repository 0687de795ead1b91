r"""Requests, answers and values through the P2P engine of distributed.

A read is two exchanges. The task of a source group reads its requests from the disk in portions, and sends the answers
of one portion before it reads the next::

    take-requests o         take-source s
        |                       |
    take-send o             take-answer s      portion after portion: requests read, answers sent
        |                   /           \\
    ~~~ engine ~~~ barrier               ~~~ engine ~~~ barrier --> take-fill o
                                                                       |
                                                        take-order o --

A write is one exchange: ``put-send``, the barrier, ``put-merge``. See `graph.p2p` for the engine.

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from dask._task_spec import Task, TaskRef

from ...chunk import ops_for
from ...chunk.run import Run
from ..cut_runs import CutRun
from ..p2p import engine
from ..p2p_records import read_portions
from .put import GroupWriter, Put
from .requests import Requests, Rows, fill_bundle
from .take import Take

#: Most requests of a portion: their offsets and answers take some 32 MiB where elements have 8 bytes.
PORTION_REQUESTS = 1 << 21
#: What the keys of a run are where the run is rows alone.
NO_KEY = np.dtype("V0")


def take_by_p2p(take: Take) -> Iterator[Task]:
    """Tasks from the requests to the filled bundles."""
    token, groups, bundles = take.token, len(take.groups), len(take.bundles)
    asked, answered = (engine.ShuffleId(f"take-{step}-{token}") for step in ("requests", "answers"))
    sends = [
        _send(f"take-send-{token}", asked, TaskRef((f"take-requests-{token}", bundle)), bundle)
        for bundle in range(bundles)
    ]
    yield from sends
    arrived = _barrier(asked, sends, groups)
    yield arrived
    answers = []
    for group in range(groups):
        source = TaskRef((f"take-source-{token}", group))
        arguments = (source, asked, arrived.ref(), (group, groups), answered, bundles)
        answers.append(Task((f"take-answer-{token}", group), answer_portions, *arguments))
    yield from answers
    done = _barrier(answered, answers, bundles)
    yield done
    for bundle in range(bundles):
        order = TaskRef((f"take-order-{token}", bundle))
        yield Task((f"take-fill-{token}", bundle), fill_received, order, take.rows, answered, bundle, done.ref())


def put_by_p2p(put: Put) -> Iterator[Task]:
    """Tasks from the requests to the written groups."""
    token, moved = put.token, engine.ShuffleId(f"put-{put.token}")
    bundles = range(len(put.bundles))
    sends = [
        _send(f"put-send-{token}", moved, TaskRef((f"put-requests-{token}", bundle)), bundle) for bundle in bundles
    ]
    yield from sends
    arrived = _barrier(moved, sends, len(put.groups))
    yield arrived
    for group in range(len(put.groups)):
        arguments = (put.before(group), moved, group, arrived.ref(), put.writer(group))
        yield Task((f"put-merge-{token}", group), write_received, *arguments)


def _send(name: str, shuffle_id: str, requests: TaskRef, bundle: int) -> Task:
    return Task((name, bundle), send_requests, requests, shuffle_id, bundle)


def _barrier(shuffle_id: str, sends: Sequence[Task], outputs: int) -> Any:
    return engine.P2PBarrierTask(
        engine.barrier_key(shuffle_id),  # the scheduler finds the spec by this name
        engine.p2p_barrier,
        shuffle_id,
        *(task.ref() for task in sends),
        spec=engine.SortSpec(id=shuffle_id, disk=True, num_groups=outputs),
    )


def send_requests(requests: Requests, shuffle_id: str, bundle: int) -> int:
    """Task: send a bundle's requests to their groups; gives the number of the attempt.

    The engine's runs are numbered from one: run 0 would have a record for every group, even an empty one.
    """
    ends = np.array(requests.ends, np.int64)
    run_id: int = engine.send_run(shuffle_id, 1 + bundle, CutRun(requests.run, bundle, ends, ends))
    return run_id


def answer_portions(source: Any, asked: str, run_id: int, group: tuple[int, int], answered: str, bundles: int) -> int:
    """Task: answer the requests for a group; gives the number of the attempt.

    Parameters
    ----------
    source : array
        The group's elements.
    asked, run_id : str, int
        The exchange of the requests, and its attempt.
    group : tuple of (number, groups)
    answered : str
        The exchange of the answers.
    bundles : int
        Number of bundles that request.
    """
    number, groups = group
    file = engine.receive_group(asked, number, run_id)
    attempt = None
    try:
        for portion, pieces in enumerate(read_portions(file, number, PORTION_REQUESTS)):
            # Each portion is a run of its own, whose number is the same when it is sent again.
            run = _answers(source, pieces, number, bundles)
            attempt = engine.send_run(answered, 1 + number + groups * portion, run)
    finally:
        if file is not None:
            file.close()
    if attempt is None:
        attempt = engine.send_run(answered, 1 + number, _answers(source, [], number, bundles))
    return int(attempt)


def _answers(source: Any, pieces: Sequence[tuple[int, Run]], group: int, bundles: int) -> CutRun:
    """The elements that some bundles request of a group, in the order of the bundles."""
    counts = [0] * bundles
    for bundle, piece in pieces:
        counts[bundle] += len(piece)
    ops = ops_for(source)
    offsets = [piece.keys for _, piece in pieces]
    rows = ops.take(source, ops.concatenate(offsets), 0) if offsets else source[:0]
    ends = np.array(list(accumulate(counts, initial=0)), np.int64)
    return CutRun(Run(np.empty(len(rows), NO_KEY), (rows,)), group, ends, ends)


def fill_received(requests: Requests, rows: Rows, shuffle_id: str, bundle: int, run_id: int) -> list[Any]:
    """Task: the elements that the chunks of a bundle requested, from the answers that arrived."""
    file = engine.receive_group(shuffle_id, bundle, run_id)
    try:
        portions = read_portions(file, bundle, PORTION_REQUESTS)
        return fill_bundle(requests, ((group, run.values[0]) for pieces in portions for group, run in pieces), rows)
    finally:
        if file is not None:
            file.close()


def write_received(chunks: list[Any], shuffle_id: str, group: int, run_id: int, writer: GroupWriter) -> tuple[Any, ...]:
    """Task: a group with the values that arrived, read and written in portions."""
    file = engine.receive_group(shuffle_id, group, run_id)
    try:
        portions = read_portions(file, group, PORTION_REQUESTS)
        return writer(chunks, (shard for pieces in portions for _, shard in pieces))
    finally:
        if file is not None:
            file.close()
