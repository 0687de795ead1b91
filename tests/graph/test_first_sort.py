"""The first sort on a cluster, which installs plugins: workers import the package meanwhile, go and come."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import dask
import dask.array as da
import pytest
from support import strategies as ours

from dask_gpusort.graph.runtime import workers_of_cluster

distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")
_distributed = pytest.importorskip("dask_gpusort.graph._distributed")
plugins = pytest.importorskip("dask_gpusort.graph.runs.plugins")

SIZE, CHUNK = 20_000, 1000
ARRAY = ours.make("i8", SIZE, "zipf")


def first_sort(exchange="runs"):
    """A sort, ranks and an inverse."""
    with dask.config.set({"gpusort.exchange": exchange}):
        return runs.results(da.from_array(ARRAY, chunks=CHUNK))


def importing_at(folder):
    """What makes a worker import the package again, and wait for a file with its name before it does."""

    def forget(dask_worker):  # sent by value
        import pathlib
        import sys
        import time

        mark = pathlib.Path(folder, str(dask_worker.name))

        class Gate:
            def find_spec(self, name, path=None, target=None):
                if name == "dask_gpusort":
                    mark.with_suffix(".begun").touch()
                    while not mark.exists():
                        time.sleep(0.01)

        for name in [name for name in sys.modules if name.partition(".")[0] == "dask_gpusort"]:
            del sys.modules[name]
        sys.meta_path.insert(0, Gate())

    return forget


def begun(folder):
    return len(list(folder.glob("*.begun")))


@pytest.mark.parametrize("exchange", ["runs", "gang"])
def test_a_worker_goes_while_others_import(tmp_path, exchange):
    def build():
        with client.as_current():
            return first_sort(exchange)

    def heard(since):
        return all(worker["last_seen"] > since for worker in workers_of_cluster(client).values())

    with gangs.cluster(2) as client, dask.config.set(scheduler="distributed"), ThreadPoolExecutor(1) as pool:
        client.run(importing_at(str(tmp_path)))
        building = pool.submit(build)
        try:
            gangs.until(lambda: begun(tmp_path) == 2, "imports")
            now = time.time()
            gangs.until(lambda: heard(now), "heartbeats of workers that import")
            gangs.kill(client, gangs.addresses(client)[0])
            client.wait_for_workers(2, timeout=gangs.LONG)  # the new one imports at once
        finally:
            for name in range(2):
                (tmp_path / str(name)).touch()
        runs.assert_right(map(gangs.result_of, client.compute(building.result(gangs.LONG))), ARRAY)


def test_an_asynchronous_client_computes_while_a_worker_imports(tmp_path):
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}

    async def until(condition):
        while not condition():
            await asyncio.sleep(0.01)

    async def compute_sorted():
        async with (
            distributed.LocalCluster(asynchronous=True, **settings) as cluster,
            distributed.Client(cluster, asynchronous=True) as client,
        ):
            await client.run(importing_at(str(tmp_path)))
            futures, tasks = client.compute(first_sort()), cluster.scheduler.tasks
            await until(lambda: begun(tmp_path) == 2)
            (tmp_path / "0").touch()
            await until(lambda: any("sort-local" in str(key) and tasks[key].state == "memory" for key in tasks))
            (tmp_path / "1").touch()
            return await client.gather(futures)

    runs.assert_right(asyncio.run(asyncio.wait_for(compute_sorted(), gangs.LONG)), ARRAY)


def replies(*each):
    """A scheduler of two workers, of which the first one replies so, and what is sent to them."""
    sent, scheduler = [], SimpleNamespace(workers={"a": None, "b": None}, worker_plugins={})

    async def broadcast(msg, workers, on_error):
        sent.append(workers)
        found = {worker: {"status": "OK"} for worker in workers}
        if "a" in found:
            found["a"] = each[min(len(sent), len(each)) - 1]
            if found["a"] == "gone":
                del scheduler.workers["a"]
                found["a"] = OSError("gone")
        return found

    scheduler.broadcast = broadcast
    return scheduler, sent


@pytest.mark.parametrize(
    ("each", "sent", "refused"),
    [
        ([OSError("closed"), {"status": "OK"}], [["a", "b"], ["a"]], None),
        (["gone"], [["a", "b"], []], None),
        ([OSError("closed")], [["a", "b"], *[["a"]] * 4], "closed"),
        ([ImportError("of another version")], [["a", "b"]], "of another version"),
        ([{"status": "error", "exception_text": "no"}], [["a", "b"]], "no"),
    ],
)
def test_workers_that_do_not_answer_are_told_again(monkeypatch, each, sent, refused):
    monkeypatch.setattr(_distributed, "ATTEMPT_SECONDS", 0)
    scheduler, found = replies(*each)
    registered = _distributed.register_on_workers(scheduler, plugins.RunWorkerPlugin)
    if refused is None:
        asyncio.run(registered)
    else:
        with pytest.raises(RuntimeError, match=f"a worker refuses: .*{refused}"):
            asyncio.run(registered)
    assert found == sent
    assert bool(scheduler.worker_plugins) == (refused is None)
