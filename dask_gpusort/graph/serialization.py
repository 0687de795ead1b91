"""Serialisation of runs of CuPy arrays between workers, as device frames instead of pickles on the host.

Distributed picks a serialiser by the type of a task's result. Over UCX it tries "cuda" first, whose frames are device
buffers that travel from GPU to GPU; over TCP, and for spills to host memory, "dask", whose frames are host buffers;
then pickle. Runs of NumPy arrays decline both and are pickled, out of band and without a copy (see `chunk.run`).

Registration needs distributed, which sorts on threads do not. It happens as soon as both are imported. A worker
registers before its first run can arrive: the task that needs the run is unpickled first, and imports this package.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..chunk import library_of
from ..chunk.run import Run

#: Header and frames, as in distributed.
Message = tuple[dict[str, Any], list[Any]]


class ArrayParts(NamedTuple):
    """Split objects of one class into a pickled part and arrays, and rebuild them."""

    split: Callable[[Any], tuple[Any, Sequence[Any]]]
    join: Callable[[Any, Sequence[Any]], Any]


_CLASSES: dict[type, ArrayParts] = {}
_known_to_distributed: set[type] = set()
_known_to_dask_cuda: set[type] = set()


def add_class(cls: type, split: Callable[[Any], Any], join: Callable[[Any, Sequence[Any]], Any]) -> None:
    """Add a class, and register it with distributed if that is imported."""
    _CLASSES[cls] = ArrayParts(split, join)
    register()


def register() -> None:
    """Register the classes with distributed and dask-cuda, as soon as each is imported; a repeated call is cheap."""
    # Tasks call this too, because a worker may import dask-cuda after this module.
    if "distributed" in sys.modules and len(_known_to_distributed) < len(_CLASSES):
        cuda = import_module("distributed.protocol.cuda")
        host = import_module("distributed.protocol.serialize")
        for cls in _CLASSES:
            cuda.cuda_serialize.register(cls)(partial(_serialize, convert="as_buffer"))
            cuda.cuda_deserialize.register(cls)(_Loader(cls))
            host.dask_serialize.register(cls)(partial(_serialize, convert="as_host_buffer"))
            host.dask_deserialize.register(cls)(_Loader(cls))
            _known_to_distributed.add(cls)
    if "dask_cuda" in sys.modules and len(_known_to_dask_cuda) < len(_CLASSES):
        # Otherwise dask-cuda takes results of these classes for host memory, and never spills them from the device.
        known = import_module("dask_cuda.is_device_object").is_device_object
        for cls in _CLASSES:
            known.register(cls)(is_on_device)
            _known_to_dask_cuda.add(cls)


def is_on_device(value: Any) -> bool:
    """Whether an object of one of the classes holds CuPy arrays."""
    _, arrays = _CLASSES[type(value)].split(value)
    return any(library_of(array) == "cupy" for array in arrays)


def _serialize(value: Any, convert: str) -> Message:
    """Serialise an object of one of the classes, its arrays as buffers of the device, or copied to the host."""
    kept, arrays = _CLASSES[type(value)].split(value)
    if not arrays or any(library_of(array) != "cupy" for array in arrays):
        raise NotImplementedError(f"arrays of {type(value).__name__} are on the host: the next serialiser takes them")
    layout = tuple((array.dtype.str, tuple(map(int, array.shape))) for array in arrays)
    to_frame = getattr(_buffers(), convert)
    # Empty arrays have no frame: a device has no empty buffer.
    return {"kept": pickle.dumps(kept), "layout": layout}, [to_frame(array) for array in arrays if array.nbytes]


class _Loader:
    """Rebuild objects of one class from a header and frames of the device or the host."""

    def __init__(self, cls: type):
        self.cls = cls

    def __call__(self, header: dict[str, Any], frames: Sequence[Any]) -> Any:
        buffers, remaining = _buffers(), iter(frames)
        arrays = []
        for name, sizes in header["layout"]:
            dtype, shape = np.dtype(name), tuple(sizes)
            empty = 0 in shape or not dtype.itemsize
            arrays.append(buffers.empty(dtype, shape) if empty else buffers.from_buffer(next(remaining), dtype, shape))
        return _CLASSES[self.cls].join(pickle.loads(header["kept"]), arrays)


def _buffers() -> Any:
    # Imported here, because it imports CuPy.
    return import_module("dask_gpusort.chunk.cupy_staging")


add_class(Run, lambda run: (None, run.arrays), lambda kept, arrays: Run(arrays[0], tuple(arrays[1:])))
