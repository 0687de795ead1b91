"""What the suites have in common. Names with an underscore, or asv would take them for benchmarks."""

from __future__ import annotations

from typing import Any

from .clock import copy_bandwidth, seconds, seconds_of


class _Sorting:
    """A benchmark of one piece of work, `work`: its first parameter is the number of keys, its last one the backend."""

    timer = staticmethod(seconds)
    #: The arrays, set up, whose dtype is the keys'.
    x: Any

    def work(self, *parameters: Any) -> Any:
        raise NotImplementedError

    def time_work(self, *parameters: Any) -> None:
        self.work(*parameters)

    def track_rate(self, *parameters: Any) -> float:
        return parameters[0] / seconds_of(lambda: self.work(*parameters))

    track_rate.unit = "keys/s"  # type: ignore[attr-defined]


class _WithMemory:
    """Also the most memory that the process holds."""

    def peakmem_work(self, *parameters: Any) -> None:
        self.work(*parameters)  # type: ignore[attr-defined]


class _WithBandwidth:
    """Also what is read and written at least, every key once, as a share of what a copy reads and writes."""

    def track_share_of_copy(self, *parameters: Any) -> float:
        least = 2 * parameters[0] * self.x.dtype.itemsize  # type: ignore[attr-defined]
        took = seconds_of(lambda: self.work(*parameters))  # type: ignore[attr-defined]
        return least / took / copy_bandwidth(parameters[-1])

    track_share_of_copy.unit = "share of copy bandwidth"  # type: ignore[attr-defined]
