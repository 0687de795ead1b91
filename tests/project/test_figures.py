"""Peers, stored points and figures: results are verified, machines not mixed, what is not measured is not drawn."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from test_benchmarks import run

pytest.importorskip("distributed")
pytest.importorskip("psutil")

ROOT = Path(__file__).parents[2]
MACHINE = {"cpu": "EPYC", "cores": 2, "memory_bytes": 1 << 34}
OTHERS = [{**MACHINE, "cpu": "Xeon"}, {**MACHINE, "cores": 4}, {**MACHINE, "device": "NVIDIA H200"}]


@pytest.fixture(autouse=True)
def _from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def points() -> Any:
    return importlib.import_module("benchmarks.points")


def test_a_record_is_kept_as_it_is(points: Any, tmp_path: Path) -> None:
    kept = [points.Point("peers", "ours", 10, [3.0, 1.0, 2.0], others=0.1), points.Point("peers", "ours", 5, [1.0])]
    record = points.Record(MACHINE, {"repeat": 3}, kept)
    record.write(tmp_path / "some" / "record.json")
    assert points.read(tmp_path / "some" / "record.json") == record
    assert [point.x for point in record.lines("peers")["ours"]] == [5, 10]
    assert kept[0].median == 2.0
    assert record.lines("others") == {}


@pytest.mark.parametrize("other", OTHERS, ids=["cpu", "cores", "device"])
def test_no_ratio_of_two_machines(points: Any, other: dict[str, Any]) -> None:
    ours, theirs = points.Point("peers", "ours", 10, [1.0]), points.Point("peers", "theirs", 10, [3.0])
    assert points.times_faster((ours, MACHINE), (theirs, dict(MACHINE))) == 3.0
    with pytest.raises(points.DifferentMachinesError, match="no ratio of two machines"):
        points.times_faster((ours, MACHINE), (theirs, other))


def test_no_ratio_where_the_machine_is_not_told(points: Any) -> None:
    with pytest.raises(points.DifferentMachinesError, match="does not say"):
        points.check_one_machine({"python": "3.11"}, {"python": "3.11"})


def test_no_ratio_of_two_sizes(points: Any) -> None:
    ours = points.Point("peers", "ours", 10, [1.0])
    for other in (points.Point("peers", "theirs", 20, [1.0]), points.Point("peers", "theirs", 10, [1.0], "tasks")):
        with pytest.raises(ValueError, match="no ratio of 10 s"):
            points.times_faster((ours, MACHINE), (other, MACHINE))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of everything that a CPU measures, at small sizes."""
    pytest.importorskip("pandas")
    directory = tmp_path_factory.mktemp("results")
    run("benchmarks.peers", "--quick", "--output", str(directory))
    run("benchmarks.scaling", "--quick", "--output", str(directory))
    run("benchmarks.cost", "--quick", "--output", str(directory))
    return directory


def test_peers_sort_the_same_keys(measured: Path, points: Any) -> None:
    record = points.read(measured / "peers_cpu.json")
    lines = record.lines("peers")
    assert {"dask_gpusort", "numpy.sort", "dask.dataframe"} <= lines.keys()
    assert all([point.x for point in line] == [1_000, 10_000] for line in lines.values())
    assert all(point.median > 0 and 0 <= point.others <= 1 for line in lines.values() for point in line)
    assert {"cpu", "cores", "memory_bytes", "versions", "commit", "load_before"} <= record.machine.keys()
    assert {"numpy", "polars", "array-api-compat", "pandas"} <= record.machine["versions"].keys()


def test_records_of_one_machine_are_compared(measured: Path, points: Any, tmp_path: Path) -> None:
    stored = measured / "peers_cpu.json"
    told = run("benchmarks.peers", "--compare", str(stored), str(stored))
    assert "| numpy.sort | 1,000 | 1.00 |" in told
    content = json.loads(stored.read_text())
    content["machine"]["cpu"] = "another"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(content))
    told = run("benchmarks.peers", "--compare", str(stored), str(other), code=1)
    assert "no ratio of two machines" in told
    assert "1.00" not in told


def test_points_of_two_machines_are_not_put_together(measured: Path, tmp_path: Path) -> None:
    content = json.loads((measured / "scaling_cpu.json").read_text())
    content["machine"]["cpu"] = "another"
    (tmp_path / "scaling_cpu.json").write_text(json.dumps(content))
    told = run("benchmarks.scaling", "network", "--quick", "--output", str(tmp_path), code=1)
    assert "no ratio of two machines" in told


def test_a_section_takes_the_place_of_its_points(measured: Path, points: Any, tmp_path: Path) -> None:
    before = points.read(measured / "scaling_cpu.json")
    before.write(tmp_path / "scaling_cpu.json")
    run("benchmarks.scaling", "network", "--quick", "--output", str(tmp_path))
    after = points.read(tmp_path / "scaling_cpu.json")
    places = [sorted((p.figure, p.series, p.x) for p in record.points) for record in (before, after)]
    assert places[0] == places[1]
    assert {p.series for p in after.points if p.figure == "network"} == {"network, a layer at a time", "ours", "NumPy"}


def test_small_sizes_do_not_take_the_place_of_results() -> None:
    assert "elsewhere" in run("benchmarks.scaling", "--quick", code=2)


@pytest.mark.parametrize("spoil", [lambda found: found[::-1], lambda found: found + 1, lambda found: found[1:]])
def test_a_wrong_result_of_a_peer_is_seen(spoil: Any) -> None:
    peers = importlib.import_module("benchmarks.peers")
    for dtype in ("i8", "u4"):
        keys = np.random.default_rng(0).integers(0, 1 << 31, 100).astype(dtype)
        check = peers.checked(keys)
        check(np.sort(keys))
        with pytest.raises(AssertionError):
            check(spoil(np.sort(keys)))


def test_entropy_is_that_of_the_keys() -> None:
    scaling, data = (importlib.import_module(f"benchmarks.{name}") for name in ("scaling", "suites.data"))
    assert scaling.entropy_bits(1, 32) == 32
    for words in (2, 3):
        keys = data.and_of(words, 100_000, "u4")
        ones = np.unpackbits(keys.view("u1")).mean()
        assert ones == pytest.approx(2.0**-words, rel=0.02)
        told = 32 * -(ones * np.log2(ones) + (1 - ones) * np.log2(1 - ones))
        assert scaling.entropy_bits(words, 32) == pytest.approx(told, rel=0.02)


def test_the_cost_model_is_compared_with_what_was_measured(measured: Path, points: Any) -> None:
    record, wall = (points.read(measured / f"{name}_cpu.json") for name in ("cost", "scaling"))
    for place in ("threads", "two workers"):
        lines = record.lines(f"cost {place}")
        assert [p.samples for p in lines["measured"]] == [p.samples for p in wall.lines("chunks wall")[place]]
        stages = ("sort", "count", "exchange", "merge", "tasks")
        for number, point in enumerate(lines["predicted"]):
            assert point.median == pytest.approx(sum(lines[stage][number].median for stage in stages))
            error = record.settings[f"errors, {place}"][f"{point.x:.0f}"]
            assert error == pytest.approx(point.median / lines["measured"][number].median - 1)


def test_graphs_of_the_projection_have_the_tasks_that_the_plan_says(measured: Path, tmp_path: Path) -> None:
    options = ["--chunks", "100", "--results", str(measured), "--output", str(tmp_path)]
    (measured / "gpu_table.json").write_text((ROOT / "benchmarks" / "results" / "gpu_table.json").read_text())
    run("benchmarks.projection", *options)
    found = json.loads((tmp_path / "projection.json").read_text())
    assert {row["exchange"] for row in found["rows"]} == {"p2p", "device"}
    assert all(row["built_tasks"] == row["cost"]["tasks"] for row in found["rows"])
    assert found["settings"]["assumed"]


DRAWN_ON_CPU = {"peers", "threads", "phases", "chunks", "entropy", "network", "cost"}


def test_figures_are_drawn_of_what_is_stored(measured: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told = run("benchmarks.figures", "--results", str(measured), "--output", str(tmp_path))
    assert {path.stem for path in tmp_path.glob("*.svg")} >= DRAWN_ON_CPU
    for path in tmp_path.glob("*.svg"):
        assert ElementTree.parse(path).getroot().get("width") == "621pt"  # 828 pixels
    assert "gpu_algorithms: not drawn" in told
    assert "measure it by `python benchmarks/gpu_figures.py" in told
    assert not (tmp_path / "gpu_algorithms.svg").exists()


def test_the_same_data_give_the_same_figure(measured: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    texts = []
    for name in ("one", "two"):
        run("benchmarks.figures", "peers", "--results", str(measured), "--output", str(tmp_path / name))
        texts.append((tmp_path / name / "peers.svg").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("peers", ["-m", "benchmarks.peers", "--output", "{}"]),
        ("gpu_sizes", ["benchmarks/gpu_table.py", "--out", "{}/gpu_table"]),
        ("gpus", ["-m", "benchmarks.multi_gpu", "--gpus", "1", "2", "--out", "{}/multi_gpu"]),
    ],
)
def test_a_script_is_told_where_its_results_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, wanted: list[str]
) -> None:
    pytest.importorskip("matplotlib")
    figures = importlib.import_module("benchmarks.figures.__main__")
    commands: list[list[str]] = []
    monkeypatch.setattr(figures.subprocess, "run", lambda command, **_: commands.append(command))
    monkeypatch.setattr(sys, "argv", ["figures", name, "--measure", "--results", str(tmp_path)])
    figures.main()
    assert commands == [[sys.executable, *(part.format(tmp_path) for part in wanted)]]


def test_the_page_tells_of_every_figure() -> None:
    pytest.importorskip("matplotlib")
    page = (ROOT / "benchmarks" / "README.md").read_text()
    for name, figure in importlib.import_module("benchmarks.figures.__main__").FIGURES.items():
        (row,) = (line for line in page.splitlines() if line.startswith("|") and f"`{name}`" in line)
        assert f"`{figure.data}`" in row, name
        assert f"`{figure.command.partition(' --')[0]}" in row, name
        # Without a link means: not measured yet.
        drawn = (ROOT / "benchmarks" / "results" / f"{name}.svg").exists()
        assert (f"[`{name}`](results/{name}.svg)" in row) == drawn, name


def test_no_figure_of_that_name() -> None:
    pytest.importorskip("matplotlib")
    assert "choose from" in run("benchmarks.figures", "unheard-of", code=2)


class FakeCupy:
    """As much of CuPy as the measuring script uses, on NumPy arrays; its events count milliseconds up."""

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
def peers(gpu_figures: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The comparison of libraries on a machine that says it has a GPU, where all of them are NumPy's sort."""
    module = importlib.import_module("benchmarks.peers")
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

    monkeypatch.setattr(sys.modules["benchmarks.gpu_table"], "Cub", Cub)
    monkeypatch.setattr(gpu_figures.kernels, "sort_keys", np.sort)
    monkeypatch.setattr(module, "devices", lambda: ("NVIDIA H200",))
    monkeypatch.setattr(module, "missing", lambda library: "")
    monkeypatch.setattr(module, "DEVICE_CHUNK_KEYS", 300)
    return module


ON_DEVICE = ("dask_gpusort, kernels", "dask_gpusort, CuPy chunks", "cupy.sort", "torch.sort", "CUB")


def test_where_there_is_a_gpu_a_turn_is_all_sizes(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuple(peers.usual()) == ("numpy.sort", *ON_DEVICE)
    turns = []
    plain = peers.turn
    monkeypatch.setattr(peers, "turn", lambda job, sizes: turns.append((job, sizes)) or plain(job, sizes))
    effort = peers.Effort(quick=True, repeat=3)  # in this process
    found = list(peers.points(effort, {name: [100, 1_000] for name in peers.usual()}))
    assert turns == 3 * [(peers.LIBRARIES[name].job, [100, 1_000]) for name in peers.usual()]
    assert {(point.series, point.x) for point in found} == set(itertools.product(peers.usual(), (100, 1_000)))
    assert all(len(point.samples) == 3 for point in found)
    # An event of the stand-in comes a millisecond after the one before; CUB times itself.
    on_device = [point for point in found if point.series in ON_DEVICE[:-1]]
    assert all(point.samples == pytest.approx([1e-3] * 3) for point in on_device)
    assert {tuple(point.samples) for point in found if point.series == "CUB"} == {(2e-3,) * 3}


def test_a_run_where_there_is_a_gpu_is_kept(
    peers: Any, points: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    options = ["--quick", "--output", str(tmp_path), "--commit", "abc", "--libraries", *peers.usual()]
    monkeypatch.setattr(sys, "argv", ["peers", *options])
    peers.main()
    record = points.read(tmp_path / "peers_gpu.json")
    assert record.lines("peers").keys() == set(peers.usual())
    assert record.machine["commit"] == "abc"
    # CUB's 2 ms beside the kernels' 1 ms.
    assert "| CUB | 2 (2 x) | 2 (2 x) |" in capsys.readouterr().out


def test_libraries_of_the_host_sort_fewer_keys(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert peers.sizes_of("CUB", None, quick=False)[-1] == 10**9
    assert peers.sizes_of("numpy.sort", None, quick=False)[-1] == 10**7
    assert peers.sizes_of("numpy.sort", [1 << 30, 5], quick=False) == [5, 1 << 30]
    monkeypatch.setattr(peers, "devices", lambda: ())
    assert peers.sizes_of("numpy.sort", None, quick=False)[-1] == 10**8


@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_wrong_result_of_a_library_on_a_gpu_is_seen(peers: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    measured = importlib.import_module("benchmarks.measured")
    assert measured.seconds_here(peers.LIBRARIES[name].job, 1_000) > 0
    swapped = np.arange(1_000)
    swapped[[0, 1]] = [1, 0]
    sort = np.sort
    if name == "dask_gpusort, CuPy chunks":
        monkeypatch.setattr(peers, "chunked", lambda keys, _: peers.da.from_array(keys[:-1], chunks=300))
    else:
        monkeypatch.setattr(peers.np, "sort", lambda keys: sort(keys)[swapped])
        if name == "dask_gpusort, kernels":
            monkeypatch.setattr(importlib.import_module("dask_gpusort.kernels"), "sort_keys", np.sort)
    with pytest.raises(AssertionError, match="not in order|does not hold"):
        measured.seconds_here(peers.LIBRARIES[name].job, 1_000)


class OnDevice(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that, as CuPy's do, refuses to become NumPy's unless it is asked to."""

    def __init__(self, host: Any) -> None:
        self.host, self.dtype, self.itemsize = np.asarray(host), host.dtype, host.itemsize

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        assert method == "__call__"
        return OnDevice(ufunc(*map(self._host, inputs), **options))

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return OnDevice(function(*map(self._host, inputs), **options))

    @staticmethod
    def _host(value: Any) -> Any:
        return value.host if isinstance(value, OnDevice) else value

    def __getitem__(self, index: Any) -> Any:
        return OnDevice(self.host[index])

    def __setitem__(self, index: Any, values: Any) -> None:
        self.host[index] = values.host

    def __len__(self) -> int:
        return len(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __getattr__(self, name: str) -> Any:
        if name not in ("any", "astype", "sum", "view"):
            raise AttributeError(name)
        return lambda *args: OnDevice(getattr(self.host, name)(*args))


def test_keys_on_a_device_are_made_and_looked_at_there(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PIECE_KEYS", 300)
    device = SimpleNamespace(
        arange=lambda *args, **options: OnDevice(np.arange(*args, **options)),
        empty=lambda *args: OnDevice(np.empty(*args)),
    )
    keys = peers.make_keys(1_000, device)
    assert isinstance(keys, OnDevice)
    check = peers.checked(keys)
    check(OnDevice(np.sort(keys.host)))
    for wrong in (keys, OnDevice(np.sort(keys.host)[1:])):
        with pytest.raises(AssertionError):
            check(wrong)


def test_keys_are_the_same_wherever_they_are_made(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHED_KEYS", "PIECE_KEYS"):
        monkeypatch.setattr(peers, name, 300 if name == "PIECE_KEYS" else 64)
    here, there = peers.make_keys(1_000), peers.make_keys(1_000, FakeCupy())
    np.testing.assert_array_equal(here, there)
    # The first numbers of splitmix64 from state 0, halved.
    assert (here[:2] == [0xE220A8397B1DCDAF >> 1, 0x6E789E6AA1B965F4 >> 1]).all()
    check = peers.checked(here)
    check(np.sort(here))
    for wrong in (here, np.sort(here)[1:], np.roll(np.sort(here), 300)):
        with pytest.raises(AssertionError):
            check(wrong)


def test_a_library_that_has_to_be_built_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peers = importlib.import_module("benchmarks.peers")
    monkeypatch.setattr(peers, "devices", lambda: ("NVIDIA H200",))
    monkeypatch.setattr(peers.shutil, "which", lambda name: None)
    library = peers.Library(peers.by_cub, device=True, built=tmp_path / "library.so")
    assert peers.missing(library) == "needs nvcc"
    (tmp_path / "library.so").touch()
    assert peers.missing(library) == ""


def test_libraries_on_a_gpu_are_drawn(points: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    seconds = {name: 1e-9 * number for number, name in enumerate(("numpy.sort", *ON_DEVICE), 1)}
    drawn = [
        points.Point("peers", name, n, [n * each])
        for name, each in seconds.items()
        for n in (10**4, 10**8, 10**9)
        if n <= 10**8 or name != "numpy.sort"
    ]
    points.Record({"device": "NVIDIA H200"}, {}, drawn).write(tmp_path / "peers_gpu.json")
    run("benchmarks.figures", "gpu_peers", "--results", str(tmp_path))
    assert ElementTree.parse(tmp_path / "gpu_peers.svg").getroot().get("width") == "621pt"
    figures = importlib.import_module("benchmarks.figures.__main__").FIGURES
    lines, bars = figures["gpu_peers"].draw(figures["gpu_peers"].record(tmp_path)).axes
    assert [len(line.get_xdata()) for line in lines.lines] == [3] * 5 + [2]
    # The fastest stands at the top; NumPy has not sorted so many.
    shown = [text.get_text().strip() for text in bars.get_yticklabels()]
    assert shown[::-1] == ["ours: kernels alone", "ours: Dask, CuPy chunks", "cupy.sort", "torch.sort", "CUB"]
    assert [bar.get_width() for bar in bars.patches][::-1] == pytest.approx([1 / n for n in range(2, 7)])


@pytest.fixture
def gpu_figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The measuring script at small sizes, on NumPy's sort."""
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    for name in ("benchmarks.gpu_table", "benchmarks.gpu_figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    script = importlib.import_module("benchmarks.gpu_figures")
    monkeypatch.setattr(script.loader, "kernel", lambda source, name, *_: lambda *_, **__: None)

    def sort(keys: np.ndarray, out: np.ndarray, **_: Any) -> None:
        for name in ("count_digits<u32>", "finish<u32, 8>", "finish<u32, 16>"):
            script.loader.launch("some.cu", name, 1, 1, ())
        out[:] = np.sort(keys)

    monkeypatch.setattr(script.kernels, "sort_keys", sort)
    monkeypatch.setattr(script.kernels, "sort_by_comparison", sort)
    keys = {}
    for name in ("random_keys", "make_keys"):
        keys[name] = lambda *args: np.random.default_rng(0).integers(0, 1 << 32, args[-1]).astype(args[-2])
        monkeypatch.setattr(script, name, keys[name])
    monkeypatch.setattr(script, "SIZES_LOG2", range(4, 8, 2))
    for name in ("ENTROPY_LOG2", "PHASES_LOG2"):
        monkeypatch.setattr(script, name, 6)
    monkeypatch.setattr(script, "BLOG_KEYS", 100)
    monkeypatch.setattr(script, "WARM_SECONDS", 1e-3)
    return script


def test_what_a_gpu_measures_is_drawn(gpu_figures: Any, points: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    cub = SimpleNamespace(keys=lambda keys: 2.0)
    record = points.Record({"device": "a GPU"}, {})
    for section in gpu_figures.SECTIONS.values():
        record.points.extend(section(cub))
    lines = record.lines("algorithms")
    papers = {"four_step", "count_scan_reorder", "split", "merge", "odd_even_merge", "odd_even_transposition"}
    assert lines.keys() == {"auto", "lsd", "cupy.sort", "CUB"} | papers
    assert [point.x for point in lines["auto"]] == [16, 64]
    assert {point.figure for point in record.points} >= {f"phases {name}" for name in ("auto", "merge", "split")}
    # Launches of one kernel are taken together, whatever its template's arguments.
    assert record.lines("phases auto").keys() == {"count_digits", "finish"}
    assert record.lines("phases auto")["finish"][0].median == pytest.approx(2e-3)
    record.write(tmp_path / gpu_figures.FILE)
    run("benchmarks.figures", "--results", str(tmp_path))
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert drawn == {"gpu_algorithms", "gpu_entropy", "gpu_phases", "gpu_network"}


def test_a_wrong_result_of_a_gpu_is_seen(gpu_figures: Any) -> None:
    keys = np.array([3, 1, 2], np.uint32)
    gpu_figures.checked("ours", keys, np.array([1, 2, 3], np.uint32))
    for wrong in ([1, 2, 2], [3, 2, 1], [2, 2, 2]):
        with pytest.raises(AssertionError, match="ours"):
            gpu_figures.checked("ours", keys, np.array(wrong, np.uint32))


def test_sorts_take_turns_on_a_gpu_that_is_awake(gpu_figures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(gpu_figures, "REPEATS", 3)
    monkeypatch.setattr(gpu_figures, "keep_busy", lambda run: order.append("busy"))
    samples = gpu_figures.timed({name: partial(order.append, name) for name in "ab"})
    assert order == ["busy", *"ababab"]
    assert [len(taken) for taken in samples.values()] == [3, 3]


@pytest.mark.parametrize("script", ["gpu_table", "gpu_comparison"])
def test_tables_of_a_gpu_say_what_was_measured(
    gpu_figures: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    monkeypatch.delitem(sys.modules, f"benchmarks.{script}", raising=False)
    module = importlib.import_module(f"benchmarks.{script}")
    monkeypatch.setattr(module, "describe_machine", lambda copy, commit: {"device": "a GPU", "commit": commit})
    module.write_results(SimpleNamespace(copy=1.0, rows=[]), tmp_path / "table", "abc+")
    assert json.loads((tmp_path / "table.json").read_text())["machine"]["commit"] == "abc+"
    assert "- commit: abc+" in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize("verified", [True, False])
def test_a_table_is_kept_even_if_it_is_wrong(
    gpu_figures: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verified: bool
) -> None:
    script = importlib.import_module("benchmarks.gpu_table")
    monkeypatch.setattr(script, "Cub", lambda library: "CUB")
    monkeypatch.setattr(sys, "argv", ["table", "--keys-log2", "4", "--out", str(tmp_path / "table"), "--commit", "abc"])
    written: list[Any] = []

    def section(table: Any, n: int) -> None:
        table.rows.append(SimpleNamespace(work=f"{n} keys", verified=verified))

    def measure() -> None:
        sections = {"some": section, "others": None}

        def make(cub: str) -> Any:
            return SimpleNamespace(cub=cub, rows=[])

        script.run_table("A table.", "table", sections, ["some"], make, lambda *args: written.append(args))

    if verified:
        measure()
    else:
        with pytest.raises(SystemExit, match="wrong results: .*16 keys"):
            measure()
    ((table, *rest),) = written
    assert (table.cub, table.rows[0].work, rest) == ("CUB", "16 keys", [tmp_path / "table", "abc"])


def test_slow_algorithms_end_early(gpu_figures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_figures, "MOST_SECONDS", 1e-3)
    found = list(gpu_figures.algorithm_points(SimpleNamespace(keys=lambda keys: 2.0)))
    assert {point.x for point in found if point.series != "CUB"} == {16}
    assert all(len(point.samples) == 1 for point in found)


def rows_of_gpus(work: str, numbers: tuple[int, ...], baseline: float | None) -> list[dict[str, Any]]:
    """Rows of `multi_gpu`: each GPU sorts a billion keys a second, and the baseline as it is told."""
    made = {"work": work, "baseline": baseline}
    return [{**made, "gpus": gpus, "keys": gpus << 30, "seconds": [2**30 / 1e9]} for gpus in numbers]


@pytest.mark.parametrize("numbers", [(2,), (1, 2), (1, 2, 4)])
def test_gpus_are_drawn_where_there_are_several_numbers_of_them(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    pytest.importorskip("matplotlib")
    figure = importlib.import_module("benchmarks.figures.__main__").FIGURES["gpus"]
    failed = {"work": "u64-29", "gpus": 8, "keys": 0, "seconds": [], "baseline": None}
    rows = [
        *rows_of_gpus("u32-30", numbers, baseline=2.0),
        *rows_of_gpus("argsort-28", numbers, baseline=None),
        *rows_of_gpus("u64-29", numbers[-1:], baseline=1.0),
        failed,
    ]
    (tmp_path / "multi_gpu.json").write_text(
        json.dumps({"machine": {"GPUs": "NVIDIA H200; NVIDIA H200"}, "rows": rows})
    )
    told = run("benchmarks.figures", "gpus", "--results", str(tmp_path))
    record = figure.record(tmp_path)
    if len(numbers) == 1:
        assert record is None
        assert "gpus: not drawn" in told
        return
    assert ElementTree.parse(tmp_path / "gpus.svg").getroot().get("width") == "621pt"
    # A panel for each work that was measured on several numbers; the baseline where there is one.
    panels = figure.draw(record).axes
    assert [axes.get_title("left") for axes in panels] == ["uint32, $2^{30}$", "argsort, $2^{28}$"]
    ours, baseline = panels[0].lines
    assert list(ours.get_xdata()) == list(numbers)
    assert list(ours.get_ydata()) == pytest.approx(numbers)
    assert list(baseline.get_ydata()) == pytest.approx([gpus * 2**30 / 2e9 for gpus in numbers])
    assert len(panels[1].lines) == 1
    assert [text.get_text() for text in panels[0].get_xticklabels()] == [str(gpus) for gpus in numbers]
