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

Function = Callable[[Any, bool, str], Any]

#: What is computed of a Dask array: whether it is descending, and the exchange.
FUNCTIONS: dict[str, Function] = {
    "sort": lambda x, down, exchange: dask_gpusort.sort(x, stable=True, descending=down, exchange=exchange),
    "argsort": lambda x, down, exchange: dask_gpusort.argsort(x, descending=down, exchange=exchange),
    "pairs": lambda x, down, exchange: dask_gpusort.sort_by_key(x, x, descending=down, exchange=exchange)[1],
    "unique": lambda x, down, exchange: dask_gpusort.unique(x),
    "counts": lambda x, down, exchange: dask_gpusort.unique_counts(x).counts,
    "inverse": lambda x, down, exchange: dask_gpusort.unique_inverse(x).inverse_indices,
    "rank": lambda x, down, exchange: dask_gpusort.rank(x, method="ordinal"),
}


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
        with client.as_current():
            x = self.on_workers(host, -(-size // int(rng.integers(2, MOST_CHUNKS))))
            if held:
                x = x.persist()
                distributed.wait(x, timeout=TIMEOUT)
            found = FUNCTIONS[function](x, down, "auto" if held else "gang")
            got = client.compute(self.on_host(found)).result(timeout=TIMEOUT)
        # Of equal keys with other bits, NumPy's `unique` may give another one.
        same = oracle.assert_same_values if function == "unique" else oracle.assert_same_bits
        same(got, _wanted(function, host, down))

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


def _wanted(function: str, host: Any, down: bool) -> Any:
    """What NumPy gives."""
    positions = oracle.argsort(host, descending=down)
    if function in ("sort", "pairs"):
        return host[positions]
    if function == "argsort":
        return positions
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaN
        return _wanted_of_distinct(function, host)


def _wanted_of_distinct(function: str, host: Any) -> Any:
    values, _, inverse, counts = np.unique(host, True, True, True, equal_nan=function == "unique")
    if function != "rank":
        return {"unique": values, "inverse": inverse, "counts": counts}[function]
    ranks = np.empty(len(host), np.float64 if host.dtype.kind in "fc" else np.int64)
    ranks[oracle.argsort(host)] = np.nan if (host != host).any() else np.arange(1, len(host) + 1)
    return ranks


def held_keys(client: Any) -> list[str]:
    """Keys of all results that workers hold."""
    found = client.run(lambda dask_worker: [str(key) for key in dask_worker.data])
    return [key for keys in found.values() for key in keys]
