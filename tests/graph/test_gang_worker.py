"""The gang on one worker, without a cluster: communicators that are kept, messages to members, and outboxes."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.chunk.checks import DeclaredChunk
from dask_gpusort.chunk.run import Run
from dask_gpusort.functions.sort import LocalSort, SortRuns
from dask_gpusort.order import Order

distributed = pytest.importorskip("distributed")
_distributed = pytest.importorskip("dask_gpusort.graph._distributed")
comms = pytest.importorskip("dask_gpusort.graph.gang.communicator")
coordinator = pytest.importorskip("dask_gpusort.graph.gang.coordinator")
member = pytest.importorskip("dask_gpusort.graph.gang.member")
safe_sizeof = pytest.importorskip("distributed.sizeof").safe_sizeof
OFFLOAD_THRESHOLD = pytest.importorskip("distributed.comm.utils").OFFLOAD_THRESHOLD
gang = pytest.importorskip("dask_gpusort.drivers.gang")
worker_plugin = pytest.importorskip("dask_gpusort.graph.gang.member")

SHARD = Run(np.arange(3))


class Made:
    """A communicator that only notes what is asked of it."""

    def __init__(self, *arguments):
        self.arguments, self.aborted = arguments, 0

    def abort(self):
        self.aborted += 1


@pytest.fixture
def plugin(monkeypatch):
    monkeypatch.setattr(worker_plugin, "communicator_maker", lambda: SimpleNamespace(make=Made))
    worker = SimpleNamespace(handlers={}, stream_handlers={}, address="a")
    found = worker_plugin.GangWorkerPlugin()
    found.setup(worker)
    return found


def begin(plugin, token, rank, communicator, addresses=("a", "b")):
    """The start of an attempt arrives; gives the message, as the member gets it."""
    fields = {"attempt": 1, "addresses": addresses, "communicator": communicator}
    plugin.worker.stream_handlers[coordinator.START](token=token, rank=rank, run_id=7, **fields)
    return fields


def begun(plugin, token, rank, communicator, addresses=("a", "b")):
    """The communicator of an attempt of which the start arrives, with its arguments."""
    return plugin.communicator(token, rank, begin(plugin, token, rank, communicator, addresses)).kept


def test_a_communicator_is_made_once_for_each_epoch(plugin):
    first = begun(plugin, "g", 1, (1, b"id"))
    assert first.arguments == (b"id", 2, 1)
    assert begun(plugin, "h", 1, (1, b"other")) is first
    second = begun(plugin, "g", 1, (2, b"other"))
    assert second.arguments == (b"other", 2, 1)
    assert (first.aborted, second.aborted) == (1, 0)
    assert begun(plugin, "g", 1, (2, b"other"), ("a", "c")) is not second


def test_a_communicator_serves_its_workers_in_any_order(plugin):
    made = begun(plugin, "g", 2, (1, b"id"), ("b", "c", "a"))
    assert made.arguments == (b"id", 3, 0)
    for rank, addresses in ((0, ("a", "b", "c")), (1, ("c", "a", "b"))):
        assert begun(plugin, "h", rank, (1, b"id"), addresses) is made
    assert made.aborted == 0


class Ranks:
    """Communicators of several ranks in one process: what each sends, and what each receives."""

    def __init__(self, size):
        self.sent = [None] * size

    def of(self, rank):
        def exchange(sent, lengths):
            self.sent[rank] = sent, lengths
            return [f"from rank {other}" for other in range(len(self.sent))]

        return SimpleNamespace(exchange=exchange)


@given(st.permutations(range(5)))
def test_shards_follow_the_ranks_of_a_communicator(ranks):
    made, others = Ranks(5), range(5)
    for member, rank in enumerate(ranks):
        one = comms.Reordered(made.of(rank), ranks)
        received = one.exchange([(member, other) for other in others], [100 + other for other in others])
        assert received == [f"from rank {other}" for other in ranks]
    for member, rank in enumerate(ranks):
        sent, lengths = made.sent[rank]
        assert [sent[other] for other in ranks] == [(member, other) for other in others]
        assert [lengths[other] for other in ranks] == [100 + other for other in others]


def test_without_an_epoch_the_comms_of_the_workers_are_used(plugin):
    assert isinstance(plugin.communicator("g", 1, begin(plugin, "g", 1, None)), comms.WorkerComms)


def test_a_communicator_is_made_when_its_attempt_starts_whatever_becomes_of_the_member(plugin):
    """Else the other ranks would wait for this one in NCCL, which nothing ends, and its offer would be used twice."""
    begin(plugin, "g", 1, (1, b"id"))  # of a member that is gone
    ((epoch, made),) = plugin._made.values()
    assert (epoch, made.arguments) == (1, (b"id", 2, 1))


def test_a_member_that_comes_late_makes_no_communicator_anew(plugin):
    late = begin(plugin, "g", 1, (1, b"id"))
    plugin.worker.stream_handlers[coordinator.CLOSE](addresses=["a", "b"], epoch=1)
    with pytest.raises(comms.Aborted):
        plugin.communicator("g", 1, late)
    assert plugin._made == {}


def test_members_that_begin_together_have_one_maker(plugin, monkeypatch):
    both = threading.Barrier(2, timeout=0.5)

    def make():
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait()  # passed by two threads that are here together
        return object()

    monkeypatch.setattr(worker_plugin, "communicator_maker", make)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: plugin.maker, range(2))
    assert first is second is plugin.maker


def test_a_communicator_is_closed_by_its_epoch(plugin):
    close = plugin.worker.stream_handlers[coordinator.CLOSE]
    made = begun(plugin, "g", 1, (2, b"id"))
    close(addresses=["a", "b"], epoch=1)
    close(addresses=["a", "c"], epoch=2)
    assert made.aborted == 0
    close(addresses=["a", "b"], epoch=2)
    assert made.aborted == 1
    assert begun(plugin, "g", 1, (2, b"id")) is not made


def test_communicators_are_closed_with_the_worker(plugin):
    made = begun(plugin, "g", 1, (1, b"id"))
    told = []
    plugin.members[7] = lambda op, fields: told.append(op)
    asyncio.run(plugin.teardown(plugin.worker))
    assert told == [coordinator.CANCEL]
    assert made.aborted == 1


def test_a_member_that_comes_when_the_worker_closes_does_not_wait(plugin, monkeypatch):
    monkeypatch.setattr(member, "plugin_of_worker", lambda _: plugin)
    monkeypatch.setattr(member.distributed, "secede", lambda: None)
    monkeypatch.setattr(member, "thread_state", SimpleNamespace(key="k"))
    plugin.worker.state = SimpleNamespace(tasks={"k": SimpleNamespace(run_id=7)})
    asyncio.run(plugin.teardown(plugin.worker))
    with pytest.raises(member.distributed.Reschedule), member.enlist(member.GangSpec("g", 0, 2, 60), False):
        pytest.fail("it would wait for ever")
    assert not plugin.members


@pytest.mark.parametrize("seconds", [60, 0])
def test_a_member_waits_until_its_worker_has_the_plugin(plugin, monkeypatch, seconds):
    monkeypatch.setattr(_distributed, "INSTALL_SECONDS", seconds)
    # An import may take longer than a worker has until it is told to install the plugin.
    plugins = {} if seconds else {worker_plugin.NAME + _distributed.IMPORTER: "imports"}
    monkeypatch.setattr(
        _distributed, "get_worker", lambda: SimpleNamespace(plugins=plugins, status=_distributed.Status.running)
    )
    later = threading.Timer(0.1, plugins.update, [{worker_plugin.NAME: plugin}])
    later.start()
    assert _distributed.plugin_of_worker(worker_plugin.NAME) is plugin
    later.join()


def test_a_member_does_not_wait_for_the_plugin_of_a_worker_that_closes(monkeypatch):
    monkeypatch.setattr(
        _distributed, "get_worker", lambda: SimpleNamespace(plugins={}, status=_distributed.Status.closing)
    )
    monkeypatch.setattr(_distributed, "INSTALL_SECONDS", 60)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="lacks the plugin"):
        _distributed.plugin_of_worker(worker_plugin.NAME)
    assert time.monotonic() - begin < 30


def test_messages_reach_their_members_alone(plugin):
    told = []
    plugin.members[7] = lambda *message: told.append(message)
    deliver = plugin.worker.stream_handlers[coordinator.START]
    deliver(token="g", rank=0, run_id=8, attempt=1)
    deliver(token="g", rank=0, run_id=7, attempt=2)
    assert told == [(coordinator.START, {"attempt": 2})]


@pytest.mark.parametrize("op", [coordinator.CANCEL, coordinator.ERROR])
def test_a_member_that_is_to_end_aborts_its_exchange(plugin, op):
    one = member.Member(member.GangSpec("g", 0, 2, 60), plugin, 7, False)
    one._communicator = made = Made()
    one.receive(coordinator.START, {})
    assert made.aborted == 0
    one.receive(op, {})
    assert made.aborted == 1


class TwoExchanges:
    """Work that sends a number, then the sum of what arrived; `between` is called between both."""

    summaries = 1

    def __init__(self, between):
        self.between, self.found = between, None

    def checksum(self):
        return 7

    def exchanges(self, summaries):
        assert summaries == [1, 1]
        first = yield comms.Shards([SHARD] * 2, [3, 3])
        self.between()
        second = yield comms.Shards([Run(SHARD.keys + len(first))] * 2, [3, 3])
        return partial(self.finish, [run.keys.tolist() for run in (*first, *second)])

    def finish(self, found):
        self.found = found
        return (["finished"],)


class Echo:
    """A communicator whose other member sends what this one sends."""

    def __init__(self):
        self.aborted, self.error = False, None

    def exchange(self, sent, lengths):
        if self.aborted:
            raise comms.Aborted
        if self.error is not None:
            raise self.error
        return sent

    def abort(self):
        self.aborted = True


@pytest.mark.parametrize("event", ["nothing", "error", "cancel", "error of another", "broken", "broken twice"])
def test_several_exchanges_and_what_may_end_them(event):
    sent, made = [], []
    error = {"error": pickle.dumps(KeyError("another"))}

    def send(op, **fields):
        sent.append((op, fields))
        if op == member.READY:
            one.receive(coordinator.START, {"attempt": 5, "summaries": [fields["summaries"]] * 2})
        if op == member.BROKEN:
            one.receive(*(coordinator.ERROR, error) if event == "broken twice" else (coordinator.CANCEL, {}))

    plugin = SimpleNamespace(maker=None, send=send, communicator=lambda *_: made.append(Echo()) or made[-1])
    one = member.Member(member.GangSpec("g", 0, 2, 60), plugin, 7, False)

    def between():
        if event == "error":
            raise ZeroDivisionError("mine")
        if event == "cancel":
            one.receive(coordinator.CANCEL, {})
        if event == "error of another":
            one.receive(coordinator.ERROR, error)
        if event.startswith("broken"):
            made[0].error = OSError("no route")

    work = TwoExchanges(between)
    raised = {"error": ZeroDivisionError, "cancel": distributed.Reschedule, "broken": distributed.Reschedule}
    if event == "nothing":
        assert one.run(work) == (["finished"],)
        assert work.found == [[0, 1, 2]] * 2 + [[2, 3, 4]] * 2
    else:
        with pytest.raises(raised.get(event, KeyError)):
            one.run(work)
        assert work.found is None
    assert len(made) == 1
    ops = {"nothing": [member.EXCHANGED], "broken": [member.BROKEN], "broken twice": [member.BROKEN]}
    assert [op for op, _ in sent] == [member.READY, *ops.get(event, [])]
    if event.startswith("broken"):
        assert sent[-1][1] == {"token": "g", "rank": 0, "run_id": 7, "attempt": 5, "why": "OSError('no route')"}
    assert one._communicator is None


def reported(keys):
    """What a member with one run of these keys reports when it is ready."""
    sent = []
    plugin = SimpleNamespace(maker=None, send=lambda op, **fields: sent.append(fields))
    one = member.Member(member.GangSpec("g", 0, 1, 60), plugin, 7, False)
    chunk = np.empty(len(keys), object)
    chunk[:] = keys
    sort = SortRuns(LocalSort(Order(chunk.dtype), positions=False), samples=8, radix_bits=0, groups=None)
    declared = DeclaredChunk("the input", chunk.dtype, (0,), chunk.shape)
    work = gang.ProgramJob((sort,), (), (declared,), *(((0,),),) * 3, ((),))([chunk], 0)
    one.receive(coordinator.CANCEL, {})  # as soon as it has reported
    with pytest.raises(distributed.Reschedule):
        one.run(work)
    (fields,) = sent
    return coordinator.Member("a", 7, fields["checksum"], fields["summaries"])


@pytest.mark.parametrize(("again", "changed"), [("equal objects", False), ("more keys", True), ("other ties", True)])
def test_a_member_that_is_computed_again_has_changed_if_its_keys_have(again, changed):
    """A pickle has an object once and then refers to it, so those of equal objects differ."""
    one, other = "".join(["a", "key"]), "".join(["a", "key"])
    keys = {"equal objects": [(one, 1), (other, 2)], "more keys": [(one, 1)] * 3, "other ties": [(one, 1), (one, 1)]}
    gangs = coordinator.Gangs()
    gangs.add("g", 1, 60)
    (message,) = gangs.ready("g", 0, reported([(one, 1), (one, 2)]))
    gangs.exchanged("g", 0, 7, message.fields["attempt"])
    (message,) = gangs.ready("g", 0, reported(keys[again]))
    assert message.op == (coordinator.ERROR if changed else coordinator.START)


# Outboxes.


@pytest.fixture
def outboxes(plugin, monkeypatch):
    monkeypatch.setattr(comms, "WAIT_SECONDS", 0.05)
    return plugin.outboxes


KEY = ("g", 1, 0, 0)


def test_the_end_of_an_attempt_drops_the_shards_of_all_its_exchanges(plugin):
    async def stop():
        for number in (0, 1):
            plugin.outboxes.fill(("g", 1, 0, number), {1: SHARD})
        plugin.outboxes.fill(("g", 2, 0, 0), {1: SHARD})
        plugin.worker.stream_handlers[coordinator.CANCEL](token="g", rank=0, run_id=7, attempt=1)

    asyncio.run(stop())
    assert plugin.outboxes.shards.keys() == {("g", 2, 0, 0)}


def test_each_shard_is_taken_once(outboxes):
    async def take():
        outboxes.fill(KEY, {1: SHARD, 2: SHARD})
        replies = [await outboxes.take(list(KEY), to) for to in (1, 1, 2)]
        return [reply["status"] for reply in replies]

    assert asyncio.run(take()) == ["OK", "wait", "OK"]
    assert not outboxes.shards


def test_who_comes_early_waits_for_the_shard(outboxes, monkeypatch):
    monkeypatch.setattr(comms, "WAIT_SECONDS", 60)

    async def take():
        waiting = [asyncio.ensure_future(outboxes.take(list(KEY), to)) for to in (1, 2)]
        await asyncio.sleep(0)
        outboxes.fill(KEY, {1: SHARD, 2: SHARD})
        return [reply["shard"].data for reply in await asyncio.wait_for(asyncio.gather(*waiting), 5)]

    assert asyncio.run(take()) == [SHARD, SHARD]
    assert not outboxes.shards


def test_who_waits_in_vain_is_told(outboxes):
    async def take():
        outboxes.fill(("g", 1, 0, 1), {1: SHARD})
        return await outboxes.take(list(KEY), 1)

    assert asyncio.run(take()) == {"status": "wait"}


def test_a_shard_of_another_length_than_the_cuts_say_is_noticed(plugin):
    async def exchange():
        loop = asyncio.get_running_loop()
        plugin.worker.loop = SimpleNamespace(asyncio_loop=loop)
        plugin.worker.rpc = lambda _: SimpleNamespace(sort_gang_take=plugin.outboxes.take)
        plugin.outboxes.fill(("g", 1, 1, 0), {0: Run(np.arange(50))})
        one = comms.WorkerComms(plugin.outboxes, "g", 1, 0, ("a", "b"))
        await loop.run_in_executor(None, one.exchange, [SHARD, SHARD], [len(SHARD), 40])

    with pytest.raises(RuntimeError, match="member 1 sent 50 keys where the cuts say 40"):
        asyncio.run(exchange())


def test_a_shard_is_not_serialised_on_the_loop_of_its_worker(outboxes):
    """Distributed lets a thread serialise what it takes for large. The loop would stop, and with it heartbeats."""
    shard = Run(np.zeros(2 * int(OFFLOAD_THRESHOLD), "u1"))

    async def take():
        outboxes.fill(KEY, {1: shard})
        return await outboxes.take(list(KEY), 1)

    assert safe_sizeof(asyncio.run(take())) >= shard.nbytes > OFFLOAD_THRESHOLD


# The workers' own comms.


def exchange(plugin, addresses, during):
    """What an exchange of member 0 raises, after `during(communicator)` on the loop while it waits for member 1.

    No other task may be left then.
    """

    async def run():
        loop = asyncio.get_running_loop()
        plugin.worker.loop = SimpleNamespace(asyncio_loop=loop)
        one = comms.WorkerComms(plugin.outboxes, "g", 1, 0, addresses)
        size = len(addresses)
        exchanging = loop.run_in_executor(None, one.exchange, [SHARD] * size, [len(SHARD)] * size)
        while ("g", 1, 0, 0) not in plugin.outboxes.shards:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)  # until it waits for the others
        during(one)
        try:
            await exchanging
        except Exception as error:
            found = error
        others = asyncio.all_tasks() - {asyncio.current_task()}
        pending = (await asyncio.wait(others, timeout=2))[1] if others else None
        assert not pending
        return found

    found = asyncio.run(run())
    assert not plugin.outboxes.shards
    return found


def test_a_member_that_cannot_be_fetched_from_ends_the_wait_for_others(plugin):
    lost = asyncio.Event()

    async def sort_gang_take(**_):
        await lost.wait()
        raise OSError("lost")

    plugin.worker.rpc = lambda _: SimpleNamespace(sort_gang_take=sort_gang_take)
    error = exchange(plugin, ("a", "a", "b"), lambda _: lost.set())
    assert isinstance(error, OSError)
    assert re.search(f"worker {plugin.worker.address} does not reach worker b: let workers reach.*lost", str(error))


def test_an_aborted_exchange_waits_for_nobody(plugin):
    def abort(communicator):
        # As when both members of a worker are told to end in one batch of messages.
        plugin.outboxes.drop("g", 1, 1)
        communicator.abort()

    assert isinstance(exchange(plugin, ("a", "a"), abort), comms.Aborted)
