"""Clusters of the GPUs of one host, and arrays on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import dask_gpusort

cupy = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")

#: Seconds for one sort. A cluster that takes longer hangs.
TIMEOUT = 120
#: Functions of a generator and a number of keys.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.integers(0, 1 << 32, n, dtype="u4"),
    "equal": lambda rng, n: np.full(n, 7, "u4"),
    "few": lambda rng, n: rng.integers(0, 3, n, dtype="u4"),
    "sorted": lambda rng, n: np.arange(n, dtype="u4"),
    "zipf": lambda rng, n: np.minimum(rng.zipf(1.2, n), 1 << 31).astype("u4"),
}


def protocols() -> list[Any]:
    return [pytest.param(name, id=name) for name in ("ucx", "tcp")]


def start(n_workers: int | None, protocol: str, **options: Any) -> Any:
    pytest.importorskip("dask_cuda")
    if protocol == "ucx":
        pytest.importorskip("distributed_ucxx")
    config = {"distributed.scheduler.allowed-failures": 10, "distributed.comm.timeouts.connect": "60s"}
    options = {"pool": "8GB", "dashboard_address": ":0", "memory_limit": "30GB", **options}
    with dask.config.set(config):
        return dask_gpusort.cluster(n_workers, protocol=protocol, **options)


@contextmanager
def client_of(n_workers: int | None, protocol: str, **options: Any) -> Iterator[Any]:
    """A client of a cluster whose workers have come. It is not the current client."""
    with start(n_workers, protocol, **options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(n_workers or len(cluster.workers), timeout=TIMEOUT)
        yield client


@contextmanager
def used_cluster(n_workers: int | None, protocol: str, **options: Any) -> Iterator[Any]:
    """The client of a cluster, which computes what the test asks for."""
    with (
        client_of(n_workers, protocol, **options) as client,
        client.as_current(),
        dask.config.set(scheduler="distributed"),
    ):
        yield client


def to_device(block: np.ndarray) -> Any:
    return cupy.asarray(block)


def to_host(block: Any) -> np.ndarray:
    assert isinstance(block, cupy.ndarray), type(block)
    return cupy.asnumpy(block)


def on_gpus(host: np.ndarray, chunks: Any) -> Any:
    """A Dask array whose chunks the workers copy to their devices."""
    meta = cupy.empty((0,) * host.ndim, host.dtype)
    return da.from_array(host, chunks=chunks).map_blocks(to_device, dtype=host.dtype, meta=meta)


def held(host: np.ndarray, chunks: Any) -> Any:
    """An array of which each worker holds some chunks."""
    device = on_gpus(host, chunks).persist()
    distributed.wait(device, timeout=TIMEOUT)
    return device


def held_by(host: np.ndarray, addresses: list[str]) -> Any:
    """An array with one chunk on each of some workers, in their order."""
    source = da.from_array(host, chunks=-(-len(host) // len(addresses)), name=False)  # else the same keys for any order
    with dask.annotate(workers=lambda key: [addresses[key[1]]]):
        device = source.map_blocks(to_device, dtype=host.dtype, meta=cupy.empty(0, host.dtype))
    device = device.persist(optimize_graph=False)
    distributed.wait(device, timeout=TIMEOUT)
    return device


def fetched(*arrays: Any) -> list[np.ndarray]:
    """Compute arrays on the workers, which copy them to the host."""
    client = distributed.default_client()
    hosts = [array.map_blocks(to_host, dtype=array.dtype, meta=np.empty((0,) * array.ndim)) for array in arrays]
    return [future.result(timeout=TIMEOUT) for future in client.compute(hosts, retries=3)]
