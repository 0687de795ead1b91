"""Shared by the tests of kernels on the host: small blocks, keys, and the compilation of many instances at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from dask_gpusort.kernels.papers import sampled_merge_sort
from dask_gpusort.kernels.policy import tuning

from .host_cuda import HostDevice
from .host_cuda.device import GPUS
from .host_cuda.recorder import Recorder

#: The smallest block sort that still samples its overfull buckets.
BLOCK_SORT = tuning.BlockSortShape(128, 17, 2048)
BLOCK_SORT_KEYS = BLOCK_SORT.capacity
LSD_TILE = 256 * 4
TWO_LEVELS = 40_009
MERGE_TILE = tuning.MergeShape(64, 5)


def prepare(device: HostDevice, calls: Callable[[Recorder], None]) -> None:
    """Compile the kernels that some calls may launch: one program for each source, two compilers at a time."""
    recorder = Recorder(replace(GPUS[90], multiprocessors=device.multiprocessors))
    with pytest.MonkeyPatch.context() as patch:
        recorder.replace_cupy(patch)
        calls(recorder)
    names = defaultdict(list)
    for source, name in recorder.instances:
        names[source, None].append(name)
    for expression, source, name in recorder.expressions:
        names[source, expression].append(name)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda of: device.prepare(of[0], names[of], of[1]), names))


def use_small_blocks(patch):
    """Blocks and tiles so small that few keys take every path through the sorts."""
    tile = tuning.Tile(128, 8, 2, 16)
    patch.setattr(
        tuning, "BLOCK_SORT", {shape: (BLOCK_SORT,) * len(blocks) for shape, blocks in tuning.BLOCK_SORT.items()}
    )
    patch.setattr(tuning, "MAIN_BLOCK_SORT", dict.fromkeys(tuning.BLOCK_SORT, 0))
    patch.setattr(tuning, "MAX_DIGITS", tile.digits)
    patch.setattr(tuning, "PARTITION", dict.fromkeys(tuning.PARTITION, tile))
    segment_tile = tuning.Tile(tuning.SEGMENT_THREADS, 4)
    patch.setattr(tuning, "SEGMENT_PARTITION", dict.fromkeys(tuning.SEGMENT_PARTITION, segment_tile))
    patch.setattr(tuning, "LSD", {widths: tuning.Tile(256, 4) for widths in tuning.LSD})
    patch.setattr(tuning, "STABLE", {widths: tuning.Tile(256, 4) for widths in tuning.STABLE})
    patch.setattr(tuning, "PARTITIONED_KEYS", {})
    patch.setattr(tuning, "LSD_ALL_PASSES", 2 * LSD_TILE)


def use_small_merges(patch):
    """Blocks and merge tiles so small that few keys make several tiles."""
    use_small_blocks(patch)
    patch.setattr(tuning, "MERGE", dict.fromkeys(tuning.MERGE, MERGE_TILE))
    patch.setattr(sampled_merge_sort, "PART", tuning.MergeShape(64, 3))
    patch.setattr(sampled_merge_sort, "SAMPLE_KEYS", 64)
    patch.setattr(sampled_merge_sort, "TILE_KEYS", 256)
    patch.setattr(sampled_merge_sort, "THREADS", 64)


def replace_cupy_of_steps(patch, cupy):
    """Replace CuPy in the steps on one CuPy chunk."""
    subjects = ("keys", "sorts", "select", "ties", "search", "positions", "ops")
    for name in (f"cupy_{subject}" for subject in subjects):
        patch.setattr(f"dask_gpusort.chunk.{name}.cupy", cupy)


def bits_of_keys(rng, dtype, shape, kind):
    """Random bits as keys of a dtype; NaN is replaced by 1."""
    dtype = np.dtype(dtype)
    octets = rng.integers(0, 256, (*np.atleast_1d(shape), dtype.itemsize), dtype=np.uint8)
    if kind == "clustered":  # few bits are set, so keys are skewed at every digit
        octets &= rng.integers(0, 256, octets.shape, dtype=np.uint8) & rng.integers(
            0, 256, octets.shape, dtype=np.uint8
        )
    keys = octets.view(dtype)[..., 0]
    keys[keys != keys] = 1
    if kind == "few":
        keys = keys.ravel()[rng.integers(0, min(7, keys.size), keys.shape)] if keys.size else keys
    elif kind == "sorted":
        keys = np.sort(keys)
    return keys
