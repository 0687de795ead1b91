"""The P2P exchange: records, the graph, and clusters that lose workers."""

from __future__ import annotations

import abc
import asyncio
import io
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from dask._task_spec import Task
from dask_gpusort.graph.p2p_records import RunPacker, read_group, split_batch

from dask_gpusort.chunk.run import Run
from dask_gpusort.graph.cut_runs import CutRun
from dask_gpusort.graph.cuts import CutKeys, find_cuts
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, make_plan

distributed = pytest.importorskip("distributed")
DiskShardsBuffer = pytest.importorskip("distributed.shuffle._disk").DiskShardsBuffer
p2p = pytest.importorskip("dask_gpusort.graph.p2p")
p2p_engine = pytest.importorskip("dask_gpusort.graph.p2p_engine")
p2p_check = import_module("dask_gpusort.graph.p2p_check")

CHUNKS, KEYS, GROUPS = 6, 400, 5


def cut_at(run, offsets, start=0):
    """A run with exact cuts."""
    offsets = np.array(offsets)
    return CutRun(run, start, offsets, offsets)


def files_of(runs, offsets):
    """Records of all groups as the workers would write them, with the last chunk first."""
    files: dict[int, bytes] = {}
    for chunk in reversed(range(len(runs))):
        packer = RunPacker(chunk, cut_at(runs[chunk], offsets[chunk], 100 * chunk))
        batches = [packer.batch(groups) for groups in (range(2), range(2, offsets.shape[1] - 1))]
        for batch in filter(None, batches):
            for group, record in split_batch(tuple(batch)):
                files[group] = files.get(group, b"") + bytes(record)
    return files


def keys_of(offsets, group):
    return int((offsets[:, group + 1] - offsets[:, group]).sum())


OFFSETS = np.array([[0, 2, 2, 2, 5], [0, 0, 0, 1, 1], [0, 1, 4, 4, 4]])


def runs_of(make):
    return [make(np.arange(5)), make(np.arange(10, 11)), make(np.arange(20, 24))]


@pytest.mark.parametrize(
    "make",
    [
        lambda i: Run(i.astype("u8")),
        lambda i: Run(i.astype("M8[ns]"), (i.astype("S4"), np.stack([i, -i], 1)[:, ::-1], np.zeros((len(i), 0)))),
        lambda i: Run(np.array([(k, str(k)) for k in i], [("a", ">i4"), ("b", "U5")])),
        lambda i: Run(i.astype("f2"), (i.astype("S3").astype("U").astype(object), i.astype("c16"))),
        lambda i: Run(np.array([str(k) for k in i], np.dtypes.StringDType()), (i,)),
    ],
    ids=["u8", "datetime and rows", "structured", "object values", "StringDType"],
)
def test_records_come_back_in_chunk_order(make):
    runs = runs_of(make)
    files = files_of(runs, OFFSETS)
    for group in range(4):
        pieces = read_group(io.BytesIO(files[group]), group, keys_of(OFFSETS, group))
        wanted = [(100 * c, run[slice(*OFFSETS[c, group : group + 2])]) for c, run in enumerate(runs)]
        wanted = [(start, run) for start, run in wanted if len(run)] or [(0, runs[0][:0])]
        assert [start for start, _ in pieces] == [start for start, _ in wanted]
        for (_, piece), (_, run) in zip(pieces, wanted, strict=True):
            for left, right in zip(piece.arrays, run.arrays, strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)


def test_chunks_with_different_string_widths_are_joined():
    runs = [Run(np.array(["b", "c"])), Run(np.array(["a", "long one"]))]
    offsets = np.array([[0, 1, 2], [0, 1, 2]])
    records = [RunPacker(chunk, cut_at(run, offsets[chunk])).batch(range(2)) for chunk, run in enumerate(runs)]
    file = b"".join(bytes(record) for batch in records for group, record in split_batch(batch) if group == 1)
    joined = Run.concat([run for _, run in read_group(io.BytesIO(file), 1, keys_of(offsets, 1))], copy=None)
    assert joined.keys.tolist() == ["c", "long one"]


def test_pieces_of_a_group_join_without_a_copy_and_are_writable():
    files = files_of(runs_of(lambda i: Run(i, (i * 0.5,))), OFFSETS)
    pieces = read_group(io.BytesIO(files[0]), 0, keys_of(OFFSETS, 0))
    joined = Run.concat([run for _, run in pieces], copy=False)
    assert joined.keys.tolist() == [0, 1, 20]
    assert joined.keys.flags.writeable


def group_zero(chunks, offsets=OFFSETS):
    """The file of group 0 with the records of these chunks."""
    runs = runs_of(lambda i: Run(i, (i.astype(str).astype(object),)))
    batches = [RunPacker(chunk, cut_at(runs[chunk], offsets[chunk])).batch(range(1)) for chunk in chunks]
    return b"".join(batch.records for batch in batches if batch)


@pytest.mark.parametrize(
    ("chunks", "offsets", "message"),
    [
        ([], OFFSETS, "got 0 keys of 0 chunks, where the cuts say 3"),
        ([1, 0], OFFSETS, "got 2 keys of 1 chunks, where the cuts say 3"),
        ([0, 2, 0], OFFSETS, "keys of chunk 0 twice"),
        ([0, 2], np.array([[0, 2], [0, 0], [0, 3]]), "got 5 keys of 2 chunks, where the cuts say 3"),
        ([0, 1, 2], np.array([[0, 2], [0, 1], [0, 1]]), "got 4 keys of 3 chunks, where the cuts say 3"),
    ],
)
@pytest.mark.parametrize("file", [True, False])
def test_pieces_that_do_not_fit_the_cuts_are_refused(chunks, offsets, message, file):
    if file or not chunks:
        given = io.BytesIO(group_zero(chunks, offsets)) if file else None
        with pytest.raises(RuntimeError, match=message) as caught:
            read_group(given, 0, keys_of(OFFSETS, 0))
        assert "persist" in str(caught.value)


def test_an_empty_group_without_records_is_refused():
    # The first chunk sends a record to every group, because the group needs its dtypes.
    with pytest.raises(RuntimeError, match="got 0 keys of 0 chunks"):
        read_group(None, 0, 0)


def test_a_truncated_file_is_refused():
    whole = group_zero([0, 2])
    assert len(read_group(io.BytesIO(whole), 0, keys_of(OFFSETS, 0))) == 2
    for end in range(len(whole)):
        with pytest.raises(RuntimeError, match=r"ends inside a record|got \d keys of \d chunks"):
            read_group(io.BytesIO(whole[:end]), 0, keys_of(OFFSETS, 0))


def test_consecutive_numbers_form_ranges():
    assert p2p_engine.neighbours([4, 0, 1, 5, 9]) == [range(2), range(4, 6), range(9, 10)]
    assert p2p_engine.neighbours([]) == []


@pytest.mark.parametrize(("groups", "workers"), [(1, 1), (16, 3), (5, 5), (2, 4), (7, 2)])
def test_groups_are_spread_evenly_and_contiguously(groups, workers):
    spec = p2p_engine.SortSpec(id="x", disk=True, num_groups=groups)
    addresses = [str(worker) for worker in range(workers)]
    picked = [int(spec.pick_worker(group, addresses)) for group in spec.output_partitions]
    shares = [picked.count(worker) for worker in range(workers)]
    assert picked == sorted(picked)
    assert max(shares) - min(shares) <= 1


def test_integers_in_a_batch_are_python_ints():
    # The engine takes the size of everything but Python ints from a memoryview. NumPy integers are buffers too.
    batch = RunPacker(3, cut_at(Run(np.arange(4)), [0, 1, 2, 4])).batch(range(1, 3))
    assert [type(part) for part in batch] == [int, bytes, bytes]
    assert RunPacker(3, cut_at(Run(np.arange(4)), [0, 4, 4])).batch(range(1, 2)) is None


def test_unresolved_keys_are_in_the_records_of_both_groups():
    cut = CutRun(Run(np.arange(5)), 7, np.array([0, 2, 5]), np.array([0, 3, 5]))
    batch = RunPacker(0, cut).batch(range(2))
    pieces = [read_group(io.BytesIO(bytes(record)), group, 3)[0] for group, record in split_batch(batch)]
    assert [(start, run.keys.tolist()) for start, run in pieces] == [(7, [0, 1, 2]), (7, [2, 3, 4])]


def test_the_engine_is_compatible():
    assert p2p.unavailable() is None
    assert p2p_engine.mismatch() is None


def test_an_incompatible_engine_is_reported(monkeypatch):
    monkeypatch.setattr(p2p_engine.ShuffleRun, "_write_to_disk", lambda self, shards: None)
    assert p2p_engine.mismatch() == "ShuffleRun._write_to_disk of distributed has no parameter ['data']"
    monkeypatch.delattr(p2p_engine.ShuffleRun, "_write_to_disk")
    assert p2p_engine.mismatch() == "ShuffleRun of distributed has no method _write_to_disk"
    monkeypatch.undo()
    monkeypatch.setattr(p2p_engine.ShuffleRun, "new", abc.abstractmethod(lambda self: None), raising=False)
    assert "unknown here: ['new']" in p2p_engine.mismatch()


async def ignore(self, *_):
    pass


async def never(self, *_):
    await asyncio.sleep(3)


def set_up_without_executor(plugin, worker, set_up=p2p_engine.ShuffleWorkerPlugin.setup):
    set_up(plugin, worker)
    plugin._threads = plugin.__dict__.pop("_executor")


def written_pickled(self, frames, id, write=DiskShardsBuffer._write_frames):
    write(self, map(pickle.dumps, frames), id)


@pytest.mark.parametrize(
    ("owner", "name", "replacement", "reason"),
    [
        (p2p_engine.ShuffleRun, "flush_receive", ignore, "RuntimeError: Tried to read from file before done"),
        (p2p_engine.ShuffleRun, "inputs_done", ignore, "called before barrier"),
        (p2p_engine.ShuffleRun, "inputs_done", never, "did not end in 0.5 s"),
        (DiskShardsBuffer, "_write_frames", lambda self, frames, id: None, "got 0 keys"),
        (DiskShardsBuffer, "_write_frames", written_pickled, "a trial exchange ended with OSError"),
        (DiskShardsBuffer, "read", lambda self, id: bytes(3), "AttributeError|TypeError"),
        (p2p_engine.ShuffleWorkerPlugin, "setup", set_up_without_executor, "no attribute '_executor'"),
    ],
)
def test_an_engine_that_does_something_else_is_reported(monkeypatch, owner, name, replacement, reason):
    monkeypatch.setattr(p2p_check, "PATIENCE", 0.5)
    monkeypatch.setattr(owner, name, replacement)
    p2p._failure.cache_clear()
    try:
        # Names and parameters are still those that are needed.
        monkeypatch.setattr(p2p_engine, "NEEDED", [one for one in p2p_engine.NEEDED if one[1] != name])
        assert p2p_engine.mismatch() is None
        assert re.search(reason, p2p.unavailable())
    finally:
        p2p._failure.cache_clear()


def test_the_engine_is_tried_once_in_a_process(monkeypatch):
    p2p.unavailable()
    monkeypatch.setattr(p2p_check, "try_engine", lambda: "tried again")
    assert p2p.unavailable() is None


def test_a_trial_leaves_nothing_and_is_fast(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert p2p_check.try_engine() is None
        times.append(time.perf_counter() - start)
    assert list(tmp_path.iterdir()) == []
    assert min(times) < 0.5  # 10 to 40 ms on a busy machine


def test_a_full_disk_of_the_client_is_no_fault_of_the_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert p2p_check.try_engine() is None


def test_import_succeeds_if_distributed_lacks_the_engine():
    code = (
        "import sys; sys.modules['distributed.shuffle._core'] = None\n"
        "from dask_gpusort.graph import p2p\n"
        "print(p2p.unavailable())\n"
        "try: p2p.p2p_exchange('t', None, ['a'], None, print)\n"
        "except RuntimeError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "ModuleNotFoundError" in out.splitlines()[0]
    assert "exchange='tasks'" in out.splitlines()[1]


def test_graph_grows_with_chunks_plus_groups():
    sizes = []
    for chunks in (256, 512):
        cuts = CutKeys("boundaries", ("cuts",) * chunks, 1)
        graph = p2p.p2p_exchange("t", plan_of((100,) * chunks, 64), [("run", c) for c in range(chunks)], cuts, print)
        assert len(graph) == chunks + 1 + 64
        sizes.append(len(pickle.dumps(graph)))
    assert [("sort-merge-t", group) in graph for group in (0, 63)] == [True, True]
    assert sizes[1] < 2.1 * sizes[0]
    assert sizes[1] < 1000 * len(graph)


# ---- on a cluster ----


def draw(chunk, keys):
    """Source task: the same random keys each time, and their positions in the input."""
    drawn = np.random.default_rng(chunk).integers(0, 50, keys, dtype=np.uint64)
    order = np.argsort(drawn, kind="stable")
    return Run(drawn[order], (chunk * 1_000_000 + order,))


ORDER = Order(np.dtype("u8"), stable=True)


def joined(pieces, kept):
    """Final task of a group: a stable sort of the pieces."""
    run = Run.concat([run for _, run in pieces], copy=None)
    order = np.argsort(run.keys, kind="stable")[kept]
    return Run(run.keys[order], (run.values[0][order],))


def fail(pieces, kept):
    raise ZeroDivisionError("of the finish")


#: First positions of the groups that `fail_once` was called for. Workers in this process share the list.
TRIES: list[int] = []


def fail_once(pieces, kept):
    TRIES.append(int(pieces[0][1].values[0][0]) if len(pieces[0][1]) else -1)
    if TRIES.count(TRIES[-1]) == 1:
        pieces[0][1].keys[:] = 0  # pieces are writable, and the next try reads them again
        raise OSError("once")
    return joined(pieces, kept)


def plan_of(sizes, groups):
    """A plan with a run for each chunk, and one output chunk for each group. The second output chunk is empty."""
    share, rest = divmod(sum(sizes), groups)
    out = [share] * (groups - 1) + [share + rest]
    if groups > 2:
        out[1:3] = [0, out[1] + out[2]]
    given = {"method": "auto", "exchange": "p2p", "workers": Workers(len(sizes)), "groups": groups}
    made = make_plan(ORDER, InputChunks(sizes, 8), out, **given)
    return replace(made, groups=tuple((group, group + 1, 0, 1) for group in range(groups)))


def sort_graph(token, finish=joined, groups=GROUPS, keys=KEYS):
    """Graph of a small sort: draw, count, cut and exchange."""
    plan = plan_of((keys,) * CHUNKS, groups)
    runs = [("sort-local-" + token, chunk) for chunk in range(CHUNKS)]
    graph = {run: Task(run, draw, chunk, keys) for chunk, run in enumerate(runs)}
    counts, cuts = find_cuts(token, plan, runs)
    graph |= counts | p2p.p2p_exchange(token, plan, runs, cuts, finish)
    return graph, [(f"sort-merge-{token}", group) for group in range(groups)]


def assert_sorted(merged, keys=KEYS):
    given = Run.concat([draw(chunk, keys) for chunk in range(CHUNKS)])
    order = np.argsort(given.keys, kind="stable")
    got = Run.concat(merged)
    np.testing.assert_array_equal(got.keys, given.keys[order])
    np.testing.assert_array_equal(got.values[0], given.values[0][order])


@pytest.mark.parametrize("groups", [1, 2, 13, 70])
def test_exchange_sorts_stably_and_leaves_no_files(cluster_client, groups):
    graph, outputs = sort_graph(f"stable-{groups}", groups=groups)  # one group has no keys
    assert_sorted(cluster_client.get(graph, outputs))

    def folders(dask_worker):
        return [str(path) for path in Path(dask_worker.local_directory).glob("sort-*")]

    deadline = time.monotonic() + 30
    while any(cluster_client.run(folders).values()):
        assert time.monotonic() < deadline, "the files of a finished exchange are still there"
        time.sleep(0.05)


def test_two_exchanges_at_once(cluster_client):
    one, two = sort_graph("one"), sort_graph("two", groups=3)
    merged = cluster_client.get(one[0] | two[0], [one[1], two[1]])
    assert_sorted(merged[0])
    assert_sorted(merged[1])


def test_errors_of_the_final_task_are_not_changed(cluster_client):
    graph, outputs = sort_graph("fail", finish=fail)
    with pytest.raises(ZeroDivisionError, match="of the finish"):
        cluster_client.get(graph, outputs)


def test_a_group_can_be_read_again(cluster_client):
    TRIES.clear()
    graph, outputs = sort_graph("again", finish=fail_once)
    assert_sorted(cluster_client.get(graph, outputs, retries=1))
    assert len(set(TRIES)) == GROUPS
    assert all(TRIES.count(one) == 2 for one in TRIES)


def test_message_for_a_lost_shard_names_the_group(cluster_client, monkeypatch):
    def forget_chunk_two(batch):
        for group, record in split_batch(batch):
            if bytes(record[:8]) != (2).to_bytes(8, sys.byteorder):
                yield group, record

    monkeypatch.setattr(p2p_engine, "split_batch", forget_chunk_two)
    graph, outputs = sort_graph("lost")
    with pytest.raises(RuntimeError, match=r"group \d of the exchange got \d+ keys of 5 chunks, where .*persist"):
        cluster_client.get(graph, outputs)


def test_duplicate_messages_count_once(cluster_client, monkeypatch):
    receive = p2p_engine.SortRun._receive

    async def receive_twice(self, data):
        await receive(self, data)
        await receive(self, data)

    monkeypatch.setattr(p2p_engine.SortRun, "_receive", receive_twice)
    graph, outputs = sort_graph("twice")
    assert_sorted(cluster_client.get(graph, outputs))


def test_records_are_written_while_others_arrive(cluster_client, monkeypatch):
    monkeypatch.setattr(p2p_engine, "PENDING_BYTES", 1)
    graph, outputs = sort_graph("pending")
    assert_sorted(cluster_client.get(graph, outputs))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_files_are_readable_by_their_owner_alone(cluster_client, monkeypatch):
    modes = set()
    read = p2p_engine.SortRun.read

    def note(self, path):
        modes.add(stat.S_IMODE(path.parent.stat().st_mode))
        return read(self, path)

    monkeypatch.setattr(p2p_engine.SortRun, "read", note)
    graph, outputs = sort_graph("modes")
    assert_sorted(cluster_client.get(graph, outputs))
    assert modes == {0o700}


def test_a_run_is_sent_in_portions(cluster_client, monkeypatch):
    sent = []
    shard = p2p_engine.SortRun._shard_partition

    def note(self, data, partition_id):
        shards = shard(self, data, partition_id)
        bounds = [data.packer.cut.bounds(group) for groups in data.groups_for.values() for group in groups]
        sent.append((partition_id, sum(16 * (stop - start) for start, stop in bounds), len(bounds)))
        return shards

    monkeypatch.setattr(p2p_engine.SortRun, "_shard_partition", note)
    monkeypatch.setattr(p2p_engine, "PORTION_BYTES", most := 16 * KEYS // 4)
    graph, outputs = sort_graph("portions", groups=13)
    assert_sorted(cluster_client.get(graph, outputs))
    assert all(size <= most or groups == 1 for _, size, groups in sent)
    assert [[number for number, *_ in sent].count(chunk) >= 4 for chunk in range(CHUNKS)] == [True] * CHUNKS
    assert [sum(groups for number, _, groups in sent if number == chunk) for chunk in range(CHUNKS)] == [13] * CHUNKS


def test_the_memory_of_buffers_follows_that_of_the_worker():
    engines = p2p_engine.ResourceLimiter(2**30, "label")
    for memory, limit in ((2**29, 2**24), (2**36, 2**30), (None, 2**30)):
        worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=memory))
        found = p2p_engine.own_limiter(engines, worker)
        assert (found.limit, found.metrics_label) == (limit, "label")
    assert found is engines  # all exchanges of a worker share it


def test_a_flush_waits_for_a_write_in_progress(monkeypatch):
    log = []

    async def write(self, data):
        log.append("write")
        await asyncio.sleep(0.01)
        log.append(dict(data))

    async def flush(self):
        log.append("flush")

    async def flush_twice():
        run = object.__new__(p2p_engine.SortRun)
        run._flushing, run._disk_error = asyncio.Lock(), None
        run._pending, run._pending_bytes = {1: [b"ab", b"c"]}, 3
        await asyncio.gather(run.flush_receive(), run.flush_receive())

    monkeypatch.setattr(p2p_engine.ShuffleRun, "_write_to_disk", write)
    monkeypatch.setattr(p2p_engine.ShuffleRun, "flush_receive", flush)
    asyncio.run(flush_twice())
    assert log == ["write", {(1,): b"abc"}, "flush", "flush"]


def test_a_full_disk_is_reported(cluster_client, monkeypatch):
    def full(self, frames, id):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("distributed.shuffle._disk.DiskShardsBuffer._write_frames", full)
    graph, outputs = sort_graph("full")
    with pytest.raises(OSError, match="disk space"):
        cluster_client.get(graph, outputs)


def test_a_chunk_that_no_longer_fits_its_cuts_is_refused():
    graph, _ = sort_graph("refused")
    (boundaries,) = (key for key in graph if key[:2] == ("sort-scan-refused", 1))
    boundaries, cuts = dask.get(graph, [boundaries, ("sort-cut-refused", 0, 0)])
    with pytest.raises(RuntimeError, match=r"chunk 1 is not what it was.*persist"):
        p2p.scatter_run("none", 1, (1,), draw(1, KEYS)[1:], cuts, boundaries, ORDER)


def test_device_arrays_are_refused():
    class OnDevice:
        ndim, shape = 1, (3,)

    with pytest.raises(TypeError, match=r"wait\(x\) before the sort.* meta=.*exchange='tasks'"):
        p2p_engine.check_arrays(cut_at(Run(OnDevice()), [0, 3]))


# ---- on a cluster that loses a worker ----


class KillAt(distributed.SchedulerPlugin):
    """Kill a worker's process when the n-th task with a prefix reaches a state."""

    name = "kill-at"

    def __init__(self, scheduler, pids, prefix, state, nth, victim):
        self.scheduler, self.pids = scheduler, pids
        self.prefix, self.state, self.nth, self.victim = prefix, state, nth, victim
        self.seen = set()
        self.killed = None
        self.scatters = 0

    def transition(self, key, start, finish, *args, **kwargs):
        name = key if isinstance(key, str) else key[0]
        self.scatters += name.startswith("sort-scatter-") and finish == "memory"
        if self.killed or finish != self.state or not name.startswith(self.prefix):
            return
        self.seen.add(key)
        if len(self.seen) < self.nth:
            return
        task = self.scheduler.tasks[key]
        here = (task.processing_on or next(iter(task.who_has or ()))).address
        self.killed = here if self.victim == "same" else next(address for address in self.pids if address != here)
        os.kill(self.pids[self.killed], signal.SIGKILL)


@pytest.fixture
def processes():
    """A new cluster of two processes for each test. A worker killed soon after its start would not restart."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield cluster, client


def test_exchange_between_processes(processes):
    client = processes[1]
    graph, outputs = sort_graph("large", keys=60_000)  # batches of 480 kB are sent as frames, not in one pickle
    assert_sorted(client.get(graph, outputs), keys=60_000)


@pytest.mark.parametrize(
    ("prefix", "state", "nth", "victim"),
    [
        ("sort-scatter-", "memory", 2, "same"),
        pytest.param("sort-scatter-", "memory", CHUNKS - 1, "other", marks=pytest.mark.thorough),
        pytest.param("shuffle-barrier-", "processing", 1, "same", marks=pytest.mark.thorough),
        ("shuffle-barrier-", "processing", 1, "other"),
        pytest.param("shuffle-barrier-", "memory", 1, "other", marks=pytest.mark.thorough),
        pytest.param("sort-merge-", "memory", 2, "same", marks=pytest.mark.thorough),
        ("sort-merge-", "memory", GROUPS, "other"),
    ],
)
def test_the_result_is_correct_after_a_killed_worker(processes, prefix, state, nth, victim):
    cluster, client = processes
    pids = client.run(os.getpid)
    plugin = KillAt(cluster.scheduler, pids, prefix, state, nth, victim)
    graph, outputs = sort_graph(f"kill-{prefix}{state}-{nth}-{victim}", keys=20_000)
    cluster.scheduler.add_plugin(plugin)
    try:
        merged = client.gather(client.get(graph, outputs, sync=False))
    finally:
        cluster.scheduler.remove_plugin(name=plugin.name)
    assert plugin.killed in pids
    assert plugin.scatters > CHUNKS  # the exchange started again
    assert_sorted(merged, keys=20_000)
