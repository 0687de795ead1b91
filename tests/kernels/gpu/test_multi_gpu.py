"""Sorts on several GPUs of one host, over UCX and TCP, also after a worker is killed; results equal NumPy's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support.dask_gpu import DTYPES, delay, sample
from support.gpu_clusters import DISTRIBUTIONS, TIMEOUT, client_of, fetched, on_gpus, protocols, to_host, used_cluster

import dask_gpusort
from dask_gpusort.chunk.checks import Blocks, declared_chunks
from dask_gpusort.chunk.run import Run
from dask_gpusort.drivers import tasks as task_exchange
from dask_gpusort.functions.sort import Finish, Groups, LocalSort, Merge, SortRuns
from dask_gpusort.graph import serialization
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, make_plan

cupy = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")

#: Some tenths of a second, so that a missing synchronization shows.
TICKS = 600_000_000
#: Keeps the streams of a worker's threads alive.
STREAMS: list[Any] = []


@pytest.fixture(scope="module", params=protocols())
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of a cluster of all GPUs."""
    with client_of(None, request.param) as client:
        dask_gpusort.warm_up(client, dtypes=["u4"])
        yield client


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.multi_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_and_argsort(client: Any, dtype: str) -> None:
    host = sample(dtype, 200_003)
    device = on_gpus(host, 17_001)
    assert dask_gpusort.explain(device).exchange == "device"
    for descending in (False, True):
        options = {"descending": descending}
        plain, stable, positions = fetched(
            dask_gpusort.sort(device, **options),
            dask_gpusort.sort(device, stable=True, **options),
            dask_gpusort.argsort(device, **options),
        )
        with dask.config.set(scheduler="threads"):
            on_host = da.from_array(host, chunks=50_000)
            assert bits(plain) == bits(dask_gpusort.sort(on_host, **options).compute())
            assert bits(stable) == bits(dask_gpusort.sort(on_host, stable=True, **options).compute())
            np.testing.assert_array_equal(positions, dask_gpusort.argsort(on_host, **options).compute())


@pytest.mark.multi_gpu
def test_computed_results_are_arrays_of_a_gpu(client: Any) -> None:
    host = sample("f4", 200_003)
    device = on_gpus(host, 100_002)
    found = dask.compute(device, dask_gpusort.sort(device), dask_gpusort.median(device), device.max())
    wanted = host, np.sort(host), np.median(host), host.max()
    for got, right in zip(found, wanted, strict=True):
        assert isinstance(got, cupy.ndarray)
        np.testing.assert_array_equal(cupy.asnumpy(got), right)


@pytest.mark.multi_gpu
@pytest.mark.parametrize("chunks", [4_000_000, 1_000_000, 250_000, (3_000_000, 0, 1, 999_999)])
@pytest.mark.parametrize("keys", DISTRIBUTIONS)
def test_distributions_and_chunks(client: Any, keys: str, chunks: Any) -> None:
    host = DISTRIBUTIONS[keys](np.random.default_rng(3), 4_000_000)
    device = on_gpus(host, (chunks,) if isinstance(chunks, tuple) else chunks).persist()
    distributed.wait(device, timeout=TIMEOUT)
    values = on_gpus(np.arange(len(host), dtype="u4"), device.chunks)
    found, moved = dask_gpusort.sort_by_key(device, values)
    assert found.chunks == device.chunks
    got, order = fetched(found, moved)
    wanted = np.argsort(host, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(got, host[wanted])


@pytest.mark.multi_gpu
def test_unknown_sizes_rows_and_output_chunks(client: Any) -> None:
    host = sample("f4", 300_000)
    device = on_gpus(host, 40_000)
    (got,) = fetched(dask_gpusort.sort(device[device > 0]))
    np.testing.assert_array_equal(got, np.sort(host[host > 0]))
    rows = np.arange(600_000, dtype="i8").reshape(-1, 2)
    _, moved = dask_gpusort.sort_by_key(device, on_gpus(rows, (40_000, 1)))
    (got,) = fetched(moved)
    np.testing.assert_array_equal(got, rows[np.argsort(host, kind="stable")])
    sliced = dask_gpusort.sort(device, chunks=((1, 0, 199_999, 100_000),))
    (got,) = fetched(sliced)
    np.testing.assert_array_equal(got, np.sort(host))
    blocks = [block.result(timeout=TIMEOUT) for block in client.compute(list(sliced.map_blocks(to_host).to_delayed()))]
    assert [len(block) for block in blocks] == [1, 0, 199_999, 100_000]


@pytest.mark.multi_gpu
@pytest.mark.parametrize("axis", [0, 1, None])
def test_several_dimensions(client: Any, axis: int | None) -> None:
    host = sample("f8", 60 * 500).reshape(60, 500)
    device = on_gpus(host, (20, 130))
    (got,) = fetched(dask_gpusort.sort(device, axis=axis))
    np.testing.assert_array_equal(got, np.sort(host, axis=axis))


@pytest.mark.multi_gpu
def test_chunking_does_not_change_the_bits(client: Any) -> None:
    host = sample("f4", 500_000, seed=5)
    seen = {bits(fetched(dask_gpusort.sort(on_gpus(host, chunks)))[0]) for chunks in (500_000, 130_000, 31_000)}
    assert len(seen) == 1


def slow_block(block: np.ndarray) -> Any:
    """Task: copy a block, then give the thread another stream, which is busy for some tenths of a second."""
    found = cupy.asarray(block)
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    STREAMS.append(stream)
    stream.use()
    delay(TICKS)
    return found


def default_stream() -> None:
    cupy.cuda.Stream.null.use()


@pytest.mark.multi_gpu
def test_results_are_complete_when_they_are_sent(client: Any) -> None:
    host = np.random.default_rng(1).integers(0, 1 << 32, 8_000_000, dtype="u4")
    meta = cupy.empty(0, "u4")
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    try:
        for _ in range(3):
            device = da.from_array(host, chunks=len(host) // (2 * len(workers))).map_blocks(
                slow_block, dtype="u4", meta=meta
            )
            (got,) = fetched(dask_gpusort.sort(device))
            np.testing.assert_array_equal(got, np.sort(host))
    finally:
        client.gather([client.submit(default_stream, workers=[worker], pure=False) for worker in workers])


class KillAt(distributed.WorkerPlugin):
    """Kills the process of one worker when it finishes the first task with a name prefix."""

    name = "kill-at"

    def __init__(self, prefix: str, flag: Any):
        self.prefix, self.flag = prefix, str(flag)

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        name = key[0] if isinstance(key, tuple) else key
        if finish == "memory" and name.startswith(self.prefix):
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.multi_gpu
@pytest.mark.parametrize("stage", ["sort-local", "sort-scatter", "sort-merge"])
@pytest.mark.parametrize("protocol", protocols())
def test_sort_survives_a_killed_worker(protocol: str, stage: str, tmp_path: Any) -> None:
    host = sample("i8", 1_000_000)
    flag = tmp_path / "killed"
    with (
        used_cluster(2, protocol) as client,
        dask.config.set({"optimization.fuse.active": False}),
    ):
        client.register_plugin(KillAt(stage, flag))
        # The input can be computed again.
        (got,) = fetched(dask_gpusort.sort(on_gpus(host, 100_000)))
    assert flag.exists(), "no worker was killed"
    np.testing.assert_array_equal(got, np.sort(host))


@pytest.mark.gpu
def test_one_worker(tmp_path: Any) -> None:
    host = sample("f8", 400_000)
    with used_cluster(1, "tcp") as client:
        assert dask_gpusort.warm_up(client, dtypes=["u4"]) > 0
        got, positions = fetched(dask_gpusort.sort(on_gpus(host, 70_000)), dask_gpusort.argsort(on_gpus(host, 70_000)))
    np.testing.assert_array_equal(got, np.sort(host))
    np.testing.assert_array_equal(positions, np.argsort(host, kind="stable"))


@pytest.mark.multi_gpu
@pytest.mark.parametrize("cut_first", [False, True])
@pytest.mark.parametrize("protocol", protocols())
def test_more_data_than_the_device_memory_limit(
    monkeypatch: pytest.MonkeyPatch, protocol: str, cut_first: bool
) -> None:
    monkeypatch.setattr("dask_gpusort.plan.make.cuts_first", lambda *_: cut_first)
    host = np.random.default_rng(2).integers(0, 1 << 63, 1 << 25, dtype="u8")
    options = {"device_memory_limit": "64MB", "pool": "2GB"}
    with used_cluster(2, protocol, **options):
        (got,) = fetched(dask_gpusort.sort(on_gpus(host, 1 << 21)))
    np.testing.assert_array_equal(got, np.sort(host))


# Single tasks on one device.


def plan_of(host: np.ndarray, chunks: int) -> Any:
    sizes = [len(part) for part in np.array_split(host, chunks)]
    return make_plan(
        Order(host.dtype),
        InputChunks(sizes),
        sizes,
        method="auto",
        exchange="device",
        workers=Workers(2, devices=True),
        groups=2,
    )


@pytest.mark.gpu
def test_every_task_waits_for_its_kernels() -> None:
    host = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype="u4")
    plan = plan_of(host, 2)
    local, contents = LocalSort(plan.order, positions=False), Groups(plan.chunks, plan.groups)
    sort = SortRuns(local, plan.samples, plan.radix_bits, contents)
    merge = Merge(Finish(plan.order, True, False), cuts=False)
    declared = declared_chunks("the input", host.dtype, (plan.sizes,))
    blocks = [cupy.asarray(part) for part in np.array_split(host, 2)]
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        made = []
        for number, block in enumerate(blocks):
            delay(TICKS)
            part = Blocks([block], [declared[number]])
            made.append(task_exchange.take_bundle(sort.lean, (number,), [part], None, None, []))
            assert stream.done
        listed = task_exchange.list_turns(
            sort, list(map(task_exchange.take_note, made)), [], task_exchange.Store(), None
        )
        for group in range(2):
            mine = []
            for bundle in made:
                delay(TICKS)
                mine.append(task_exchange.cut_shard(sort.lean, bundle.numbers, bundle, listed, (group,)))
                assert stream.done
            delay(TICKS)
            task_exchange.take_group(merge, group, None, None, listed, mine, plan.sources, [])
            assert stream.done


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["cuda", "dask"])
@pytest.mark.parametrize("size", [0, 1, 1_001])
def test_runs_are_serialized_as_frames(family: str, size: int) -> None:
    from distributed.protocol import deserialize, serialize

    serialization.register()
    keys = cupy.arange(2 * size, dtype="u8")[::2]
    run = Run(keys, (cupy.ones((size, 3), "f4"), cupy.zeros(size, "?")))
    header, frames = serialize(run, serializers=(family,), on_error="raise")
    assert header["serializer"] == family
    assert all(hasattr(frame, "__cuda_array_interface__") == (family == "cuda") for frame in frames)
    back = deserialize(header, frames)
    for one, other in zip(back.arrays, run.arrays, strict=True):
        assert isinstance(one, cupy.ndarray)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other))
