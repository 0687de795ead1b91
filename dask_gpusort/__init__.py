"""Exact, stable, lazy sorts of Dask arrays."""

from importlib.metadata import PackageNotFoundError, version

from . import api
from .adapters.register import register, register_as_set, registered, unregister
from .api import *
from .gpu_cluster import cluster, warm_up
from .graph.explanation import Explanation
from .versions import show_versions

__all__ = ["Explanation", "cluster", "register", "registered", "show_versions", "unregister", "warm_up"]
__all__ += api.__all__

try:
    __version__ = version("dask_gpusort")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"


def __dir__() -> list[str]:
    """The public names, without the modules that make them."""
    return [*__all__, "__version__"]


register_as_set()
