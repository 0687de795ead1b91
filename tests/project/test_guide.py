"""The guide names every setting, every exchange, and every task that the dashboard shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_gpusort.config import DEFAULTS, EXCHANGES

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
GRAPH = ROOT / "dask_gpusort" / "graph"
#: How sources give names to tasks: whole names, names of layers of blocks, and stages of a name that a method makes.
NAMED, TOKEN = re.compile(r'f"((?:sort|top|unique|take|put)-[a-z]+)-\{'), re.compile(r'token="([a-z-]+)"')
STAGE = re.compile(r'_key\("([a-z]+)"')
#: A layer of a graph.
NO_TASKS = {"sort-stages"}


def sections(page: str) -> dict[str, str]:
    """The text below each heading."""
    heads = re.split(r"^## (.*)$", (GUIDE / page).read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(heads[::2], heads[1::2], strict=True))


def names_of_tasks() -> Iterator[str]:
    for path in sorted(GRAPH.rglob("*.py")):
        text = path.read_text()
        yield from NAMED.findall(text)
        yield from TOKEN.findall(text)
        if (first := re.search(r'f"([a-z]+)-\{stage\}-', text)) is not None:
            yield from (f"{first[1]}-{stage}" for stage in STAGE.findall(text))


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
