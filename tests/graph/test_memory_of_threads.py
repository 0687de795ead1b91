"""Memory of a sort on threads, measured as the resident memory of a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Most resident memory, as a multiple of the data: output chunks and the result, or sorted chunks and groups.
MOST = 2.6

PROGRAM = """
import sys, threading, time
import dask, dask.array as da
import dask_gpusort

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def watch():
    while not done:
        peaks.append(resident())
        time.sleep(0.002)

chunks = int(sys.argv[1])
size = 16_000_000
keys = da.random.default_rng(0).integers(0, 1 << 62, size, chunks=size // chunks)
with dask.config.set(scheduler="threads", num_workers=2):
    dask_gpusort.sort(keys[: size // 8]).compute()  # imports
    base, peaks, done = resident(), [], []
    watcher = threading.Thread(target=watch)
    watcher.start()
    found = dask_gpusort.sort(keys).compute()
done.append(True)
watcher.join()
assert len(found) == size
print((max(peaks) - base) / found.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("chunks", [32, 200])
def test_compute_takes_little_more_than_two_copies(chunks):
    command = [sys.executable, "-c", PROGRAM, str(chunks)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert float(run.stdout) <= MOST
