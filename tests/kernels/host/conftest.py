"""Fixtures that run kernels on the host instead of a GPU."""

from __future__ import annotations

import pytest
from support.host_cuda import HostDevice, forget_old
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
    device = HostDevice(SOURCES, kernel_cache)
    if hasattr(request.module, "calls"):
        prepare(device, request.module.calls())
    return device


@pytest.fixture
def device(built, monkeypatch):
    """The host instead of a GPU. All canaries are checked after the test."""
    built.replace_cupy(monkeypatch)
    yield built
    built.check()
