"""The gate of a device's memory, and steps that pass it, on a stand-in of CuPy."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.late_cupy import LateCupy, OutOfMemoryError

from dask_gpusort.chunk import memory, numpy_ops
from dask_gpusort.chunk.memory import Gate, step_bytes
from dask_gpusort.order import Order

WAIT = 30


class Visitor:
    """A thread that passes a gate, and stays until it is told to go."""

    def __init__(self, gate, share):
        self.inside, self.go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.visit, args=(gate, share), daemon=True)
        self.thread.start()

    def visit(self, gate, share):
        with gate.reserved(share):
            self.inside.set()
            self.go.wait(WAIT)

    def waits(self):
        """Whether it is still outside; a thread that may pass looks again at times."""
        return not self.inside.wait(4 * memory.LOOK_SECONDS)

    def leave(self):
        self.go.set()
        self.thread.join(WAIT)
        assert not self.thread.is_alive()


def test_shares_pass_side_by_side_while_they_fit():
    gate = Gate()
    first, second = Visitor(gate, 0.5), Visitor(gate, 0.5)
    assert first.inside.wait(WAIT)
    assert second.inside.wait(WAIT)
    third = Visitor(gate, 0.25)
    assert third.waits()
    first.leave()
    assert third.inside.wait(WAIT)
    second.leave()
    third.leave()


def test_what_others_take_counts_too():
    used = [4.0]
    gate = Gate(10, lambda: used[0])
    first = Visitor(gate, 3)
    assert first.inside.wait(WAIT)
    second = Visitor(gate, 4)
    assert second.waits()  # 4 were there when the first one passed, which has taken none of its 3 yet
    used[0] = 8.0
    first.leave()
    assert second.inside.wait(WAIT)  # alone
    third = Visitor(gate, 1)
    used[0] = 0.0
    assert third.waits()
    second.leave()
    assert third.inside.wait(WAIT)
    used[0] = 7.0
    fourth = Visitor(gate, 4)
    assert fourth.waits()
    used[0] = 0.0  # though nobody leaves
    assert fourth.inside.wait(WAIT / 2)  # the third one leaves by itself at last
    third.leave()
    fourth.leave()


@pytest.mark.parametrize("share", [1, 3.5, math.inf])
def test_a_request_for_all_or_more_passes_alone(share):
    gate = Gate()
    small, large = Visitor(gate, 0.125), None
    assert small.inside.wait(WAIT)
    large = Visitor(gate, share)
    assert large.waits()
    small.leave()
    assert large.inside.wait(WAIT)
    following = Visitor(gate, 0.125)
    assert following.waits()
    large.leave()
    assert following.inside.wait(WAIT)
    following.leave()


def test_nobody_overtakes_a_large_request():
    gate = Gate()
    held = Visitor(gate, 0.5)
    assert held.inside.wait(WAIT)
    large = Visitor(gate, 0.75)
    assert large.waits()
    small = Visitor(gate, 0.125)
    assert small.waits()
    held.leave()
    assert large.inside.wait(WAIT)
    assert small.inside.wait(WAIT)
    large.leave()
    small.leave()


def test_an_error_frees_its_share():
    gate = Gate()
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"), gate.reserved(1):
            raise ValueError("inside")
    with gate.reserved(1):
        pass


def test_many_threads_never_hold_more_than_the_memory():
    gate, lock, held, most = Gate(), threading.Lock(), [0.0], [0.0]

    def visit(share):
        with gate.reserved(share):
            with lock:
                held[0] += share
                most[0] = max(most[0], held[0])
            time.sleep(0.001)
            with lock:
                held[0] -= share

    shares = np.random.default_rng(0).integers(0, 65, 400) / 64
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(visit, shares))
    assert held == [0]
    assert 0.5 < most[0] <= 1


def test_all_threads_get_the_gate_of_a_device():
    with ThreadPoolExecutor(8) as pool:
        gates = list(pool.map(memory.gate_of, [7, 8] * 20))
    assert len(set(gates)) == 2
    assert memory.gate_of(7) is gates[0] is not gates[1]


def test_step_bytes():
    assert step_bytes(Order(np.dtype("i8")), 100, 0) == 2400
    assert step_bytes(Order(np.dtype("f8"), stable=True), 100, 0) == 3200
    assert step_bytes(Order(np.dtype("c8")), 100, 0) == 2400
    assert step_bytes(Order(np.dtype("c8"), stable=True), 100, 0) == 100 * (5 * 8 + 24)
    assert step_bytes(Order(np.dtype("i8"), stable=True), 100, 8) == 100 * (5 * 16 + 24)
    assert math.isnan(step_bytes(Order(np.dtype("i8")), math.nan, 0))


@pytest.fixture
def steps(monkeypatch):
    """The staged steps, on a stand-in of CuPy that sorts as NumPy does."""
    staged = pytest.importorskip("dask_gpusort.chunk.cupy_staged_ops", reason="no CuPy: install dask_gpusort[cu13]")
    cupy = LateCupy()
    for name, value in {"cupy": cupy, "cupy_ops": numpy_ops}.items():
        monkeypatch.setattr(staged, name, value)
    monkeypatch.setattr(staged.cupy_staging, "cupy", cupy)
    return staged


@pytest.mark.parametrize("error", [OutOfMemoryError, MemoryError], ids=["CuPy", "RMM"])
@pytest.mark.parametrize("failures", [1, 2])
def test_a_step_without_memory_is_done_again(steps, monkeypatch, failures, error):
    host, failed, shares = np.arange(1_000)[::-1], [], []
    reserved = Gate.reserved
    monkeypatch.setattr(Gate, "reserved", lambda gate, share: shares.append(share) or reserved(gate, share))
    steps.cupy.memory = 1 << 20

    def sort(*given, **options):
        if len(failed) < failures:
            failed.append(1)
            raise error(1, 2, 3)
        return numpy_ops.local_sort(*given, **options)

    steps.cupy_ops = type("Ops", (), {"local_sort": staticmethod(sort)})
    run = steps.local_sort(host, (), Order(host.dtype), positions=False)
    assert (numpy_ops.decode(run.keys, Order(host.dtype)) == np.arange(1_000)).all()
    assert steps.cupy.emptied == failures
    share = 24_000 / (memory.USABLE_FRACTION * steps.cupy.memory)
    assert shares == [share, share, 1][: failures + 1]
    assert steps.cupy.used == 0


def test_a_step_that_cannot_fit_names_the_remedy_and_keeps_nothing(steps):
    host = np.arange(1_000)
    steps.cupy.memory = host.nbytes - 1
    with pytest.raises(MemoryError, match=r"24,000 bytes of the GPU, which has 7,199: rechunk .* or leave out device="):
        steps.local_sort(host, (), Order(host.dtype), positions=False)
    steps.cupy.memory = 4 * host.nbytes
    assert steps.cupy.used == 0
    steps.local_sort(host, (), Order(host.dtype), positions=False)


def test_steps_of_many_threads_share_the_memory(steps):
    hosts = [np.random.default_rng(seed).integers(0, 1 << 60, 4_000) for seed in range(24)]
    order = Order(hosts[0].dtype)
    steps.cupy.memory = math.ceil(3 * step_bytes(order, 4_000, 16) / memory.USABLE_FRACTION)
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda host: steps.local_sort(host, (host,), order, positions=True), hosts))
    for host, run in zip(hosts, runs, strict=True):
        positions = np.argsort(host, kind="stable")
        assert (run.values[0] == host[positions]).all()
        assert (run.values[1] == positions).all()
        assert all(type(array) is np.ndarray for array in run.arrays)
    assert steps.cupy.emptied == 0
    assert steps.cupy.used == 0
    assert steps.cupy.peak <= 3 * 2 * hosts[0].nbytes
