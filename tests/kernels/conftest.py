"""Fixtures of the tests of kernels: the host instead of a GPU, and a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from support import host_cuda
from support.host_cuda import HostDevice, forget_old
from support.host_cuda.device import GpuDevice
from support.host_kernels import prepare

from dask_gpusort.kernels.launch.loader import SOURCES


@pytest.fixture(scope="session")
def kernel_cache(request, tmp_path_factory):
    """Folder of compiled kernels, shared by all processes of a run and by later runs."""
    if not hasattr(request.config, "cache"):
        return tmp_path_factory.mktemp("host_kernels")
    cache = request.config.cache.mkdir("host_kernels")
    forget_old(cache)
    return cache


@pytest.fixture(scope="module")
def built(request, kernel_cache):
    """The host device. The kernels of a module that has a function ``calls`` are compiled together (see `prepare`)."""
    if host_cuda.compiler() is None:
        pytest.skip("no g++: kernels cannot be built for the host")
    device = HostDevice(SOURCES, kernel_cache)
    if hasattr(request.module, "calls"):
        prepare(device, request.module.calls)
    return device


@pytest.fixture
def host(built, monkeypatch):
    """The host instead of a GPU. All canaries are checked after the test."""
    built.replace_cupy(monkeypatch)
    yield built
    built.check()


@pytest.fixture(scope="session")
def cp():
    """The module CuPy. Tests with the marker ``gpu`` are skipped without a device."""
    import cupy

    return cupy


@pytest.fixture
def gpu(cp):
    """A GPU. The canaries of all outputs are checked after the test."""
    device = GpuDevice(cp)
    yield device
    device.check()


@pytest.fixture(autouse=True)
def pool_is_emptied(request):
    """CuPy's pool keeps nothing after a test on a GPU: many processes share its memory."""
    pool = request.getfixturevalue("cp").get_default_memory_pool() if request.node.get_closest_marker("gpu") else None
    yield
    if pool is not None:
        pool.free_all_blocks()


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request):
    """The host, and a GPU, which has no times."""
    given = getattr(request.node, "callspec", None)
    if request.param == "gpu" and np.dtype(given.params.get("dtype", "u1")).kind in "mM":
        pytest.skip("CuPy has no times")
    return request.getfixturevalue(request.param)
