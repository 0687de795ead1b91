"""Fixtures that run kernels on the host instead of a GPU."""

from __future__ import annotations

import pytest
from support.host_cuda import HostDevice, forget_old

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
def built(kernel_cache):
    """The host device. A module can override this fixture to compile its kernels together."""
    return HostDevice(SOURCES, kernel_cache)


@pytest.fixture
def device(built, monkeypatch):
    """The host instead of a GPU. All canaries are checked after the test."""
    built.replace_cupy(monkeypatch)
    yield built
    built.check()
