"""The coordinator of gangs as a state machine: no cluster, any interleaving of its events."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("distributed")

from dask_gpusort.graph.gang.coordinator import CANCEL, CLOSE, ERROR, MOST_COMMUNICATORS, START, Gangs, Member


def member(worker, run_id, summaries=b"", offer=None, checksum=0):
    return Member(worker, run_id, checksum, summaries, offer)


def start_all(gangs, token="g", workers="ab", first=1, **fields):
    """Make both members of a gang ready; the messages of the second one."""
    gangs.ready(token, 0, member(workers[0], first, **fields))
    return gangs.ready(token, 1, member(workers[1], first + 1, **fields))


def finish(gangs, token, attempt, first=1):
    gangs.exchanged(token, 0, first, attempt)
    return gangs.exchanged(token, 1, first + 1, attempt)


@pytest.fixture
def gangs():
    found = Gangs()
    found.add("g", 2, 60)
    found.add("h", 2, 60)
    return found


# Events and what follows from them.

#: Each line has events, separated by commas, and the messages that the last one makes; the others make none. A member
#: is the letter of its worker and the number of its run, which no other member has; behind it is the worker's offer.
SCENARIOS = {
    "a gang starts when all its members are ready": """
        ready g1 b2
        ready g0 a1 -> start a1 b2""",
    "gangs take turns on a worker, and run side by side on others": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        ready h0 b3, ready h1 c4
        ready i0 d5, ready i1 e6 -> start d5 e6
        exchanged g0
        exchanged g1 -> start b3 c4""",
    "no gang overtakes on a worker that an earlier one waits for": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        ready h0 b3, ready h1 c4
        ready i0 c5, ready i1 d6
        exchanged g0, exchanged g1 -> start b3 c4
        exchanged h0, exchanged h1 -> start c5 d6""",
    "a member leaves while others are still to come": """
        ready g0 a1
        left g0 -> cancel a1
        ready g1 b2
        ready g0 c3 -> start c3 b2""",
    "a member leaves while its gang waits for its turn": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        ready h0 a3, ready h1 b4
        left h0 -> cancel a3
        exchanged g0, exchanged g1
        ready h0 a5 -> start a5 b4""",
    "a member leaves an exchange": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        left g1 -> cancel a1 b2
        exchanged g0, left g0, ready g0 a3
        ready g1 c4 -> start a3 c4""",
    "a member leaves after its exchange; only its worker takes its shards along": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        exchanged g0, left g0, exchanged g1
        ready g0 a3, ready g1 b4 -> start a3 b4
        exchanged g0
        lost a -> cancel a3 b4""",
    "a member has exchanged, and its result is lost while the others still exchange": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        exchanged g0, ready g0 a3, exchanged g1
        ready g1 b4 -> start a3 b4""",
    "a worker is lost": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        ready h0 a3, ready h1 c4
        lost b -> cancel a1 b2, start a3 c4""",
    "an exchange fails, and fails again": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        broken g -> cancel a1 b2
        ready g0 a3, ready g1 b4 -> start a3 b4
        broken g -> error a3 b4
        ready g0 a5, ready g1 b6 -> start a5 b6
        broken g -> cancel a5 b6""",
    "an exchange that ends forgets failures": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        broken g -> cancel a1 b2
        ready g0 a3, ready g1 b4 -> start a3 b4
        exchanged g0, exchanged g1
        ready g0 a5, ready g1 b6 -> start a5 b6
        broken g -> cancel a5 b6""",
    "a member raises an error while another one waits": """
        ready g0 a1
        failed g -> error a1
        ready g1 b2""",
    "a member raises an error when another one has received everything": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        exchanged g0
        failed g -> error a1 b2
        exchanged g1, ready g0 a3, ready g1 b4 -> start a3 b4""",
    "a gang is forgotten": """
        ready g0 a1, ready g1 b2 -> start a1 b2
        ready h0 a3, ready h1 b4
        forget g -> cancel a1 b2, start a3 b4
        exchanged h0, exchanged h1""",
    "a communicator is kept for its workers in any order, and made of the offer of its own rank 0": """
        ready g0 b1 q, ready g1 a2 p -> start a2 b1 by p
        exchanged g0, exchanged g1, ready h0 a3 r, ready h1 b4 q -> start a3 b4 by p
        exchanged h0, exchanged h1, ready h0 a5 r, ready h1 c6 s -> start a5 c6 by r""",
    "a communicator of an attempt that is stopped is closed": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        left g0 -> cancel a1 b2, close ab
        ready g0 a3 r, ready g1 b4 q -> start a3 b4 by r
        lost b -> cancel a3 b4, close ab""",
    "a communicator of a worker that is lost is closed": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        exchanged g0, exchanged g1, lost a -> close ab
        ready g0 a3 r, ready g1 b4 q -> start a3 b4 by r""",
    "two members on a worker, one without an offer, and a gang of one have the comms of workers": """
        ready g0 a1 p, ready g1 a2 p -> start a1 a2
        exchanged g0, exchanged g1, ready g0 a3 p, ready g1 b4 -> start a3 b4
        ready s0 c5 r -> start c5""",
    "gangs that are ready at the same time have the same offer of the worker that they share": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        ready h0 a3 p, ready h1 c4 s
        exchanged g0, exchanged g1 -> start a3 c4 by s""",
    "without an unused offer there is no communicator": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        exchanged g0, exchanged g1, ready h0 b3 q, ready h1 c4 s -> start b3 c4 by q
        exchanged h0, exchanged h1, ready g0 a5 p, ready g1 b6 q -> start a5 b6 by p
        exchanged g0, exchanged g1, ready h0 a7 p, ready h1 d8 -> start a7 d8
        exchanged h0, exchanged h1, ready h0 a9 p, ready h1 e0 p -> start a9 e0""",
    "an offer is used though its attempt has ended": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        failed g -> error a1 b2, close ab
        ready h0 a3 p, ready h1 b4 q -> start a3 b4 by q""",
    "workers that do not connect are known": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        broken g -> cancel a1 b2, close ab
        ready g0 a3 r, ready g1 b4 q -> start a3 b4
        exchanged g0, exchanged g1, ready h0 a5 r, ready h1 c6 s -> start a5 c6 by r
        exchanged h0, exchanged h1, ready g0 a7 t, ready g1 b8 q -> start a7 b8""",
    "workers that do not connect are known until one is lost": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        broken g -> cancel a1 b2, close ab
        ready g0 a3 r, ready g1 b4 q -> start a3 b4
        exchanged g0, exchanged g1, lost b, ready g0 a5 r, ready g1 b6 q -> start a5 b6 by r""",
    "workers that have connected are tried again": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        exchanged g0, exchanged g1, ready g0 a3 r, ready g1 b4 q -> start a3 b4 by p
        broken g -> cancel a3 b4, close ab
        ready g0 a5 r, ready g1 b6 q -> start a5 b6
        exchanged g0, exchanged g1, ready g0 a7 r, ready g1 b8 q -> start a7 b8 by r""",
    "a failure is that of a worker that is lost behind it": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        broken g -> cancel a1 b2, close ab
        lost b, ready g0 a3 r, ready g1 d4 t -> start a3 d4 by r
        broken g -> cancel a3 d4, close ad""",
    "a failure is not that of another worker that is lost": """
        ready g0 a1 p, ready g1 b2 q -> start a1 b2 by p
        broken g -> cancel a1 b2, close ab
        lost c, ready g0 a3 r, ready g1 d4 t -> start a3 d4
        broken g -> error a3 d4""",
}


def play(gangs, text):
    """Assert what follows from the events of a scenario."""
    sent, epoch_of = {}, {}  # the attempt of each run, and the communicator of each offer

    def act(event, at, one="", offer=None):
        token, rank = at[0], int(at[1:] or 0)
        attempt = gangs.gangs[token].attempt if token in gangs.gangs else None
        if event == "ready":
            return gangs.ready(token, rank, member(one[0], int(one[1]), offer=offer and offer.encode()))
        if event == "exchanged":
            return gangs.exchanged(token, rank, attempt.members[rank].run_id, attempt.number) if attempt else []
        if event == "broken":
            return gangs.broken(token, attempt.number if attempt else 0, "a reason")
        others = {"left": [rank], "failed": ["an error"]}.get(event, [])
        return getattr(gangs, event)(token, *others)

    def said(message):
        worker, op, fields = message
        if op == CLOSE:
            return f"close {worker} of {''.join(fields['addresses'])}"
        run, made = fields["run_id"], fields.get("communicator")
        if op == START:
            sent[run] = fields["attempt"]
        if made:
            assert epoch_of.setdefault(made[1], made[0]) == made[0]
        # By the attempt a worker knows what a member has sent, which may hear nothing any more.
        assert fields.get("attempt") == sent.get(run)
        word = {START: "start", CANCEL: "cancel", ERROR: "error"}[op]
        return f"{word} {worker}{run}" + (f" by {made[1].decode()}" if made else "")

    for line in text.strip().splitlines():
        events, _, wanted = line.partition("->")
        *others, last = (sorted(map(said, act(*event.split()))) for event in events.split(","))
        assert not any(others), line
        found = []
        for part in filter(str.strip, wanted.split(",")):
            what, _, offer = part.partition("by")
            op, *runs = what.split()
            runs = [f"{worker} of {runs[0]}" for worker in runs[0]] if op == "close" else runs
            found += [f"{op} {run}" + (f" by {offer.strip()}" if offer else "") for run in runs]
        assert last == sorted(found), line
    assert len({*epoch_of.values()}) == len(epoch_of)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_follows_from_events(gangs, name):
    gangs.add("i", 2, 60)
    gangs.add("s", 1, 60)
    play(gangs, SCENARIOS[name])


def test_a_start_has_what_all_members_must_know(gangs):
    gangs.ready("g", 1, member("b", 2, b"two"))
    first, second = gangs.ready("g", 0, member("a", 1, b"one"))
    assert (first.fields["rank"], second.fields["rank"]) == (0, 1)
    for fields in (first.fields, second.fields):
        assert fields["summaries"] == [b"one", b"two"]
        assert fields["addresses"] == ("a", "b")
        assert fields["communicator"] is None


def test_stale_reports_are_ignored(gangs):
    started = start_all(gangs)[0].fields["attempt"]
    for arguments in (("g", 0, 1, started + 1), ("g", 0, 9, started), ("h", 0, 1, started), ("x", 0, 1, started)):
        assert gangs.exchanged(*arguments) == []
    assert gangs.gangs["g"].attempt.exchanged == set()
    assert gangs.broken("g", started + 1, "") == gangs.broken("x", started, "") == []
    assert finish(gangs, "g", started) == gangs.broken("g", started, "") == []
    assert gangs.gangs["g"].failed_on is None
    assert gangs.left("x", 0) == gangs.forget("x") == gangs.failed("x", None) == []


def test_a_timer_from_before_a_restart_ends_no_attempt_after_it():
    watched = []
    for _ in range(2):
        gangs = Gangs(lambda *arguments: watched.append(arguments))
        gangs.add("g", 2, 60)
        start_all(gangs)
    assert gangs.broken(*watched[0], "") == []
    assert gangs.gangs["g"].failed_on is None


def test_the_second_failure_names_the_remedy(gangs):
    gangs.broken("g", start_all(gangs)[0].fields["attempt"], "a reason")
    messages = gangs.broken("g", start_all(gangs, first=3)[0].fields["attempt"], "another reason")
    with pytest.raises(RuntimeError, match="2 times .* because another reason: use exchange='tasks'"):
        raise messages[-1].fields["error"]


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


def test_all_raise_if_a_member_is_not_what_it_was_when_others_finished(gangs):
    finish(gangs, "g", start_all(gangs, checksum=5)[0].fields["attempt"])
    assert {message.op for message in start_all(gangs, first=3, checksum=5)} == {START}
    gangs.left("g", 0)
    assert gangs.ready("g", 1, member("b", 6, checksum=5)) == []
    messages = gangs.ready("g", 0, member("a", 7, checksum=4))
    assert [(one.worker, one.op, one.fields["run_id"]) for one in messages] == [("b", ERROR, 6), ("a", ERROR, 7)]
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


def test_offers_of_a_lost_worker_are_forgotten(gangs):
    """An address names one worker for good."""
    start_all(gangs, offer=b"first")
    gangs.lost("a")
    assert not gangs._used
