"""Each benchmark runs once, at a small size; none of them is timed here."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]
SUITES = ("keys", "pairs", "rows", "merge", "exchange", "api")
KINDS = ("time_", "peakmem_", "track_")
#: First parameter of every suite, its size, where the suite has no opinion.
SMALL = 4_096


@pytest.fixture(autouse=True)
def _from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def run(*command: str, code: int = 0, variable: str = "PYTHONPATH") -> str:
    """What a module prints that finds this checkout."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, variable: path},
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def suites() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT))
    try:
        modules = [importlib.import_module(f"benchmarks.suites.{name}") for name in SUITES]
    finally:
        sys.path.remove(str(ROOT))
    for module in modules:
        for name, suite in inspect.getmembers(module, inspect.isclass):
            if suite.__module__ == module.__name__ and not name.startswith("_"):
                yield pytest.param(suite, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("suite", list(suites()))
def test_suite(suite: Any) -> None:
    assert len(suite.param_names) == len(suite.params)
    methods = [name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith(KINDS)]
    assert methods
    size = getattr(suite, "small", SMALL)
    for others in itertools.product(*suite.params[1:]):
        benchmark = suite()
        if _impossible(dict(zip(suite.param_names[1:], others, strict=True))):
            # So asv leaves it out.
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
    """Whether a benchmark asks for a device that is not there, or for keys that it does not have."""
    clock = importlib.import_module("benchmarks.suites.clock")
    on_device = parameters.get("backend") == "cupy"
    return on_device and (not clock.has_device() or np.dtype(parameters.get("dtype", "i8")).kind in "MS")


def test_every_subject_is_measured_on_both_sides() -> None:
    measured = {suite.values[0] for suite in suites()}
    by_subject = {name: [suite for suite in measured if suite.__module__.endswith(name)] for name in SUITES}
    for name in ("keys", "pairs", "rows", "merge", "exchange"):
        assert any(["numpy", "cupy"] in suite.params for suite in by_subject[name]), name
    methods = {method for suite in measured for method in dir(suite) if method.startswith(KINDS)}
    assert {"track_rate", "track_share_of_copy", "peakmem_work", "time_work", "track_tasks"} <= methods


def test_rates_are_of_the_time_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = importlib.import_module("benchmarks.suites.clock")
    base = importlib.import_module("benchmarks.suites.base")
    ticks = itertools.count(step=2)
    monkeypatch.setattr(clock, "seconds", lambda: float(next(ticks)))

    class Doing(base._Sorting, base._WithBandwidth):
        x = np.zeros(1, "i4")
        done = 0

        def work(self, *_: Any) -> None:
            self.done += 1

    doing = Doing()
    assert doing.track_rate(1_000, "numpy") == 500
    assert doing.done == 1 + clock.REPEATS
    monkeypatch.setattr(base, "copy_bandwidth", lambda backend: 16_000.0)
    assert doing.track_share_of_copy(1_000, "numpy") == 2 * 1_000 * 4 / 2 / 16_000


def test_every_module_is_known() -> None:
    others = {"__init__", "base", "clock", "data"}
    assert {path.stem for path in (ROOT / "benchmarks" / "suites").glob("*.py")} - others == set(SUITES)


def test_asv_takes_the_suites() -> None:
    pytest.importorskip("asv")
    # It drops PYTHONPATH.
    run("asv", "check", "--environment", f"existing:{sys.executable}", variable="ASV_PYTHONPATH")


def test_core_report(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("zarr")
    run("benchmarks.core", "--quick", "--output", str(tmp_path))
    report = json.loads((tmp_path / "core_cpu.json").read_text())
    sections = {row["section"] for row in report["rows"]}
    assert sections == {"threads", "cluster", "chunk", "larger", "graph", "balance"}
    assert sections == set(report["settings"]["sections"])
    assert {"cpu", "cores", "memory_bytes", "versions", "commit"} <= report["machine"].keys()
    assert all(row["samples"] and row["measured"] > 0 for row in report["rows"])
    balance = [row for row in report["rows"] if row["section"] == "balance"]
    assert [row["measured"] for row in balance] == [1.0] * len(balance)
    text = (tmp_path / "core_cpu.md").read_text()
    assert all(row["what"] in text for row in report["rows"])


def test_comparison_report(tmp_path: Path) -> None:
    run("benchmarks.comparison", "--quick", "--output", str(tmp_path))
    rows = json.loads((tmp_path / "comparison_cpu.json").read_text())["rows"]
    assert {row["section"] for row in rows} == {"one chunk", "chunks", "threads"}
    text = (tmp_path / "comparison_cpu.md").read_text()
    assert "python -m benchmarks.comparison" in text
    assert all(row["what"] in text for row in rows)


def test_wrong_indices_are_seen() -> None:
    check = importlib.import_module("benchmarks.comparison").check_indices
    keys = [np.array([1, 0, 1, 0]), np.array([0, 1, 0, 0])]
    check(keys, np.array([3, 1, 0, 2]))
    for wrong in ([3, 1, 2, 0], [1, 3, 0, 2], [3, 1, 0, 0]):
        with pytest.raises(AssertionError, match="not those of a stable sort"):
            check(keys, np.array(wrong))


def test_multi_gpu_without_a_gpu(tmp_path: Path) -> None:
    works = ["u32-28", "pairs-29-x4", "argsort-28", "zipf-28", "large-u64"]
    options = ["--library", "numpy", "--keys-log2", "12", "--no-baseline", "--out", str(tmp_path / "table")]
    for commit, some in (("one", works[:4]), ("two+", works[4:])):
        run("benchmarks.multi_gpu", *options, "--commit", commit, "--works", *some)
    machine = json.loads((tmp_path / "table.json").read_text())["machine"]
    assert machine["commit"] == "two+"
    assert {"cpu", "cores", "memory_bytes", "versions"} <= machine.keys()
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert {row["work"] for row in rows} == set(works)
    # Rows of an earlier call keep what they are of.
    assert {row["commit"] for row in rows if row["work"] in works[:4]} == {"one"}
    assert [row["commit"] for row in rows if row["work"] in works[4:]] == ["two+"]
    assert all(row["verified"] and row["seconds"] and not row["error"] for row in rows)
    assert all(row["phases"]["sort-scatter"]["tasks"] == 4 for row in rows if row["work"] != "large-u64")
    text = (tmp_path / "table.md").read_text()
    assert "| u32-28 | 2 | 8,192 |" in text
    assert "- commit: two+" in text
    assert "| yes | one |" in text


def test_rows_of_one_gpu_stand_beside_those_of_two(tmp_path: Path) -> None:
    out = tmp_path / "table"
    options = ["--library", "numpy", "--keys-log2", "10", "--no-baseline", "--out", str(out), "--works", "u32-28"]
    run("benchmarks.multi_gpu", *options, "--gpus", "2")
    before = json.loads(out.with_suffix(".json").read_text())["rows"]
    run("benchmarks.multi_gpu", *options, "--gpus", "1")
    one, two = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert [two] == before
    assert (one["gpus"], one["keys"], two["gpus"], two["keys"]) == (1, 1_024, 2, 2_048)
    assert one["verified"]
    assert one["phases"]["sort"]["tasks"] == 1
    assert "| u32-28 | 1 | 1,024 |" in out.with_suffix(".md").read_text()


@pytest.mark.parametrize(("world", "sorts"), [(1, 1), (2, 2)])
def test_the_baseline_exchanges_where_there_is_another_gpu(
    monkeypatch: pytest.MonkeyPatch, world: int, sorts: int
) -> None:
    done = []

    def sort(keys: np.ndarray) -> tuple[np.ndarray, None]:
        done.append("sort")
        return np.sort(keys), None

    for name in ("torch", "torch.distributed", "torch.multiprocessing"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(sort=sort, distributed=None, multiprocessing=None))
    monkeypatch.delitem(sys.modules, "benchmarks.nccl_baseline", raising=False)
    baseline = importlib.import_module("benchmarks.nccl_baseline")
    monkeypatch.setattr(baseline, "exchange", lambda keys, values, world: done.append("exchange") or (keys, values))
    keys, _ = baseline.whole(np.array([3, 1, 2]), None, world)
    assert keys.tolist() == [1, 2, 3]
    assert (done.count("sort"), done.count("exchange")) == (sorts, sorts - 1)


def test_a_long_run_on_many_gpus_says_where_it_is(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    distributed = importlib.import_module("distributed")
    measure = importlib.import_module("benchmarks.multi_gpu.measure")
    monkeypatch.setattr(measure, "TELL", 0.1)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        measure.wait_and_tell(client, (client.submit(time.sleep, 0.5, key=("sort-merge-1", 0)),), 60)
        assert "sort-merge 1 processing" in capsys.readouterr().out
        with pytest.raises(TimeoutError):
            measure.wait_and_tell(client, (client.submit(time.sleep, 1, key=("sort-merge-1", 1)),), 0.2)
    assert "0 paused" in capsys.readouterr().out


def test_multi_gpu_sees_a_wrong_result() -> None:
    data = importlib.import_module("benchmarks.multi_gpu.data")
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 32, 1_000, dtype="u4"))
    values = np.arange(1_000, dtype="u4")
    right = data.chunk_facts(keys, values)
    assert right["ordered"]
    assert right["checksum"] == data.chunk_facts(keys[::-1], values[::-1])["checksum"]
    assert right["checksum"] != data.chunk_facts(keys, values[::-1])["checksum"]
    assert not data.chunk_facts(keys[::-1], None)["ordered"]
    # Stable: equal keys keep the order of their values.
    assert not data.chunk_facts(np.zeros(3, "u4"), np.array([1, 0, 2], "u4"))["ordered"]


@contextmanager
def doubling(number: int) -> Iterator[Any]:
    yield lambda: np.full(1_000_000, number) * 2, lambda found: int(found[0])


def test_jobs_run_in_processes_of_their_own() -> None:
    pytest.importorskip("psutil")
    measure = importlib.import_module("benchmarks.core.measure")
    found = measure.in_turns(measure.Effort(repeat=2), {"a": (doubling, 1), "b": (doubling, 2)})
    assert [sample.found for sample in found["a"]] == [2, 2]
    assert [sample.found for sample in found["b"]] == [4, 4]
    assert measure.peak_of(found["a"]) > 8_000_000
    assert measure.times_faster(found["a"], found["b"]) > 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda keys: keys[::-1], "not in order"),
        (lambda keys: np.concatenate([keys[500:], keys[:500]]), "begins below"),
        (lambda keys: np.concatenate([keys[:1], keys[:-1]]), "does not hold"),
        (lambda keys: keys[1:], "does not hold"),
    ],
)
def test_a_wrong_result_is_seen(spoil: Any, message: str) -> None:
    contents = importlib.import_module("benchmarks.core.contents")
    data = importlib.import_module("benchmarks.suites.data")
    keys = np.sort(data.dask_keys("uniform", 1_000, 4).compute())

    def parts(array: np.ndarray) -> list[Any]:
        return [contents.look_at(chunk) for chunk in np.split(array, [500])]

    assert contents.check_sorted(parts(keys), "uniform", 1_000, 4) == [500, 500]
    with pytest.raises(AssertionError, match=message):
        contents.check_sorted(parts(spoil(keys)), "uniform", 1_000, 4)


def test_no_section_of_that_name() -> None:
    pytest.importorskip("pandas")
    assert "choose from" in run("benchmarks.core", "unheard-of", code=2)
