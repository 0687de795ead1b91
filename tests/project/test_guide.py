"""The guide names every setting, every exchange, and every task that the dashboard shows, and prints present plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import pytest
from distributed import Client, LocalCluster

import dask_gpusort
from dask_gpusort.builders import staging
from dask_gpusort.config import DEFAULTS, EXCHANGES
from dask_gpusort.graph import runtime

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
#: Folders whose sources name tasks.
NAMING = [ROOT / "dask_gpusort" / folder for folder in ("builders", "functions", "drivers", "graph")]
#: How sources give names to tasks: stages, perhaps with a number, and names of layers of blocks.
NAMED, TOKEN = (
    re.compile(r'"((?:sort|top|unique|take|put|select|search|rank|reduce|group)-[a-z]+)'),
    re.compile(r'token="([a-z-]+)"'),
)
#: A layer of a graph, and a message to a worker.
NO_TASKS = {"sort-stages", "sort-run"}


def sections(page: str) -> dict[str, str]:
    """The text below each heading."""
    heads = re.split(r"^## (.*)$", (GUIDE / page).read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(heads[::2], heads[1::2], strict=True))


def names_of_tasks() -> Iterator[str]:
    for path in sorted(path for folder in NAMING for path in folder.rglob("*.py")):
        text = path.read_text()
        yield from NAMED.findall(text)
        yield from TOKEN.findall(text)


@pytest.mark.parametrize(("name", "default"), DEFAULTS.items())
def test_settings_have_their_defaults(name: str, default: object) -> None:
    text = sections("settings.md")[name]
    assert f"`gpusort.{name}`" in text
    assert f"`{default}`".replace("`auto`", '`"auto"`') in text


def test_exchanges_are_listed() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", sections("clusters.md")["Which exchange is chosen"], re.MULTILINE)
    assert {"auto", *explained} == {*EXCHANGES}
    assert {*re.findall(r'`"(\w+)"`', sections("settings.md")["exchange"])} == {*EXCHANGES}


def test_tasks_are_listed() -> None:
    listed = {*re.findall(r"`([a-z_-]+)`", sections("plans.md")["Names of tasks on the dashboard"])}
    known = {*names_of_tasks()} - NO_TASKS
    assert {"sort-local", "sort-merge", "select-draw", "search-rank", "reduce-lanes"} <= known
    assert known - listed == set()


H200 = int(139.8 * 2**30)


def printed(title: str) -> list[str]:
    """The plans that a section of the guide shows."""
    (section,) = re.findall(rf"^### {title}$(.*?)^##", (GUIDE / "plans.md").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^```text\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)


def test_the_first_plan_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "host_memory", lambda: 3 << 30)
    with dask.config.set({"num_workers": 2, "gpusort.merged_runs": 0}):
        said = dask_gpusort.explain(da.zeros(10_000_000, chunks=500_000))
    assert f"```text\n>>> dask_gpusort.explain(x)\n{said}\n```" in (GUIDE / "plans.md").read_text()


def test_plans_of_a_gpu_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans need shapes, dtypes and the memory of the GPU alone, and no CuPy."""
    monkeypatch.setattr(runtime, "own_device_memory", lambda: H200)
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    monkeypatch.setattr(staging, "_copies", lambda: SimpleNamespace(metadata_without_device=nullcontext))
    cupy_chunks, numpy_chunks = printed("On a GPU")
    host = da.zeros(20_000_000_000, chunks=100_000_000)
    assert dask_gpusort.explain(host, device="cuda").detail == numpy_chunks
    monkeypatch.setattr(runtime, "chunk_library", lambda array: "cupy")
    assert dask_gpusort.explain(da.zeros(6_000_000_000, chunks=100_000_000)).detail == cupy_chunks


def test_the_plan_of_a_gang_is_printed() -> None:
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1 GiB", "processes": False}
    with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster):
        x = da.random.default_rng(0).random(10_000_000, chunks=500_000)
        assert [dask_gpusort.explain(x, exchange="gang").detail] == printed("A gang")
