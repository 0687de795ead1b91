"""The coordinator of gangs as a state machine: no cluster, any interleaving of its events."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("distributed")

from support.gang_events import finish, member, ops, start_all

from dask_gpusort.graph.gang.coordinator import (
    CANCEL,
    CLOSE,
    ERROR,
    MOST_COMMUNICATORS,
    START,
    Gangs,
)


@pytest.fixture
def gangs():
    found = Gangs()
    found.add("g", 2, 60)
    found.add("h", 2, 60)
    return found


def test_a_gang_starts_when_all_are_ready(gangs):
    assert gangs.ready("g", 1, member("b", 2, b"two")) == []
    messages = gangs.ready("g", 0, member("a", 1, b"one"))
    assert ops(messages, "rank", "run_id") == [("a", START, 0, 1), ("b", START, 1, 2)]
    fields = messages[0].fields
    assert fields["summaries"] == [b"one", b"two"]
    assert fields["addresses"] == ("a", "b")
    assert fields["communicator"] is None


def test_gangs_take_turns_on_a_worker_and_run_side_by_side_on_others(gangs):
    gangs.add("i", 2, 60)
    started = start_all(gangs)[0].fields["attempt"]
    assert start_all(gangs, "h", "bc", 3) == []
    assert [op for _, op in ops(start_all(gangs, "i", "de", 5))] == [START, START]
    gangs.exchanged("g", 0, 1, started)
    assert gangs.gangs["g"].attempt is not None
    assert ops(gangs.exchanged("g", 1, 2, started), "token") == [("b", START, "h"), ("c", START, "h")]


def test_a_later_gang_does_not_overtake_on_a_worker_that_an_earlier_one_waits_for(gangs):
    gangs.add("i", 2, 60)
    started = start_all(gangs)[0].fields["attempt"]
    assert start_all(gangs, "h", "bc", 3) == []
    assert start_all(gangs, "i", "cd", 5) == []
    assert ops(finish(gangs, "g", started), "token") == [("b", START, "h"), ("c", START, "h")]


def test_stale_reports_are_ignored(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    for arguments in (("g", 0, 1, started + 1), ("g", 0, 9, started), ("h", 0, 1, started), ("x", 0, 1, started)):
        assert gangs.exchanged(*arguments) == []
    assert gangs.gangs["g"].attempt.exchanged == set()
    assert gangs.broken("g", started + 1, "") == gangs.broken("x", started, "") == []
    assert gangs.left("x", 0) == gangs.forget("x") == gangs.failed("x", None) == []
    assert finish(gangs, "g", started) == []
    assert gangs.broken("g", started, "") == []
    assert gangs.gangs["g"].failed_on is None


def test_a_member_that_leaves_while_others_wait_is_cancelled(gangs):
    gangs.ready("g", 0, member("a", 1))
    assert ops(gangs.left("g", 0)) == [("a", CANCEL)]
    assert gangs.gangs["g"].ready == {}


def test_a_member_that_leaves_an_exchange_ends_all(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    assert ops(gangs.left("g", 1), "attempt") == [("a", CANCEL, started), ("b", CANCEL, started)]
    assert gangs.exchanged("g", 0, 1, started) == gangs.left("g", 0) == []
    assert gangs.ready("g", 0, member("a", 3)) == []
    assert gangs.ready("g", 1, member("c", 4))[0].fields["attempt"] > started


def test_a_member_that_leaves_after_its_exchange_ends_nothing(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    gangs.exchanged("g", 0, 1, started)
    assert gangs.left("g", 0) == []
    assert gangs.exchanged("g", 1, 2, started) == []
    assert gangs.gangs["g"].attempt is None
    # Its shards are lost with its worker.
    started = start_all(gangs)[0].fields["attempt"]
    gangs.exchanged("g", 0, 1, started)
    assert ops(gangs.lost("a")) == [("a", CANCEL), ("b", CANCEL)]


def test_a_member_that_is_ready_again_waits_for_the_others(gangs):
    """It has exchanged, and its result is lost while the others still exchange."""
    started = start_all(gangs)[0].fields["attempt"]
    gangs.exchanged("g", 0, 1, started)
    assert gangs.ready("g", 0, member("a", 3)) == []
    assert gangs.exchanged("g", 1, 2, started) == []
    assert ops(gangs.ready("g", 1, member("b", 4)), "run_id") == [("a", START, 3), ("b", START, 4)]


def test_a_timer_from_before_a_restart_ends_no_attempt_after_it():
    watched = []
    for _ in range(2):
        gangs = Gangs(lambda *arguments: watched.append(arguments))
        gangs.add("g", 2, 60)
        start_all(gangs)
    assert gangs.broken(*watched[0], "") == []
    assert gangs.gangs["g"].failed_on is None


def test_a_lost_worker_ends_the_exchanges_that_use_it_and_frees_others(gangs):
    start_all(gangs)
    assert start_all(gangs, "h", "ac", 3) == []
    messages = gangs.lost("b")
    assert ops(messages, "token") == [("a", CANCEL, "g"), ("b", CANCEL, "g"), ("a", START, "h"), ("c", START, "h")]


def test_a_gang_waits_for_its_turn_no_longer_without_a_member(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    start_all(gangs, "h", first=3)
    assert ops(gangs.left("h", 0)) == [("a", CANCEL)]
    assert finish(gangs, "g", started) == []
    assert ops(gangs.ready("h", 0, member("a", 5)), "run_id") == [("a", START, 5), ("b", START, 4)]


def test_an_exchange_that_fails_is_made_again_once(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    assert ops(gangs.broken("g", started, "a reason")) == [("a", CANCEL), ("b", CANCEL)]
    assert gangs.broken("g", started, "the same, of another member") == []
    started = start_all(gangs, first=3)[0].fields["attempt"]
    messages = gangs.broken("g", started, "another reason")
    assert ops(messages, "run_id") == [("a", ERROR, 3), ("b", ERROR, 4)]
    with pytest.raises(RuntimeError, match="2 times .* because another reason: use exchange='tasks'"):
        raise messages[-1].fields["error"]
    assert gangs.gangs["g"].failed_on is None


@pytest.mark.parametrize("worker", ["b", "c"])
def test_a_failure_is_that_of_a_worker_that_is_lost_behind_it(gangs, worker):
    gangs.broken("g", start_all(gangs, offer=b"first")[0].fields["attempt"], "no route to host")
    gangs.lost(worker)
    messages = start_all(gangs, workers="ad", first=3, offer=b"second")
    assert (communicator(messages) is not None) == (worker == "b")
    assert {op for _, op in ops(gangs.broken("g", messages[0].fields["attempt"], "a reason")) if op != CLOSE} == {
        CANCEL if worker == "b" else ERROR
    }


def test_an_exchange_that_ends_forgets_failures(gangs):
    for first in (1, 5):
        gangs.broken("g", start_all(gangs, first=first)[0].fields["attempt"], "a reason")
        assert finish(gangs, "g", start_all(gangs, first=first + 2)[0].fields["attempt"], first + 2) == []


def test_each_attempt_is_watched_and_each_that_is_stopped():
    started, stopped = [], []
    gangs = Gangs(lambda *one: started.append(one), lambda token, one: stopped.append((token, one.number)))
    gangs.add("g", 2, 10)
    numbers = []
    for first in (1, 3):
        numbers.append(start_all(gangs, first=first)[0].fields["attempt"])
        gangs.broken("g", numbers[-1], "a reason")
    assert started == stopped == [("g", number) for number in numbers]


def test_numbers_of_attempts_cannot_be_guessed():
    """A worker gives shards to whoever knows the number."""
    firsts = set()
    for _ in range(3):
        gangs = Gangs()
        gangs.add("g", 2, 10)
        firsts.add(start_all(gangs)[0].fields["attempt"])
    assert max(firsts) - min(firsts) > 1 << 30


def test_an_error_of_a_member_is_raised_by_all(gangs):
    gangs.ready("g", 0, member("a", 1))
    assert ops(gangs.failed("g", "error"), "error") == [("a", ERROR, "error")]
    started = start_all(gangs)[0].fields["attempt"]
    gangs.exchanged("g", 0, 1, started)
    # A member that has received everything hears nothing any more: its worker forgets its outbox.
    assert ops(gangs.failed("g", "error"), "attempt") == [("a", ERROR, started), ("b", ERROR, started)]
    assert gangs.gangs["g"].attempt is None


def test_a_gang_that_is_forgotten_frees_its_workers(gangs):
    start_all(gangs)
    start_all(gangs, "h", first=3)
    messages = gangs.forget("g")
    assert ops(messages, "token")[:2] == [("a", CANCEL, "g"), ("b", CANCEL, "g")]
    assert ops(messages, "token")[2:] == [("a", START, "h"), ("b", START, "h")]
    assert list(gangs.gangs) == ["h"]


def test_all_raise_if_a_member_is_not_what_it_was_when_others_finished(gangs):
    finish(gangs, "g", start_all(gangs, checksum=5)[0].fields["attempt"])
    assert ops(start_all(gangs, first=3, checksum=5)) == [("a", START), ("b", START)]
    gangs.left("g", 0)
    assert gangs.ready("g", 1, member("b", 6, checksum=5)) == []
    messages = gangs.ready("g", 0, member("a", 7, checksum=4))
    assert ops(messages, "run_id") == [("b", ERROR, 6), ("a", ERROR, 7)]
    with pytest.raises(RuntimeError, match="chunks of member 0 are not what .*changes when it is computed again"):
        raise messages[0].fields["error"]
    assert not gangs.gangs["g"].ready
    assert not gangs.turns


# Every interleaving.


class World:
    """Dask, its workers and their members, reduced to what the coordinator sees of them.

    Messages between the scheduler and a worker keep their order. Everything else happens in any order.
    """

    def __init__(self, choose, sizes, workers):
        self.choose = choose
        self.gangs = Gangs()
        self.sizes = sizes
        self.workers = [f"w{number}" for number in range(workers)]
        self.next_worker, self.run_ids = count(workers), count(1)
        self.state = {(token, rank): "waiting" for token, size in sizes.items() for rank in range(size)}
        self.members = {}  # run id: [(token, rank), worker, state, attempt]
        self.outboxes = {}  # of (token, attempt): the worker of each member that has cut its shards
        self.key_of = {}
        self.closed = set()  # worker and epoch of communicators that are forgotten
        self.offers = dict.fromkeys(self.workers, 0)  # communicators of a worker's offers, of which it has heard
        self.epoch_of = {}  # the communicator of each offer
        self.run_of = {}
        self.known = set()
        self.to_worker = {worker: deque() for worker in self.workers}
        self.to_scheduler = {worker: deque() for worker in self.workers}
        for token, size in sizes.items():
            self.gangs.add(token, size, 60)

    def send(self, messages):
        for message in messages:
            if message.op == CLOSE:
                self.closed.add((message.worker, message.fields["epoch"]))
                continue
            if message.op == START and message.fields["communicator"] is not None:
                assert (message.worker, message.fields["communicator"][0]) not in self.closed
                assert len(set(message.fields["addresses"])) == len(message.fields["addresses"])
                epoch, offer = message.fields["communicator"]
                assert self.epoch_of.setdefault(offer, epoch) == epoch, "an offer makes one communicator"
            assert (message.fields["run_id"], message.worker) in self.known
            if message.worker in self.to_worker:
                self.to_worker[message.worker].append(message)
        running = [worker for gang in self.gangs.gangs.values() if gang.attempt for worker in gang.attempt.workers]
        assert len(running) == len(set(running)), "two gangs run on one worker"

    def run(self, key):
        """Dask runs a member on some worker."""
        worker, run_id = self.choose(self.workers), next(self.run_ids)
        self.state[key], self.run_of[key] = "processing", run_id
        self.members[run_id] = [key, worker, "sorting", None]
        self.key_of[run_id] = key
        self.known.add((run_id, worker))

    def report(self, run_id, *message):
        worker = self.members[run_id][1]
        self.to_scheduler[worker].append((run_id, *message))

    def report_ready(self, run_id):
        worker = self.members[run_id][1]
        self.report(run_id, "ready", f"{worker} {self.offers[worker]}".encode())

    def on_scheduler(self, worker):
        """The next message of a worker arrives at the scheduler."""
        run_id, what, *arguments = self.to_scheduler[worker].popleft()
        token, rank = key = self.key_of[run_id]
        wanted = self.state[key] == "processing" and self.run_of[key] == run_id
        if what == "ready" and wanted:
            self.send(self.gangs.ready(token, rank, member(worker, run_id, offer=arguments[0])))
        elif what == "ready":
            self.send(self.gangs.unexpected(token, rank, member(worker, run_id)))
        elif what == "rescheduled":
            if wanted:
                self.state[key] = "waiting"
                self.send(self.gangs.left(token, rank))
        elif what == "exchanged":
            self.send(self.gangs.exchanged(token, rank, run_id, *arguments))
        elif wanted:  # it has finished
            self.state[key] = "memory"
        self.check(token)

    def check(self, token):
        """Members that have finished run again if others need them."""
        ready = self.gangs.gangs[token].ready
        for rank in range(self.sizes[token]) if ready else ():
            if rank not in ready and self.state[token, rank] == "memory":
                self.state[token, rank] = "waiting"

    def on_worker(self, worker):
        """The next message of the scheduler arrives at a worker."""
        message = self.to_worker[worker].popleft()
        run_id = message.fields["run_id"]
        if message.op == START and message.fields["communicator"] is not None:
            self.offers[worker] += message.fields["communicator"][1] == f"{worker} {self.offers[worker]}".encode()
        if message.op != START and "attempt" in message.fields:
            self.outboxes.get((message.fields["token"], message.fields["attempt"]), {}).pop(message.fields["rank"], 0)
        if run_id not in self.members:
            return
        now = self.members[run_id]
        if message.op == START:
            assert now[2] == "ready", "only a member that waits is started"
            now[2:] = "exchanging", message.fields["attempt"]
            self.outboxes.setdefault((now[0][0], now[3]), {})[now[0][1]] = worker
        elif message.op == CANCEL and now[2] in ("ready", "exchanging"):
            self.report(run_id, "rescheduled")
            del self.members[run_id]

    def step_member(self, run_id):
        """A member takes its next step, if it can."""
        now = self.members[run_id]
        _, _, state, attempt = now
        if state == "sorting":
            now[2] = "ready"
            self.report_ready(run_id)
        elif state == "exchanging":
            now[2] = "merging"
            self.report(run_id, "exchanged", attempt)
        elif state == "merging":
            self.report(run_id, "finished")
            del self.members[run_id]

    def kill(self, worker):
        """A worker dies, and another one comes."""
        self.workers.remove(worker)
        self.workers.append(f"w{next(self.next_worker)}")
        self.offers[self.workers[-1]] = 0
        del self.to_worker[worker], self.to_scheduler[worker]
        self.to_worker[self.workers[-1]], self.to_scheduler[self.workers[-1]] = deque(), deque()
        self.members = {run_id: one for run_id, one in self.members.items() if one[1] != worker}
        for key, boxes in self.outboxes.items():
            self.outboxes[key] = {rank: owner for rank, owner in boxes.items() if owner != worker}
        for key, run_id in self.run_of.items():
            if (run_id, worker) in self.known and self.state[key] in ("processing", "memory"):
                was, self.state[key] = self.state[key], "waiting"
                if was == "processing":
                    self.send(self.gangs.left(*key))
        self.send(self.gangs.lost(worker))

    def reschedule(self, key):
        """Dask takes a member away from a worker."""
        if self.state[key] == "processing":
            self.state[key] = "waiting"
            self.send(self.gangs.left(*key))

    def actions(self):
        yield from ((self.run, key) for key, state in self.state.items() if state == "waiting")
        yield from ((self.on_scheduler, worker) for worker, queue in self.to_scheduler.items() if queue)
        yield from ((self.on_worker, worker) for worker, queue in self.to_worker.items() if queue)
        yield from ((self.step_member, run_id) for run_id, one in self.members.items() if self.can_step(one))

    def can_step(self, one):
        (token, _), _, state, attempt = one
        all_cut = len(self.outboxes.get((token, attempt), ())) == self.sizes[token]
        return state in ("sorting", "merging") or (state == "exchanging" and all_cut)

    def faults(self):
        yield from ((self.kill, worker) for worker in self.workers)
        yield from ((self.reschedule, key) for key, state in self.state.items() if state == "processing")
        yield from (
            (self.break_one, token, gang.attempt.number) for token, gang in self.gangs.gangs.items() if gang.attempt
        )

    def break_one(self, token, attempt):
        self.gangs.gangs[token].failed_on = None  # as many as Hypothesis likes
        self.send(self.gangs.broken(token, attempt, "a reason"))


@given(
    st.randoms(use_true_random=True),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_every_gang_ends_whatever_happens_in_between(random, sizes, workers, faults):
    world = World(random.choice, {f"g{number}": size for number, size in enumerate(sizes)}, workers)
    for _ in range(20_000):
        actions = list(world.actions())
        if faults and random.random() < 0.1:
            wrong = list(world.faults())
            act, *arguments = random.choice(wrong)
            faults -= 1
            act(*arguments)
            continue
        if not actions:
            break
        act, *arguments = random.choice(actions)
        act(*arguments)
    assert set(world.state.values()) == {"memory"}, "some gang did not end"
    assert not world.members
    assert not world.gangs.turns
    assert all(not gang.ready and gang.attempt is None for gang in world.gangs.gangs.values())


# Which gangs get a communicator, and which one.


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
def test_a_communicator_of_a_stopped_attempt_is_not_used_again(gangs, event):
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


@pytest.mark.parametrize("event", ["nothing", "connected", "lost"])
def test_workers_that_do_not_connect_use_their_own_comms_until_one_is_lost(gangs, event):
    messages = start_all(gangs, offer=b"first")
    if event == "connected":
        finish(gangs, "g", messages[0].fields["attempt"])
        messages = start_all(gangs, first=3, offer=b"another")
    gangs.broken("g", messages[0].fields["attempt"], "a reason")
    messages = start_all(gangs, first=5, offer=b"second")
    assert communicator(messages) is None, "the second time"
    finish(gangs, "g", messages[0].fields["attempt"], 5)
    if event == "lost":
        gangs.lost("b")
    gangs.add("i", 2, 60)
    assert communicator(start_all(gangs, "h", "ac", 7, offer=b"third")) is not None, "of other workers"
    gangs.left("h", 0)
    found = communicator(start_all(gangs, "i", "ab", 9, offer=b"fourth"))
    assert (found is None) == (event == "nothing")
