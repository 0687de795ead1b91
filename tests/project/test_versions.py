"""`show_versions` names what is installed, and works where installations are missing or broken."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

import dask_gpusort
from dask_gpusort import versions


def found(name: str | None, number: str = "1.2") -> Any:
    return SimpleNamespace(metadata={"Name": name}, version=number)


def test_it_prints_the_versions_that_are_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dask_gpusort.show_versions() is None
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["python"].split()[0] == platform.python_version()
    assert {*versions.PACKAGES} <= {*lines}
    assert (lines["numpy"], lines["dask"]) == (version("numpy"), version("dask"))


def test_it_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [found(None), found("NumPy", "2.9"), found("nvidia_nccl_cu13", "2.30"), found("numpy-groupies")]
    monkeypatch.setattr(versions, "distributions", lambda: parts)
    dask_gpusort.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert "numpy: 2.9" in lines
    assert "nvidia-nccl: 2.30 (nvidia-nccl-cu13)" in lines
    assert "dask: not installed" in lines
    assert "without bokeh: distributed has no dashboard" in lines
    assert not any(line.startswith("without nvidia-nccl") for line in lines)


def test_a_gpu_is_named_or_the_reason_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = SimpleNamespace(
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 12090,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda device: {"name": b"a card"},
    )
    monkeypatch.setattr(versions, "distributions", lambda: [found("cupy-cuda13x", "14.0")])
    monkeypatch.setattr(versions, "require_cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    dask_gpusort.show_versions()
    text = capsys.readouterr().out
    assert "cupy: 14.0 (cupy-cuda13x)\n" in text
    assert "CUDA driver, runtime: 13000, 12090\nGPU 0: a card\n" in text
    monkeypatch.setattr(versions, "require_cupy", lambda: 1 / 0)
    dask_gpusort.show_versions()
    assert "no GPU: ZeroDivisionError: " in capsys.readouterr().out


def test_it_imports_no_optional_package() -> None:
    code = (
        "import sys, dask_gpusort; before = {*sys.modules}; dask_gpusort.show_versions();"
        "print({name.partition('.')[0] for name in {*sys.modules} - before} & {*dask_gpusort.versions.PACKAGES})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "set()"
