"""A cluster of the GPUs of one host, set up for sorts, and its warm-up.

Both functions need distributed, `cluster` also dask-cuda; neither is imported before it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np

from .api import argsort, sort
from .chunk import complete
from .chunk.run import Run

#: Of a GPU's memory, what RMM's pool takes at the start. One allocation, of which UCX opens one memory handle for each
#: peer. The rest is for CUDA's context, the kernels' code and UCX's own buffers.
POOL_FRACTION = 0.9
#: Of a GPU's memory, what results may take before the oldest are spilled to the host; the rest of the pool is for the
#: group that is being finished, which takes four sixteenths at most (see `plan.DEVICE_GROUP_FRACTION`).
SPILL_FRACTION = 0.65
#: Bytes that every worker sends to every other in the warm-up: enough that UCX takes the way of large messages.
MESSAGE_BYTES = 1 << 26
#: Keys of each worker that the warm-up sorts: on a GPU enough for the kernels that large chunks use.
WARM_KEYS = {"cupy": 1 << 24, "numpy": 1 << 14}

_REMEDY = (
    "dask_gpusort.cluster needs dask-cuda: pip install dask-cuda rmm-cu13 distributed-ucxx-cu13 (cu12 for CUDA 12), "
    "or conda install -c rapidsai dask-cuda rmm distributed-ucxx"
)


def cluster(
    n_workers: int | None = None,
    *,
    protocol: str | None = None,
    pool: float | int | str | None = POOL_FRACTION,
    device_memory_limit: float | int | str | None = SPILL_FRACTION,
    **options: Any,
) -> Any:
    """Start a `dask_cuda.LocalCUDACluster`, one worker for each GPU of this host, with the settings that sorts want.

    Parameters
    ----------
    n_workers : int, optional
        GPUs to use; all that are visible if left out.
    protocol : {"ucx", "tcp"}, optional
        How workers talk. UCX moves arrays over NVLink; it is chosen if UCXX is installed. TCP copies them through the
        host.
    pool : float, int, str or None
        RMM's memory pool on each GPU, from which CuPy allocates too: a part of the device's memory, bytes, or text such
        as "100GB". None for no pool, which makes every allocation and every message slow. Without RMM there is none.
    device_memory_limit : float, int, str or None
        Results on each GPU before the oldest are spilled to host memory, as for `pool`; None never spills.
    **options
        Anything else that `dask_cuda.LocalCUDACluster` takes, such as ``CUDA_VISIBLE_DEVICES``, ``local_directory`` or
        ``dashboard_address``. What is given here wins.

    Returns
    -------
    dask_cuda.LocalCUDACluster
        Use it as a context manager, and make a `distributed.Client` of it.

    Raises
    ------
    ImportError
        If dask-cuda is not installed.

    See Also
    --------
    warm_up : moves the first sort's seconds of set-up out of the way

    Notes
    -----
    Messages between the scheduler and the workers are sent at once, where distributed gathers them for up to 5 ms, and
    tasks that have dependencies are never dealt out as root tasks (see `dask_gpusort.scheduler_plugins`); neither if
    ``asynchronous=True``.

    Workers are processes that import the main module again: in a script, call this under
    ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import dask_gpusort
    >>> from distributed import Client
    >>> with dask_gpusort.cluster() as gpus, Client(gpus) as client:  # doctest: +SKIP
    ...     dask_gpusort.warm_up(client)
    ...     y = dask_gpusort.sort(x).persist()
    """
    try:
        dask_cuda = import_module("dask_cuda")
    except ImportError as error:
        raise ImportError(_REMEDY) from error
    settings: dict[str, Any] = {
        "n_workers": n_workers,
        "protocol": protocol or ("ucx" if _has_ucx() else "tcp"),
        "device_memory_limit": device_memory_limit,
        "pre_import": ["cupy", "dask_gpusort"],
    }
    if pool is not None and find_spec("rmm") is not None:
        settings |= {"rmm_pool_size": pool, "rmm_allocator_external_lib_list": ["cupy"]}
    started = dask_cuda.LocalCUDACluster(**{**settings, **options})
    if not started.asynchronous:
        install_plugins(started)
    return started


def install_plugins(cluster: Any) -> None:
    """Register the plugins of `dask_gpusort.scheduler_plugins` on a cluster."""
    distributed, plugins = import_module("distributed"), import_module("dask_gpusort.scheduler_plugins")
    with distributed.Client(cluster, set_as_default=False) as client:
        client.register_plugin(plugins.SortSchedulerPlugin())
        client.register_plugin(plugins.SortWorkerPlugin())


def _has_ucx() -> bool:
    return find_spec("ucxx") is not None and find_spec("distributed_ucxx") is not None


def warm_up(client: Any, *, dtypes: Sequence[Any] = ("u4", "u8", "i4", "i8", "f4", "f8")) -> float:
    """Do once what the first sort of a cluster would wait for.

    Every worker sends device arrays to every other, which opens connections and memory handles (seconds, over UCX);
    then small arrays are sorted, which compiles and loads the kernels. Once in the life of a cluster is enough.

    Parameters
    ----------
    client : distributed.Client
        Not asynchronous.
    dtypes : sequence of dtypes
        Of the keys that will be sorted.

    Returns
    -------
    float
        Seconds it took.

    Raises
    ------
    ValueError
        If the cluster has no workers.
    """
    start = perf_counter()
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    if not addresses:
        raise ValueError("the cluster has no workers yet: call client.wait_for_workers(n) first")
    with client.as_current(), dask.config.set(scheduler="distributed"):
        _open_connections(client, addresses)
        for dtype in map(np.dtype, dtypes):
            _sort_once(client, addresses, dtype)
    return perf_counter() - start


def _open_connections(client: Any, addresses: Sequence[str]) -> None:
    """Every worker has a message of every other."""
    sent = [client.submit(_message, number, workers=[address], pure=False) for number, address in enumerate(addresses)]
    client.gather([client.submit(_receive, sent, workers=[address], pure=False) for address in addresses])


def _sort_once(client: Any, addresses: Sequence[str], dtype: np.dtype[Any]) -> None:
    """Sort and argsort random keys of a dtype, a chunk for each worker."""
    library = client.submit(_library, workers=[addresses[0]], pure=False).result()
    chunks = ((WARM_KEYS[library],) * len(addresses),)
    meta = import_module(library).empty(0, dtype)
    keys = da.map_blocks(_random_keys, dtype, library, chunks=chunks, dtype=dtype, meta=meta).persist()
    import_module("distributed").wait([sort(keys).persist(), argsort(keys).persist()])


def _library() -> str:
    """Task: the library of the chunks that a worker is for."""
    if find_spec("cupy") is None:
        return "numpy"
    runtime = import_module("cupy").cuda.runtime
    try:
        return "cupy" if runtime.getDeviceCount() else "numpy"
    except runtime.CUDARuntimeError:
        return "numpy"


def _message(number: int) -> Run:
    """Task: a message as the exchange sends them."""
    array = import_module(_library()).full(MESSAGE_BYTES // 8, number, np.uint64)
    return Run(complete(array))


def _receive(messages: list[Run]) -> int:
    """Task: have the messages of all workers here."""
    return sum(int(message.keys[0]) for message in messages)


def _random_keys(dtype: np.dtype[Any], library: str, block_id: tuple[int, ...]) -> Any:
    """Task: random bits as keys."""
    bits = np.random.default_rng(block_id[0]).bytes(WARM_KEYS[library] * dtype.itemsize)
    host = np.frombuffer(bits, dtype) if dtype.kind != "b" else np.frombuffer(bits, np.uint8) > 127
    found = host if library == "numpy" else import_module(library).asarray(host)
    return complete(found)
