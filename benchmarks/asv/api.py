"""Construction of the graph, before anything is computed."""

from __future__ import annotations

import dask.array as da

import dask_gpusort


class Build:
    params = ([64, 1_024, 10_000], ["gather", "tasks"])
    param_names = ("chunks", "exchange")
    small = 16

    def setup(self, chunks: int, exchange: str) -> None:
        self.x = da.zeros(chunks * 1_000_000, chunks=1_000_000, dtype="i8")
        dask_gpusort.sort(self.x, exchange=exchange)  # imports modules, which is not part of building

    def time_call(self, chunks: int, exchange: str) -> None:
        dask_gpusort.sort(self.x, exchange=exchange)

    def time_graph(self, chunks: int, exchange: str) -> None:
        dict(dask_gpusort.sort(self.x, exchange=exchange).__dask_graph__())

    def track_tasks(self, chunks: int, exchange: str) -> int:
        return len(dict(dask_gpusort.sort(self.x, exchange=exchange).__dask_graph__())) - chunks

    track_tasks.unit = "tasks"  # type: ignore[attr-defined]
