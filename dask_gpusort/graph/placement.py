"""Workers that plugins of the scheduler give to tasks.

Dask may steal a task whose restriction is loose, for a worker that is idle: two members of a gang then share one GPU,
or a bundle is on another GPU than the memory plan says. So restrictions are strict, and a plugin lifts those of a
worker that is gone, retires or is paused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dask.typing import Key

from ._dask import MarkedTask


class PlacedTask(MarkedTask):
    """A task for one of several workers, for `scheduler_plugins.SortSchedulerPlugin`.

    Its mark is the worker's address, or a number, modulo the number of workers.
    """

    __slots__ = ()


class Placement:
    """Keep the tasks that a plugin has given a worker; `nowhere` stands for a worker where a task has none."""

    def __init__(self, scheduler: Any, nowhere: str):
        self.scheduler, self.nowhere = scheduler, nowhere
        self._placed: dict[Key, str] = {}

    def put(self, state: Any, address: str | None) -> None:
        """Let a task run on this worker alone; None lets it wait for another call."""
        self._placed[state.key] = address or self.nowhere
        self.scheduler.set_restrictions({state.key: {self._placed[state.key]}})
        state.host_restrictions = state.resource_restrictions = None
        state.loose_restrictions = False

    def lift(self, state: Any) -> None:
        """Let a task run anywhere."""
        self.scheduler.set_restrictions({state.key: None})
        self.forget(state.key)

    def forget(self, key: Key) -> None:
        """The scheduler has forgotten a task."""
        self._placed.pop(key, None)

    def at(self, address: str | None) -> list[Any]:
        """The tasks of a worker, or those without one."""
        here = address or self.nowhere
        return [self.scheduler.tasks[key] for key, assigned in self._placed.items() if assigned == here]

    def resume(self, states: Iterable[Any]) -> None:
        """Run those tasks that could run if only they had a worker, and elsewhere those in the queue of another one."""
        found = {state.key: "processing" for state in states if state.state == "no-worker"}
        for state in states:
            on = state.processing_on
            if on is not None and on.address != self._placed.get(state.key) and state not in on.executing:
                found[state.key] = "released"  # Dask lets it wait for a worker again
        make_transitions(self.scheduler, found, "gpusort-placed")


def make_transitions(scheduler: Any, found: dict[Key, str], cause: str) -> None:
    """Bring tasks into other states."""
    scheduler.transitions(found, stimulus_id=cause)
    # Tasks that these cancel leave workers idle, but Dask looks at its queue only when a task ends.
    scheduler.loop.add_callback(scheduler.stimulus_queue_slots_maybe_opened, stimulus_id=cause)


def gpu_workers(workers: Iterable[Any]) -> set[Any]:
    """Those workers that say, through NVML, that they have a GPU."""
    return {worker for worker in workers if worker.extra.get("gpu", {}).get("memory-total")}


def changes_status(message: Any) -> bool:
    """Whether an event of the scheduler, whose topic is a worker, says that the worker's status changes."""
    return isinstance(message, dict) and message.get("action") == "worker-status-change"
