"""Each example runs at a small size, as a user would run it; some of them so in thorough runs alone."""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("rich")
zarr = pytest.importorskip("zarr")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run_example(name: str, *arguments: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["here", pytest.param("alone", marks=pytest.mark.thorough)])
def run(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    workers_fork_from_a_server: None,
) -> Any:
    """Runs an example in this process, which has imported most of what it needs, or in one of its own."""

    def run_here(name: str, *arguments: str) -> str:
        example = load_example(name.removesuffix(".py"))
        cloudpickle.register_pickle_by_value(example)  # workers cannot import it
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        assert not example.main()
        return capsys.readouterr().out

    return run_here if request.param == "here" else run_example


@pytest.fixture(scope="module")
def larger() -> ModuleType:
    return load_example("larger_than_memory")


def test_every_example_has_a_test() -> None:
    text = Path(__file__).read_text()
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))


def test_quickstart() -> None:
    assert "The result equals that of numpy.sort." in run_example("quickstart.py")


@pytest.mark.parametrize(
    ("name", "missing"),
    [("larger_than_memory", "zarr"), ("monthly_median", "matplotlib"), ("multi_gpu", "distributed")],
)
def test_what_is_missing_is_said_in_a_line(
    name: str, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in {missing, *(one for one in sys.modules if one.startswith(f"{missing}."))}:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as raised:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    (line,) = raised.value.code.splitlines()  # Python prints a text, and exits with 1
    assert missing in line
    assert "pip install '.[examples]'" in line
    assert capsys.readouterr() == ("", "")


def test_sort_by_key(run: Any) -> None:
    output = run("sort_by_key.py", "--readings", "20000", "--chunk", "1500")
    assert "in order:       True" in output
    times = [line.split()[0] for line in output.splitlines() if "  sensor " in line]
    assert len(times) == 5
    assert times == sorted(times)


def test_larger_than_memory(run: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arrays = tmp_path / "arrays"
    options = {
        "--size": "20 MB",  # not a multiple of the chunk
        "--chunk": "1 MiB",
        "--memory-limit": "500 MiB",
        "--directory": str(arrays),
        "--report": str(report),
    }
    output = run("larger_than_memory.py", *(word for option in options.items() for word in option))
    assert "verified" in output
    figures = json.loads(report.read_text())
    assert figures["bytes"] == 20_000_000
    assert figures["wrong"] == []
    assert figures["restarts"] == 0
    assert len(figures["peaks"]) == 2
    assert list(arrays.iterdir()) == []


def test_larger_than_memory_detects_a_wrong_result(larger: ModuleType, tmp_path: Path) -> None:
    source, target = tmp_path / "input.zarr", tmp_path / "sorted.zarr"
    larger.write_input(source, 10_000, 1_000)
    keys = np.sort(zarr.open_array(source, mode="r")[:])

    def wrong(output: np.ndarray) -> list[str]:
        zarr.create_array(target, data=output, chunks=(1_000,), overwrite=True)
        found: list[str] = larger.verify(source, target)
        return found

    assert wrong(keys) == []
    swapped = keys.copy()
    swapped[[0, 5_000]] = swapped[[5_000, 0]]
    assert any("not in order" in text for text in wrong(swapped))
    chunks_swapped = np.concatenate([keys[1_000:2_000], keys[:1_000], keys[2_000:]])
    assert any("begins below" in text for text in wrong(chunks_swapped))
    doubled = keys.copy()
    doubled[4] = doubled[5]
    assert any("does not contain the keys" in text for text in wrong(doubled))
    # The keys are still in order, and two errors cancel in the sum.
    spread = keys.copy()
    spread[0] -= 1
    spread[-1] += 1
    assert any("does not contain the keys" in text for text in wrong(spread))
    assert any("does not contain the keys" in text for text in wrong(keys[:-1]))


def test_monthly_median(run: Any, tmp_path: Path) -> None:
    picture = tmp_path / "maps.png"
    arrays = tmp_path / "arrays"
    size = ("--gib", "0.002", "--years", "2", "--days", "20", "--pixels", "20")
    output = run("monthly_median.py", *size, "--picture", str(picture), "--directory", str(arrays))
    assert "verified" in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(arrays.iterdir()) == []


def test_monthly_median_detects_a_wrong_result(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    example = load_example("monthly_median")
    source = tmp_path / "maps.zarr"
    example.write_input(source, example.make_grid(0.0002, 1, 30))
    cube = xr.open_zarr(source, consolidated=False)[example.NAME].load()
    assert 0.05 < float(cube.isnull().mean()) < 0.3
    with xr.set_options(use_bottleneck=False, use_numbagg=False):  # of arrays in memory; NumPy's are verified
        found = example.statistics(cube)
    assert example.verify(source, found, pixels=9) == []
    for name in found:
        wrong = found.copy()
        wrong[name] = np.nextafter(found[name], np.float32(0))
        assert [text.split()[0] for text in example.verify(source, wrong, pixels=9)] == [name]


@pytest.fixture(scope="module")
def gpus() -> ModuleType:
    return load_example("multi_gpu")


@pytest.mark.slow
def test_multi_gpu_without_a_gpu() -> None:
    output = run_example("multi_gpu.py", "--library", "numpy", "--keys", "60000", "--chunks", "3", "--repeat", "1")
    assert "exchange  device" in output
    assert "verified: in order" in output
    assert "exchange and merge" in output


def test_multi_gpu_detects_a_wrong_result(gpus: ModuleType) -> None:
    keys = np.sort(np.random.default_rng(0).integers(0, 1 << 32, 1_000, dtype="u4"))
    before = [gpus.facts(keys[::-1])]

    def wrong(output: np.ndarray, *cuts: int) -> str:
        after = [gpus.facts(part) for part in np.split(output, cuts or [500])]
        return "; ".join(gpus.errors(before, after, (500, 500)))

    assert wrong(keys) == ""
    swapped = keys.copy()
    swapped[[0, 400]] = swapped[[400, 0]]
    assert "chunk 0 is not in order" in wrong(swapped)
    assert "begins below" in wrong(np.concatenate([keys[500:], keys[:500]]))
    doubled = keys.copy()
    doubled[4] = doubled[5]
    assert "does not contain the keys" in wrong(doubled)
    assert "do not have the requested sizes" in wrong(keys, 499)
