"""Runs that the workers of a cluster keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chunk.run import Run
from ..functions.program import Ends
from ..graph.runs.keep_and_take import check_listed, keep, open_run, take_run, take_slices
from ..graph.runs.plugins import ListTask, RunTask
from .turns import Store

__all__ = ["ListTask", "OnWorkers", "RunTask"]


class OnWorkers(Store):
    """Keep runs on the worker that makes them."""

    def keep(self, runs: Sequence[Run]) -> Sequence[Any]:
        return keep(runs) if runs else []

    def look(self, kept: Sequence[Any], ends: Ends) -> None:
        check_listed(kept, map(np.ascontiguousarray, (ends.first, ends.last)))

    def take(self, kept: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> list[Run]:
        return take_slices(kept, bounds)

    def whole(self, kept: Any) -> Run:
        return take_run(kept)

    def open(self, kept: Any) -> Run:
        return open_run(kept)
