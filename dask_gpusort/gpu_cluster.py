"""A cluster of the GPUs of one host, configured for sorts, and the warm-up of a cluster or of one GPU.

`cluster` needs distributed and dask-cuda, and `warm_up` distributed for a cluster, else CuPy; these are imported on the
first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
from .graph.exchanges import install
from .graph.runtime import planned_for, workers_of_cluster

#: Share of a GPU's memory that RMM's pool allocates at the start. It is one allocation, so UCX opens one memory handle
#: for each worker. The rest is for CUDA's context, the kernels' code and UCX's buffers.
POOL_FRACTION = 0.9
#: Share of a GPU's memory that results may take before the oldest are spilled to the host. The rest of the pool is
#: for scratch memory and for what is lost between blocks (see `plan.memory.TURNS_FRACTION`).
SPILL_FRACTION = 0.65
#: Messages to and from the scheduler are small: UCX takes 0.9 ms for each, TCP 0.4, and a sort by a gang waits for six.
#: Arrays move between workers. 2^28 uint32 on each of two H200 take 23.5 ms in place of 26.6. TCP takes no memory of a
#: GPU, so workers copy what the scheduler asks for to the host: results of `compute`.
TCP_SCHEDULER = {"protocol": "tcp://", "serializers": ["dask", "pickle"]}
#: Bytes that every worker sends to every other in the warm-up: enough that UCX uses its protocol for large messages.
MESSAGE_BYTES = 1 << 26
#: Keys of each worker that the warm-up sorts: on a GPU enough to use the kernels of large chunks.
WARM_KEYS = {"cupy": 1 << 24, "numpy": 1 << 14}
#: Chunks of the arrays that the warm-up of one GPU sorts: one size of each class, and two chunks, which are merged.
WARM_CHUNKS = ((1 << 16,), (1 << 19,), (1 << 21,), (1 << 23,), (17 << 20,), (1 << 20, 1 << 20))
#: Dtypes that are warmed up at a time: their arrays take some 3 GB of device memory.
WARM_DTYPES = 3
#: Keys that are drawn at random. Larger arrays repeat them, and still have many times more distinct keys than buckets.
DRAWN_KEYS = 1 << 20

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
    """Start a `dask_cuda.LocalCUDACluster`, one worker for each GPU of this host, with settings for sorts.

    Parameters
    ----------
    n_workers : int, optional
        GPUs to use; by default all visible ones.
    protocol : {"ucx", "tcp"}, optional
        Communication between workers. UCX moves arrays over NVLink; it is the default if UCXX is installed. TCP copies
        them through the host. The scheduler communicates over TCP in both cases.
    pool : float, int, str or None
        RMM's memory pool on each GPU, which CuPy uses too: a fraction of the device's memory, bytes, or text such as
        "100GB". None disables the pool, which makes every allocation and every message slow. Without RMM there is no
        pool.
    device_memory_limit : float, int, str or None
        Size of results on each GPU above which the oldest are spilled to host memory, in the same units as `pool`; None
        never spills.
    **options
        Other options of `dask_cuda.LocalCUDACluster`, such as ``CUDA_VISIBLE_DEVICES``, ``local_directory`` or
        ``dashboard_address``. They override the settings above.

    Returns
    -------
    dask_cuda.LocalCUDACluster
        A context manager; connect to it with `distributed.Client`.

    Raises
    ------
    ImportError
        If dask-cuda is not installed.

    See Also
    --------
    warm_up : does the set-up that would delay the first sort by seconds

    Notes
    -----
    Unless ``asynchronous=True``, the plugins of `dask_gpusort.scheduler_plugins` are installed: messages between the
    scheduler and the workers are sent without delay, where distributed waits up to 5 ms, and tasks with dependencies
    are never treated as root tasks. Workers poll UCX, unless the environment has another `UCXPY_PROGRESS_MODE`.

    Workers are processes that import the main module again. In a script, call this function under
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
        "protocol": protocol or ("ucx" if all(map(find_spec, ("ucxx", "distributed_ucxx"))) else "tcp"),
        "device_memory_limit": device_memory_limit,
        "pre_import": ["cupy", "dask_gpusort"],
    }
    if pool is not None and find_spec("rmm") is not None:
        settings |= {"rmm_pool_size": pool, "rmm_allocator_external_lib_list": ["cupy"]}
    settings |= options
    if settings["protocol"].startswith("ucx"):
        settings["scheduler_kwargs"] = TCP_SCHEDULER | settings.get("scheduler_kwargs", {})
    # UCXX keeps the loop of a worker busy in each of its modes; the threads of tasks wait least for it in this one.
    with dask.config.set({"distributed.nanny.pre-spawn-environ.UCXPY_PROGRESS_MODE": "polling"}):
        started = dask_cuda.LocalCUDACluster(**settings)
    if not started.asynchronous:
        install_plugins(started)
    return started


def install_plugins(cluster: Any) -> None:
    """Register the plugins of `dask_gpusort.scheduler_plugins`, and the coordinator of gangs, on a cluster."""
    distributed, plugins = import_module("distributed"), import_module("dask_gpusort.scheduler_plugins")
    with distributed.Client(cluster, set_as_default=False) as client:
        client.register_plugin(plugins.SortSchedulerPlugin())
        client.register_plugin(plugins.SortWorkerPlugin())
        install("gang", client)


def warm_up(client: Any = None, *, dtypes: Sequence[Any] = ("u4", "u8", "i4", "i8", "f4", "f8")) -> float:
    """Do the set-up that would delay the first sort on a cluster, or on the current GPU.

    On a cluster, every worker sends device arrays to every other, which opens connections and memory handles (seconds,
    over UCX). Then small arrays on all workers are sorted, which compiles and loads the kernels and, where every worker
    has a GPU, connects them through NCCL. Once for each cluster is enough. From then on the client sends its messages
    without delay, where distributed waits up to 10 ms.

    Without a client, this process sorts random keys on the current device: arrays of several sizes from 2^16 keys on,
    uniform and skewed, in one chunk and in two. That compiles and loads the kernels of `sort` and `argsort`, those of
    different dtypes at the same time, and takes some 3 GB of device memory. CuPy 14.2 and
    newer keep compiled kernels on disk, so that later processes only load them.

    Parameters
    ----------
    client : distributed.Client, optional
        Not asynchronous.
    dtypes : sequence of dtypes
        Dtypes of the keys to be sorted.

    Returns
    -------
    float
        Elapsed seconds.

    Raises
    ------
    ValueError
        If the cluster has no workers.
    KernelsUnavailable
        Without a client: if there is no CuPy or no GPU. The message names the remedy.

    Examples
    --------
    >>> import dask_gpusort
    >>> seconds = dask_gpusort.warm_up(dtypes=["u4", "f8"])  # doctest: +SKIP
    """
    start = perf_counter()
    if client is None:
        cupy = import_module(".kernels.launch.loader", __package__).require_cupy()
        _warm_device(cupy, [np.dtype(dtype) for dtype in dtypes])
    else:
        _warm_cluster(client, [np.dtype(dtype) for dtype in dtypes])
    return perf_counter() - start


def _warm_device(cupy: Any, dtypes: Sequence[np.dtype[Any]]) -> None:
    """Sort and argsort keys of every dtype, size and distribution on the current device."""
    device = cupy.cuda.runtime.getDevice()

    def warm(dtype: np.dtype[Any]) -> None:
        with cupy.cuda.Device(device), planned_for("synchronous"):  # each thread has its own device and scheduler
            for chunks in WARM_CHUNKS:
                for draw in (_random_bits, _random_values, _random_exponentials):
                    host = np.resize(draw(dtype, min(sum(chunks), DRAWN_KEYS)), sum(chunks))
                    keys = da.from_array(cupy.asarray(host), chunks=(chunks,), asarray=False, name=False)
                    dask.persist(sort(keys), argsort(keys), scheduler="synchronous")
            cupy.cuda.runtime.deviceSynchronize()

    with ThreadPoolExecutor(WARM_DTYPES) as pool:
        list(pool.map(warm, dtypes))


def _warm_cluster(client: Any, dtypes: Sequence[np.dtype[Any]]) -> None:
    """Connect the workers, then sort and argsort keys of every dtype on each."""
    # Sorts right after each other, of which each releases the result of the one before, took 15 to 20 ms in place of 23
    # to 28 (8192 keys, a gang of two worker processes, 2 busy cores).
    with suppress(AttributeError):
        client.scheduler_comm.interval = 0
    addresses = list(workers_of_cluster(client))
    if not addresses:
        raise ValueError("the cluster has no workers yet: call client.wait_for_workers(n) first")
    _open_connections(client, addresses)
    with planned_for(client):  # `client.as_current()` would set the scheduler of the whole process
        for dtype in dtypes:
            _sort_once(client, addresses, dtype)


def _open_connections(client: Any, addresses: Sequence[str]) -> None:
    """Send a message from every worker to every other."""
    sent = [client.submit(_message, number, workers=[address], pure=False) for number, address in enumerate(addresses)]
    client.gather([client.submit(_receive, sent, workers=[address], pure=False) for address in addresses])


def _sort_once(client: Any, addresses: Sequence[str], dtype: np.dtype[Any]) -> None:
    """Sort and argsort random keys of a dtype, one chunk for each worker."""
    library = client.submit(_library, workers=[addresses[0]], pure=False).result()
    chunks = ((WARM_KEYS[library],) * len(addresses),)
    meta = import_module(library).empty(0, dtype)
    with dask.annotate(workers=lambda key: [addresses[key[1]]]):
        keys = da.map_blocks(_random_keys, dtype, library, chunks=chunks, dtype=dtype, meta=meta)
    keys = client.persist(keys, optimize_graph=False)  # which would lose the annotation
    # Only chunks that the workers hold are sorted by a gang, whose first sort connects its members.
    _wait(keys)
    _wait([client.persist(sort(keys)), client.persist(argsort(keys))])


def _wait(persisted: Any) -> None:
    """Wait for persisted arrays of any client; `distributed.wait` knows the default one alone."""
    for future in import_module("distributed").futures_of(persisted):
        future.exception()


def _library() -> str:
    """Task: the library for chunks on a worker: "cupy" if it has a GPU."""
    if find_spec("cupy") is None:
        return "numpy"
    runtime = import_module("cupy").cuda.runtime
    try:
        return "cupy" if runtime.getDeviceCount() else "numpy"
    except runtime.CUDARuntimeError:
        return "numpy"


def _message(number: int) -> Run:
    """Task: a message in the form used by the exchange."""
    array = import_module(_library()).full(MESSAGE_BYTES // 8, number, np.uint64)
    return Run(complete(array))


def _receive(messages: list[Run]) -> int:
    """Task: receive the messages of all workers."""
    return sum(int(message.keys[0]) for message in messages)


def _random_keys(dtype: np.dtype[Any], library: str, block_id: tuple[int, ...]) -> Any:
    """Task: random bits as keys."""
    host = _random_bits(dtype, WARM_KEYS[library], block_id[0])
    found = host if library == "numpy" else import_module(library).asarray(host)
    return complete(found)


def _random_bits(dtype: np.dtype[Any], n: int, seed: int = 0) -> Any:
    """Keys with uniform codes."""
    bits = np.random.default_rng(seed).bytes(n * dtype.itemsize)
    return np.frombuffer(bits, dtype) if dtype.kind != "b" else np.frombuffer(bits, np.uint8) > 127


def _random_values(dtype: np.dtype[Any], n: int) -> Any:
    """Keys with uniform values; 64-bit ones in a narrow range."""
    return _as_keys(np.random.default_rng(0).integers(0, 1 << min(24, 8 * dtype.itemsize - 1), n), dtype)


def _random_exponentials(dtype: np.dtype[Any], n: int) -> Any:
    """Keys that are denser near zero. Of n keys the largest is about log(n) times the mean, which fits six bits."""
    scale = 1.0 if dtype.kind in "fc" else 2.0 ** (8 * dtype.itemsize - 7)
    return _as_keys(scale * np.random.default_rng(0).standard_exponential(n), dtype)


def _as_keys(values: Any, dtype: np.dtype[Any]) -> Any:
    return values.astype(np.int64).view(dtype) if dtype.kind in "mM" else values.astype(dtype)
