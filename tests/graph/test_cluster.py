"""Clusters of GPUs: options passed to dask-cuda, and the warm-up. Neither a GPU nor dask-cuda is needed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from support.marks import slow_but_first

import dask_gpusort
from dask_gpusort import gpu_cluster as clusters
from dask_gpusort.graph.runtime import scheduler_in_use
from dask_gpusort.kernels.launch import loader

distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")


def test_message_without_dask_cuda_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with pytest.raises(ImportError, match="pip install dask-cuda"):
        dask_gpusort.cluster()


TCP = {"protocol": "tcp://", "serializers": ["dask", "pickle"]}
UCX = {"protocol": "ucx", "scheduler_kwargs": TCP}
RMM = {"rmm_pool_size": clusters.POOL_FRACTION, "rmm_allocator_external_lib_list": ["cupy"]}
SPILL = {"device_memory_limit": clusters.SPILL_FRACTION}


@pytest.mark.parametrize(
    ("installed", "options", "passed"),
    [
        (True, {"n_workers": 3}, {"n_workers": 3, **UCX, **RMM, **SPILL}),
        (False, {}, {"protocol": "tcp", "scheduler_kwargs": None, "rmm_pool_size": None}),
        # Explicit options override the defaults.
        (True, {"protocol": "tcp", "pool": None}, {"protocol": "tcp", "rmm_pool_size": None}),
        (True, {"pre_import": ["torch"]}, {"pre_import": ["torch"]}),
        (True, {"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        (
            True,
            {"scheduler_kwargs": {"idle_timeout": 9}},
            {"scheduler_kwargs": {**TCP, "idle_timeout": 9}},
        ),
    ],
)
def test_options_of_the_cluster(monkeypatch, installed, options, passed):
    """UCX and RMM are used if they are installed."""
    found = {}
    names = ("ucxx", "distributed_ucxx", "rmm") if installed else ()
    monkeypatch.setattr(clusters, "find_spec", lambda name: SimpleNamespace() if name in names else None)
    made = SimpleNamespace(LocalCUDACluster=lambda **given: found.update(given) or SimpleNamespace(asynchronous=True))
    monkeypatch.setitem(sys.modules, "dask_cuda", made)
    dask_gpusort.cluster(**options)
    assert {name: found.get(name) for name in passed} == passed
    assert any(name.startswith("rmm") for name in found) == (installed and "pool" not in options)


def test_workers_poll_ucx(monkeypatch):
    def mode():
        return dask.config.get("distributed.nanny.pre-spawn-environ").get("UCXPY_PROGRESS_MODE")

    def made(**_):
        return SimpleNamespace(asynchronous=True, mode=mode())

    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=made))
    assert dask_gpusort.cluster().mode == "polling"
    assert mode() is None


#: Workers in this process have no memory limit: the process holds what other tests left, and would pause them.
IN_PROCESS = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0", "memory_limit": 0}


def test_messages_are_sent_at_once():
    from dask_gpusort.scheduler_plugins import INTERVAL

    started = distributed.LocalCluster(n_workers=1, **IN_PROCESS)
    with started as cluster, distributed.Client(cluster, set_as_default=False) as before:
        clusters.install_plugins(cluster)
        # Workers that join later must get the interval too.
        cluster.scale(2)
        cluster.sync(cluster._correct_state)
        with distributed.Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            clients = [cluster.scheduler.client_comms[one.id].interval for one in (before, client)]
        assert clients == [INTERVAL] * 2
        streams = list(cluster.scheduler.stream_comms.values())
        assert [stream.interval for stream in streams] == [INTERVAL] * 2
        assert [worker.batched_stream.interval for worker in cluster.workers.values()] == [INTERVAL] * 2


@pytest.mark.parametrize("preload", slow_but_first(["--preload", "dask_gpusort.scheduler_plugins"], []))
def test_a_scheduler_that_preloads_the_plugins(preload, tmp_path):
    """The first sort does not install them; a client that does finds those of the preload."""

    # Functions in here are sent by value.
    def look_at_scheduler(dask_scheduler):
        plugin = dask_scheduler.plugins.get("gpusort-scheduler")
        streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
        return plugin and id(plugin), dask_scheduler.rootish_tg_threshold, {stream.interval for stream in streams}

    def look_at_worker(dask_worker):
        return "gpusort-worker" in dask_worker.plugins, dask_worker.batched_stream.interval

    file = str(tmp_path / "scheduler.json")
    commands = [
        ["scheduler", "--scheduler-file", file, "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        ["worker", "--scheduler-file", file, "--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--no-dashboard"],
    ]
    array = np.random.default_rng(0).permutation(1000)
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen([sys.executable, "-m", "dask", *command, *preload], cwd=tmp_path)
            stack.enter_context(process)
            stack.callback(process.terminate)
        client = stack.enter_context(distributed.Client(scheduler_file=file, timeout=60))
        client.wait_for_workers(1, timeout=60)
        np.testing.assert_array_equal(dask_gpusort.sort(da.from_array(array, chunks=100)).compute(), np.arange(1000))
        before = client.run_on_scheduler(look_at_scheduler)
        (worker,) = client.run(look_at_worker).values()
        if preload:
            assert before[0] is not None
            assert (before[1:], worker) == ((1, {0}), (True, 0))
            clusters.install_plugins(client.scheduler.address)
            assert client.run_on_scheduler(look_at_scheduler) == before
        else:
            assert before[0] is None
            assert before[1] > 1
            assert 0 not in before[2]
            assert worker[0] is False


@pytest.mark.parametrize("workers", [2, 4])
def test_finished_groups_are_not_transferred(workers):
    # With this many chunks of a group, distributed takes them for root tasks.
    array = np.random.default_rng(0).permutation(64_000)
    moved = []
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(n_workers=workers, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        clusters.install_plugins(cluster)
        x = da.from_array(array, chunks=1_000).persist()
        distributed.wait(x)
        with dask.config.set({"gpusort.groups": workers}), distributed.get_task_stream(client=client) as stream:
            found = dask_gpusort.sort(x, exchange="device").persist()
            distributed.wait(found)
        assert (found.compute() == np.arange(64_000)).all()
    for task in stream.data:
        name = str(task["key"][0])
        stays = name.startswith("sort-") and not name.startswith(("sort-scan", "sort-scatter", "sort-merge"))
        if stays and any(part["action"] == "transfer" for part in task["startstops"]):
            moved.append(task["key"])
    assert sum(str(task["key"][0]).startswith("sort-") for task in stream.data) > 64
    assert not moved


@pytest.mark.parametrize("exchange", ["runs", "gang"])
def test_sorts_leave_no_client_on_the_scheduler(on_cluster, exchange):
    """Dask reports the number of its clients, and asks them less often if there are many."""
    clients = on_cluster.cluster.scheduler.clients
    before, x = set(clients), da.arange(1000, chunks=100)
    for _ in range(2):
        y = dask_gpusort.sort(x, exchange=exchange).persist()
        assert (y.compute() == np.arange(1000)).all()
        del y
        gangs.until(lambda: set(clients) == before, "the end of other clients")


def test_warm_up_releases_its_futures(cluster_client, monkeypatch):
    monkeypatch.setattr(clusters, "MESSAGE_BYTES", 8000)
    monkeypatch.setattr(clusters, "_library", lambda: "numpy")
    before, found = dask.config.get("scheduler", None), []

    def sort(keys):
        found.append((*scheduler_in_use(keys), dask.config.get("scheduler", None)))
        return dask_gpusort.sort(keys)

    monkeypatch.setattr(clusters, "sort", sort)
    assert dask_gpusort.warm_up(cluster_client, dtypes=["u4", "?", np.float64]) > 0
    # Planned for the cluster, without a word to other threads of the process.
    assert found == [("distributed", cluster_client, before)] * 3
    assert cluster_client.scheduler_comm.interval == 0
    # The client releases them on another thread.
    gangs.until(lambda: not cluster_client.futures, "released futures")


def test_warm_up_needs_workers():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(ValueError, match="wait_for_workers"),
    ):
        dask_gpusort.warm_up(client)


@pytest.fixture
def one_device(monkeypatch):
    """NumPy instead of CuPy, and small arrays; the arrays that were put on the device."""
    found = []

    def asarray(host):
        found.append(host)
        return host

    runtime = SimpleNamespace(getDevice=lambda: 0, deviceSynchronize=lambda: None)
    cuda = SimpleNamespace(Device=lambda number: nullcontext(), runtime=runtime)
    monkeypatch.setattr(loader, "_find_cupy", lambda: SimpleNamespace(cuda=cuda, asarray=asarray))
    monkeypatch.setattr(clusters, "WARM_CHUNKS", ((100,), (300,), (50, 50)))
    monkeypatch.setattr(clusters, "DRAWN_KEYS", 200)
    return found


def test_warm_up_without_a_client_sorts_every_size_and_dtype(one_device, monkeypatch):
    """Each on one thread, without a word to other threads of the process about the scheduler."""
    sorted_here, persist, before = [], dask.persist, dask.config.get("scheduler", None)

    def persist_here(*arrays, scheduler):
        assert (scheduler, dask.config.get("scheduler", None)) == ("synchronous", before)
        return persist(*arrays, scheduler=scheduler)

    monkeypatch.setattr(dask, "persist", persist_here)

    def sort(keys):
        sorted_here.append((keys.dtype, keys.chunks[0], scheduler_in_use(keys)[0] == "synchronous"))
        return dask_gpusort.sort(keys)

    monkeypatch.setattr(clusters, "sort", sort)
    dtypes = [np.dtype(dtype) for dtype in ("u4", "?", "f8", "f2", "i1", "m8[s]", "c8")]
    assert dask_gpusort.warm_up(dtypes=dtypes) > 0
    wanted = [(dtype, chunks, True) for dtype in dtypes for chunks in clusters.WARM_CHUNKS for _ in range(3)]
    assert sorted(sorted_here, key=str) == sorted(wanted, key=str)
    assert sum(keys.size for keys in one_device) == len(dtypes) * 3 * (100 + 300 + 100)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "u8", "i8", "f2", "f4", "f8"])
def test_keys_of_the_warm_up_take_every_kind_of_map(dtype):
    """Uniform codes, uniform values, and neither; integers are not wrapped and floats are not rounded to infinity."""
    dtype, n = np.dtype(dtype), 1 << 14
    values, exponentials = (draw(dtype, n) for draw in (clusters._random_values, clusters._random_exponentials))
    for keys in (values, exponentials):
        assert keys.dtype == dtype
        assert (keys >= 0).all()
        assert np.isfinite(keys).all()
    low, middle, high = np.quantile(values.astype("f8"), [0.1, 0.5, 0.9])
    assert (high - middle) == pytest.approx(middle - low, rel=0.2)
    low, middle, high = np.quantile(exponentials.astype("f8"), [0.1, 0.5, 0.9])
    assert high - middle > 2 * (middle - low)
    assert clusters._random_bits(dtype, n).dtype == dtype


def test_warm_up_without_a_client_or_a_gpu_names_the_remedy(monkeypatch):
    def refuse():
        raise loader.KernelsUnavailable("No usable GPU: Check `nvidia-smi`")

    monkeypatch.setattr(loader, "_find_cupy", refuse)
    with pytest.raises(loader.KernelsUnavailable, match="nvidia-smi"):
        dask_gpusort.warm_up()
