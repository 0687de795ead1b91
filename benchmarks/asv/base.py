"""Base classes of the suites. asv ignores them because their names start with an underscore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask_gpusort

from .clock import copy_bandwidth, seconds, seconds_of
from .data import dask_keys, held


class _Sorting:
    """A benchmark of `work`. Its first parameter is the number of keys, and its last one is the backend."""

    timer = staticmethod(seconds)
    param_names: tuple[str, ...] = ("n", "dtype", "chunks", "backend")
    #: Dtype of the keys, unless it is a parameter.
    dtype = "i8"
    #: The function that `work` calls.
    function: Callable[..., Any] = staticmethod(dask_gpusort.sort)
    #: The computed input. Its dtype is that of the keys.
    x: Any

    def setup(self, *parameters: Any) -> None:
        found = {"distribution": "uniform", "dtype": self.dtype, **dict(zip(self.param_names, parameters, strict=True))}
        self.x = held(dask_keys(**{name: found[name] for name in dask_keys.__annotations__ if name in found}))

    def work(self, *_: Any) -> None:
        held(self.function(self.x))

    def time_work(self, *parameters: Any) -> None:
        self.work(*parameters)

    def track_rate(self, *parameters: Any) -> float:
        return parameters[0] / seconds_of(lambda: self.work(*parameters))

    track_rate.unit = "keys/s"  # type: ignore[attr-defined]


class _WithMemory:
    """Also measures the peak memory of the process."""

    def peakmem_work(self, *parameters: Any) -> None:
        self.work(*parameters)  # type: ignore[attr-defined]


class _WithBandwidth:
    """Also measures the bandwidth of one read and one write of every key, as a share of the copy bandwidth."""

    def track_share_of_copy(self, *parameters: Any) -> float:
        least = 2 * parameters[0] * self.x.dtype.itemsize  # type: ignore[attr-defined]
        took = seconds_of(lambda: self.work(*parameters))  # type: ignore[attr-defined]
        return least / took / copy_bandwidth(parameters[-1])

    track_share_of_copy.unit = "share of copy bandwidth"  # type: ignore[attr-defined]
