"""Scripts in an interpreter of their own: of events that would end, or change, the interpreter of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask_gpusort

#: Seconds until a script that hangs is killed.
LONG = 180.0
#: What every script begins with: its arguments are in `arguments`, and `check` sorts and compares with NumPy.
BEGINNING = """
import os, sys, time
import dask, distributed
import dask.array as da
import numpy as np
import dask_gpusort

arguments = sys.argv[1:]
ARRAY = np.random.default_rng(0).integers(0, 1000, 20_000)
OPTIONS = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": 50}

def source(array=ARRAY):
    return da.from_array(array, chunks=1000).map_blocks(np.copy)

def check(exchange):
    with dask.config.set({"gpusort.groups": 4}):
        found = dask_gpusort.sort(source(), exchange=exchange).compute()
    np.testing.assert_array_equal(found, np.sort(ARRAY))

"""


def start_script(folder: Path, text: str, *arguments: object, under: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a script in a process group of its own, by another command if there is one.

    It is a file, as processes that it spawns import it.
    """
    path = folder / "script.py"
    path.write_text(BEGINNING + text)
    package = str(Path(dask_gpusort.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])}
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [*under, sys.executable, "-u", str(path), *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **options)


def end_script(process: subprocess.Popen[str]) -> str:
    """Wait for a script, which must succeed, and end what it has left running; gives what it printed."""
    try:
        code = process.wait(timeout=LONG)
    except subprocess.TimeoutExpired:
        code = None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    output, _ = process.communicate()
    assert code == 0, f"{'it hangs' if code is None else code}: {output}"
    return output


#: What a fork of the server of `workers_fork_from_a_server` begins with: it has imported none of what is extended.
FRESH = """
import sys
import dask, dask.array as da
import numpy as np
assert not {"dask_array", "flox", "scipy.stats", "scipy._lib.array_api_compat.dask"} & sys.modules.keys()
import dask_gpusort
"""


def run_fresh(*lines: str) -> None:
    """Run a script in a new fork, which must succeed; an error that it raises is raised here, with its traceback."""
    with get_context("forkserver").Pool(1) as pool:
        pool.apply_async(exec, ["\n".join((FRESH, *lines)), {"__name__": "__main__"}]).get(LONG)
