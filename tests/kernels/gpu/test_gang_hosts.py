"""Gangs whose workers NCCL takes for different hosts, and a soak of gangs on GPUs."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dask_gpu import sample
from support.gpu_clusters import TIMEOUT, fetched, held, on_gpus, to_host, used_cluster

import dask_gpusort

cupy = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
soak = pytest.importorskip("support.soak")
pytestmark = pytest.mark.multi_gpu

SIZE = 300_007
#: Bytes that a GPU may hold after a soak: tables of the kernels. Each sort of the soak has megabytes.
SPARE_BYTES = 32 << 20


class OwnHost(distributed.WorkerPlugin):
    """Makes NCCL take this worker for a host of its own, so that it uses sockets.

    Parameters
    ----------
    folder : str
        For NCCL's logs.
    """

    name = "own-host"

    def __init__(self, folder: str):
        self.folder = folder

    def setup(self, worker: Any) -> None:
        os.environ |= {
            "NCCL_HOSTID": f"host-of-{os.getpid()}",
            "NCCL_P2P_DISABLE": "1",
            "NCCL_SHM_DISABLE": "1",
            "NCCL_IB_DISABLE": "1",
            "NCCL_SOCKET_IFNAME": "lo",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P",
            "NCCL_DEBUG_FILE": str(Path(self.folder, "nccl.%p")),
        }


def kinds_of_communicators(dask_worker: Any) -> list[str]:
    return [type(made).__name__ for _, made in dask_worker.plugins["gpusort-gang"]._made.values()]


def test_workers_on_hosts_of_their_own(tmp_path: Path) -> None:
    host = sample("i8", SIZE)
    with used_cluster(2, "tcp") as client:
        client.register_plugin(OwnHost(str(tmp_path)))
        x = held(host, SIZE // 4 + 1)
        assert dask_gpusort.explain(x).exchange == "gang"
        ordered, positions = fetched(dask_gpusort.sort(x), dask_gpusort.argsort(x))
        np.testing.assert_array_equal(ordered, np.sort(host))
        np.testing.assert_array_equal(positions, np.argsort(host, kind="stable"))
        assert all(kinds == ["NcclCommunicator"] for kinds in client.run(kinds_of_communicators).values())
        logs = [path.read_text() for path in tmp_path.iterdir()]
        assert len(logs) == 2
        assert all("via NET/Socket" in log for log in logs)
        # A worker that is lost: the other one leaves the exchange over sockets, and a third "host" joins.
        victim = min(gangs.addresses(client))
        gangs.kill(client, victim)
        gangs.until(lambda: victim not in gangs.addresses(client), "the lost worker to be removed")
        client.wait_for_workers(2, timeout=TIMEOUT)
        # Chunks that no worker holds: those of x are all on the other worker now.
        (again,) = fetched(dask_gpusort.sort(on_gpus(host[::-1].copy(), SIZE // 4 + 1), exchange="gang"))
        np.testing.assert_array_equal(again, np.sort(host))
        assert all(kinds == ["NcclCommunicator"] for kinds in client.run(kinds_of_communicators).values())
        assert len(list(tmp_path.iterdir())) == 3


def bytes_in_use() -> int:
    """Bytes that CuPy holds on this worker's GPU, in its own pool or in RMM's, whose allocations are tracked."""
    used = int(cupy.get_default_memory_pool().used_bytes())
    if find_spec("rmm") is not None:
        resource = import_module("rmm.mr").get_current_device_resource()
        used += int(getattr(resource, "get_allocated_bytes", int)())
    return used


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_soak() -> None:
    def on_host(array: Any) -> Any:
        return array.map_blocks(to_host, dtype=array.dtype, meta=np.empty((0,) * array.ndim, array.dtype))

    def on_workers(host: np.ndarray, size: int) -> Any:
        return on_gpus(host, max(size, 1))

    tracked = {} if find_spec("rmm") is None else {"rmm_track_allocations": True}
    with used_cluster(None, "ucx" if find_spec("distributed_ucxx") else "tcp", **tracked) as client:
        assert soak.Soak(200, 1 << 24, 20, on_workers, on_host).run(client)
        gangs.until(lambda: max(client.run(bytes_in_use).values()) <= SPARE_BYTES, "free memory of the GPUs")
