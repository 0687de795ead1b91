"""GPU measurements with a stand-in for CuPy, and figures: results are verified and figures show the stored data."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import numpy_kernels
from test_benchmarks import ROOT, load, record, run

pytest.importorskip("distributed")
pytest.importorskip("psutil")
pytest.importorskip("matplotlib")


def test_every_figure_has_data_and_is_drawn_with_its_source() -> None:
    for name, figure in load("figures.catalogue").FIGURES.items():
        found = figure.record(ROOT / "benchmarks" / "results")
        assert found is not None, name
        assert load("figures.draw").draw(figure, found).axes, name
        for device, shown in {"": "EPYC", "NVIDIA H200, NVIDIA H200": "NVIDIA H200"}.items():
            found.machine = {"cpu": "EPYC", "commit": "0123456789abcdef"} | ({"device": device} if device else {})
            assert figure.source(found) == f"{shown} · commit 0123456789"


class FakeCupy:
    """The part of CuPy that the benchmarks of one GPU use, on NumPy arrays. Its events count milliseconds."""

    def __init__(self) -> None:
        ticks = itertools.count(1)
        event = type(
            "Event", (), {"record": lambda self: setattr(self, "at", next(ticks)), "synchronize": lambda _: None}
        )
        device = SimpleNamespace(synchronize=lambda: None)
        self.cuda = SimpleNamespace(
            Event=event, get_elapsed_time=lambda begin, end: float(end.at - begin.at), Device=lambda: device
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_all_blocks=lambda: None)

    def asnumpy(self, array: np.ndarray) -> np.ndarray:
        return array.copy()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `harness.device`, with the stand-in for CuPy."""
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    for name in ("baselines.cub", "harness.device", "gpu.table", "gpu.comparison"):
        monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    module = load("harness.device")
    for parent, name in (("harness", "device"), ("baselines", "cub")):
        monkeypatch.setattr(load(parent), name, sys.modules[f"benchmarks.{parent}.{name}"])
    monkeypatch.setattr(module, "WARM_SECONDS", 1e-3)
    return module


@pytest.mark.parametrize("verified", [True, False])
def test_a_table_with_wrong_results_is_written_too(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verified: bool
) -> None:
    monkeypatch.setattr(device, "Cub", lambda: SimpleNamespace(version="3.5.0"))
    monkeypatch.setattr(device, "copy_bandwidth", lambda: 1e9)
    describe = load("harness.command")
    monkeypatch.setattr(describe, "describe_machine", lambda commit: {"device": "a GPU", "commit": commit})
    options = ["some", "--keys-log2", "4", "--output", str(tmp_path), "--commit", "abc+"]
    monkeypatch.setattr(sys, "argv", ["table", *options])

    def section(table: Any, n: int) -> Any:
        yield table.row("keys", f"{n} keys", n, 2.0, verified, {"CuPy": None, "CUB": 3.0}, traffic=1_000_000)

    def measure() -> None:
        device.run_table("table", "A table.", "gpu_table", {"some": section, "others": None})

    if verified:
        measure()
    else:
        with pytest.raises(SystemExit, match="wrong results: .*16 keys"):
            measure()
    found = record(tmp_path / "gpu_table.json")
    (row,) = found.rows
    assert found.machine == {"device": "a GPU", "commit": "abc+", "copy bandwidth": "0.00 TB/s", "CUB": "3.5.0"}
    assert (row.name, row.verified, row.ratios) == ("keys", verified, {"CUB": 1.5})
    assert row.details["share of copy bandwidth, %"] == pytest.approx(50)
    run("documents", "--results", str(tmp_path))
    text = (tmp_path / "gpu_table.md").read_text()
    assert "- commit: abc+" in text
    assert ("**wrong**" in text) != verified


def whole_numbers(dtype: Any, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 250, n).astype(dtype)


def sort_by_numpy(monkeypatch: pytest.MonkeyPatch, kernels: Any) -> None:
    """Let the kernels be NumPy's functions."""
    for name in vars(numpy_kernels).keys() & vars(kernels).keys():
        if callable(getattr(kernels, name)):
            monkeypatch.setattr(kernels, name, getattr(numpy_kernels, name))


@pytest.mark.parametrize("script", ["table", "comparison"])
def test_a_gpu_table_has_the_stored_rows(device: Any, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The sections run with NumPy. The test compares names, baselines and verification of the rows, not times."""
    module = load(f"gpu.{script}")
    sort_by_numpy(monkeypatch, device.kernels)
    monkeypatch.setattr(device, "copy_bandwidth", lambda: 1e12)
    for one in (device, module):
        monkeypatch.setattr(one, "random_keys", whole_numbers)
        monkeypatch.setattr(one, "median_ms", lambda run, *_: run() is None or 1.0)
    monkeypatch.setattr(module, "make_keys", lambda name, dtype, n: whole_numbers(dtype, n), raising=False)
    monkeypatch.setattr(module, "WIDE_LOG2", 10, raising=False)
    table = device.Table(SimpleNamespace(keys=lambda _: 2.0, pairs=lambda *_: 2.0, call=lambda *_: 2.0))
    rows = [row for section in module.SECTIONS.values() for row in section(table, 1 << 14)]
    stored = record(ROOT / "benchmarks" / "results" / f"gpu_{script}.json").rows
    known, found = ({(row.name, *row.baselines) for row in several} for several in (stored, rows))
    sizes = {row for row in found if row[0].startswith("rows/")}  # rows named after their size
    assert found - sizes <= known
    assert all(row.verified for row in rows), [row.work for row in rows if not row.verified]
    # The stored table has seven sizes more, of each of two dtypes.
    assert len(rows) == len(stored) - 2 * 7 * (script == "table")


@pytest.fixture
def dask_arrays(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with the stand-ins, on a machine where `device` is given to sorts, and has no effect."""
    monkeypatch.delitem(sys.modules, "benchmarks.gpu.dask_arrays", raising=False)
    sort_by_numpy(monkeypatch, device.kernels)
    module = load("gpu.dask_arrays")
    sort = module.dask_gpusort.sort
    monkeypatch.setattr(module.dask_gpusort, "sort", lambda x, device=None, **options: sort(x, **options))
    return module


GPU_SECTIONS = ["chunks", "pairs", "lexsort", "large", "rows", "small", "host", "statistics", "order"]


@pytest.mark.thorough
def test_dask_arrays_have_the_stored_rows(dask_arrays: Any, tmp_path: Path) -> None:
    run("gpu.dask_arrays", "--keys-log2", "12", "--output", str(tmp_path), "--commit", "abc")
    found = record(tmp_path / "gpu_dask_arrays.json")
    assert found.machine["commit"] == "abc"
    assert list(dict.fromkeys(row.section for row in found.rows)) == GPU_SECTIONS
    assert all(row.verified for row in found.rows), [row.work for row in found.rows if not row.verified]
    stored = record(ROOT / "benchmarks" / "results" / "gpu_dask_arrays.json")
    rows = {row.name: row for row in found.rows}
    for row in stored.rows:
        assert row.section == rows[row.name].section
        assert row.baselines.keys() <= rows[row.name].baselines.keys()
    # What a public call does not reach is no baseline of it.
    assert not any("kernel" in row.baselines for row in found.rows if row.section == "lexsort")
    written = run("documents", "--results", str(tmp_path))
    assert sorted(line.removeprefix("written: ") for line in written.splitlines() if line) == [
        "gpu_dask_arrays.md",
        "gpu_dask_chunks.svg",
    ]
    text = (tmp_path / "gpu_dask_arrays.md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == GPU_SECTIONS


def test_a_wrong_result_in_chunks_is_detected(dask_arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(row.verified for row in dask_arrays.small_rows(0))
    # NumPy's order of few keys is right, but the array is another one.
    sort = dask_arrays.dask_gpusort.sort
    monkeypatch.setattr(dask_arrays.dask_gpusort, "sort", lambda x, **options: sort(x, **options)[::-1])
    assert not any(row.verified for row in dask_arrays.small_rows(0))
    for wrong in (np.arange(3.0), np.arange(4), np.arange(3) + 1):
        assert not dask_arrays.bits_equal(wrong, np.arange(3))
