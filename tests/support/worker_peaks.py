"""What tasks take on the workers of a cluster: bytes of NumPy's arrays, and of files in memory where runs are kept."""

from __future__ import annotations

import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import distributed
from dask.sizeof import sizeof
from dask.utils import key_split
from distributed.worker import thread_state

from dask_gpusort.graph.runs.store import Store

from .peaks import Tasks, peak_of_tasks


class Meter(distributed.WorkerPlugin):
    """Measure the most bytes that the running tasks of a process take, with their results and without their input."""

    name = "meter"

    def setup(self, worker: Any) -> None:
        """Measure from here on."""
        self._worker, self._lock = worker, threading.Lock()
        self._running: dict[int, str] = {}  # names of the tasks that run, by their threads
        self._files: Counter[int] = Counter()  # bytes of the files in memory that these have made
        self._before = self._held_before = 0
        #: Bytes by the names of the tasks that ran together.
        self.most: dict[str, int] = {}
        run, hold = distributed.worker._run_task_simple, Store._hold

        def run_task(*args: Any) -> Any:
            thread = threading.get_ident()
            self._mark(lambda: self._running.update({thread: key_split(thread_state.key)}))
            try:
                return run(*args)
            finally:
                self._mark(lambda: (self._running.pop(thread), self._files.pop(thread, 0)))

        def hold_run(store: Any, handle: Any, run: Any) -> Any:
            kept = hold(store, handle, run)
            if kept.file:
                self._mark(lambda: self._files.update({threading.get_ident(): run.nbytes}))
                self._mark(lambda: None)
            return kept

        distributed.worker._run_task_simple, Store._hold = run_task, hold_run  # type: ignore[method-assign]
        tracemalloc.start()

    def _mark(self, change: Callable[[], Any]) -> None:
        """Note the peak since the last mark, and change what is known of the running tasks."""
        with self._lock:
            now, peak = tracemalloc.get_traced_memory()
            held = sum(map(sizeof, list(self._worker.data.values())))
            if self._running:
                name = " + ".join(sorted(self._running.values()))
                # What others send, and what Dask releases meanwhile, is not that of a task.
                taken = peak - self._before - max(held, self._held_before) + self._files.total()
                self.most[name] = max(self.most.get(name, 0), taken)
            else:
                self._before = now - held
            change()
            self._held_before = held
            tracemalloc.reset_peak()


class KeepingTasks(Tasks):
    """Count files in memory, too."""

    files = 0

    def _pretask(self, *given: Any) -> None:
        super()._pretask(*given)
        self.files = 0

    def note(self) -> None:
        """Note the peak of the task up to now."""
        self.most = max(self.most, tracemalloc.get_traced_memory()[1] - self.before + self.files)

    def hold(self, store: Store, handle: Any, run: Any) -> Any:
        """In place of `Store._hold`."""
        kept = HOLD(store, handle, run)
        self.note()
        tracemalloc.reset_peak()
        self.files += run.nbytes * bool(kept.file)
        return kept


HOLD = Store._hold


def peak_of_keeping_tasks(arrays: Any) -> int:
    """The same as `peak_of_tasks`, with files in memory."""
    tasks = KeepingTasks()
    with mock.patch.object(Store, "_hold", lambda *given: tasks.hold(*given)):
        return peak_of_tasks(arrays, tasks)


def most_of(dask_worker: Any) -> dict[str, int]:
    """What the tasks of a worker took since the last call."""
    meter = dask_worker.plugins[Meter.name]
    most, meter.most = meter.most, {}
    return most


def peak_on_workers(client: Any, found: Any) -> int:
    """Bytes that the running tasks of a worker take at most to compute arrays."""
    client.run(most_of)
    kept = client.persist(found)
    distributed.wait(kept)
    return max(taken for most in client.run(most_of).values() for taken in most.values())
