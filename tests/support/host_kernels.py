"""What tests of kernels on the host share: small blocks, keys, and instances compiled many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dask_gpusort.kernels.policy import merge_tuning, tuning

from .host_cuda import HostDevice
from .host_cuda.recorder import Recorder

#: The smallest block sort whose overfull buckets are long enough to be sampled.
BLOCK_SORT = tuning.BlockSortShape(128, 17, 2048)
BLOCK_SORT_KEYS = BLOCK_SORT.capacity
ONE_LEVEL_BUCKETS = 4  # more are found by two partitions, as are those of TWO_LEVELS keys
LSD_TILE = 256 * 4
TWO_LEVELS = 40_009
MERGE_TILE = merge_tuning.MergeTile(64, 5)

#: A function of the kernels and its NumPy twin.
SORTED = "sort_keys", np.sort
POSITIONS = "argsort", lambda keys: np.argsort(keys, kind="stable")


def prepare(device: HostDevice, calls: Iterable[Callable[[Callable[..., Any]], Any]]) -> None:
    """Compile the kernels that some calls may launch: one program a source, two compilers at a time.

    Parameters
    ----------
    device : HostDevice
        Gets the kernels.
    calls : iterable of functions
        Each is given a function that allocates (shape, dtype). A generator may patch the limits around what it yields.
    """
    recorder = Recorder(multiprocessors=device.multiprocessors)
    with pytest.MonkeyPatch.context() as patch:
        recorder.replace_cupy(patch)
        for call in calls:
            recorder.record(call, recorder.empty)
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
    patch.setattr(tuning, "SMALL_PARTITIONS", (tuning.Tile(128, 8, 2, ONE_LEVEL_BUCKETS),))
    segment_tile = tuning.Tile(tuning.SEGMENT_THREADS, 4)
    patch.setattr(tuning, "SEGMENT_PARTITION", dict.fromkeys(tuning.SEGMENT_PARTITION, segment_tile))
    patch.setattr(tuning, "LSD", {widths: tuning.Tile(256, 4) for widths in tuning.LSD})
    patch.setattr(tuning, "STABLE", {widths: tuning.Tile(256, 4) for widths in tuning.STABLE})
    patch.setattr(tuning, "LSD_COOPERATIVE", {width: (tuning.Tile(256, 4),) * 2 for width in tuning.LSD_COOPERATIVE})
    patch.setattr(tuning, "LSD_COOPERATIVE_KEYS", {})
    patch.setattr(tuning, "PARTITIONED_KEYS", {})
    patch.setattr(tuning, "LSD_ALL_PASSES", 2 * LSD_TILE)


def use_small_merges(patch):
    """Small blocks, and merge tiles so small that few keys make several."""
    use_small_blocks(patch)
    patch.setattr(merge_tuning, "MERGE", dict.fromkeys(merge_tuning.MERGE, MERGE_TILE))
    patch.setattr(merge_tuning, "SAMPLED", merge_tuning.MergeTile(64, 3))
    patch.setattr(merge_tuning, "SAMPLE_KEYS", 64)
    patch.setattr(merge_tuning, "NETWORK_TILE_KEYS", 256)
    patch.setattr(merge_tuning, "NETWORK_THREADS", 64)


def bits_of_keys(rng, dtype, shape, kind):
    """Random numbers of a dtype, of all exponents, without NaN."""
    dtype = np.dtype(dtype)
    octets = rng.integers(0, 256, (*np.atleast_1d(shape), dtype.itemsize), dtype=np.uint8)
    if kind == "clustered":  # at every scale: few bits are set
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
