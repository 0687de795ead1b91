"""GPU measurements with a stand-in for CuPy, and figures: results are verified and figures show the stored data."""

from __future__ import annotations

import importlib
import itertools
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from test_benchmarks import ROOT, load, record, run

pytest.importorskip("distributed")
pytest.importorskip("psutil")
pytest.importorskip("matplotlib")


def figures() -> dict[str, Any]:
    found: dict[str, Any] = load("figures.catalogue").FIGURES
    return found


def drawn(figure: Any, results: Path) -> Any:
    """A figure as a matplotlib object."""
    return load("figures.draw").draw(figure, figure.record(results))


def test_drawing_a_figure_is_deterministic(tmp_path: Path) -> None:
    results, figure = ROOT / "benchmarks" / "results", figures()["gpu_dask_chunks"]
    paths = [tmp_path / name for name in ("a.svg", "b.svg")]
    for path in paths:
        figure.save(results, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert ElementTree.parse(paths[0]).getroot().get("width") == "621pt"  # 828 pixels
    assert f"digest {figure.digest(results)}" in paths[0].read_text()


def test_every_figure_has_data_and_is_drawn() -> None:
    results = ROOT / "benchmarks" / "results"
    for name, figure in figures().items():
        assert figure.record(results) is not None, name
        assert drawn(figure, results).axes, name


def test_a_figure_names_its_source() -> None:
    records = load("harness.records")
    points = [records.Point("baselines", "ours", 10, [1.0])]
    found = records.Record({"cpu": "EPYC", "cores": 2, "commit": "0123456789abcdef"}, {}, points)
    text = figures()["baselines"].source(found)
    assert text == "EPYC, 2 cores · commit 0123456789"


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


def test_sorts_take_turns_on_a_busy_gpu(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(device, "TURNS", 3)
    monkeypatch.setattr(device, "keep_busy", lambda run: order.append("busy"))
    samples = device.timed({name: partial(order.append, name) for name in "ab"})
    assert order == ["busy", *"ababab"]
    assert [len(taken) for taken in samples.values()] == [3, 3]


@pytest.mark.parametrize("verified", [True, False])
def test_a_table_with_wrong_results_is_written_too(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verified: bool
) -> None:
    monkeypatch.setattr(device, "Cub", lambda library: "CUB")
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
    assert found.machine == {"device": "a GPU", "commit": "abc+", "copy bandwidth": "0.00 TB/s"}
    assert (row.name, row.verified, row.ratios) == ("keys", verified, {"CUB": 1.5})
    assert row.details["share of copy bandwidth, %"] == pytest.approx(50)
    run("documents", "--results", str(tmp_path))
    text = (tmp_path / "gpu_table.md").read_text()
    assert "- commit: abc+" in text
    assert ("**wrong**" in text) != verified


def whole_numbers(dtype: Any, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 250, n).astype(dtype)


@pytest.mark.parametrize("script", ["table", "comparison"])
def test_a_gpu_table_has_the_stored_rows(device: Any, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The sections run with NumPy. The test compares names, baselines and verification of the rows, not times."""
    module, kernels = load(f"gpu.{script}"), device.kernels
    stand_in = load("harness.numpy_kernels")
    for name in vars(stand_in).keys() & vars(kernels).keys():
        if callable(getattr(kernels, name)):
            monkeypatch.setattr(kernels, name, getattr(stand_in, name))
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
    # Stored rows of options that the kernels no longer have: five of the merge sort for each of two dtypes.
    assert len(rows) == len(stored) - 2 * (7 if script == "table" else 5)


def test_algorithms_are_verified_and_slow_ones_skip_larger_sizes(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.gpu.algorithms", raising=False)
    script, table = load("gpu.algorithms"), SimpleNamespace(cub=SimpleNamespace(keys=lambda _: 2.0))

    def sort(keys: np.ndarray, out: np.ndarray, **_: Any) -> None:
        out[:] = np.sort(keys)

    monkeypatch.setattr(script, "SORTS", {"ours": sort, "cupy.sort": script.by_cupy})
    monkeypatch.setattr(script, "SIZES_LOG2", range(4, 8, 2))
    monkeypatch.setattr(script, "random_keys", whole_numbers)
    assert {(point.series, point.x) for point in script.algorithm_points(table, 0)} == {
        (name, n) for name in ("ours", "cupy.sort", "CUB") for n in (16, 64)
    }
    monkeypatch.setattr(device, "MOST_SECONDS", 1e-3)
    assert {point.x for point in script.algorithm_points(table, 0) if point.series != "CUB"} == {16}
    monkeypatch.setitem(script.SORTS, "ours", lambda keys, out: None)
    with pytest.raises(AssertionError, match="ours, 16: the result is not the sorted keys"):
        list(script.algorithm_points(table, 0))


ON_DEVICE = ("dask_gpusort, kernels", "dask_gpusort, CuPy chunks", "cupy.sort", "torch.sort", "CUB")


@pytest.fixture
def libraries(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The libraries as on a machine with a GPU. All of them call NumPy's sort."""
    module = load("baselines.libraries")
    tensor = SimpleNamespace(
        from_dlpack=lambda keys: keys, sort=lambda keys: SimpleNamespace(values=np.sort(keys), indices=None)
    )
    monkeypatch.setitem(sys.modules, "torch", tensor)

    class Cub:
        def __init__(self, library: Path) -> None:
            assert library == module.CUB_LIBRARY

        def call(self, name: str, keys: np.ndarray, found: np.ndarray) -> float:
            assert name == "cub_keys_int64"
            found[:] = np.sort(keys)
            return 2.0

    monkeypatch.setattr(sys.modules["benchmarks.baselines.cub"], "Cub", Cub)
    monkeypatch.setattr(device.kernels, "sort_keys", np.sort)
    monkeypatch.setattr(module, "devices", lambda: ("NVIDIA H200",))
    monkeypatch.setattr(module.Library, "missing", lambda self: "")
    monkeypatch.setattr(module, "DEVICE_CHUNK_KEYS", 300)
    return module


@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_wrong_result_of_a_library_on_a_gpu_is_detected(
    libraries: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    seconds_here = libraries.seconds_here
    assert seconds_here(libraries.LIBRARIES[name].sorting, 1_000) > 0
    swapped = np.arange(1_000)
    swapped[[0, 1]] = [1, 0]
    sort = np.sort
    if name == "dask_gpusort, CuPy chunks":
        monkeypatch.setattr(libraries, "chunked", lambda keys, _: libraries.da.from_array(keys[:-1], chunks=300))
    else:
        monkeypatch.setattr(libraries.np, "sort", lambda keys: sort(keys)[swapped])
        if name == "dask_gpusort, kernels":
            monkeypatch.setattr(importlib.import_module("dask_gpusort.kernels"), "sort_keys", np.sort)
    with pytest.raises(AssertionError, match="not in order|does not hold"):
        seconds_here(libraries.LIBRARIES[name].sorting, 1_000)


def test_keys_on_host_and_device_are_equal(libraries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHED_KEYS", "PIECE_KEYS"):
        monkeypatch.setattr(libraries, name, 300 if name == "PIECE_KEYS" else 64)
    here, there = libraries.make_keys(1_000), libraries.make_keys(1_000, FakeCupy())
    np.testing.assert_array_equal(here, there)
    # The first numbers of splitmix64 from state 0, shifted right by one bit.
    assert (here[:2] == [0xE220A8397B1DCDAF >> 1, 0x6E789E6AA1B965F4 >> 1]).all()
