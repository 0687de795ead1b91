"""Runs that the workers of a cluster keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..chunk.run import Run
from ..functions.program import Ends
from ..graph.runs.keep_and_take import check_listed, keep, open_run, reserved, take_run, take_slices
from ..graph.runs.plugins import ExchangeTask, ListTask, RunTask
from ..plan.positions import PORTION_REQUESTS
from .notes import Kinds
from .turns import Rows, Store

__all__ = ["KINDS", "OnWorkers"]


class OnWorkers(Store):
    """Keep runs on the worker that makes them."""

    def keep(self, runs: Iterable[Run]) -> list[Any]:
        return keep(runs) if runs else []

    def reserved(self, copies: float, blocks: Sequence[Any], rows: Sequence[Rows]) -> AbstractContextManager[Any]:
        held = sum(getattr(block, "nbytes", 0) for block in blocks)  # by the process already
        taken = held + sum((last - first) * run.row_bytes for _, run, first, last in rows if last > first)
        return reserved(copies * taken - held) if taken else nullcontext()

    def look(self, kept: Sequence[Any], ends: Any) -> None:
        check_listed(kept, map(np.ascontiguousarray, (ends.first, ends.last)) if isinstance(ends, Ends) else ())

    def take(self, rows: Sequence[Rows]) -> list[Run]:
        return take_slices([run for _, run, *_ in rows], [(first, last) for *_, first, last in rows])

    def portions(self, rows: Sequence[Rows]) -> Iterator[Sequence[Rows]]:
        portion: list[Rows] = []
        held = 0
        for sender, run, first, last in rows:
            for start in range(first, max(last, first + 1), PORTION_REQUESTS):
                portion.append((sender, run, start, min(start + PORTION_REQUESTS, last)))
                held += min(PORTION_REQUESTS, last - start)
                if held >= PORTION_REQUESTS:
                    yield portion
                    portion, held = [], 0
        if portion:
            yield portion

    def whole(self, kept: Any) -> Run:
        return take_run(kept)

    def open(self, kept: Any) -> Run:
        return open_run(kept)


KINDS = Kinds(OnWorkers(), RunTask, ListTask, ExchangeTask)
