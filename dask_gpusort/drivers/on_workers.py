"""Runs that the workers of a cluster keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..chunk.run import Run
from ..functions.program import Ends
from ..graph.runs.keep_and_take import check_listed, keep, open_run, take_run
from ..graph.runs.plugins import ListTask, RunTask
from ..graph.runs.rows import in_portions, take_rows
from .turns import Rows, Store

__all__ = ["ListTask", "OnWorkers", "RunTask"]


class OnWorkers(Store):
    """Keep runs on the worker that makes them."""

    def keep(self, runs: Iterable[Run]) -> list[Any]:
        return keep(runs) if runs else []

    def look(self, kept: Sequence[Any], ends: Ends) -> None:
        check_listed(kept, map(np.ascontiguousarray, (ends.first, ends.last)))

    def take(self, rows: Sequence[Rows]) -> list[Run]:
        return take_rows(rows)

    def portions(self, rows: Sequence[Rows]) -> Iterator[Sequence[Rows]]:
        return in_portions(rows)

    def whole(self, kept: Any) -> Run:
        return take_run(kept)

    def open(self, kept: Any) -> Run:
        return open_run(kept)
