"""Distinct values, sets and ranks by gangs, and what becomes of them if workers are lost."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.distinct import Columns
from dask_gpusort.functions.distinct import Cut, Distinct, Merged, Number, OfGroups, Reply, Spread, numbers
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers
from dask_gpusort.plan.sets import gang_of_distinct, parts_of

distributed = pytest.importorskip("distributed")

gangs = pytest.importorskip("support.gangs")
program = pytest.importorskip("dask_gpusort.drivers.gang")
communicator = pytest.importorskip("dask_gpusort.graph.gang.communicator")

of_tasks = gangs.of_tasks
COMPUTED = pytest.mark.skipif(da.array_expr_enabled(), reason="Dask computes no array of unknown size")


@COMPUTED
def test_members_that_are_the_chunks_of_the_only_output(client):
    x = gangs.placed(ours.make("i8", 3000, "zipf"), ((1000,) * 3,), [0, 1, 2])
    for found in (dask_gpusort.unique(x), dask_gpusort.rank(x)):
        assert len([key for key in dict(dask.optimize(found)[0].dask) if key[0] != x.name]) == 3
        # The scheduler knows this chunk as one of another gang when all are computed.
        part = found.blocks[1].persist()
        parts = [found.blocks[number].compute() for number in range(3)]
        oracle.assert_same_bits(found.compute(), np.concatenate(parts))
        oracle.assert_same_bits(part.compute(), parts[1])


@COMPUTED
@pytest.mark.parametrize("keys", ["distinct", "few", "skewed"])
def test_distinct_keys_are_spread_evenly(gang, keys):
    rng = np.random.default_rng(0)
    host = {"distinct": rng.permutation(30_000), "few": rng.integers(0, 900, 30_000), "skewed": rng.zipf(1.1, 30_000)}
    values = dask_gpusort.unique(gang.placed(host[keys], ((6000,) * 5,), [0, 1, 2]))
    values.compute_chunk_sizes()
    assert max(values.chunks[0]) < 1.2 * values.size / 3


@COMPUTED
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_nan_that_are_sorted_apart_are_one_group(gang, dtype):
    host = np.repeat(np.array([complex(1, np.nan), complex(np.nan, 1), complex(np.nan, np.nan)], dtype), 10)
    values, counts = gang.check(dask_gpusort.unique, [host], [((10,) * 3,)], [0, 1, 2], return_counts=True)
    assert (len(values), counts.tolist()) == (1, [30])


def test_ranks_refuse_nan_on_request(gang):
    x = gang.placed(ours.make("f8", 300, "special"), ((50,) * 6,), [0, 1])
    with pytest.raises(ValueError, match="contains nan"):
        dask_gpusort.rank(x, nan_policy="raise").compute()


# The plan.


def test_explain_says_that_a_gang_finds_them(client):
    x = da.zeros(300, chunks=50)
    assert "groups    3 members find distinct keys" in dask_gpusort.explain_unique(x).detail
    assert "3 members find distinct keys" in dask_gpusort.explain_rank(x).detail
    assert "8 bytes for each go back" in dask_gpusort.explain_rank(x).detail
    for others in (x.astype(object), x.rechunk(-1)):
        assert "find distinct keys, exchange" not in dask_gpusort.explain_unique(others).detail
    with dask.config.set({"gpusort.exchange": "auto"}):
        assert dask_gpusort.explain_unique(x).exchange != "gang"


@pytest.mark.parametrize(
    ("memory", "columns", "dtype", "equal_nan", "members"),
    [
        (None, Columns(), "f8", True, 2),
        (4000 * 5, Columns(), "f8", True, 2),
        (4000 * 5 - 1, Columns(), "f8", True, 0),
        (4000 * 5, Columns(), "f8", False, 0),
        (8000 * 5, Columns(), "f8", False, 2),
        (4000 * 5, Columns(), "i8", False, 2),
        (10_000 * 5, Columns(inverse=True), "f8", True, 2),
        (10_000 * 5 - 1, Columns(inverse=True), "f8", True, 0),
        (12_000 * 5 - 1, Columns(counts=True, firsts=True), "f8", True, 0),
        (None, Columns(), "O", True, 0),
    ],
)
def test_a_gang_needs_memory_for_shares_of_all(memory, columns, dtype, equal_nan, members):
    order, workers = Order(np.dtype(dtype), stable=True), Workers(2, memory, devices=True)
    held = InputChunks([250] * 4, workers=["a", "b", "b", "a"])
    found = gang_of_distinct(order, held, workers, "auto", columns, equal_nan)
    assert found == (((0, 3), (1, 2)) if members else ())
    for other in (InputChunks([250] * 4), InputChunks([250] * 4, workers=["a", "b", "b", None])):
        assert gang_of_distinct(order, other, workers, "auto", columns, equal_nan) == ()
    assert gang_of_distinct(order, held, workers, "device", columns, equal_nan) == ()


# Workers that are lost, and errors: a rank needs four exchanges.

ARRAY = ours.make("f8", 3000, "zipf")
RANKS = of_tasks(dask_gpusort.rank, da.from_array(ARRAY, chunks=1000))[0]
SECONDS = 30


@contextmanager
def rank_held_at(monkeypatch, number):
    """A client, the future of ranks whose member 1 waits before an exchange of a number, and what lets it go on."""
    held, go_on = threading.Event(), threading.Event()
    exchange, finish = communicator.WorkerComms.exchange, program.ProgramWork.finish

    def hold(rank, at):
        if (rank, at) == (1, number) and not go_on.is_set():
            held.set()
            assert go_on.wait(SECONDS)

    def exchange_held(self, *shards):
        hold(self.rank, self._exchanges)
        return exchange(self, *shards)

    def finish_held(self, *made):
        hold(self.rank, 4)
        return finish(self, *made)

    monkeypatch.setattr(communicator, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(communicator.WorkerComms, "exchange", exchange_held)
    monkeypatch.setattr(program.ProgramWork, "finish", finish_held)
    with gangs.cluster(3, processes=False) as client, client.as_current(), dask.config.set(gangs.IN_GANG):
        future = client.compute(dask_gpusort.rank(gangs.placed(ARRAY, ((1000,) * 3,), [0, 1, 2])))
        assert held.wait(SECONDS)
        try:
            yield client, future, go_on
        finally:
            go_on.set()
        del future
        gangs.check_nothing_is_left(client)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("event", ["killed", "raises"])
def test_an_event_before_each_exchange_and_behind_the_last_one(monkeypatch, number, event):
    with rank_held_at(monkeypatch, number) as (client, future, go_on):
        if event == "killed":
            address = gangs.members(client)[1][1]

            async def lose(dask_scheduler):
                await dask_scheduler.remove_worker(address, stimulus_id="test")

            client.run_on_scheduler(lose)
        elif number in (1, 3):
            monkeypatch.setattr(communicator.WorkerComms, "_fetch", fails_once(communicator.WorkerComms._fetch))
        else:
            # Member 1 alone: the others wait for its part of the third exchange, or have finished.
            monkeypatch.setattr(program.ProgramWork, "_turns", fails_of_one(program.ProgramWork._turns))
        go_on.set()
        if event == "killed" or number in (1, 3):
            oracle.assert_same_bits(future.result(timeout=SECONDS), RANKS)
        else:
            with pytest.raises(ZeroDivisionError, match="^mine$"):
                future.result(timeout=SECONDS)
        future.release()


def fails_of_one(original):
    def method(self, *arguments):
        if self.rank == 1:
            raise ZeroDivisionError("mine")
        return original(self, *arguments)

    return method


def fails_once(original):
    failures = [OSError("no route to host")]

    async def fetch(self, rank):
        if failures and self.rank == 1:
            raise failures.pop()
        return await original(self, rank)

    return fetch


def work_of(keys, members=2):
    """The work of a member with one chunk, beside another one."""
    order, columns = Order(keys.dtype, stable=True), Columns(inverse=True)
    merged = Merged(order, columns)
    steps = Distinct(order, columns, True, members, 8, np.dtype("u4")), Cut(order, members), Number(merged)
    steps += Reply(merged, (OfGroups("values"),), numbers), Spread()
    declared = tuple(declared_chunks("the input", keys.dtype, ((len(keys), 0)[:members],)))
    each = ((0,), (1,))[:members]
    return program.ProgramJob(steps, ((3, 0), (4, 0)), declared, each, each, each, ((),) * members)([keys], 0)


@pytest.mark.parametrize("dtype", ["i8", "U4", ours.LONG_STRINGS[0]])
def test_a_member_that_is_computed_again_has_changed_if_its_keys_have(dtype):
    keys = ours.make(dtype, 100, "small")
    work = work_of(keys)
    assert work.checksum() == work_of(keys.copy()).checksum() != work_of(keys[1:]).checksum()
    assert work_of(ours.make("i8", 100, "bits")).checksum() != work_of(ours.make("i8", 100, "bits", 1)).checksum()


@given(st.lists(st.integers(0, 200), max_size=60, unique=True), st.none() | st.integers(0, 200), st.booleans())
def test_parts_are_neighbours_of_one_side_where_order_matters(chunks, second, ordered):
    parts = parts_of(sorted(chunks), second, ordered)
    assert [chunk for part in parts for chunk in part] == sorted(chunks)
    for part in parts:
        assert second is None or part[-1] < second or part[0] >= second
        assert not ordered or part[-1] - part[0] == len(part) - 1
    assert ordered or len(parts) <= (1 if second is None else 2)
