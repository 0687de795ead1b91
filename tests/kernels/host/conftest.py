"""The host in the place of a GPU."""

from __future__ import annotations

import pytest
from support.host_cuda import HostDevice, forget_old

from dask_gpusort.kernels.launch.loader import SOURCES


@pytest.fixture(scope="session")
def kernel_cache(request, tmp_path_factory):
    """Folder of compiled kernels, which further runs and all processes of one run share."""
    if not hasattr(request.config, "cache"):
        return tmp_path_factory.mktemp("host_kernels")
    cache = request.config.cache.mkdir("host_kernels")
    forget_old(cache)
    return cache


@pytest.fixture(scope="module")
def built(kernel_cache):
    """What `device` runs on; a module that sorts much compiles its kernels here, many at a time."""
    return HostDevice(SOURCES, kernel_cache)


@pytest.fixture
def device(built, monkeypatch):
    """The host in the place of a GPU; looks at all canaries when the test is done."""
    built.replace_cupy(monkeypatch)
    yield built
    built.check()
