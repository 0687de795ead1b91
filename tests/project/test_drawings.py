"""The drawings of the documents are what `docs/drawings` draws; nothing in them is cut off or too small."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support import cuts

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "how").glob("*.md"))]
IMAGE = re.compile(r"!\[([^\]]+)\]\((?:docs/)?(?:how/)?drawings/(\w+)\.svg\)")
#: Points of the smallest letters: 12 of 504 pixels, so 8 pixels where a phone shows the drawing 350 pixels wide.
LEAST_SIZE = 9
#: Sizes of letters differ between versions of FreeType.
TOLERANCE = 3


sys.path.insert(0, str(ROOT))
DRAWINGS = importlib.import_module("docs.drawings").DRAWINGS
FOLDER = importlib.import_module("docs.drawings.__main__").FOLDER
example = importlib.import_module("docs.drawings.graphs")


def test_each_drawing_is_stored_and_nothing_else() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DRAWINGS)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_stored_drawing_is_what_the_module_draws(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text()
    found = DRAWINGS[name].canvas().digest
    assert f"digest {found}" in text, "run python -m docs.drawings"
    assert ElementTree.fromstring(text).get("width") == "378pt"  # 504 pixels


@pytest.mark.parametrize("name", DRAWINGS)
def test_letters_are_inside_the_drawing_and_not_small(name: str) -> None:
    figure = DRAWINGS[name].canvas().figure
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        inside = box.x0 >= -TOLERANCE and box.x1 <= width + TOLERANCE and box.y0 >= 0 and box.y1 <= height
        assert inside, text.get_text()
        assert text.get_fontsize() >= LEAST_SIZE


def test_drawing_is_deterministic(tmp_path: Path) -> None:
    for name in ("first", "second"):
        DRAWINGS["brackets"].save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_each_drawing_is_on_a_page_with_its_text() -> None:
    shown = {name: text for page in PAGES for text, name in IMAGE.findall(page.read_text())}
    assert shown == {name: drawing.text for name, drawing in DRAWINGS.items()}


def test_the_example_of_the_global_sort_is_right() -> None:
    chunks, bounds = example.CHUNKS, example.example_bounds()
    groups = [
        np.sort(np.concatenate([chunk[cuts.piece(bounds, number, group)] for number, chunk in enumerate(chunks)]))
        for group in range(3)
    ]
    kept = [keys[cuts.kept(bounds, group)] for group, keys in enumerate(groups)]
    assert [len(keys) for keys in kept] == [6, 6, 6]
    assert np.concatenate(kept).tolist() == np.sort(chunks, axis=None).tolist()
    assert all((np.sort(chunk) == chunk).all() for chunk in chunks)
