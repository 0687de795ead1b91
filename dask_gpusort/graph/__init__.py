"""Builders of Dask graphs: the only package that knows Dask's tasks."""

from importlib.metadata import version

try:
    from . import _dask

    _dask.check_tasks()
except Exception as error:
    raise ImportError(
        f"dask {version('dask')} is not as this version of dask_gpusort knows it "
        f"({type(error).__name__}: {error}): "
        "install an older dask, or a newer dask_gpusort"
    ) from error
