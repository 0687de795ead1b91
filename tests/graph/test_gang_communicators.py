"""Which gangs the coordinator gives a communicator, and which one: no cluster."""

from __future__ import annotations

from collections import Counter
from itertools import chain, count

import pytest

pytest.importorskip("distributed")

from support.gang_events import finish, member, ops, start_all

from dask_gpusort.graph.gang.coordinator import CLOSE, MOST_COMMUNICATORS, SORTS_WITHOUT, Gangs


@pytest.fixture
def gangs():
    found = Gangs()
    found.add("g", 2, 60)
    found.add("h", 2, 60)
    return found


def communicator(messages):
    return messages[-1].fields["communicator"]


def test_a_communicator_is_kept_for_the_same_workers(gangs):
    messages = start_all(gangs, offer=b"first")
    epoch, offer = communicator(messages)
    assert offer == b"first"
    finish(gangs, "g", messages[0].fields["attempt"])
    messages = start_all(gangs, "h", first=3, offer=b"second")
    assert communicator(messages) == (epoch, b"first")
    finish(gangs, "h", messages[0].fields["attempt"], 3)
    messages = start_all(gangs, "g", "ba", 5, offer=b"third")
    assert communicator(messages) == (epoch, b"first")
    assert messages[0].fields["addresses"] == ("b", "a")
    finish(gangs, "g", messages[0].fields["attempt"], 5)
    assert communicator(start_all(gangs, "h", "ac", 7, offer=b"fourth"))[1] == b"fourth"


@pytest.mark.parametrize("workers", ["ab", "ba"])
def test_a_communicator_is_made_of_the_offer_of_its_own_rank_0(gangs, workers):
    offers = {"a": b"of a", "b": b"of b"}
    gangs.ready("g", 0, member(workers[0], 1, offer=offers[workers[0]]))
    messages = gangs.ready("g", 1, member(workers[1], 2, offer=offers[workers[1]]))
    assert communicator(messages)[1] == b"of a"
    assert list(gangs.communicators) == [("a", "b")]


@pytest.mark.parametrize("event", [lambda gangs: gangs.left("g", 0), lambda gangs: gangs.lost("b")])
def test_a_communicator_of_an_aborted_attempt_is_not_used_again(gangs, event):
    epoch, _ = communicator(start_all(gangs, offer=b"first"))
    closed = [(one.worker, one.fields) for one in event(gangs) if one.op == CLOSE]
    assert closed == [(worker, {"addresses": ("a", "b"), "epoch": epoch}) for worker in "ab"]
    assert gangs.communicators == {}
    renewed, offer = communicator(start_all(gangs, first=3, offer=b"second"))
    assert renewed > epoch
    assert offer == b"second"


def test_a_communicator_of_a_lost_worker_is_not_used_again(gangs):
    messages = start_all(gangs, offer=b"first")
    finish(gangs, "g", messages[0].fields["attempt"])
    assert ops(gangs.lost("a")) == [("a", CLOSE), ("b", CLOSE)]
    assert gangs.communicators == {}
    assert communicator(start_all(gangs, first=3, offer=b"second"))[1] == b"second"


def test_worker_comms_serve_where_no_communicator_can_be_made(gangs):
    assert communicator(start_all(gangs, workers="aa", offer=b"id")) is None
    gangs.left("g", 0)
    gangs.ready("g", 0, member("a", 3, offer=b"id"))
    assert communicator(gangs.ready("g", 1, member("b", 4))) is None
    gangs.ready("g", 1, member("b", 4, offer=b"id"), "a reason")
    assert communicator(gangs.ready("g", 0, member("a", 3, offer=b"id"))) is None
    gangs.add("alone", 1, 60)
    assert communicator(gangs.ready("alone", 0, member("c", 5, offer=b"id"))) is None


def test_few_communicators_are_kept_for_a_worker_those_used_last(gangs):
    offers = count()

    def run(workers):
        messages = start_all(gangs, workers=workers, offer=b"%d" % next(offers))
        finish(gangs, "g", messages[-1].fields["attempt"])
        return [(one.worker, one.fields["addresses"]) for one in messages if one.op == CLOSE]

    others = "bcdefghijklm"[:MOST_COMMUNICATORS]
    assert [run("a" + other) for other in others] == [[]] * len(others)
    assert run("xy") == run("ab") == []
    assert run("az") == [("a", ("a", "c")), ("c", ("a", "c"))]
    assert run("xz") == []
    assert sum("a" in addresses for addresses in gangs.communicators) == MOST_COMMUNICATORS


def test_communicators_in_use_are_not_closed_and_do_not_add_up():
    gangs, pairs = Gangs(), 3 * MOST_COMMUNICATORS
    for turn in range(2 * MOST_COMMUNICATORS):
        started = {}
        for number in range(pairs):
            token = f"g{turn}-{number}"
            gangs.add(token, 2, 60)
            workers = f"a{number}", f"b{(number + turn) % pairs}"
            messages = start_all(gangs, token, workers, 2 * number, offer=f"{turn} {number}".encode())
            assert communicator(messages) is not None
            # A worker whose pair exchanges may be told to close an earlier communicator, but not that one.
            closed = [one.fields["addresses"] for one in messages if one.op == CLOSE]
            assert not started.keys() & closed
            started[tuple(sorted(workers))] = token, messages[-1].fields["attempt"], 2 * number
        for arguments in started.values():
            finish(gangs, *arguments)
        kept = Counter(chain.from_iterable(gangs.communicators))
        assert max(kept.values()) <= MOST_COMMUNICATORS


def ready_with(gangs, token, offers, first=1):
    """Make both members of a gang ready, each with the offer of its worker; the messages of the second one."""
    pairs = enumerate(offers.items())
    return [gangs.ready(token, rank, member(worker, first + rank, offer=offer)) for rank, (worker, offer) in pairs][-1]


def test_an_offer_makes_one_communicator(gangs):
    """Gangs of different workers that are ready at the same time have the same offer of the worker that they share."""
    started = ready_with(gangs, "g", {"a": b"of a", "b": b"of b"})
    assert communicator(started)[1] == b"of a"
    assert ready_with(gangs, "h", {"a": b"of a", "c": b"of c"}, 3) == []
    assert communicator(finish(gangs, "g", started[0].fields["attempt"]))[1] == b"of c"


def test_without_an_unused_offer_there_is_no_communicator(gangs):
    for token, workers in (("g", "ab"), ("h", "bc")):
        gangs.add(token, 2, 60)
        messages = ready_with(gangs, token, {worker: f"of {worker}".encode() for worker in workers})
        finish(gangs, token, messages[0].fields["attempt"])
    gangs.add("i", 2, 60)
    messages = ready_with(gangs, "i", {"a": b"of a", "b": b"of b"})
    assert communicator(messages)[1] == b"of a", "that of these workers is kept"
    finish(gangs, "i", messages[0].fields["attempt"])
    gangs.add("j", 2, 60)
    assert communicator(ready_with(gangs, "j", {"a": b"of a", "c": b"another of c"}))[1] == b"another of c"
    gangs.add("k", 2, 60)
    assert communicator(ready_with(gangs, "k", {"d": None, "e": b"of e"})) is None
    gangs.left("k", 0)
    # An address names one worker for good, so its offers are forgotten with it.
    gangs.lost("c")
    assert sorted(gangs._used) == [b"of a", b"of b"]


def test_an_offer_is_used_though_the_attempt_ends_before_a_worker_makes_the_communicator(gangs):
    assert communicator(ready_with(gangs, "g", {"a": b"of a", "b": b"of b"}))[1] == b"of a"
    gangs.failed("g", "error")
    assert communicator(ready_with(gangs, "h", {"a": b"of a", "b": b"of b"}, 3))[1] == b"of b"


def fail_by(event, gangs, token, attempt):
    if event == "broken":
        gangs.ready(token, 0, member("a", 1), "a reason")
    else:
        gangs.expired(token, attempt)


def sorts_without(gangs, numbers, most=200):
    """How many sorts one after the other, each to its end, do without a communicator."""
    for sorts in range(most):
        token = f"sort-{next(numbers)}"
        gangs.add(token, 2, 60)
        messages = start_all(gangs, token, offer=b"%d" % next(numbers))
        if communicator(messages) is not None:
            return sorts, token, messages[-1].fields["attempt"]
        finish(gangs, token, messages[-1].fields["attempt"])
        gangs.forget(token)
    return most, None, None


@pytest.mark.parametrize("event", ["broken", "expired"])
def test_workers_that_do_not_connect_are_tried_again_after_more_and_more_sorts(event):
    gangs, numbers = Gangs(), count()
    found = []
    for _ in range(4):
        sorts, token, attempt = sorts_without(gangs, numbers)
        found.append(sorts)
        fail_by(event, gangs, token, attempt)
    assert found == [0, SORTS_WITHOUT, 2 * SORTS_WITHOUT, 4 * SORTS_WITHOUT]


@pytest.mark.parametrize("event", ["connected", "lost"])
def test_workers_that_connect_or_are_lost_are_not_suspected_any_more(event):
    gangs, numbers = Gangs(), count()
    for _ in range(2):
        _, token, attempt = sorts_without(gangs, numbers)
        fail_by("expired", gangs, token, attempt)
    if event == "connected":
        _, token, attempt = sorts_without(gangs, numbers)
        # It connects, and an exchange fails later: that says nothing of the workers.
        gangs.exchanged(token, 0, 1, attempt)
        fail_by("broken", gangs, token, attempt)
    else:
        gangs.lost("b")
    assert sorts_without(gangs, numbers)[0] == 0
    assert gangs._without == {}


def test_other_workers_are_not_suspected(gangs):
    messages = start_all(gangs, offer=b"first")
    fail_by("expired", gangs, "g", messages[-1].fields["attempt"])
    assert communicator(start_all(gangs, "h", "ac", 3, offer=b"second")) is not None
