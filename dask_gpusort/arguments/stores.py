"""Checks of the arguments of stores."""

from __future__ import annotations

import math
import operator
from typing import Any

from dask.base import is_dask_collection

from ..chunk import library_of
from ..graph.runtime import Runtime
from .arrays import checked_array


def checked_stored(arr: Any, zarr: Any, url: Any) -> tuple[Any, int]:
    """Make an array that Zarr can store in a location a Dask array, and find its axis of unknown size, or the first."""
    if isinstance(arr, (tuple, list)) and any(map(is_dask_collection, arr)):
        raise TypeError(
            "arr must be an array, not several: store each with compute=False, all with dask.compute(*them)"
        )
    array = checked_array(arr, "arr")
    if array.ndim == 0:
        raise ValueError("arr must have a dimension: give arr[None], or use dask.array.to_zarr")
    if library_of(array._meta) == "cupy":
        raise TypeError("arr has cupy chunks, which Zarr cannot store: give arr.map_blocks(cupy.asnumpy)")
    if array.dtype.kind == "O":
        raise TypeError("arr of object cannot be stored: give arr.astype(dtype) of the numbers or strings that it has")
    unknown = [axis for axis, size in enumerate(array.shape) if math.isnan(size)]
    if len(unknown) > 1:
        raise ValueError(f"arr has unknown sizes along axes {unknown}, and one may be: call arr.compute_chunk_sizes()")
    if isinstance(url, zarr.Array):
        raise TypeError("url must be a path, a store or a group, not an array: give url.store, component=url.path")
    if isinstance(url, (dict, zarr.storage.MemoryStore)) and not Runtime.of(array).one_process:
        raise RuntimeError("url is in the memory of this process, and others would write to copies: give a path")
    return array, unknown[0] if unknown else 0


def checked_zarr_chunks(chunks: Any, axis: int, ndim: int) -> dict[int, int]:
    """The argument ``chunks`` as sizes by axes: one is along the axis of unknown size."""
    several = isinstance(chunks, (tuple, list))
    given = dict(enumerate(chunks)) if several else {} if chunks is None else {axis: chunks}
    if several and len(chunks) != ndim:
        raise ValueError(f"chunks has {len(chunks)} sizes for {ndim} axes: give one for each, or an int")
    try:
        found = {dim: operator.index(size) for dim, size in given.items()}
    except TypeError:
        raise TypeError(f"chunks must be an int, or one for each axis, not {chunks!r}: give whole numbers") from None
    if min(found.values(), default=1) < 1:
        raise ValueError(f"chunks must be 1 or more, not {chunks!r}: leave it out for sizes of about 8 MiB")
    return found
