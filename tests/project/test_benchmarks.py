"""Each benchmark runs once at a small size, with the thorough cases. The tests verify results, not times."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("psutil")

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
KINDS = ("time_", "peakmem_", "track_")
#: The size, which is the first parameter of a suite, unless the suite has the attribute `small`.
SMALL = 4_096


def load(name: str) -> Any:
    """A module of the benchmarks."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"benchmarks.{name}")


def run(name: str, *options: str, code: int = 0) -> str:
    """Output of a command. It runs in this process, because the import of Dask takes longer than most commands."""
    load("harness")
    output, before, found = io.StringIO(), sys.argv, 0
    sys.argv = [name, *options]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the module may be imported already
            runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
    except SystemExit as exit:
        print(exit.code if isinstance(exit.code, str) else "", file=output)
        found = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    finally:
        sys.argv = before
    assert found == code, output.getvalue()
    return output.getvalue()


def record(path: Path) -> Any:
    return load("harness.records").read(path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["core", "comparison", "order_statistics", "sorted_order"])
def test_a_quick_run_has_the_stored_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of documents are found by their names."""
    for module in ("pandas", "scipy", "zarr", "xarray"):
        pytest.importorskip(module)
    monkeypatch.setattr(load("harness.jobs"), "PROCESSES", False)
    run(f"cpu.{name}", "--quick", "--output", str(tmp_path))
    found, stored = (record(one / f"{name}_cpu.json") for one in (tmp_path, ROOT / "benchmarks" / "results"))
    assert {"cpu", "cores", "memory_bytes", "load_before", "versions", "commit"} <= found.machine.keys()
    # Memory that this process has taken before is not taken again.
    assert all(row.verified and (row.ours > 0 or row.name.startswith("peak/")) for row in found.rows)
    names = [
        {row.name: list(row.baselines) for row in one.rows if not row.name.startswith("pairs/")}
        for one in (found, stored)
    ]
    assert names[0] == names[1]


@pytest.mark.thorough
def test_many_threads_are_compared(tmp_path: Path) -> None:
    run("cpu.cores", "--quick", "--output", str(tmp_path))
    rows, stored = (record(one / "cores_cpu.json").rows for one in (tmp_path, RESULTS))
    assert {row.name.partition("/")[0] for row in rows} == {row.name.partition("/")[0] for row in stored}
    assert all("NumPy" in row.baselines for row in rows)


def suites() -> Iterator[Any]:
    module = load("asv.suites")
    for name, suite in inspect.getmembers(module, inspect.isclass):
        if suite.__module__ == module.__name__ and not name.startswith("_"):
            yield pytest.param(suite, id=name)


def some_of(params: tuple[list[Any], ...]) -> Iterator[tuple[Any, ...]]:
    """Combinations that cover each value of each parameter, for each value of the last parameter (the backend)."""
    *others, last = params
    for value in last:
        for number in range(max(map(len, others), default=1)):
            yield (*(values[number % len(values)] for values in others), value)


@pytest.mark.thorough
@pytest.mark.parametrize("suite", list(suites()))
def test_suite(suite: Any) -> None:
    assert len(suite.param_names) == len(suite.params)
    methods = [name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith(KINDS)]
    assert methods
    size = getattr(suite, "small", SMALL)
    for others in some_of(suite.params[1:]):
        benchmark = suite()
        if _impossible(dict(zip(suite.param_names[1:], others, strict=True))):
            # asv skips a benchmark whose setup raises this error.
            with pytest.raises(NotImplementedError, match="CuPy"):
                benchmark.setup(size, *others)
            continue
        benchmark.setup(size, *others)
        try:
            for method in methods:
                getattr(benchmark, method)(size, *others)
        finally:
            if hasattr(benchmark, "teardown"):
                benchmark.teardown(size, *others)


def _impossible(parameters: dict[str, Any]) -> bool:
    """Whether a benchmark needs CuPy without a GPU, or a dtype that CuPy lacks."""
    on_device = parameters.get("backend") == "cupy"
    return on_device and (not load("asv.data").has_device() or np.dtype(parameters.get("dtype", "i8")).kind in "MS")


def test_numpy_and_cupy_are_measured() -> None:
    measured = {suite.values[0] for suite in suites()}
    without = {suite.__name__ for suite in measured if ["numpy", "cupy"] not in suite.params}
    assert without == {"Build"}
    methods = {method for suite in measured for method in dir(suite) if method.startswith(KINDS)}
    assert {"peakmem_work", "time_work", "track_tasks"} <= methods


def test_each_public_function_is_measured() -> None:
    calls = load("asv.calls")
    package = importlib.import_module("dask_gpusort")
    public = {name for name in package.__all__ if not name.startswith("explain")}
    others = {"Explanation", "cluster", "register", "registered", "show_versions", "unregister", "warm_up"}
    assert public - others == {name.partition("/")[0] for name in (*calls.CALLS, *calls.ALIKE)}


@pytest.mark.thorough
def test_asv_accepts_the_suites() -> None:
    pytest.importorskip("asv")
    # asv removes PYTHONPATH from the environment.
    done = subprocess.run(
        [sys.executable, "-m", "asv", "check", "--environment", f"existing:{sys.executable}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "ASV_PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_indices_are_detected() -> None:
    check = load("harness.verify").check_indices
    keys = [np.array([1, 0, 1, 0]), np.array([0, 1, 0, 0])]
    check(keys, np.array([3, 1, 0, 2]))
    for wrong in ([3, 1, 2, 0], [1, 3, 0, 2], [3, 1, 0, 0]):
        with pytest.raises(AssertionError, match="not those of a stable sort"):
            check(keys, np.array(wrong))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda keys: keys[::-1], "not in order"),
        (lambda keys: np.concatenate([keys[500:], keys[:500]]), "begins below"),
        (lambda keys: np.concatenate([keys[:1], keys[:-1]]), "does not hold"),
        (lambda keys: keys[1:], "does not hold"),
    ],
)
def test_a_wrong_result_is_detected(spoil: Any, message: str) -> None:
    verify = load("harness.verify")
    keys = np.sort(load("asv.data").dask_keys("uniform", 1_000, 4).compute())

    def parts(array: np.ndarray) -> list[Any]:
        return [verify.summarize(chunk) for chunk in np.split(array, [500])]

    assert verify.check_sorted(parts(keys), "uniform", 1_000, 4) == [500, 500]
    with pytest.raises(AssertionError, match=message):
        verify.check_sorted(parts(spoil(keys)), "uniform", 1_000, 4)


@pytest.mark.thorough
@pytest.mark.parametrize("gpus", [1, 2])
def test_several_gpus_without_a_gpu(tmp_path: Path, gpus: int) -> None:
    works = ["u32-28", "pairs-29-x4", "zipf-28", "argsort-28", "large-u64"][: 5 if gpus == 2 else 1]
    options = ["--library", "numpy", "--keys-log2", "12", "--output", str(tmp_path), "--commit", "one"]
    run("gpu.multi", *works, *options, "--gpus", str(gpus))
    found = record(tmp_path / "multi_gpu.json")
    assert {"cpu", "cores", "memory_bytes", "versions"} <= found.machine.keys()
    assert [row.name for row in found.rows] == [f"{name}/{gpus}" for name in works]
    assert all(row.verified and row.samples["ours"] for row in found.rows)
    assert {(row.keys, row.details["GPUs"]) for row in found.rows} == {(gpus << 12, gpus)}


def test_a_wrong_result_of_several_gpus_is_detected() -> None:
    data = load("gpu.works")
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 32, 1_000, dtype="u4"))
    values = np.arange(1_000, dtype="u4")
    right, sums = data.summarize_chunk(keys, values), data.checksums
    assert right.in_order
    assert sums([right]) == sums([data.summarize_chunk(keys[::-1].copy(), values[::-1])])
    assert sums([right]) != sums([data.summarize_chunk(keys, values[::-1])])
    assert not data.summarize_chunk(keys[::-1], None).in_order
    # The sort is stable, so equal keys keep the order of their values.
    assert not data.summarize_chunk(np.zeros(3, "u4"), np.array([1, 0, 2], "u4")).in_order


def test_results_of_numpy_are_not_stored_as_those_of_a_gpu() -> None:
    assert "elsewhere" in run("gpu.multi", "u32-28", "--library", "numpy", code=2)


@pytest.mark.thorough
def test_results_are_right_whatever_goes_wrong(tmp_path: Path) -> None:
    output = run("cpu.soak", "--quick", "--seed", "1", "--directory", str(tmp_path))
    counts = {name: int(number) for name, number in re.findall(r"^([^:]+): (\d+)$", output, re.MULTILINE)}
    assert counts["right"] == counts["rounds"] >= 3
    assert counts["files that stay"] == 0
    assert sum(number for name, number in counts.items() if name.endswith(" came")) >= 2
    assert not list(tmp_path.iterdir())


def test_a_wrong_result_of_the_soak_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    soak = load("cpu.soak")
    zarr = pytest.importorskip("zarr")
    keys = np.array([3, 1, 2, 1])
    zarr.create_array(tmp_path / "i8.in", data=keys, chunks=(2,))
    world = SimpleNamespace(folder=tmp_path)
    for name, (_, wanted) in soak.FUNCTIONS.items():
        drawn = soak.Round(name, "i8", 4, 2, "runs", "none", 0.5)
        right = wanted(keys)
        right = list(right if isinstance(right, tuple) else (right,))
        assert not drawn.is_wrong(right, world)
        assert drawn.is_wrong([*right[:-1], right[-1][::-1] + 1], world)


@pytest.mark.thorough
def test_passes_are_counted(tmp_path: Path) -> None:
    run("cpu.passes", "--quick", "--output", str(tmp_path))
    counted = {row.work: row.details for row in record(tmp_path / "passes.json").rows}
    again = {work for work, details in counted.items() if details["reads, not held"] != 1}
    assert again == {"quantile/long-lanes"}
    assert {details["reads"] for details in counted.values()} == {1}
    assert all(details["tasks a chunk, held"] > 0 for details in counted.values())
    assert counted.keys() == {row.name for row in record(RESULTS / "passes.json").rows}


@pytest.mark.thorough
def test_the_load_of_sorts_is_counted(tmp_path: Path) -> None:
    run("cpu.scheduler_load", "--quick", "--output", str(tmp_path))
    rows = [{"tasks": row.ours, **row.details} for row in record(tmp_path / "scheduler_load.json").rows]
    driven = [details for details in rows if not details.get("projected")]
    assert 0 < len(driven) < len(rows)
    for details in driven:
        assert details["messages to the scheduler"] >= details["tasks"]
        assert details["edges"] > details["tasks"] / 2
        assert details["scheduler, s"] > details["its longest stop, s"] > 0
    workers = {details["runs"] * details["groups"] / details["slices of a worker"] for details in rows}
    assert {round(one, 6) for one in workers} == {4, 100, 1000}
    assert "100 TB" in load("documents.pages").page("scheduler_load", tmp_path)
