"""A trial of the P2P engine: two workers of one process exchange two runs over a temporary folder.

`p2p_engine.mismatch` compares names and parameters. What the engine does with them shows only when it runs: what it
passes through unpickled, when it writes and reads files, and what it asks of a worker.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
from tornado.ioloop import IOLoop

from ..chunk.run import Run
from .cut_runs import CutRun
from .p2p_engine import ShuffleId, ShuffleWorkerPlugin, SortRun, SortSpec
from .p2p_records import read_group

#: Seconds after which an engine that does not answer does not fit. The trial takes 10 to 40 ms.
PATIENCE = 30
#: Keys of each run, and where they are cut between the groups of the two workers.
KEYS, CUTS = np.arange(5, dtype=np.uint64), np.array([0, 2, 5])

Wait = Callable[[Coroutine[Any, Any, Any]], Any]


def try_engine() -> str | None:
    """Why the installed engine does not exchange runs as this package expects; None if it does."""
    outcome: SimpleQueue[str | None] = SimpleQueue()
    # A thread that nothing waits for: the engine of another version may wait for ever.
    Thread(target=_try, args=(outcome,), daemon=True, name="gpusort-p2p-check").start()
    try:
        return outcome.get(timeout=PATIENCE)
    except Empty:
        return f"a trial exchange did not end in {PATIENCE} s"


def _try(outcome: SimpleQueue[str | None]) -> None:
    try:
        folder = tempfile.TemporaryDirectory(prefix="gpusort-p2p-check-")
    except OSError:  # a disk of this machine says nothing about the engine
        outcome.put(None)
        return
    loops: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()
    thread = Thread(target=_run_loop, args=(loops,), daemon=True, name="gpusort-p2p-check-loop")
    thread.start()
    loop, reason = loops.get(), None
    with folder:
        try:
            _exchange(Path(folder.name), lambda steps: asyncio.run_coroutine_threadsafe(steps, loop).result())
        except Exception as error:
            reason = f"a trial exchange ended with {type(error).__name__}: {error}"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
    outcome.put(reason)


def _run_loop(loops: SimpleQueue[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner() as runner:  # in the end it cancels what the engine has left
        loop = runner.get_loop()
        loops.put(loop)
        loop.run_forever()


def _exchange(folder: Path, wait: Wait) -> None:
    spec = SortSpec(id=ShuffleId("trial"), disk=True, num_groups=2)
    addresses = ["one", "other"]
    worker_for = {group: spec.pick_worker(group, addresses) for group in spec.output_partitions}
    runs: dict[str, SortRun] = {}
    plugins = [wait(_start(spec, worker_for, address, folder / address, runs)) for address in addresses]
    for number, run in enumerate(runs.values()):
        run.add_partition(CutRun(Run(KEYS), number * len(KEYS), CUTS, CUTS), number)
    for run in runs.values():
        wait(run.inputs_done())
    for group, address in worker_for.items():
        file: Any = runs[address].get_output_partition(group, "group")
        with file or nullcontext():
            pieces = read_group(file, group, 2 * int(np.diff(CUTS)[group]))
        found = [(start, piece.keys.tolist()) for start, piece in pieces]
        wanted = [(number * len(KEYS), KEYS[slice(*CUTS[group : group + 2])].tolist()) for number in range(2)]
        if found != wanted:
            raise ValueError(f"the keys {wanted} became {found}")
    for run, plugin in zip(runs.values(), plugins, strict=True):
        wait(run.close())
        wait(plugin.teardown(plugin.worker))


async def _start(
    spec: SortSpec, worker_for: dict[int, str], address: str, folder: Path, runs: dict[str, SortRun]
) -> ShuffleWorkerPlugin:
    """One worker's plugin, and its part of the exchange, which is added to `runs`."""
    folder.mkdir()

    def rpc(other: str) -> Any:
        async def receive(data: Any, shuffle_id: str, run_id: int) -> Any:
            return await runs[other].receive(data.data)

        return SimpleNamespace(shuffle_receive=receive)

    worker = SimpleNamespace(
        address=address,
        local_directory=str(folder),
        loop=IOLoop.current(),
        rpc=rpc,
        scheduler=None,
        digest_metric=lambda name, value: None,
        memory_manager=SimpleNamespace(memory_limit=1 << 30),
        state=SimpleNamespace(nthreads=1),
        handlers={},
        stream_handlers={},
        extensions={},
    )
    plugin = ShuffleWorkerPlugin()
    plugin.setup(worker)  # type: ignore[arg-type]
    runs[address] = spec.create_run_on_worker(1, None, worker_for, plugin)
    return plugin
