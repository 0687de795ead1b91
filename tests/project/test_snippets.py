"""The Python code in README and docs runs, at small sizes; what needs a GPU or a cluster names what exists."""

from __future__ import annotations

import ast
import copy
import doctest
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import dask_gpusort

ROOT = Path(dask_gpusort.__file__).parents[1]
#: Pages of the gallery are notebooks, which run when the site is built; what a build leaves is no page.
PAGES = [
    ROOT / "README.md",
    *sorted(
        path for path in (ROOT / "docs").rglob("*.md") if not {"gallery", "_build", "jupyter_execute"} & {*path.parts}
    ),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Numbers of a million and more, which are sizes.
LARGE = re.compile(r"\b\d{1,3}(?:_\d{3}){2,}\b")
DEVICES = re.compile(r"cupy|cuda|cluster|warm_up")


def blocks() -> list[Any]:
    found = ((path, number, code) for path in PAGES for number, code in enumerate(BLOCK.findall(path.read_text())))
    return [pytest.param(code, id=f"{path.name}-{number}") for path, number, code in found]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names and the files that snippets use."""
    monkeypatch.chdir(tmp_path)
    time = np.datetime64("2000-01-01", "ns") + np.arange(60) * np.timedelta64(1, "D")
    values = np.random.default_rng(0).random((60, 4))
    temperature = xr.DataArray(values, {"time": time}, ("time", "x"), "temperature")
    temperature.to_dataset().chunk(time=7).to_zarr("temperature.zarr")
    station = xr.DataArray(np.arange(60) % 5, {"time": time}, ("time",))
    xr.Dataset({"temperature": temperature[:, 0], "station": station}).chunk(time=7).to_zarr("stations.zarr")
    x = da.random.default_rng(0).random(10_000_000, chunks=500_000)
    settings = copy.deepcopy(dask.config.config)
    # Plans do not depend on the processor.
    with dask.config.set({"scheduler": "threads", "num_workers": 2, "gpusort.merged_runs": 0}):
        modules = {"dask": dask, "da": da, "np": np, "dask_gpusort": dask_gpusort}
        yield {**modules, "__name__": "__main__", "x": x, "temperature": temperature.chunk(time=7)}
    dask_gpusort.unregister()
    dask.config.config.clear()
    dask.config.config.update(settings)


def small(code: str) -> str:
    """Code with a thousandth of its sizes."""
    return LARGE.sub(lambda size: str(int(size[0]) // 1000), code)


@pytest.mark.parametrize("block", blocks())
def test_snippets_run(block: str, names: dict[str, Any]) -> None:
    examples = doctest.DocTestParser().get_examples(block) if block.startswith(">>> ") else []
    code = "".join(example.source for example in examples) or block
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dask_gpusort":
            assert hasattr(dask_gpusort, node.attr), node.attr
    # Processes that start import the script again.
    assert "LocalCluster(" not in code or 'if __name__ == "__main__":' in code
    if DEVICES.search(code):
        return
    if not examples:
        exec(small(code), names)
        return
    for example in examples:
        example.source = small(example.source)
    shown = doctest.DocTest(examples, names, "block", None, None, None)
    assert doctest.DocTestRunner().run(shown).failed == 0


@pytest.mark.parametrize("name", ["README.md", "docs/start.md", "docs/which.md"])
def test_first_pages_run_as_they_are_pasted(name: str, names: dict[str, Any]) -> None:
    """One block after another, without a name that the page does not define."""
    pasted: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.findall((ROOT / name).read_text()):
        if not DEVICES.search(block):
            exec(small(block), pasted)
            shutil.rmtree("sorted.zarr", ignore_errors=True)


def test_every_page_is_read() -> None:
    assert {"README.md-0", "functions.md-0"} <= {block.id for block in blocks()}
