"""What two workers hold while bundles and groups take turns: NumPy chunks on workers that are planned as GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support.marks import slow_but_first

import dask_gpusort
from dask_gpusort.builders import global_sort
from dask_gpusort.drivers.turns import Bundle, Turn, split_turn
from dask_gpusort.gpu_cluster import install_plugins
from dask_gpusort.graph import runtime
from dask_gpusort.plan import Workers

distributed = pytest.importorskip("distributed")

MEMORY = 24_000_000
SHARE = 12_000_000  # bytes of keys and companions on each worker
CHUNKS = 48


def arrays_of(result: Any) -> Iterator[np.ndarray]:
    if isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, tuple | list):
        for part in result:
            yield from arrays_of(part)
    elif isinstance(result, Bundle):
        yield from arrays_of(result.turns)
    elif isinstance(result, Turn):
        yield from split_turn(result)[1]
    elif hasattr(result, "arrays"):
        yield from result.arrays


def held_bytes(results: dict[Any, Any]) -> int:
    """Bytes of all arrays, those of which several are views once."""
    found = {}
    for result in list(results.values()):
        for array in arrays_of(result):
            whole = array
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            found[id(whole)] = whole.nbytes
    return sum(found.values())


class Watch(distributed.WorkerPlugin):
    """Notes the most bytes that the results on a worker have, and counts the tasks that it ran."""

    name = "watch"

    def setup(self, worker: Any) -> None:
        self.worker, self.most, self.ran = worker, 0, Counter[str]()
        worker.watch = self

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        if finish == "memory":
            self.most = max(self.most, held_bytes(self.worker.data))
            self.ran[distributed.utils.key_split(key)] += start == "executing"


def made(dtype: str, share: int) -> Any:
    """Chunks made by tasks."""
    size = 2 * share // CHUNKS // np.dtype(dtype).itemsize

    def draw(block_id: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(block_id[0]).integers(0, 1 << 62, size).astype(dtype)

    return da.map_blocks(draw, chunks=((size,) * CHUNKS,), dtype=dtype, meta=np.empty(0, dtype))


@pytest.fixture
def workers() -> Iterator[list[Any]]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(memory_limit=0, **options) as cluster, distributed.Client(cluster) as client:
        install_plugins(cluster)
        client.register_plugin(Watch())
        yield list(cluster.workers.values())


@pytest.mark.parametrize("pairs", slow_but_first(True, False))
def test_two_workers_hold_what_is_projected(monkeypatch: pytest.MonkeyPatch, workers: list[Any], pairs: bool) -> None:
    plans: list[Any] = []
    make = global_sort.make_plan
    monkeypatch.setattr(runtime, "workers_in_use", lambda *_: Workers(2, MEMORY, devices=True))
    monkeypatch.setattr(global_sort, "make_plan", lambda *a, **kw: plans.append(make(*a, **kw)) or plans[-1])
    x = made("u8", SHARE // (1 + pairs))
    exchange = {"exchange": "device"}
    found = dask.persist(
        *(dask_gpusort.sort_by_key(x, ~x, **exchange) if pairs else [dask_gpusort.sort(x, **exchange)])
    )
    distributed.wait(list(found))
    (plan,) = plans
    assert plan.cut_first
    assert global_sort._pace(plan).awaited_by(len(plan.groups) - 1)
    # Scratch memory of a step is in no result.
    results = replace(plan, turns=replace(plan.turns, step=0)).stated.peak
    for worker in workers:
        assert abs(worker.watch.most - results) <= 0.15 * results
        assert worker.watch.ran["sort-local"] == len(plan.sources) / 2
        assert worker.watch.ran["sort-scatter"] == len(plan.sources) * len(plan.groups) / 2
        assert worker.watch.ran["draw"] == CHUNKS / 2
    keys, *values = dask.compute(*found)
    wanted = np.sort(x.compute())
    np.testing.assert_array_equal(keys, wanted)
    for one in values:
        np.testing.assert_array_equal(one, ~wanted)
