"""Every launch fits the shared memory of its device."""

from __future__ import annotations

import numpy as np
import pytest
from support.host_cuda.recorder import Recorder

from dask_gpusort import kernels
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.policy.limits import RESERVED_SHARED_BYTES
from dask_gpusort.kernels.select import extract

#: Most shared memory of a block, by compute capability (CUDA C++ Programming Guide, technical specifications).
LIMITS = {"7.5": 64 << 10, "8.0": 163 << 10, "8.6": 99 << 10, "9.0": 227 << 10}
#: Arrays for one block, one level and two levels; rows for one block, one partition and more.
SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 22, 1 << 26)
#: The positions of longer rows would take much memory on the host.
LONGEST_INDEXED_ROW = 1 << 16
#: Longer columns are copied.
LONGEST_COLUMN = 1 << 10


@pytest.mark.parametrize("dtype", ["u1", "f2", "u4", "f8", "c8"])
@pytest.mark.parametrize("capability", LIMITS)
def test_shared_memory_of_every_launch(monkeypatch, capability, dtype):
    recorder = Recorder(LIMITS[capability])
    recorder.replace_cupy(monkeypatch)
    for n in SIZES:
        keys = recorder.empty(n, dtype)
        recorder.record(kernels.sort_keys, keys)
        recorder.record(kernels.argsort, keys)
        for values in (np.uint64, np.complex128):
            recorder.record(kernels.sort_pairs, keys, recorder.empty(n, values))
        recorder.record(kernels.sort_rows, recorder.empty((1, n), dtype))
        recorder.record(kernels.argsort_rows, recorder.empty((1, min(n, LONGEST_INDEXED_ROW)), dtype))
        for axis, shape in enumerate(((min(n, LONGEST_COLUMN), 1), (1, n))):
            kernels.select_rows(recorder.empty(shape, dtype), recorder.empty((1, 1), np.int64), axis)
    for count in (0, 16, extract.MOST_BRACKETS):
        ends = np.zeros((1, count), f"u{np.dtype(dtype).itemsize}")
        kernels.extract([recorder.empty((1, SIZES[-1]), dtype)], ends, ends, 10)
    assert 0 < recorder.most_shared <= LIMITS[capability]


def blocks_of_tuning():
    """Name, blocks per multiprocessor, and shared memory (bytes) of every kernel with launch bounds."""
    for widths, shapes in tuning.BLOCK_SORT.items():
        for shape in shapes:
            for block in (shape, shape.for_uniform(), shape.for_uniform(1)):
                yield f"block sort {widths} {block}", block.blocks, block.shared_bytes(*widths)
    for widths, tile in tuning.PARTITION.items():
        yield f"partition {widths} {tile}", tile.blocks, tile.shared_bytes(*widths, tile.digits, tuning.MAP_WORDS)
    for widths, tile in tuning.LSD.items():
        yield f"pass {widths} {tile}", tile.blocks, tuning.stable_shared_bytes(tile, *widths)
    for widths, tile in tuning.STABLE.items():
        shared = tuning.stable_shared_bytes(tile, *widths, tuning.MAP_WORDS, keeps_digits=True)
        yield f"stable {widths} {tile}", tile.blocks, shared


def test_blocks_of_launch_bounds_fit_shared_memory():
    """Launch bounds for more blocks than fit shared memory would restrict registers without a benefit."""
    memory = LIMITS["9.0"] + RESERVED_SHARED_BYTES
    for name, blocks, shared in blocks_of_tuning():
        assert blocks == 1 or blocks * (shared + RESERVED_SHARED_BYTES) <= memory, name


def test_a_large_device_gets_large_blocks(monkeypatch):
    recorder = Recorder(LIMITS["9.0"])
    recorder.replace_cupy(monkeypatch)
    recorder.record(kernels.sort_keys, recorder.empty(1 << 28, "u4"))
    assert recorder.most_shared > LIMITS["8.6"]
