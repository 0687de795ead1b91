"""Communicators through NCCL, without a GPU: what threads do at the same time, and errors."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from support import fake_nccl
from support.fake_nccl import LONG, SHORT, FakeNccl

from dask_gpusort.chunk.run import Run

SENT, LENGTHS = [Run(np.arange(3)), Run(np.arange(4))], [3, 5]


@pytest.fixture
def nccl():
    return FakeNccl()


@pytest.fixture
def module(nccl, monkeypatch):
    return fake_nccl.load(nccl, monkeypatch)


@pytest.fixture
def maker(module):
    return module.make_maker()


@pytest.mark.parametrize("gives_bytes", [True, False])
def test_an_exchange(maker, nccl, gives_bytes):
    nccl.gives_bytes = gives_bytes
    one = maker.make(maker.offer(), 2, 0)
    received = one.exchange(SENT, LENGTHS)
    assert list(map(len, received)) == LENGTHS
    assert received[0] is SENT[0]
    assert len(one.exchange([SENT[0], SENT[1][:0]], [3, 2])[1]) == 2
    assert [nccl.calls.count(name) for name in ("groupStart", "send", "recv", "check_async_error")] == [2, 1, 2, 2]
    assert nccl.made == [(2, nccl.unique_id(1), 0)]
    assert nccl.aborts == 0


def test_ranks_connect_before_their_first_exchange(maker, nccl):
    """The other ranks wait in NCCL for one that never exchanges, and nothing ends that."""
    connected = threading.Event()
    nccl.during["connect"] = lambda _: connected.set()
    maker.make(maker.offer(), 3, 2)
    assert connected.wait(SHORT)


def test_an_offer_is_never_unpickled(maker, tmp_path):
    class Opens:
        def __reduce__(self):
            return open, (str(tmp_path / "opened"), "w")

    with pytest.raises((AssertionError, ValueError)):
        maker.make(pickle.dumps(Opens()), 2, 0).exchange(SENT, LENGTHS)
    assert not list(tmp_path.iterdir())


def test_an_offer_is_for_one_communicator(maker):
    first = maker.offer()
    assert maker.offer() == first
    maker.make(b"\0\0", 2, 1)
    assert maker.offer() == first
    maker.make(first, 2, 0)
    assert maker.offer() != first


def test_without_a_unique_id_there_is_no_offer(maker, nccl):
    """The workers' own comms then take the place of NCCL."""

    def fail(_):
        raise KeyError(6)

    nccl.during["get_unique_id"] = fail
    assert maker.offer() is None
    del nccl.during["get_unique_id"]
    assert maker.offer() == maker.offer() is not None


def test_a_unique_id_of_another_kind_is_told(maker, nccl, monkeypatch):
    """So a new version of CuPy does not silently put the workers' comms in the place of NCCL."""
    monkeypatch.setattr(nccl, "unique_id", lambda number: "text")
    with pytest.raises(ValueError, match="text"):
        maker.offer()


def meet(both):
    """Wait until another thread is here too, if one comes."""
    with contextlib.suppress(threading.BrokenBarrierError):
        both.wait(SHORT)


def test_members_that_offer_together_offer_the_same(maker, nccl):
    both = threading.Barrier(2)
    nccl.during["get_unique_id"] = lambda _: meet(both)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: maker.offer(), range(2))
    assert first == second == maker.offer()


def test_a_communicator_that_is_aborted_as_it_connects_is_freed_once(maker, nccl, module, monkeypatch):
    before, both, known = set(threading.enumerate()), threading.Barrier(2), threading.Event()

    class Late(threading.Thread):
        """The thread of an abort, which begins when the other one has connected."""

        def run(self):
            while known.is_set() and self.name != "gpusort-connect" and one._connected is None and not nccl.aborts:
                time.sleep(0.001)
            super().run()

    def abort(_):
        if not nccl.freed.is_set() and known.wait(LONG):
            one.abort()

    monkeypatch.setattr(module, "threading", SimpleNamespace(**{**vars(threading), "Thread": Late}))
    # NCCL has connected, and the thread that called it has not gone on.
    nccl.during |= {"device": abort, "abort": lambda _: meet(both)}
    one = maker.make(maker.offer(), 2, 0)
    known.set()
    with pytest.raises(module.Aborted):
        one.exchange(SENT, LENGTHS)
    while set(threading.enumerate()) - before:
        time.sleep(0.01)
    assert nccl.aborts == 1


@pytest.mark.parametrize("name", ["send", "groupEnd", "check_async_error"])
def test_a_communicator_is_not_freed_while_it_is_used(maker, nccl, module, name):
    freed_during = []

    def abort(_):
        if not freed_during:
            aborting = threading.Thread(target=one.abort)
            aborting.start()
            freed_during.append(nccl.freed.wait(SHORT))

    nccl.during[name] = abort
    one = maker.make(maker.offer(), 2, 0)
    with contextlib.suppress(module.Aborted):  # or it has ended before it hears of the abort
        one.exchange(SENT, LENGTHS)
    assert freed_during == [False]
    assert nccl.freed.wait(LONG)
    assert nccl.aborts == 1


def test_calls_that_wait_for_a_rank_that_never_comes_are_ended(maker, nccl, module, monkeypatch):
    monkeypatch.setattr(module, "ENQUEUE_SECONDS", 0.01)

    def hang(_):
        one.abort()
        assert nccl.freed.wait(LONG)
        raise KeyError(6)

    nccl.during["groupEnd"] = hang
    one = maker.make(maker.offer(), 2, 0)
    with pytest.raises(RuntimeError, match="result 6"):
        one.exchange(SENT, LENGTHS)
    assert nccl.aborts == 1


def test_ranks_agree_on_what_they_send(nccl, maker):
    sizes, rng = np.array([[0, 5, 11], [4, 0, 0], [9, 1, 0]]), np.random.default_rng(0)
    calls = []
    for rank in range(3):
        shards = [Run(rng.integers(0, 9, n), (rng.integers(0, 9, n).astype("u1"),)) for n in sizes[rank]]
        nccl.transfers.clear()
        maker.make(maker.offer(), 3, rank).exchange(shards, sizes[:, rank])
        (group,) = nccl.transfers
        calls.append(group)
    for rank, other in permutations(range(3), 2):
        sent = [nbytes for name, to, nbytes in calls[rank] if (name, to) == ("send", other)]
        assert sent == [nbytes for name, of, nbytes in calls[other] if (name, of) == ("recv", rank)]
        assert sum(sent) == 9 * sizes[rank, other]


@pytest.mark.parametrize("name", ["connect", "send", "groupEnd", "check_async_error"])
def test_a_result_without_a_name_in_cupy_is_told(maker, nccl, name):
    def fail(_):
        raise KeyError(6)

    nccl.during[name] = fail
    with pytest.raises(RuntimeError, match="result 6: a process or the network failed"):
        maker.make(maker.offer(), 2, 0).exchange(SENT, LENGTHS)


def test_an_abort_ends_the_wait_for_ranks(maker, nccl, module):
    come = threading.Event()
    nccl.during["connect"] = lambda _: come.wait(LONG)
    one = maker.make(maker.offer(), 2, 0)
    threading.Timer(SHORT, one.abort).start()
    with pytest.raises(module.Aborted):
        one.exchange(SENT, LENGTHS)
    assert nccl.aborts == 0
    come.set()
    assert nccl.freed.wait(LONG)
