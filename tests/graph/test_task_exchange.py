"""The exchange by tasks, with NumPy chunks: bounds of the cuts, tasks, bundles, and serialization of runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.cuts import kept, lengths, piece
from support.plans import num_tasks
from support.sorting import groups

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.checks import Blocks, declared_chunks
from dask_gpusort.chunk.run import Run
from dask_gpusort.drivers import tasks as task_exchange
from dask_gpusort.functions.sort import Finish, Groups, LocalSort, Merge, SortRuns
from dask_gpusort.graph import runtime, serialization
from dask_gpusort.graph.runtime import chunk_library, workers_in_use, workers_of_cluster
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, make_plan
from dask_gpusort.plan import division as plan_runs
from dask_gpusort.plan.counting import TASK_SAMPLES
from dask_gpusort.plan.division import GROUP_MEMORY_FRACTION, bundle_chunks, join_chunks
from dask_gpusort.plan.memory import make_turns
from dask_gpusort.table import bounds_at_ranks

GIB = 1 << 30


def sorted_blocks(array, sizes, order):
    blocks = np.split(array, np.cumsum(sizes)[:-1])
    return [numpy_ops.local_sort(block, (), order, positions=True) for block in blocks]


# Bounds.


IN_CHUNKS = ours.arrays(sizes=st.integers(1, 150)).flatmap(lambda x: st.tuples(st.just(x), ours.chunk_sizes(len(x))))


@example((ours.make("i8", 60), (20, 20, 20)), 4, False, 0)
@given(IN_CHUNKS, st.integers(1, 40), st.booleans(), st.integers(0, 16))
def test_cuts_are_within_their_bounds(in_chunks, samples, descending, radix_bits):
    array, sizes = in_chunks
    order = Order(array.dtype, descending, True)
    bits = radix_bits if order.coded else 0
    summaries = [
        numpy_ops.summarize_run(run, order, samples=samples, radix_bits=bits)
        for run in sorted_blocks(array, sizes, order)
    ]
    ranks = np.arange(len(array) + 1)
    bounds = bounds_at_ranks(summaries, ranks, numpy_ops.key_order(order), bits)
    chunk_of = np.repeat(np.arange(len(sizes)), sizes)[oracle.argsort(array, descending=descending)]
    for boundary, rank in enumerate([0, *ranks, len(array)]):
        cut = np.bincount(chunk_of[:rank], minlength=len(sizes))
        assert (bounds.first[:, boundary] <= cut).all()
        assert (cut <= bounds.last[:, boundary]).all()
    for group in range(len(ranks) + 1):
        own = kept(bounds, group)
        assert 0 <= own.start <= own.stop <= lengths(bounds, group).sum()


@pytest.mark.parametrize("distribution", ours.DISTRIBUTIONS)
@pytest.mark.parametrize("chunks", [2, 5, 16])
def test_few_keys_are_unresolved_for_every_distribution(distribution, chunks):
    array = ours.make("u4", 40_000, distribution, seed=chunks)
    order, samples = Order(array.dtype), 500
    sizes = [len(part) for part in np.array_split(array, chunks)]
    runs, ranks = sorted_blocks(array, sizes, order), np.arange(1, 4) * len(array) // 4
    unresolved = []
    for bits in (0, 12):
        summaries = [numpy_ops.summarize_run(run, order, samples=samples, radix_bits=bits) for run in runs]
        bounds = bounds_at_ranks(summaries, ranks, numpy_ops.key_order(order), bits)
        unresolved.append((bounds.last - bounds.first).sum())
    # For each boundary, a chunk has at most two sample distances of unresolved keys; digits leave no more.
    assert unresolved[0] <= len(ranks) * 2 * (len(array) / samples + chunks)
    assert unresolved[1] <= unresolved[0]
    # Uniform keys are in as many digits: a boundary leaves the keys of one of 4,096.
    assert distribution != "bits" or unresolved[1] <= 2 * len(ranks) * len(array) / 4096


def test_few_keys_are_unresolved_between_two_frequent_keys():
    # The boundary is a few keys away from the change between the two keys. Not every chunk has both keys.
    order = Order(np.dtype("u4"))
    blocks = [np.repeat(np.array(keys, "u4"), 5_000) for keys in ((1, 2), (1, 1), (2, 2), (1, 2))]
    blocks.append(np.concatenate([np.zeros(9_990, "u4"), np.full(10, 2, "u4")]))
    runs = [numpy_ops.local_sort(block, (), order, positions=False) for block in blocks]
    summaries = [numpy_ops.summarize_run(run, order, samples=20) for run in runs]
    for rank in (29_985, 29_990, 29_995):
        bounds = bounds_at_ranks(summaries, np.array([rank]), numpy_ops.key_order(order))
        assert (bounds.last - bounds.first).sum() <= 5 * 3 * 500


def test_groups_trim_what_they_receive_at_both_ends():
    array, sizes, order = ours.make("i8", 300), (100, 100, 100), Order(np.dtype("i8"), stable=True)
    runs, wanted = sorted_blocks(array, sizes, order), np.argsort(array, kind="stable")
    summaries = [numpy_ops.summarize_run(run, order, samples=5) for run in runs]
    bounds = bounds_at_ranks(summaries, np.array([90, 200]), numpy_ops.key_order(order))
    for group, (start, stop) in enumerate([(0, 90), (90, 200), (200, 300)]):
        own, received = kept(bounds, group), lengths(bounds, group).sum()
        assert (own.start > 0, own.stop < received) == (group > 0, group < 2)
        pieces = [(int(bounds.starts[run]), runs[run][piece(bounds, run, group)]) for run in range(3)]
        keys, positions = Finish(order, True, True)(pieces, own)
        oracle.assert_same_bits(positions, wanted[start:stop])
        oracle.assert_same_bits(keys, array[wanted[start:stop]])


def test_checksums_depend_on_the_content_alone():
    order = Order(np.dtype("i8"))

    def summary(keys):
        return numpy_ops.summarize_run(
            numpy_ops.local_sort(np.array(keys), (), order, positions=False), order, samples=9
        )

    assert summary([3, 1, 2]).checksum == summary([1, 2, 3]).checksum
    assert len({summary(keys).checksum for keys in ([1, 2, 3], [1, 2, 4], [1, 2], [1, 1, 3])}) == 4


# Tasks.


def own_tasks(darr):
    return [key for key in dict(darr.__dask_graph__()) if str(key[0]).startswith("sort")]


def plan_of(dtype, sizes, workers, exchange="device", companion_bytes=0, holders=()):
    given = InputChunks(sizes, companion_bytes, holders)
    options = {"method": "auto", "exchange": exchange, "workers": workers, "groups": None}
    return make_plan(Order(np.dtype(dtype)), given, sizes, **options)


@pytest.mark.parametrize(("chunks", "tasks"), [(1, 12), (4, 29), (16, 45), (64, 93)])
def test_tasks_on_four_gpus(chunks, tasks):
    plan = plan_of("u4", (GIB // 4 // chunks,) * chunks, Workers(4, 140 * GIB, devices=True))
    assert num_tasks(plan) == tasks
    assert plan.candidates == 0
    assert len(plan.sources) == len(plan.runs) == min(4, chunks)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.integers(1, 9), st.data())
def test_bundles_hold_each_chunk_once(sizes, workers, data):
    holders = data.draw(st.just([]) | st.lists(st.sampled_from("abc"), min_size=len(sizes), max_size=len(sizes)))
    memory = data.draw(st.none() | st.integers(32 * 8, 32 * 8 * 300))
    inputs = InputChunks(sizes, workers=holders)
    turns = make_turns(Order(np.dtype("u8")), inputs, memory, workers) if memory else None
    bundles = bundle_chunks(inputs, 8, Workers(workers, memory, True), turns)
    assert sorted(chunk for bundle in bundles for chunk in bundle) == list(range(len(sizes)))
    assert all(list(bundle) == sorted(bundle) and bundle for bundle in bundles)
    for bundle in bundles:
        if holders:
            assert len({holders[chunk] for chunk in bundle}) == 1
            assert len(bundle) == 1 or turns is None or sum(sizes[chunk] for chunk in bundle) <= turns.bundle_keys


def test_bundles_of_unknown_sizes_are_single_chunks_but_on_hosts():
    assert bundle_chunks(InputChunks([np.nan] * 3), 8, Workers(2, devices=True)) == ((0,), (1,), (2,))
    bundles = bundle_chunks(InputChunks([np.nan] * 35), 8, Workers(2))
    assert bundles == (tuple(range(16)), tuple(range(16, 32)), (32, 33, 34))


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60), st.integers(1, 9), st.data())
def test_bundles_on_hosts_are_of_one_worker_and_fit_its_memory(sizes, threads, data):
    holders = data.draw(st.just([]) | st.lists(st.sampled_from("abc"), min_size=len(sizes), max_size=len(sizes)))
    memory = data.draw(st.none() | st.integers(1_000, 100_000))
    bundles = bundle_chunks(InputChunks(sizes, workers=holders), 8, Workers(threads, memory))
    assert sorted(chunk for bundle in bundles for chunk in bundle) == list(range(len(sizes)))
    share = sum(sizes) / threads
    for bundle in bundles:
        held = sum(sizes[chunk] for chunk in bundle)
        # Parts are about equal: they differ by a chunk at most.
        assert memory is None or held * 8 <= memory * GROUP_MEMORY_FRACTION + 8 * max(sizes)
        assert held <= 1.5 * share + max(sizes)
        assert not holders or len({holders[chunk] for chunk in bundle}) == 1
        assert list(bundle) == sorted(bundle)


def test_a_bundle_and_a_group_for_each_thread():
    sizes, holders = (50_000,) * 1024, [str(chunk % 3) for chunk in range(1024)]
    for threads in (1, 2, 8, 16):
        workers = Workers(threads, 4 * GIB)
        made = plan_of("i8", sizes, workers, "tasks")
        assert len(made.sources) == len(made.groups) == threads
        assert num_tasks(made) < 2 * len(sizes)
        made = plan_of("i8", sizes, workers, "tasks", holders=holders)
        assert all(len({chunk % 3 for chunk in made.runs[run]}) == 1 for run in range(len(made.runs)))


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.booleans(), st.data())
def test_runs_join_only_chunks_that_may_be_joined(sizes, interchangeable, data):
    holders = data.draw(st.lists(st.sampled_from("abc"), min_size=len(sizes), max_size=len(sizes)))
    bundles = bundle_chunks(InputChunks(sizes, workers=holders), 8, Workers(3, 32 * 8 * 200, True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_runs, "MOST_RUN_KEYS", data.draw(st.integers(1, 300)))
        runs, sources = join_chunks(bundles, sizes, interchangeable)
        for run in runs:
            assert len(run) == 1 or sum(sizes[chunk] for chunk in run) <= plan_runs.MOST_RUN_KEYS
    assert sorted(runs) == list(runs)
    assert [tuple(chunk for run in numbers for chunk in runs[run]) for numbers in sources] == list(bundles)
    if not interchangeable:
        assert all(run == tuple(range(run[0], run[-1] + 1)) for run in runs)


@pytest.mark.parametrize(
    ("order", "companion_bytes", "presorted", "runs"),
    [
        (Order(np.dtype("f4")), 0, False, ((0, 2), (1, 3))),
        (Order(np.dtype("i4"), stable=True), 0, False, ((0, 2), (1, 3))),
        (Order(np.dtype("f4"), stable=True), 0, False, ((0,), (1,), (2,), (3,))),
        (Order(np.dtype("i4")), 4, False, ((0,), (1,), (2,), (3,))),
        (Order(np.dtype("S3")), 0, False, ((0,), (1,), (2,), (3,))),
        (Order(np.dtype("f4")), 0, True, ((0,), (1,), (2,), (3,))),
    ],
)
def test_alternating_chunks_are_joined_if_the_result_is_the_same(order, companion_bytes, presorted, runs):
    options = {"method": "auto", "exchange": "device", "groups": None, "workers": Workers(2, GIB, True)}
    given = InputChunks((10,) * 4, companion_bytes, tuple("abab"), presorted)
    assert make_plan(order, given, (10,) * 4, **options).runs == runs


@pytest.mark.parametrize("chunks", [10, 5000])
def test_samples_are_bounded(chunks):
    plan = plan_of("u8", (1 << 20,) * chunks, Workers(8, 64 * GIB, devices=True), companion_bytes=8)
    assert 1 <= plan.samples * len(plan.runs) <= max(TASK_SAMPLES, chunks)
    assert plan.group_bytes <= 64 * GIB / 8


@pytest.mark.parametrize(("chunks", "groups"), [(2, 4), (4, 4), (6, 6), (8, 8), (64, 8)])
def test_chunks_are_only_cut_for_gpus_without_a_chunk(chunks, groups):
    plan = plan_of("u4", (4 * GIB // chunks,) * chunks, Workers(4, 140 * GIB, devices=True))
    assert len(plan.groups) == groups


def test_groups_of_large_data_fit_a_device():
    plan = plan_of("u8", (1 << 30,) * 36, Workers(4, 140 * GIB, devices=True))
    # Each of four devices holds 72 GiB of keys. Four groups must fit as well.
    assert plan.group_bytes * 4 + 72 * GIB <= 140 * GIB


def test_cuts_come_first_if_a_gpu_cannot_hold_the_data_twice():
    # Each GPU gets 16 GiB.
    for memory, apart in ((120 * GIB, False), (70 * GIB, True), (40 * GIB, True), (None, False)):
        assert plan_of("u8", (1 << 28,) * 16, Workers(2, memory, True)).cut_first == apart


# The whole exchange.


def test_chunks_are_sorted_on_the_workers_that_hold_them(on_cluster):
    distributed = pytest.importorskip("distributed")
    array = ours.make("f4", 6_000, "special")
    addresses = list(workers_of_cluster(on_cluster))
    name = "placed-input"
    blocks = {
        (name, chunk): on_cluster.submit(
            np.array, array[1000 * chunk : 1000 * (chunk + 1)], key=(name, chunk), workers=[addresses[chunk % 2]]
        )
        for chunk in range(6)
    }
    distributed.wait(list(blocks.values()))
    x = da.Array(blocks, name, ((1000,) * 6,), dtype=array.dtype)
    with groups(3):
        found, positions = (
            one(x, exchange="device", **more)
            for one, more in ((dask_gpusort.sort, {"stable": True}), (dask_gpusort.argsort, {}))
        )
        assert "of 2 bundles" in dask_gpusort.explain(x, exchange="device").detail
        oracle.assert_same_bits(found.compute(), oracle.sort(array))
        oracle.assert_same_bits(positions.compute(), oracle.argsort(array))


@pytest.mark.parametrize("chunks", [6, 16])
def test_large_data_are_cut_before_any_group_is_merged(monkeypatch, chunks):
    array = ours.make("f4", 6_000, "special")
    x = da.from_array(array, chunks=6_000 // chunks)
    with groups(3):
        plain = dask_gpusort.sort(x, stable=True, exchange="device")
        monkeypatch.setattr("dask_gpusort.plan.make.cuts_first", lambda *_: True)
        found = dask_gpusort.sort(x, stable=True, exchange="device")
        text = dask_gpusort.explain(x, exchange="device", stable=True).detail
    assert "all cut before a group is finished" in text
    freed = [key for key in own_tasks(found) if key[0].startswith("sort-freed")]
    assert len(own_tasks(found)) - len(own_tasks(plain)) == len(freed) > 0
    number = dask.order.order(dict(found.__dask_graph__()))
    last_cut = max(index for key, index in number.items() if str(key[0]).startswith("sort-scatter"))
    assert all(last_cut < index for key, index in number.items() if str(key[0]).startswith("sort-merge"))
    oracle.assert_same_bits(found.compute(), oracle.sort(array))


def program_of(plan):
    local = LocalSort(plan.order, positions=False)
    sort = SortRuns(local, plan.samples, plan.radix_bits, Groups(plan.chunks, plan.groups))
    return sort, Merge(Finish(plan.order, True, False), False)


def made_bundles(array, sizes, plan):
    blocks, (sort, _) = np.split(array, np.cumsum(sizes)[:-1]), program_of(plan)
    declared = declared_chunks("the input", array.dtype, (plan.sizes,))

    def part(run):
        return Blocks([blocks[chunk] for chunk in plan.runs[run]], [declared[chunk] for chunk in plan.runs[run]])

    return [
        task_exchange.take_bundle(sort.lean, numbers, [part(run) for run in numbers], None, None, [])
        for numbers in plan.sources
    ]


def runs_of(bundles):
    return [turn.runs[0] for bundle in bundles for turn in bundle.turns]


def listed(bundles, plan):
    return task_exchange.list_turns(
        program_of(plan)[0], list(map(task_exchange.take_note, bundles)), [], task_exchange.Store(), None
    )


def shard_of(bundle, cuts, group, plan):
    return task_exchange.cut_shard(program_of(plan)[0].lean, bundle.numbers, bundle, cuts, (group,))


def finished(shards, cuts, group, plan):
    return task_exchange.take_group(program_of(plan)[1], group, None, None, cuts, shards, plan.sources, [])


def small_plan(array, sizes, count=3):
    options = {"method": "auto", "exchange": "device", "workers": Workers(2), "groups": count}
    return make_plan(Order(array.dtype), InputChunks(sizes), sizes, **options)


def test_shards_share_no_memory_with_runs():
    array, sizes = ours.make("i8", 300), (100, 100, 100)
    plan = small_plan(array, sizes)
    bundles = made_bundles(array, sizes, plan)
    cuts, runs = listed(bundles, plan), runs_of(bundles)
    before, found = [run.keys.copy() for run in runs], []
    for group in range(3):
        mine = [shard_of(bundle, cuts, group, plan) for bundle in bundles]
        for shard in mine:
            assert not any(np.shares_memory(shard.keys, run.keys) for run in runs)
        copies = [shard.keys.copy() for shard in mine]
        found.append(finished(mine, cuts, group, plan).arrays[0])
        # Distributed may pass the shard to a task that is computed again.
        assert all((shard.keys == copy).all() for shard, copy in zip(mine, copies, strict=True))
    assert all((run.keys == copy).all() for run, copy in zip(runs, before, strict=True))
    oracle.assert_same_bits(np.concatenate(found), np.sort(array))


def test_pieces_of_one_shard_are_not_written():
    """They are neighbours in memory, which a merge takes as one array."""
    array, sizes = np.array([1, 4, 0, 3, 2, 5]), (2, 2, 2)
    plan = replace(small_plan(array, sizes, 1), runs=((0,), (1,), (2,)), sources=((0, 1, 2),))
    (bundle,) = made_bundles(array, sizes, plan)
    cuts = listed([bundle], plan)
    shard = shard_of(bundle, cuts, 0, plan)
    before = shard.keys.copy()
    oracle.assert_same_bits(finished([shard], cuts, 0, plan).arrays[0], np.sort(array))
    oracle.assert_same_bits(shard.keys, before)


def test_a_chunk_that_changed_is_refused():
    array, sizes = ours.make("i8", 300), (100, 100, 100)
    plan = small_plan(array, sizes)
    cuts = listed(made_bundles(array, sizes, plan), plan)
    for changed in (array[::-1].copy() + 1, np.zeros_like(array)):
        bundle = made_bundles(changed, sizes, plan)[0]
        with pytest.raises(RuntimeError, match=r"chunk 0 .*persist"):
            shard_of(bundle, cuts, 0, plan)
    short = [Run(np.zeros(1, "u8"))] * len(plan.sources)
    with pytest.raises(RuntimeError, match="has 1 rows where"):
        finished(short, cuts, 0, plan)


# Serialization.


@pytest.fixture
def fake_device(monkeypatch):
    """The serialization treats NumPy arrays as CuPy arrays."""
    buffers = SimpleNamespace(
        as_buffer=lambda array: np.ascontiguousarray(array).reshape(-1).view("u1"),
        as_host_buffer=lambda array: memoryview(np.ascontiguousarray(array).reshape(-1).view("u1")),
        from_buffer=lambda buffer, dtype, shape: np.frombuffer(buffer, dtype).reshape(shape),
        empty=lambda dtype, shape: np.empty(shape, dtype),
    )
    monkeypatch.setattr(serialization, "library_of", lambda array: "cupy")
    monkeypatch.setattr(serialization, "_buffers", lambda: buffers)


def made_run(size=5):
    return Run(np.arange(size, dtype="u4"), (np.ones((size, 2), "f4"), np.zeros(size, "?")))


@pytest.mark.parametrize("family", ["cuda", "dask"])
@pytest.mark.parametrize("size", [0, 5])
def test_runs_on_a_device_are_serialized_as_frames(fake_device, family, size):
    protocol = pytest.importorskip("distributed.protocol")
    msgpack = pytest.importorskip("msgpack")
    serialization.register()
    header, frames = protocol.serialize(made_run(size), serializers=(family,), on_error="raise")
    assert header["serializer"] == family
    assert len(frames) == (3 if size else 0)
    # The comms turn lists into tuples.
    header = msgpack.loads(msgpack.dumps(header), use_list=False)
    back = protocol.deserialize(header, frames)
    for one, other in zip(back.arrays, made_run(size).arrays, strict=True):
        oracle.assert_same_bits(one, other)


def test_bundles_on_a_device_are_serialized_as_frames(fake_device):
    protocol = pytest.importorskip("distributed.protocol")
    array, sizes = ours.make("i8", 300), (100, 150, 50)
    for bundle in made_bundles(array, sizes, small_plan(array, sizes)):
        header, frames = protocol.serialize(bundle, serializers=("cuda", "pickle"), on_error="raise")
        assert header["serializer"] == "cuda"
        assert len(frames) == len(bundle.turns)
        back = protocol.deserialize(header, frames)
        assert back.numbers == bundle.numbers
        assert [turn.mark for turn in back.turns] == [turn.mark for turn in bundle.turns]
        assert [turn.note.checksum for turn in back.turns] == [turn.note.checksum for turn in bundle.turns]
        for one, other in zip(runs_of([back]), runs_of([bundle]), strict=True):
            oracle.assert_same_bits(one.keys, other.keys)


def test_runs_on_the_host_are_pickled_without_a_copy():
    protocol = pytest.importorskip("distributed.protocol")
    serialization.register()
    run = made_run()
    header, frames = protocol.serialize(run, serializers=("cuda", "dask", "pickle"), on_error="raise")
    assert header["serializer"] == "pickle"
    assert len(frames) == 1 + len(run.arrays)
    oracle.assert_same_bits(protocol.deserialize(header, frames).keys, run.keys)


def test_classes_to_spill_are_registered_with_dask_cuda_whenever_it_is_imported(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(serialization, "_known_to_dask_cuda", set())
    serialization.register()
    registered = {}
    dispatch = SimpleNamespace(register=lambda cls: lambda function: registered.update({cls: function}))
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "dask_cuda.is_device_object", SimpleNamespace(is_device_object=dispatch))
    serialization.register()
    assert set(registered) >= {Run, task_exchange.Bundle}
    assert registered[Run](made_run()) is False


def test_sizes_of_bundles_are_known():
    array, sizes = ours.make("i8", 30_000), (10_000, 20_000)
    for bundle in made_bundles(array, sizes, small_plan(array, sizes)):
        held = sum(run.nbytes for run in runs_of([bundle]))
        assert held <= dask.sizeof.sizeof(bundle) <= 1.5 * held + 4_000


@pytest.mark.skipif(da.array_expr_enabled(), reason="expressions have no layers")
@pytest.mark.parametrize(
    "made_of", [lambda x: x[x > 2], lambda x: x[x > 2] * 2, lambda x: x.reshape(2, -1)[x.reshape(2, -1) > 2]]
)
def test_chunk_library_of_masked_arrays_comes_from_the_graph(made_of):
    source = da.from_array(np.arange(12.0), chunks=3)
    found = made_of(source)
    assert chunk_library(found) == "numpy"
    for layer in found.dask.layers.values():  # annotations of CuPy chunks
        about = layer.collection_annotations
        if not np.isnan(about["shape"]).any():
            about["chunk_type"] = "cupy.ndarray"
    assert chunk_library(found) == "cupy"
    assert chunk_library(source * 2) == "numpy"


@pytest.mark.skipif(da.array_expr_enabled(), reason="expressions have no layers")
@pytest.mark.parametrize("made_of", [lambda x: x, lambda x: x * 2, lambda x: x.compute_chunk_sizes()])
@pytest.mark.parametrize("where", ["here", "on a worker"])
def test_chunk_library_of_persisted_masked_arrays_comes_from_their_chunks(made_of, where):
    source = da.from_array(np.arange(12.0), chunks=3)
    held = source[source > 2].persist(scheduler="synchronous")
    found = made_of(held)
    assert chunk_library(found) == "numpy"
    chunks = held.dask.layers[held.name].mapping
    # A stand-in for CuPy's class, which has no instances without a device.
    kind = type("ndarray", (), {"__module__": "cupy"})
    for key in chunks:
        chunks[key] = kind() if where == "here" else SimpleNamespace(type=kind)
    assert chunk_library(found) == "cupy"


@pytest.mark.skipif(da.array_expr_enabled(), reason="expressions have no layers")
def test_the_client_knows_the_type_of_chunks_on_workers(on_cluster):
    distributed = pytest.importorskip("distributed")
    source = da.from_array(np.arange(12.0), chunks=3)
    held = source[source > 2].persist()
    distributed.wait(held)
    assert runtime._held_library(held.dask.layers[held.name]) == "numpy"
    assert runtime._held_library((held * 2).dask.layers[held.name]) == "numpy"


@pytest.mark.parametrize("own", [None, 48 * GIB])
@pytest.mark.parametrize("reported", [0, 64 * GIB])
def test_workers_and_memory_come_from_the_scheduler(monkeypatch, reported, own):
    monkeypatch.setattr(runtime, "own_device_memory", lambda: own)
    worker = {"nthreads": 2, "memory_limit": GIB, "gpu": {"memory-total": reported, "name": "a GPU"}}
    info = {"workers": {"one": worker, "two": {**worker, "gpu": {"memory-total": 2 * reported}}}}
    rpc = SimpleNamespace(identity=lambda n_workers: info)
    client = SimpleNamespace(scheduler=rpc, sync=lambda call, **options: call(**options), asynchronous=False)
    found = workers_in_use("distributed", client, "cupy")
    assert found == Workers(threads=2, memory=reported or own, devices=True)
    # Without NVML, workers report no memory.
    info["workers"] = {"one": {"nthreads": 1, "memory_limit": GIB}}
    assert workers_in_use("distributed", client, "cupy") == Workers(threads=1, memory=own, devices=True)


def test_workers_are_counted_while_the_client_refreshes_what_it_knows(on_cluster, monkeypatch):
    wanted = workers_in_use("distributed", on_cluster, "numpy")
    ask = on_cluster.sync

    def ask_and_refresh(*arguments, **options):
        answer = ask(*arguments, **options)
        ask(on_cluster._update_scheduler_info)  # as the client does every 2 s
        return answer

    monkeypatch.setattr(on_cluster, "sync", ask_and_refresh)
    assert wanted.processes > 0
    assert workers_in_use("distributed", on_cluster, "numpy") == wanted
