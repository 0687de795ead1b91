"""Tables and figures in documents show the stored results: `python -m benchmarks.documents --check`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from test_benchmarks import ROOT, load, run

RESULTS = ROOT / "benchmarks" / "results"


def test_documents_are_current() -> None:
    run("documents", "--check")


def test_stale_documents_are_named(tmp_path: Path) -> None:
    for path in RESULTS.glob("*.*"):
        shutil.copy(path, tmp_path)
    command = load("documents.__main__")
    (page := tmp_path / "page.md").write_text("<!-- table: passes -->\n1\n<!-- end of table -->\n")
    for name, old, new in (
        ("gpu_table", r'"ours": [\d.e-]+', '"ours": 3.6979'),
        ("algorithms_gpu", "H200", "H100"),
    ):
        path = tmp_path / f"{name}.json"
        text, replaced = re.subn(old, new, path.read_text(), count=1)
        assert replaced
        path.write_text(text + " ")
    found = [name for name, _ in command.stale(tmp_path, [page])]
    assert found == ["gpu_algorithms.svg", "gpu_table.md", "page.md: passes"]
    text = run("documents", "--check", "--results", str(tmp_path), code=1)
    assert "stale: gpu_table.md" in text
    assert "stale: gpu_algorithms.svg" in text
    run("documents", "--results", str(tmp_path))
    run("documents", "--check", "--results", str(tmp_path))
    assert "| 3.70 ms |" in (tmp_path / "gpu_table.md").read_text()


def test_every_table_has_two_markers() -> None:
    for path in load("documents.__main__").documents():
        text = path.read_text()
        markers = len(re.findall(r"^<!-- (?:table: .*|end of table) -->$", text, re.MULTILINE))
        assert markers == 2 * len(load("documents.blocks").BLOCK.findall(text)), path
