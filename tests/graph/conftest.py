"""Fixtures of the tests of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import pytest

from dask_gpusort.plan import division


@pytest.fixture(scope="module", autouse=True)
def workers_start_fast(workers_fork_from_a_server: None) -> None:
    """Of all clusters but those of scripts."""


@pytest.fixture(scope="module", autouse=True)
def one_run_a_chunk() -> Iterator[None]:
    """Small chunks are not joined, so that few keys are several runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "RUN_BYTES", 1)
        yield


@pytest.fixture(scope="session")
def cluster(workers_fork_from_a_server: None) -> Iterator[Any]:
    """A client of three worker processes, on which gangs may run."""
    gangs = pytest.importorskip("support.gangs")
    scheduler_plugin = pytest.importorskip("dask_gpusort.graph.gang.scheduler_plugin")
    with gangs.cluster(3) as client:
        scheduler_plugin.install(client)
        yield client


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """The client of a cluster that asks for gangs, of which none is left in the end."""
    gangs = pytest.importorskip("support.gangs")
    cluster.wait_for_workers(3, timeout=60)
    with cluster.as_current(), dask.config.set(gangs.IN_GANG):
        yield cluster
    gangs.check_nothing_is_left(cluster)


@pytest.fixture
def gang() -> Iterator[Any]:
    """Gangs of three members without a cluster."""
    threads = pytest.importorskip("support.without_cluster")
    with threads.gangs_of_threads(3) as made:
        yield made
