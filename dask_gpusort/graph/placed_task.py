"""Tasks that name their worker, for `scheduler_plugins.SortSchedulerPlugin`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._dask import Task


class PlacedTask(Task):
    """A task for one of several workers. The scheduler knows it by its class, so Dask must not fuse it with others.

    Attributes
    ----------
    worker : str or int
        Its address, or a number, modulo the number of workers.
    """

    worker: str | int

    __slots__ = tuple(__annotations__)

    def __init__(self, key: Any, func: Callable[..., Any], /, *args: Any, worker: str | int, **kwargs: Any):
        self.worker = worker
        super().__init__(key, func, *args, **kwargs)

    def __repr__(self) -> str:
        return f"PlacedTask({self.key!r})"

    @property
    def block_fusion(self) -> bool:
        return True
