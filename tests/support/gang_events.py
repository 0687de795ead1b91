"""Events of gangs with two members, for the tests of the coordinator."""

from __future__ import annotations

from dask_gpusort.graph.gang.coordinator import Member


def member(worker, run_id, summaries=b"", offer=None, checksum=0):
    return Member(worker, run_id, checksum, summaries, offer)


def ops(messages, *fields):
    return [(message.worker, message.op, *(message.fields[name] for name in fields)) for message in messages]


def start_all(gangs, token="g", workers="ab", first=1, **fields):
    """Make both members of a gang ready; the messages of the second one."""
    gangs.ready(token, 0, member(workers[0], first, **fields))
    return gangs.ready(token, 1, member(workers[1], first + 1, **fields))


def finish(gangs, token, attempt, first=1):
    gangs.exchanged(token, 0, first, attempt)
    return gangs.exchanged(token, 1, first + 1, attempt)
