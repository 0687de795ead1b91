"""The code in README and docs that needs one GPU runs there, page by page, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import dask_gpusort

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

ROOT = Path(dask_gpusort.__file__).parents[1]
PAGES = ["README.md", "docs/start.md", "docs/guide/keys.md", "docs/guide/one_gpu.md", "docs/gallery/gpu.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS_GPU, NEEDS_CLUSTER = re.compile("cupy|cuda|warm_up"), re.compile(r"Client|\(client\)")


def snippets(page: str) -> list[str]:
    """The code of a page for one GPU; of the gallery's page also what has no word of one."""
    text = (ROOT / page).read_text()
    found = [code.replace("dask_gpusort.warm_up(client)", "") for code in BLOCK.findall(text)]
    return [
        code
        for code in found
        if (NEEDS_GPU.search(code) or page.endswith("gpu.md")) and not (">>>" in code or NEEDS_CLUSTER.search(code))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_snippets_of_a_page_run(page: str) -> None:
    x = da.random.default_rng(0).random(1_000_000, chunks=100_000)
    names: dict[str, Any] = {"da": da, "np": np, "dask_gpusort": dask_gpusort, "cupy": cupy, "x": x}
    codes = snippets(page)
    assert codes
    for code in codes:
        exec(code, names)
