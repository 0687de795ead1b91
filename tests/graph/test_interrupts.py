"""Ctrl-C in the middle of a sort: KeyboardInterrupt arrives, and the same interpreter sorts again."""

from __future__ import annotations

import os
import signal

import pytest
from support.gangs import until
from support.scripts import end_script, start_script

pytest.importorskip("distributed")

#: It sorts until it is interrupted: `arguments` are the scheduler and the exchanges.
SCRIPT = """
import signal

IGNORE = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"

def slow(part, flag):
    open(flag, "w").close()
    time.sleep(0.2)
    return part

def interrupt(exchange, number):
    x = source().map_blocks(slow, f"begun-{number}", meta=ARRAY[:0])
    try:
        dask_gpusort.sort(x, exchange=exchange).compute()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        raise AssertionError("it was not interrupted")

def work(exchanges):
    for number, exchange in enumerate(exchanges):
        check(exchange)
        interrupt(exchange, number)
        check(exchange)

if __name__ == "__main__":
    # A shell makes what it runs in the background ignore the signal, and so the tests and their processes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, *exchanges = arguments
    if kind == "threads":
        work(exchanges)
    else:
        # A terminal interrupts the workers of a LocalCluster too, a notebook its kernel alone.
        dask.config.set({"distributed.worker.preload": [IGNORE]})
        with distributed.LocalCluster(**OPTIONS) as cluster, distributed.Client(cluster) as client:
            pids = client.run(os.getpid)
            work(exchanges)
            assert client.run(os.getpid) == pids, "workers were restarted"
            deadline = time.monotonic() + 20
            while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
                assert time.monotonic() < deadline, "tasks are left"
                time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("kind", "exchanges", "terminal"),
    [
        pytest.param("threads", ["gather", "join"], (), id="threads"),
        pytest.param("cluster", ["runs", "tasks", "gang", "runs"], (3,), id="cluster", marks=pytest.mark.slow),
    ],
)
def test_the_interpreter_sorts_again_after_an_interrupt(tmp_path, kind, exchanges, terminal):
    process = start_script(tmp_path, SCRIPT, kind, *exchanges)
    try:
        for number in range(len(exchanges)):
            flag = tmp_path / f"begun-{number}"
            until(lambda flag=flag: flag.exists() or process.poll() is not None, "a task that has begun")
            if process.poll() is None:
                (os.killpg if number in terminal else os.kill)(process.pid, signal.SIGINT)
    finally:
        output = end_script(process)
    assert output.count("interrupted") == len(exchanges)
