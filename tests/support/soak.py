"""A soak: many sorts at a time of random arrays, from several clients, while workers are killed.

It runs on worker processes with NumPy chunks, and on GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import Any

import distributed
import numpy as np

import dask_gpusort

from . import gangs, oracle, strategies

SORTS_AT_ONCE = 10
CLIENTS = 3
#: Seconds for one of the sorts. One that takes longer hangs.
TIMEOUT = 180.0
DTYPES = ("?", "u2", "i4", "u8", "i8", "f4", "f8", "c8")
DISTRIBUTIONS = ("constant", "few", "small", "bits", "zipf", "sorted", "reversed")
MOST_CHUNKS = 12

Ours = Callable[[Any, Any, bool, str], Any]
NumPys = Callable[[Any, Any, bool], Any]

#: What is computed of a Dask array and positions in it, whether it is descending, and the exchange; what NumPy gives.
FUNCTIONS: dict[str, tuple[Ours, NumPys]] = {
    "sort": (
        lambda x, at, down, exchange: dask_gpusort.sort(x, stable=True, descending=down, exchange=exchange),
        lambda host, at, down: oracle.sort(host, descending=down),
    ),
    "pairs": (
        lambda x, at, down, exchange: dask_gpusort.sort_by_key(x, x, descending=down, exchange=exchange)[1],
        lambda host, at, down: oracle.sort(host, descending=down),
    ),
    "inverse": (
        lambda x, *_: dask_gpusort.unique_inverse(x).inverse_indices,
        lambda host, *_: np.unique(host, True, True, equal_nan=False)[2],  # with positions NumPy sorts stably
    ),
    "intersection": (
        lambda x, *_: dask_gpusort.intersect1d(x, x[1::3]),
        lambda host, *_: np.intersect1d(host, host[1::3]),
    ),
    "rank": (lambda x, *_: dask_gpusort.rank(x, method="ordinal"), lambda host, *_: _ranks(host)),
    "quantile": (
        lambda x, *_: dask_gpusort.quantile(_real(x), QUANTILES, method="inverted_cdf"),
        lambda host, *_: np.quantile(_real(host), QUANTILES, method="inverted_cdf"),
    ),
    "top": (
        lambda x, at, down, _: dask_gpusort.topk(x, 9 if down else -9),
        lambda host, at, down: oracle.sort(host, descending=down)[:9],
    ),
    "take": (lambda x, at, *_: dask_gpusort.take(x, at, axis=0), lambda host, at, _: host[at]),
    "search": (
        lambda x, at, down, exchange: dask_gpusort.searchsorted(dask_gpusort.sort(x[::3], exchange=exchange), x),
        lambda host, *_: np.searchsorted(np.sort(host[::3]), host),
    ),
}
QUANTILES = (0.0, 0.3, 0.5, 1.0)
#: Functions that may give other bits of equal keys than NumPy.
OF_EQUAL_KEYS = ("intersection", "quantile")


@dataclass(frozen=True)
class Soak:
    """How much is sorted, and where.

    Attributes
    ----------
    sorts : int
    most_keys : int
        Of one array. Numbers of keys are uniform in their logarithm.
    kill_seconds : float
        Seconds between two killed workers.
    on_workers : callable(array, chunk size)
        Makes a Dask array that workers can compute again.
    on_host : callable(dask array)
        The same with NumPy chunks.
    """

    sorts: int
    most_keys: int
    kill_seconds: float
    on_workers: Callable[[Any, int], Any]
    on_host: Callable[[Any], Any] = lambda array: array

    def run(self, client: Any) -> list[str]:
        """Sort, compare each result with NumPy's, and check that nothing is left; gives the workers that were killed.

        The workers of the client's cluster must come back.
        """
        done = Event()
        with ExitStack() as stack:
            address = client.scheduler.address
            clients = [stack.enter_context(distributed.Client(address, set_as_default=False)) for _ in range(CLIENTS)]
            killer = stack.enter_context(ThreadPoolExecutor(1)).submit(self._kill, client, done)
            sorters = stack.enter_context(ThreadPoolExecutor(SORTS_AT_ONCE))
            try:
                running = [sorters.submit(self._sort, clients[seed % CLIENTS], seed) for seed in range(self.sorts)]
                for one in running:
                    one.result()
            finally:
                done.set()
                for one in running:
                    one.cancel()
            killed = killer.result()
        gangs.check_nothing_is_left(client)
        gangs.until(lambda: not held_keys(client), "workers that hold nothing")
        return killed

    def _sort(self, client: Any, seed: int) -> None:
        rng = np.random.default_rng(seed)
        size = int(self.most_keys ** rng.random())
        dtype, distribution = rng.choice(DTYPES), rng.choice(DISTRIBUTIONS)
        function, down, held = rng.choice(list(FUNCTIONS)), bool(rng.integers(2)), bool(rng.integers(2))
        host = strategies.make(dtype, size, distribution, seed)
        positions = rng.integers(0, size, size)
        (ours, numpys), chunk = FUNCTIONS[function], -(-size // int(rng.integers(2, MOST_CHUNKS)))
        with client.as_current():
            x, at = self.on_workers(host, chunk), self.on_workers(positions, chunk)
            if held:
                x, at = client.persist([x, at])
                distributed.wait([x, at], timeout=TIMEOUT)
            found = ours(x, at, down, "auto" if held else "gang")
            got = client.compute(self.on_host(found)).result(timeout=TIMEOUT)
        same = oracle.assert_same_values if function in OF_EQUAL_KEYS else oracle.assert_same_bits
        with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaN
            same(got, numpys(host, positions, down))

    def _kill(self, client: Any, done: Event) -> list[str]:
        """Kill a worker from time to time, when all are there."""
        rng, killed = np.random.default_rng(0), []
        workers = len(gangs.addresses(client))
        while not done.wait(self.kill_seconds):
            client.wait_for_workers(workers, timeout=TIMEOUT)
            killed.append(str(rng.choice(gangs.addresses(client))))
            gangs.kill(client, killed[-1])
        client.wait_for_workers(workers, timeout=TIMEOUT)
        return killed


def _real(array: Any) -> Any:
    """The array as NumPy has quantiles of it."""
    return array.real.astype("f8") if array.dtype.kind in "bc" else array


def _ranks(host: Any) -> Any:
    """Ordinal ranks, NaN if one key is."""
    ranks = np.empty(len(host), np.float64 if host.dtype.kind in "fc" else np.int64)
    ranks[oracle.argsort(host)] = np.nan if (host != host).any() else np.arange(1, len(host) + 1)
    return ranks


def held_keys(client: Any) -> list[str]:
    """Keys of all results that workers hold."""
    found = client.run(lambda dask_worker: [str(key) for key in dask_worker.data])
    return [key for keys in found.values() for key in keys]
