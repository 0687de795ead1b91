"""The machine of a measurement: its hardware, its commit, and the load of other programs."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("dask", "distributed", "numpy", "pandas", "zarr")


def commit_of(directory: Path) -> str:
    """The commit checked out in a directory, with a plus if files differ from it; "unknown" without git."""

    def git(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=directory, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    if shutil.which("git") is None:
        return "unknown"
    head = git("rev-parse", "HEAD")
    # New results do not change what is measured.
    changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)benchmarks/results")
    return f"{head or 'unknown'}{'+' if changed else ''}"


def version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    name = re.search(r"^model name\s*: (.*)$", info.read_text() if info.exists() else "", re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


@functools.cache
def devices() -> tuple[str, ...]:
    """Names of the GPUs; empty without CuPy or a driver."""
    try:
        import cupy

        runtime = cupy.cuda.runtime
        return tuple(runtime.getDeviceProperties(i)["name"].decode() for i in range(runtime.getDeviceCount()))
    except Exception:  # CuPy reports a missing driver or library in many ways
        return ()


def describe_machine(*packages: str, commit: str | None = None) -> dict[str, Any]:
    """Processor, memory, load, versions and commit; also the GPUs, if there are any."""
    found = {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in (*PACKAGES, *packages)},
        "commit": commit or commit_of(ROOT),
    }
    if devices():
        import cupy

        runtime = cupy.cuda.runtime
        found |= {"device": ", ".join(devices()), "CuPy": cupy.__version__}
        found["CUDA driver / runtime"] = f"{runtime.driverGetVersion()} / {runtime.runtimeGetVersion()}"
    return found
