"""Each benchmark runs once at a small size. The tests verify results, not times."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("psutil")

ROOT = Path(__file__).parents[2]
SUITES = ("keys", "pairs", "rows", "merge", "ordered", "exchange", "api")
KINDS = ("time_", "peakmem_", "track_")
#: The size, which is the first parameter of a suite, unless the suite has the attribute `small`.
SMALL = 4_096

Run = Callable[..., str]


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


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of all CPU benchmarks, at small sizes."""
    for module in ("pandas", "scipy", "zarr", "xarray"):
        pytest.importorskip(module)
    directory = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load("cpu.cluster"), "PROCESSES", False)
        own = ("core", "comparison", "order_statistics", "sorted_order", "scaling")
        for name in (*(f"cpu.{one}" for one in own), "baselines", "model.cost"):
            run(name, "--quick", "--output", str(directory))
    return directory


def record(path: Path) -> Any:
    return load("harness.records").read(path)


def test_core(measured: Path) -> None:
    found = record(measured / "core_cpu.json")
    sections = {row.section for row in found.rows}
    assert sections == {"threads", "cluster", "chunk", "larger", "graph", "balance"}
    assert sections == set(found.settings["sections"])
    assert {"cpu", "cores", "memory_bytes", "load_before", "versions", "commit"} <= found.machine.keys()
    assert all(row.samples and row.ours > 0 and row.reached is None for row in found.rows)
    assert {row.ours for row in found.rows if row.section == "balance"} == {1.0}


def test_comparison(measured: Path) -> None:
    rows = record(measured / "comparison_cpu.json").rows
    assert {row.section for row in rows} == {"one chunk", "chunks", "threads"}
    assert all(row.baselines and row.ratio for row in rows)


def test_order_statistics(measured: Path) -> None:
    rows = record(measured / "order_statistics_cpu.json").rows
    assert {name for row in rows for name in row.baselines} >= {"da.percentile", "da.quantile", "our sort", "xarray"}
    assert len({row.work for row in rows}) >= 12
    assert all(row.wanted or row.baselines or "workers" in row.work for row in rows)


def test_sorted_order(measured: Path) -> None:
    rows = record(measured / "sorted_order_cpu.json").rows
    baselines = {name for row in rows for name in row.baselines}
    assert baselines >= {"da.unique", "np.unique", "scipy.stats.rankdata", "da.searchsorted", "np.take of the whole"}
    assert len({row.work for row in rows}) == 10


def test_baselines_sort_the_same_keys(measured: Path) -> None:
    lines = record(measured / "baselines_cpu.json").lines("baselines")
    assert {"dask_gpusort", "numpy.sort", "dask.dataframe"} <= lines.keys()
    assert all([point.x for point in line] == [1_000, 10_000] for line in lines.values())
    assert all(point.median > 0 and 0 <= point.others <= 1 for line in lines.values() for point in line)


def test_cost_model_is_compared_with_measurements(measured: Path) -> None:
    found, wall = (record(measured / f"{name}_cpu.json") for name in ("cost", "scaling"))
    for position in ("threads", "two workers"):
        lines = found.lines(f"cost {position}")
        assert [p.samples for p in lines["measured"]] == [p.samples for p in wall.lines("chunks wall")[position]]
        stages = ("sort", "count", "exchange", "merge", "tasks")
        for number, point in enumerate(lines["predicted"]):
            assert point.median == pytest.approx(sum(lines[stage][number].median for stage in stages))
            error = found.settings[f"errors, {position}"][f"{point.x:.0f}"]
            assert error == pytest.approx(point.median / lines["measured"][number].median - 1)


def test_projected_graphs_have_the_planned_number_of_tasks(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpu_table.json").write_text((ROOT / "benchmarks" / "results" / "gpu_table.json").read_text())
    (tmp_path / "cost_cpu.json").write_text((measured / "cost_cpu.json").read_text())
    options = ("--chunks", "20", "--exchanges", "runs", "--results", str(tmp_path), "--output", str(tmp_path))
    run("model.projection", *options)
    found = json.loads((tmp_path / "projection.json").read_text())
    assert found["settings"]["assumed"]
    # The GPUs of two hosts: a graph of 800 GPUs takes 13 GB.
    script = load("model.projection")
    monkeypatch.setattr(script, "HOSTS", 2)
    monkeypatch.setattr(script, "TOTAL_BYTES", 2 * 10**12)
    rows = [*found["rows"], script.project(20, "device", tmp_path)]
    assert [row["exchange"] for row in rows] == ["runs", "device"]
    assert all(row["built_tasks"] == row["cost"]["tasks"] for row in rows)


def test_a_section_replaces_its_points_only_on_the_same_machine(measured: Path, tmp_path: Path) -> None:
    before = record(measured / "scaling_cpu.json")
    before.write(path := tmp_path / "scaling_cpu.json")
    assert record(path) == before
    run("cpu.scaling", "network", "--quick", "--output", str(tmp_path))
    positions = [sorted((p.figure, p.series, p.x) for p in found.points) for found in (before, record(path))]
    assert positions[0] == positions[1]
    before.machine["cpu"] = "another"
    before.write(path)
    assert "no ratio of two machines" in _error("cpu.scaling", "network", "--quick", "--output", str(tmp_path))


def _error(name: str, *options: str) -> str:
    with pytest.raises(ValueError, match="machine") as error:
        run(name, *options)
    return str(error.value)


def test_quick_results_do_not_replace_stored_ones() -> None:
    assert "elsewhere" in run("cpu.scaling", "--quick", code=2)


def test_unknown_section() -> None:
    pytest.importorskip("pandas")
    assert "choose from" in run("cpu.core", "unheard-of", code=2)


MACHINE = {"cpu": "EPYC", "cores": 2, "memory_bytes": 1 << 34}


@pytest.mark.parametrize("change", [{"cpu": "Xeon"}, {"cores": 4}, {"device": "NVIDIA H200"}])
def test_results_of_different_machines_are_not_mixed(change: dict[str, Any]) -> None:
    machine = load("harness.machine")
    machine.check_one_machine(MACHINE, dict(MACHINE))
    with pytest.raises(machine.DifferentMachinesError, match="no ratio of two machines"):
        machine.check_one_machine(MACHINE, MACHINE | change)
    with pytest.raises(machine.DifferentMachinesError, match="does not name"):
        machine.check_one_machine({"python": "3.11"}, {"python": "3.11"})


def test_records_can_be_written_and_read(tmp_path: Path) -> None:
    records = load("harness.records")
    points = [records.Point("f", "ours", 10, [3.0, 1.0, 2.0], others=0.1), records.Point("f", "ours", 5, [1.0])]
    rows = [records.Row("work", 2.0, baselines={"one": 3.0, "two": 1.0}), records.Row("failed", None, verified=False)]
    kept = records.Record(MACHINE, {"repeat": 3}, points, rows)
    kept.write(tmp_path / "some" / "record.json")
    assert records.read(tmp_path / "some" / "record.json") == kept
    assert [point.x for point in kept.lines("f")["ours"]] == [5, 10]
    assert points[0].median == 2.0
    assert rows[0].ratio == 1.5
    # Files of earlier commits have a median of ratios, which is not that of the figures in their tables.
    path = tmp_path / "some" / "record.json"
    path.write_text(path.read_text().replace('"ours": 2.0', '"ours": 2.0, "ratio": 9.0'))
    assert records.read(path) == kept
    assert kept.lines("others") == {}
    assert "WRONG" in str(rows[1])


def suites() -> Iterator[Any]:
    for module in (load(f"asv.{name}") for name in SUITES):
        for name, suite in inspect.getmembers(module, inspect.isclass):
            if suite.__module__ == module.__name__ and not name.startswith("_"):
                yield pytest.param(suite, id=f"{module.__name__}.{name}")


def some_of(params: tuple[list[Any], ...]) -> Iterator[tuple[Any, ...]]:
    """Combinations that cover each value of each parameter, for each value of the last parameter (the backend)."""
    *others, last = params
    for value in last:
        for number in range(max(map(len, others), default=1)):
            yield (*(values[number % len(values)] for values in others), value)


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
    return on_device and (not load("asv.clock").has_device() or np.dtype(parameters.get("dtype", "i8")).kind in "MS")


def test_every_subject_is_measured_with_numpy_and_cupy() -> None:
    measured = {suite.values[0] for suite in suites()}
    by_subject = {name: [suite for suite in measured if suite.__module__.endswith(name)] for name in SUITES}
    for name in ("keys", "pairs", "rows", "merge", "ordered", "exchange"):
        assert any(["numpy", "cupy"] in suite.params for suite in by_subject[name]), name
    methods = {method for suite in measured for method in dir(suite) if method.startswith(KINDS)}
    assert {"track_rate", "track_share_of_copy", "peakmem_work", "time_work", "track_tasks"} <= methods
    others = {"__init__", "base", "clock", "data"}
    assert {path.stem for path in (ROOT / "benchmarks" / "asv").glob("*.py")} - others == set(SUITES)


def test_rates_are_computed_from_the_measured_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, base = load("asv.clock"), load("asv.base")
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


@contextmanager
def doubling(number: int) -> Iterator[Any]:
    yield lambda: np.full(1_000_000, number) * 2, lambda found: int(found[0])


def test_jobs_run_in_separate_processes() -> None:
    jobs = load("harness.jobs")
    found = jobs.in_turns(jobs.Effort(repeat=1), {"a": (doubling, 1), "b": (doubling, 2)})
    assert [sample.found for sample in found["a"]] == [2]
    assert [sample.found for sample in found["b"]] == [4]
    assert max(sample.peak for sample in found["a"]) > 8_000_000


def test_entropy_agrees_with_the_keys() -> None:
    scaling, data = load("cpu.scaling"), load("asv.data")
    assert scaling.entropy_bits(1, 32) == 32
    for words in (2, 3):
        ones = np.unpackbits(data.and_of(words, 100_000, "u4").view("u1")).mean()
        assert ones == pytest.approx(2.0**-words, rel=0.02)
        entropy = 32 * -(ones * np.log2(ones) + (1 - ones) * np.log2(1 - ones))
        assert scaling.entropy_bits(words, 32) == pytest.approx(entropy, rel=0.02)


def test_several_gpus_without_a_gpu(tmp_path: Path) -> None:
    works = ["u32-28", "pairs-29-x4", "argsort-28", "zipf-28", "large-u64"]
    options = ["--library", "numpy", "--keys-log2", "12", "--no-baseline", "--output", str(tmp_path)]
    run("gpu.multi", *options, "--commit", "one", "--works", *works[:4])
    run("gpu.multi", *options, "--commit", "two+", "--works", *works[4:])
    run("gpu.multi", *options, "--commit", "three", "--works", "u32-28", "--gpus", "1")
    found = record(tmp_path / "multi_gpu.json")
    assert found.machine["commit"] == "three"
    assert {"cpu", "cores", "memory_bytes", "versions"} <= found.machine.keys()
    # Rows of earlier calls keep their commits.
    commits = {(row.work, row.details["gpus"]): row.details["commit"] for row in found.rows}
    assert commits == {("u32-28", 1): "three", ("large-u64", 2): "two+"} | {(name, 2): "one" for name in works[:4]}
    assert all(row.verified and row.samples["ours"] and not row.details["error"] for row in found.rows)
    for row in found.rows:
        gpus, phases = row.details["gpus"], row.details["phases"]
        assert row.keys == gpus << 12
        if row.work != "large-u64":
            name = next(one for one in ("sort-gang", "argsort", "sort") if one in phases)
            assert phases[name]["tasks"] == gpus


@pytest.mark.parametrize(("world", "sorts"), [(1, 1), (2, 2)])
def test_the_nccl_baseline_exchanges_only_between_several_gpus(
    monkeypatch: pytest.MonkeyPatch, world: int, sorts: int
) -> None:
    done = []

    def sort(keys: np.ndarray) -> tuple[np.ndarray, None]:
        done.append("sort")
        return np.sort(keys), None

    for name in ("torch", "torch.distributed", "torch.multiprocessing"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(sort=sort, distributed=None, multiprocessing=None))
    monkeypatch.delitem(sys.modules, "benchmarks.baselines.nccl", raising=False)
    baseline = load("baselines.nccl")
    monkeypatch.setattr(baseline, "exchange", lambda keys, values, world: done.append("exchange") or (keys, values))
    keys, _ = baseline.whole(np.array([3, 1, 2]), None, world)
    assert keys.tolist() == [1, 2, 3]
    assert (done.count("sort"), done.count("exchange")) == (sorts, sorts - 1)


def test_a_long_run_reports_its_progress(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    distributed, measure = importlib.import_module("distributed"), load("gpu.multi.measure")
    monkeypatch.setattr(measure, "REPORT", 0.1)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        measure.wait_and_report(client, (client.submit(time.sleep, 0.5, key=("sort-merge-1", 0)),), 60)
        assert "sort-merge 1 processing" in capsys.readouterr().out
        with pytest.raises(TimeoutError):
            measure.wait_and_report(client, (client.submit(time.sleep, 1, key=("sort-merge-1", 1)),), 0.2)
    assert "0 paused" in capsys.readouterr().out


def test_a_wrong_result_of_several_gpus_is_detected() -> None:
    data = load("gpu.multi.data")
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 32, 1_000, dtype="u4"))
    values = np.arange(1_000, dtype="u4")
    right, sums = data.summarize_chunk(keys, values), data.checksums
    assert right.in_order
    assert sums([right]) == sums([data.summarize_chunk(keys[::-1].copy(), values[::-1])])
    assert sums([right]) != sums([data.summarize_chunk(keys, values[::-1])])
    assert not data.summarize_chunk(keys[::-1], None).in_order
    # The sort is stable, so equal keys keep the order of their values.
    assert not data.summarize_chunk(np.zeros(3, "u4"), np.array([1, 0, 2], "u4")).in_order
    # Floats that are not negative are in the order of their bits.
    floats = np.sort(np.random.default_rng(0).random(1_000))
    assert data.summarize_chunk(floats).in_order
    assert not data.summarize_chunk(floats[::-1].copy()).in_order


#: Heads of the tables of documents: the baseline's figure, ours, and their ratio.
RATIOS = [
    ("theirs", "ours", "times"),
    ("baseline", "ours", "times faster"),
    ("baseline", "ours", "times"),
    ("baseline, ms", "ours, ms", "times faster"),
    ("CUB, ms", "ours, ms", "times faster than CUB"),
    ("CuPy, one array, ms", "ours, ms", "x CuPy"),
    ("PyTorch + NCCL, ms", "ours, ms", "times faster"),
    ("PyTorch + NCCL, ms", "ours, ms", "times"),
]


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """The rows of each table, by column."""
    for found in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in found.splitlines())
        yield [dict(zip(head, row, strict=False)) for row in rows]


def figures_of(cell: str) -> list[tuple[float, float]]:
    """The least and the greatest number that is shown as each in a cell, without the baseline's name and the unit."""
    texts = [text.replace(",", "") for text in re.findall(r"[\d,.]*\d", cell.rpartition(": ")[2])]
    # Of large numbers three digits are shown.
    errors = [max(10.0 ** -len(text.partition(".")[2]) / 2, float(text) / 200 * ("." not in text)) for text in texts]
    return [(float(text) - error, float(text) + error) for text, error in zip(texts, errors, strict=True)]


def test_ratios_are_those_of_the_figures_beside_them() -> None:
    seen = 0
    texts = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    for rows in (rows for text in texts for rows in tables(text.read_text())):
        for base, ours, times in [heads for heads in RATIOS if rows and {*heads} <= rows[0].keys()][:1]:
            for row in rows:
                other = row["CuPy, ms"] if row[times].endswith("(CuPy)") else row[base]
                if ";" in other or not row[times] or row[times].endswith("x no-op"):
                    continue
                shown = zip(figures_of(other), figures_of(row[ours]), figures_of(row[times]), strict=True)
                for theirs, own, ratio in shown:
                    assert theirs[0] / own[1] <= ratio[1], row
                    assert ratio[0] * own[0] <= theirs[1], row
                    seen += 1
    assert seen > 200


GPU_SECTIONS = [
    "chunks",
    "sizes",
    "pairs",
    "lexsort",
    "large",
    "memory",
    "rows",
    "small",
    "host",
    "statistics",
    "order",
]


def test_dask_arrays_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("gpu.dask_arrays", "--library", "numpy", "--keys-log2", "12", "--output", str(tmp_path), "--commit", "abc")
    found = record(tmp_path / "gpu_dask_arrays.json")
    assert (found.machine["commit"], found.settings["library"]) == ("abc", "numpy")
    assert list(dict.fromkeys(row.section for row in found.rows)) == GPU_SECTIONS
    assert all(row.verified for row in found.rows)
    wanted = {name: {"kernel", "no-op"} for name in GPU_SECTIONS}
    wanted |= {
        "lexsort": {"CuPy", "no-op"},
        "memory": {"kernel"},
        "host": {"NumPy", "no-op"},
        "statistics": {"no-op"},
        "order": {"no-op"},
    }
    assert all(wanted[row.section] <= row.baselines.keys() for row in found.rows)
    # What a public call does not reach is no baseline of it.
    assert not any("kernel" in row.baselines for row in found.rows if row.section == "lexsort")
    blocks = load("documents.blocks")
    assert [len(blocks.rows_of(found, *group)) for _, *group in blocks.GPU_LEXSORT] == [2, 3]
    # The ratio of 256 chunks and of few keys is that to Dask's no-op, and others have a goal in milliseconds.
    first = {row.work: next(iter(row.baselines)) for row in found.rows}
    assert (first["sort int64, 64 chunks"], first["sort int64, 256 chunks"]) == ("CuPy", "no-op")
    assert {row.wanted for row in found.rows if row.section == "large"} == {"at most 40 ms"}
    written = run("documents", "--results", str(tmp_path))
    assert sorted(line.removeprefix("written: ") for line in written.splitlines() if line) == [
        "gpu_dask_arrays.md",
        "gpu_dask_chunks.svg",
        "gpu_dask_sizes.svg",
    ]
    text = (tmp_path / "gpu_dask_arrays.md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == GPU_SECTIONS
    # A table of many baselines names the one of its ratio.
    (line,) = (line for line in text.splitlines() if line.startswith("| sort int64, 256 chunks |"))
    (row,) = (row for row in found.rows if row.work == "sort int64, 256 chunks")
    assert f"| {load('documents.markdown').ratio(row.ratio)} x no-op | 0.83 x no-op |" in line


def test_results_of_numpy_are_not_stored_as_those_of_a_gpu() -> None:
    assert "elsewhere" in run("gpu.dask_arrays", "small", "--library", "numpy", code=2)


def test_a_wrong_result_in_chunks_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    script, library = load("gpu.dask_sorts"), load("gpu.library").library_of("numpy")
    assert all(row.verified for row in script.small_rows(library, 0))
    # NumPy's order of few keys is right, but the array is another one.
    sort = script.dask_gpusort.sort
    monkeypatch.setattr(script.dask_gpusort, "sort", lambda x, **options: sort(x, **options)[::-1])
    assert not any(row.verified for row in script.small_rows(library, 0))
    monkeypatch.setattr(script.dask_gpusort, "sort", sort)
    monkeypatch.setattr(library.kernels, "sort_keys", np.copy)
    assert not next(script.small_rows(library, 0)).verified
    for wrong in (np.arange(3.0), np.arange(4), np.arange(3) + 1):
        assert not load("gpu.library").bits_equal(wrong, np.arange(3))


def test_chunks_are_allocated_one_by_one_or_slices() -> None:
    script, keys = load("gpu.library"), np.arange(12).reshape(3, 4)
    for slices in (False, True):
        x = script.resident(keys, (2, 3), slices=slices)
        assert (x.numblocks, x.dtype) == ((2, 2), keys.dtype)
        np.testing.assert_array_equal(x.compute(scheduler="synchronous"), keys)
        assert all(np.shares_memory(block, keys) == slices for block in dict(x.dask).values())


def test_growth_of_the_pool_leaves_out_the_input() -> None:
    """The pool of the stand-in holds 100 bytes of input and 30 free ones, and a run allocates 70."""
    script = load("gpu.library")
    pool = SimpleNamespace(bytes=130)
    pool.total_bytes, pool.free_all_blocks = (lambda: pool.bytes), (lambda: setattr(pool, "bytes", 100))
    library = replace(script.library_of("numpy"), pool=pool)
    assert library.growth(lambda: setattr(pool, "bytes", pool.bytes + 70)) == (None, 70)


def test_numpy_chunks_are_sorted_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option ``device`` is given to our sort on the GPU, and not to the one on the CPU."""
    script, library, given = load("gpu.dask_sorts"), load("gpu.library"), []
    sort = script.dask_gpusort.sort
    monkeypatch.setattr(script.dask_gpusort, "sort", lambda x, device=None: given.append(device) or sort(x))
    (row,) = script.host_rows(replace(library.library_of("numpy"), on_device={"device": "cuda"}), 1 << 12)
    assert row.verified
    assert given == ["cuda"] * (1 + library.WARM_UPS + library.REPEATS) + [None]


def test_a_soak_records_every_process(tmp_path: Path) -> None:
    run("cpu.soak", "--quick", "--output", str(tmp_path))
    found = record(tmp_path / "soak.json")
    for figure in ("soak memory", "soak objects"):
        assert found.lines(figure).keys() == {"client", "scheduler", "worker 1", "worker 2"}
    assert sum(row.ours for row in found.rows if "all right" in row.work) >= 1


@pytest.mark.thorough
def test_sorts_are_right_while_workers_are_killed(tmp_path: Path) -> None:
    output = run("cpu.killed_workers", "--quick", "--directory", str(tmp_path))
    counts = {name: int(number) for name, number in re.findall(r"^([^:]+): (\d+)$", output, re.MULTILINE)}
    assert counts["killed workers"] >= 1
    assert counts["int64, right"] >= 1
    assert counts["workers lost otherwise"] == 0
    assert not list(tmp_path.iterdir())


def test_passes_are_counted(tmp_path: Path) -> None:
    run("cpu.passes", "--quick", "--output", str(tmp_path))
    counted = {row.work: row.details for row in record(tmp_path / "passes.json").rows}
    again = {work for work, details in counted.items() if details["reads, not held"] != 1}
    assert again == {"quantile, long lanes"}
    assert {details["reads"] for details in counted.values()} == {1}
    assert all(details["tasks a chunk, held"] > 0 for details in counted.values())
    blocks = load("documents.blocks")
    assert {work for works in blocks.PASSES.values() for work in works} == counted.keys()
    assert blocks.span([1, 2.04]) == "1 to 2"


def test_the_load_of_sorts_is_counted(tmp_path: Path) -> None:
    run("cpu.scheduler_load", "--quick", "--output", str(tmp_path))
    rows = [row.details for row in record(tmp_path / "scheduler_load.json").rows]
    driven = [details for details in rows if not details.get("projected")]
    assert 0 < len(driven) < len(rows)
    for details in driven:
        assert details["messages_to_scheduler"] >= details["tasks"]
        assert details["edges"] > details["tasks"] / 2
        assert details["scheduler_seconds"] > details["longest_stop"] > 0
    assert all(details["slices"] == details["runs"] * details["groups"] for details in rows)
    assert "100 TB" in load("documents.reports").report("scheduler_load", tmp_path)
