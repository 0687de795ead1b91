"""Base classes of the suites. Their names start with an underscore, or asv would take them for benchmarks."""

from __future__ import annotations

from typing import Any

from .clock import copy_bandwidth, seconds, seconds_of
from .data import dask_keys, held


class _Sorting:
    """A benchmark of `work`: its first parameter is the number of keys, its last one the backend."""

    timer = staticmethod(seconds)
    #: The computed input, whose dtype is that of the keys.
    x: Any

    def work(self, *parameters: Any) -> Any:
        raise NotImplementedError

    def time_work(self, *parameters: Any) -> None:
        self.work(*parameters)

    def track_rate(self, *parameters: Any) -> float:
        return parameters[0] / seconds_of(lambda: self.work(*parameters))

    track_rate.unit = "keys/s"  # type: ignore[attr-defined]


class _Uniform(_Sorting):
    """Uniform keys of some dtype in some chunks."""

    param_names: tuple[str, ...] = ("n", "dtype", "chunks", "backend")

    def setup(self, n: int, dtype: str, chunks: int, backend: str) -> None:
        self.x = held(dask_keys("uniform", n, chunks, dtype, backend))


class _WithMemory:
    """Also the most memory that the process holds."""

    def peakmem_work(self, *parameters: Any) -> None:
        self.work(*parameters)  # type: ignore[attr-defined]


class _WithBandwidth:
    """Also the bandwidth of one read and one write of every key, as a share of that of a copy."""

    def track_share_of_copy(self, *parameters: Any) -> float:
        least = 2 * parameters[0] * self.x.dtype.itemsize  # type: ignore[attr-defined]
        took = seconds_of(lambda: self.work(*parameters))  # type: ignore[attr-defined]
        return least / took / copy_bandwidth(parameters[-1])

    track_share_of_copy.unit = "share of copy bandwidth"  # type: ignore[attr-defined]
