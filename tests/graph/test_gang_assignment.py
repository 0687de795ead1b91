"""Which gangs begin, on a scheduler that only keeps their members."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

from dask_gpusort.graph.gang.assignment import MOST_GATHERING, Assignment
from dask_gpusort.graph.gang.member import GangSpec


class Thing(SimpleNamespace):
    """Known by its identity, as the scheduler's workers and tasks are."""

    __eq__, __hash__ = object.__eq__, object.__hash__


def held(*workers, sources=()):
    """A task whose result some workers hold, and what it is made from."""
    return SimpleNamespace(nbytes=1, who_has={*workers}, dependencies=sources)


class Cluster:
    """Members of gangs, each with one chunk, which is there or still to be made.

    Parameters
    ----------
    workers : str
        A letter for each.
    """

    def __init__(self, workers):
        self.workers = {address: Thing(address=address, extra={}) for address in workers}
        self.running, self.tasks, self.gangs = set(self.workers.values()), {}, {}
        self.asked, self.loop = 0, SimpleNamespace(add_callback=lambda call, **options: None)
        self.assignment = Assignment(self, self.gangs.__getitem__)

    def valid_workers(self, state):
        self.asked += 1
        asked = state.worker_restrictions
        return None if asked is None else {self.workers[address] for address in asked if address in self.workers}

    def set_restrictions(self, worker):
        for key, addresses in worker.items():
            self.tasks[key].worker_restrictions = addresses

    def transitions(self, recommendations, stimulus_id):
        """Nothing runs here."""

    stimulus_queue_slots_maybe_opened = transitions

    def add(self, token, workers, complete=True, chunks=None):
        """A gang with a member on each of these workers, or on any, for each chunk; whether it has begun."""
        self.gangs[token] = [
            Thing(
                key=(token, rank),
                state="waiting",
                processing_on=None,
                run_spec=SimpleNamespace(mark=GangSpec(token, rank, len(workers), 60)),
                dependencies=[chunks[rank] if chunks else held(self.workers[address]) if complete else held()],
                worker_restrictions=None if chunks else {address},
                host_restrictions=None,
                resource_restrictions=None,
                loose_restrictions=False,
            )
            for rank, address in enumerate(workers)
        ]
        self.tasks |= {state.key: state for state in self.gangs[token]}
        self.assignment.add(token, self.gangs[token])
        self.assignment.begin()
        return self.begun(token)

    def begun(self, token):
        return all(state.worker_restrictions <= self.workers.keys() for state in self.gangs[token])

    def end(self, token):
        self.assignment.end(token)
        self.assignment.begin()


@pytest.mark.parametrize("complete", [True, False])
def test_few_gangs_of_a_kind_gather_on_a_worker(complete):
    cluster = Cluster("ab")
    assert [cluster.add(f"g{number}", "ab", complete) for number in range(MOST_GATHERING + 1)] == [True, True, False]
    cluster.end("g0")
    assert cluster.begun("g2")


@pytest.mark.parametrize("complete", [True, False])
def test_a_gang_that_waits_for_a_worker_is_not_overtaken_on_its_others(complete):
    """Else small gangs, of which there always are some, would keep a large one from all its workers for ever."""
    cluster = Cluster("abc")
    assert cluster.add("a0", "a", complete)
    assert cluster.add("a1", "a", complete)
    assert not cluster.add("large", "ab", complete)
    assert not cluster.add("b", "b", complete)
    assert cluster.add("c", "c", complete)
    cluster.end("a0")
    assert cluster.begun("large")
    assert cluster.begun("b")


def test_gangs_whose_chunks_are_still_to_be_made_hold_up_none_whose_chunks_are_there():
    """They may wait for what it makes."""
    cluster = Cluster("ab")
    for number in range(MOST_GATHERING + 1):
        cluster.add(f"later{number}", "ab", complete=False)
    assert not cluster.begun(f"later{MOST_GATHERING}")
    assert cluster.add("now", "ab")


def test_gangs_that_cannot_begin_cost_the_scheduler_little():
    cluster = Cluster("ab")
    for number in range(50):
        cluster.add(f"g{number}", "ab")
    cluster.asked = 0
    cluster.assignment.begin()
    assert cluster.asked <= 2


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_members_go_to_the_chunks_or_to_what_these_are_made_from(steps):
    cluster = Cluster("abc")
    chunks = [held(cluster.workers[address]) for address in "ca"]
    for _ in range(steps):
        chunks = [held(sources=[chunk, held()]) for chunk in chunks]
    assert cluster.add("g", "ca", chunks=chunks)
    assert [state.worker_restrictions for state in cluster.gangs["g"]] == [{"c"}, {"a"}]
