"""Fixtures and settings that all tests share."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import dask
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from support.sorting import no_computation

from dask_gpusort.chunk import numpy_ops

# A busy machine can make a single example slow, so there is no deadline. "short", the default, and "ci" draw the same
# examples on every run, so that a failure comes from the change under test; "mutants" does not explain one. Properties
# that are shown with more examples in another kind of process ask for "short" themselves.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("ci", max_examples=40, derandomize=True, database=None, **_COMMON)
settings.register_profile("short", settings.get_profile("ci"), max_examples=12)
settings.register_profile("mutants", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("thorough", max_examples=400, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

# In Python 3.11 Dask's profiler and a thread that starts may wait for each other (see the guide's troubleshooting).
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"
dask.config.refresh()


@dataclass(frozen=True)
class Backend:
    """An array library: the chunk operations for it, and conversions from and to NumPy."""

    name: str
    ops: ModuleType
    asarray: Callable[[np.ndarray], Any]
    asnumpy: Callable[[Any], np.ndarray]


def _num_devices() -> int:
    """Number of CUDA devices that CuPy sees; 0 without CuPy."""
    try:
        import cupy
    except ImportError:
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def pytest_configure(config: pytest.Config) -> None:
    """Give files to the processes of xdist by their names: by numbers of tests, the slowest ones would come last."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    devices = _num_devices()
    for marker, least in (("gpu", 1), ("multi_gpu", 2)):
        if devices < least:
            skip = pytest.mark.skip(reason=f"needs CuPy and {least} CUDA device{'s' * (least > 1)}")
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Keep what has been imported and collected out of all collections of garbage, and make these rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)


def _cupy_backend() -> Backend:
    import cupy

    from dask_gpusort.chunk import cupy_ops

    return Backend("cupy", cupy_ops, cupy.asarray, cupy.asnumpy)


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """The chunk operations of each array library."""
    return _cupy_backend() if request.param == "cupy" else Backend("numpy", numpy_ops, np.asarray, np.asarray)


@pytest.fixture
def raise_if_computes() -> Callable[[], Any]:
    return no_computation


#: What workers import, which takes longer than their start.
IMPORTED = ["distributed", "dask.array", "dask_gpusort", "hypothesis.extra.numpy", "pytest"]


@pytest.fixture(scope="session")
def workers_fork_from_a_server() -> Iterator[None]:
    """Fork workers from a process that has imported Dask; those of scripts and examples start as Dask's own do."""
    try:
        from distributed.utils import get_mp_context  # not in the oldest distributed
    except ImportError:
        get_mp_context = None
    if get_mp_context is None or "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(IMPORTED)  # Dask sets its own list at the first call
        yield


@pytest.fixture(scope="session")
def cluster_client() -> Iterator[Any]:
    """A client of a cluster in this process: two workers with two threads each. It is not the default client."""
    distributed = pytest.importorskip("distributed")
    settings_of_tests = {"distributed.worker.memory.terminate": False, "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(settings_of_tests),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def on_cluster(cluster_client: Any) -> Iterator[Any]:
    """Run everything in the test on the cluster, as if its client were the default."""
    with cluster_client.as_current(), dask.config.set(scheduler="distributed"):
        yield cluster_client
