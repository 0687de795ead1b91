"""Clusters of GPUs: what is asked of dask-cuda, and the warm-up, on a machine that has neither GPU nor dask-cuda."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import dask_gpusort
from dask_gpusort import gpu_cluster as clusters

distributed = pytest.importorskip("distributed")


@pytest.fixture
def asked(monkeypatch):
    """What `LocalCUDACluster` was asked for; installed as far as the package can see."""
    found = []

    def made(**options):
        found.append(options)
        return SimpleNamespace(asynchronous=True)

    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=made))
    return found


def installed(monkeypatch, *names):
    monkeypatch.setattr(clusters, "find_spec", lambda name: SimpleNamespace() if name in names else None)


def test_without_dask_cuda_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with pytest.raises(ImportError, match="pip install dask-cuda"):
        dask_gpusort.cluster()


def test_ucx_and_a_pool_where_they_are_installed(monkeypatch, asked):
    installed(monkeypatch, "ucxx", "distributed_ucxx", "rmm")
    dask_gpusort.cluster(3)
    assert asked[0]["protocol"] == "ucx"
    assert asked[0]["n_workers"] == 3
    assert asked[0]["rmm_pool_size"] == clusters.POOL_FRACTION
    assert asked[0]["rmm_allocator_external_lib_list"] == ["cupy"]
    assert asked[0]["device_memory_limit"] == clusters.SPILL_FRACTION


def test_tcp_and_no_pool_where_they_are_not(monkeypatch, asked):
    installed(monkeypatch)
    dask_gpusort.cluster()
    assert asked[0]["protocol"] == "tcp"
    assert not any(name.startswith("rmm") for name in asked[0])


def test_what_is_given_wins(monkeypatch, asked):
    installed(monkeypatch, "ucxx", "distributed_ucxx", "rmm")
    dask_gpusort.cluster(protocol="tcp", pool=None, pre_import=["torch"], CUDA_VISIBLE_DEVICES="0,1")
    assert asked[0]["protocol"] == "tcp"
    assert asked[0]["pre_import"] == ["torch"]
    assert asked[0]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "rmm_pool_size" not in asked[0]


def test_messages_are_sent_at_once():
    from dask_gpusort.scheduler_plugins import INTERVAL

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        clusters.install_plugins(cluster)
        # Also to workers that come later.
        cluster.scale(2)
        cluster.sync(cluster._correct_state)
        with distributed.Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        streams = list(cluster.scheduler.stream_comms.values())
        assert [stream.interval for stream in streams] == [INTERVAL] * 2
        assert [worker.batched_stream.interval for worker in cluster.workers.values()] == [INTERVAL] * 2


@pytest.mark.parametrize("workers", [2, 4])
def test_groups_stay_where_they_are_finished(workers):
    # Four chunks of each group, as many as distributed takes for root tasks.
    array = np.random.default_rng(0).permutation(64_000)
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    moved = []
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(**options) as cluster,
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


def test_warm_up_leaves_nothing_behind(cluster_client, monkeypatch):
    monkeypatch.setattr(clusters, "MESSAGE_BYTES", 8000)
    monkeypatch.setattr(clusters, "_library", lambda: "numpy")
    assert dask_gpusort.warm_up(cluster_client, dtypes=["u4", "?", np.float64]) > 0
    # They are let go on the client's own thread.
    deadline = time.monotonic() + 10
    while cluster_client.futures and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not cluster_client.futures


def test_warm_up_needs_workers():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(ValueError, match="wait_for_workers"),
    ):
        dask_gpusort.warm_up(client)
