"""NumPy chunks sorted on a GPU: staged chunk by chunk, sorted as CuPy chunks, and copied back.

::

    NumPy chunks -- copy_to_device --> CuPy chunks -- the sort --> CuPy chunks -- copy_to_host --> NumPy chunks

Chunks that do not fit the GPU together stay on the host. Then each step that sorts a chunk, or finishes a group, copies
its arrays there and back (see `chunk.cupy_staged_ops`).

CuPy chunks stay where they are, and so do the outputs that are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from dask.tokenize import tokenize

from ..chunk.checks import checked_chunk
from ..graph.inputs import blockwise
from ..graph.runtime import Runtime, chunk_library
from ..kernels import KernelsUnavailable
from ..kernels.launch.loader import require_cupy
from ..plan import Plan
from ..plan.terms import format_size
from .request import Keys

REMEDY = "leave out device= and the setting gpusort.device"


def _copies() -> Any:
    # Imported here, because it imports CuPy.
    return import_module("dask_gpusort.chunk.cupy_staging")


def copy_to_device(block: Any, dtype: np.dtype[Any], shift: int) -> Any:
    """Task: a chunk on the device."""
    return _copies().to_device(checked_chunk(block, dtype), shift)


def copy_to_host(block: Any, dtype: np.dtype[Any], shift: int) -> np.ndarray:
    """Task: a chunk of an output, on the host."""
    found: np.ndarray = _copies().to_host(block, dtype, shift)
    return found


def staged_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Find the dtype that an array has on the device, or refuse elements that CuPy cannot hold."""
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.kind not in "biufc" or dtype.char in "gG":
        raise TypeError(f"chunks of {dtype} are not sorted with device='cuda', because CuPy lacks the dtype: {REMEDY}")
    return dtype.newbyteorder("=")


def _is_staged(array: Any) -> bool:
    return chunk_library(array) != "cupy"


@dataclass(frozen=True)
class Shortage:
    """Say how many bytes a sort of all chunks at once needs of a GPU which has less."""

    needed: float  # nan if unknown
    memory: int


@dataclass(frozen=True)
class Staging:
    """Say where the chunks of one sort are."""

    runtime: Runtime  # that has the chunks before they are moved
    device: str | None = None  # None leaves all chunks where they are
    nat_last: bool = False  # whether dates are shifted on the device, so that NaT is the greatest
    #: The memory that the device lacks for all chunks together, which then stay on the host.
    shortage: Shortage | None = None

    def _shift(self, dtype: np.dtype[Any]) -> int:
        return int(self.nat_last and dtype.kind in "mM")

    def to_device(self, array: Any) -> Any:
        """Move the chunks of an array to the device."""
        if self.device is None or not _is_staged(array):
            return array
        dtype = staged_dtype(array.dtype)
        if self.shortage is not None:
            return array
        meta = _copies().empty(dtype, (0,) * array.ndim)
        shift = -self._shift(array.dtype)
        # Named here: Dask would make the name from the meta too, and cannot read it without a device.
        name = f"copy_to_device-{tokenize(array.name, shift)}"
        dims = tuple(range(array.ndim))
        given = array, dims, array.dtype, None, shift, None
        return blockwise(copy_to_device, dims, *given, dtype=dtype, meta=meta, name=name)

    def keys_to_device(self, keys: Keys) -> Keys:
        """Keys that were made on the host, on the device."""
        staged, order = self.to_device(keys.array), keys.order
        if staged is keys.array or order.words:
            return Keys(staged, order)
        return Keys(staged, replace(order, dtype=staged.dtype))

    def to_host(self, array: Any, like: Any, dtype: np.dtype[Any]) -> Any:
        """Move an output's chunks where those of the user's input are, in the output's dtype on the host."""
        if self.device is None or self.shortage is not None or not _is_staged(like):
            return array
        meta = np.empty((0,) * array.ndim, dtype)
        return array.map_blocks(copy_to_host, dtype, self._shift(dtype), dtype=dtype, meta=meta)

    def stated(self, array: Any) -> Plan:
        """The staging of an input; empty if it is not staged."""
        if self.device is None or not _is_staged(array):
            return Plan()
        how = "NumPy chunks to the GPU, and the results back, chunk by chunk through pinned memory"
        if self.shortage is not None:
            why, memory = map(format_size, (self.shortage.needed, self.shortage.memory))
            how = f"chunks and groups to the GPU, some at a time: together they take {why}, it has {memory}"
        return Plan(given={"staging": how}, notes=(how,))


@contextmanager
def staging(device: str | None, array: Any, *, nat_last: bool) -> Iterator[Staging]:
    """Stage one sort of an array, whose graph is built in this context."""
    # Without CuPy, or a GPU of the process that will sort, it raises `KernelsUnavailable`.
    runtime = Runtime.of(array)
    if device is None:
        yield Staging(runtime)
        return
    _require_device(runtime)
    with _copies().metadata_without_device():
        yield Staging(runtime, device, nat_last)


def _require_device(runtime: Runtime) -> None:
    """Raise if CuPy is absent, or the GPU; with a distributed client, the workers have the GPUs."""
    if runtime.kind == "distributed" and find_spec("cupy") is not None:
        return
    try:
        require_cupy()
    except KernelsUnavailable as error:
        raise KernelsUnavailable(f"device='cuda' needs a GPU and CuPy, or else {REMEDY}. {error}") from error
