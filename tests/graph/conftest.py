"""How clusters of these tests start the processes of workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import dask
import pytest

#: What workers import; more than their start takes.
IMPORTED = ["distributed", "dask.array", "dask_gpusort", "hypothesis.extra.numpy", "pytest"]


@pytest.fixture(scope="module", autouse=True)
def workers_fork_from_a_server() -> Iterator[None]:
    """Fork workers from a process that has imported Dask; those of scripts and examples start as Dask's own do."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Dask sets its own list at the first call.
        pytest.importorskip("distributed").utils.get_mp_context().set_forkserver_preload(IMPORTED)
        yield
