"""What an installation must do, run by its own interpreter from outside the repository: three functions, and the files.

``python smoke_test.py`` needs the package alone, without extras.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import dask.array as da
import numpy as np

import dask_gpusort


def check_functions() -> None:
    """A sort, quantiles and distinct values of a Dask array are those of NumPy."""
    keys = np.random.default_rng(0).integers(0, 1_000, 20_000)
    array = da.from_array(keys, chunks=3_000)
    ordered = dask_gpusort.sort(array, chunks=7_000)
    assert ordered.chunks == ((7_000, 7_000, 6_000),)
    np.testing.assert_array_equal(ordered.compute(), np.sort(keys))
    shares = [0.1, 0.5, 0.99]
    np.testing.assert_array_equal(dask_gpusort.quantile(array, shares).compute(), np.quantile(keys, shares))
    np.testing.assert_array_equal(dask_gpusort.unique(array).compute(), np.unique(keys))


def check_files() -> None:
    """The distribution has every file of the package, CUDA sources and the mark of types too, and no other folder."""
    installed = {path.as_posix() for path in importlib.metadata.files("dask_gpusort") or ()}
    sources = Path(__file__).parents[1]
    wanted = {
        path.relative_to(sources).as_posix()
        for path in (sources / "dask_gpusort").rglob("*")
        if path.suffix in {".py", ".cu", ".cuh", ".typed"}
    }
    assert wanted, f"no package in {sources}"
    assert wanted <= installed, wanted - installed
    version = importlib.metadata.version("dask_gpusort")
    folders = {path.split("/")[0] for path in installed if not path.startswith("..")}
    assert folders == {"dask_gpusort", f"dask_gpusort-{version}.dist-info"}, folders
    assert dask_gpusort.__version__ == version
    package = Path(dask_gpusort.__file__).parent
    assert "site-packages" in package.parts, f"{package} is not an installation"


if __name__ == "__main__":
    check_functions()
    check_files()
    print(f"dask_gpusort {dask_gpusort.__version__} with numpy {np.__version__}: installed and working")
