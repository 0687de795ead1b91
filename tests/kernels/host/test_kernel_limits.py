"""Every launch fits the shared memory of its device."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.host_cuda.device import GPUS
from support.host_cuda.launches import record_everything
from support.host_cuda.recorder import Recorder
from support.marks import grid

from dask_gpusort import kernels
from dask_gpusort.kernels import selecting
from dask_gpusort.kernels.launch.loader import SOURCE_TEXTS
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.ties.ties import SOURCE as SCATTER

#: Arrays for one block, few buckets and many; rows for one block, one partition and more.
SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 22, 1 << 26)
#: The positions of longer rows would take much memory on the host.
LONGEST_INDEXED_ROW = 1 << 16
#: Longer columns are copied.
LONGEST_COLUMN = 1 << 10


@pytest.mark.parametrize(("capability", "dtype"), grid(list(GPUS), ["u1", "f2", "u4", "f8", "c8"]))
def test_sorts_and_selections_fit_the_gpu(monkeypatch, capability, dtype):
    """The recorder raises an error for a launch that does not."""
    recorder = Recorder(GPUS[capability])
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
    for count in (0, 16, selecting.MOST_BRACKETS):
        ends = np.zeros((1, count), f"u{np.dtype(dtype).itemsize}")
        kernels.extract([recorder.empty((1, SIZES[-1]), dtype)], ends, ends, 10)
    assert recorder.most_shared > 0


@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=() if one in (75, 90) else pytest.mark.thorough) for one in GPUS]
)
def test_every_kernel_fits_the_gpu(monkeypatch, capability):
    """The default run takes the GPUs with the least and the most shared memory."""
    recorder = Recorder(GPUS[capability])
    record_everything(recorder, ("i8",), (False,))
    # Positions of more digits than one partition of the usual radix has.
    recorder.replace_cupy(monkeypatch)
    monkeypatch.setattr(tuning, "SCATTER", replace(tuning.SCATTER, bucket_bits=6))
    scatter = recorder.empty(1 << 26, "u4")
    kernels.scatter_numbers(None, scatter, recorder.empty(scatter.size, "u4"))
    assert any(", 1024>" in name for source, name in recorder.instances if source == SCATTER)
    assert {name.partition("<")[0] for _, name in recorder.instances} >= {"onesweep", "write_buckets"}


def test_no_kernel_has_static_beside_dynamic_shared_memory():
    """So what a launch asks for is all that it takes; the tests that compile for GPUs check it in the machine code."""
    for name in [name for name in SOURCE_TEXTS if name.endswith(".cu")]:
        for kernel in re.split(r"__global__", SOURCE_TEXTS[name])[1:]:
            assert kernel.count("__shared__") <= 1 or "extern __shared__" not in kernel, (name, kernel[:100])


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
    memory, reserved = GPUS[90].shared, GPUS[90].shared - GPUS[90].block_shared
    for name, blocks, shared in blocks_of_tuning():
        assert blocks == 1 or blocks * (shared + reserved) <= memory, name


def test_a_large_device_gets_large_blocks(monkeypatch):
    recorder = Recorder(GPUS[90])
    recorder.replace_cupy(monkeypatch)
    recorder.record(kernels.sort_keys, recorder.empty(1 << 28, "u4"))
    assert recorder.most_shared > GPUS[86].block_shared
