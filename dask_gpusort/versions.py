"""What is installed here, for reports of bugs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import distributions

from .kernels.launch.loader import require_cupy

#: Names of distributions, without the suffix of a CUDA version, that the report names.
PACKAGES = (
    *("dask_gpusort", "numpy", "dask", "distributed", "cupy", "nvidia-nccl", "distributed-ucxx", "dask-cuda", "rmm"),
    *("bokeh", "xarray", "flox", "numbagg", "bottleneck", "scipy"),
)
#: What takes the place of a package that is not installed.
_FALLBACKS = {
    "distributed": "threads or processes of one host",
    "cupy": "NumPy chunks only",
    "nvidia-nccl": "a gang has NCCL only if CuPy finds it elsewhere",
    "distributed-ucxx": "workers exchange chunks over TCP, not UCX",
    "rmm": "cluster() has no memory pool",
    "bokeh": "distributed has no dashboard",
}


def show_versions() -> None:
    """Print the versions of Python, of the packages in use and of CUDA, the GPUs, and what missing packages change.

    A report of a bug should have them. Packages that are not installed are not imported, and nothing raises.

    Returns
    -------
    None
        The text is printed.

    Examples
    --------
    >>> import dask_gpusort
    >>> dask_gpusort.show_versions()  # doctest: +ELLIPSIS
    python: ...
    """
    installed = _installed()
    print(f"python: {platform.python_version()} ({platform.python_implementation()})")
    print(f"platform: {platform.platform()}")
    for name in PACKAGES:
        print(f"{name}: {installed.get(name, 'not installed')}")
    for line in _devices() if "cupy" in installed else ():
        print(line)
    for name, fallback in _FALLBACKS.items():
        if name not in installed:
            print(f"without {name}: {fallback}")


def _installed() -> dict[str, str]:
    """Find the versions of the packages; those for a CUDA version are named with it."""
    found: dict[str, str] = {}
    for distribution in distributions():
        # Metadata that are broken have no name.
        name = re.sub(r"[-_.]+", "-", (distribution.metadata["Name"] or "").lower())
        plain = re.sub(r"-(cu|cuda)\d+x?$", "", name)
        for wanted in PACKAGES:
            if plain == wanted.replace("_", "-") and wanted not in found:
                found[wanted] = distribution.version if plain == name else f"{distribution.version} ({name})"
    return found


def _devices() -> Iterator[str]:
    """Tell the versions of CUDA and the GPUs that CuPy finds, or why it finds none."""
    try:
        runtime = require_cupy().cuda.runtime
        yield f"CUDA driver, runtime: {runtime.driverGetVersion()}, {runtime.runtimeGetVersion()}"
        for device in range(runtime.getDeviceCount()):
            yield f"GPU {device}: {runtime.getDeviceProperties(device)['name'].decode()}"
    except Exception as error:  # a broken installation is what a report is about
        yield f"no GPU: {type(error).__name__}: {error}"
