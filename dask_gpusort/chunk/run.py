"""A run: sorted consecutive keys of one chunk, and the values that travel with them.

A run is a class and not a tuple of arrays for three reasons: its size is exact (Dask's ``sizeof`` samples long
containers, and calls ``__sizeof__`` of other objects), it pickles every fixed-width dtype out of band (NumPy copies
``datetime64`` into the pickle), and slicing keeps keys and values together.

Distributed sends an object without a registered serialiser by pickle protocol 5, with out-of-band buffers as frames,
which need no copy. So nothing is registered for runs of NumPy arrays.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

#: A NumPy array, or a CuPy array, which has the same methods.
Array: TypeAlias = Any

#: Elements sampled to estimate the size of an array of Python objects or variable-width strings: exact to a few per
#: cent, which is enough for a scheduler, in some microseconds.
SAMPLED_ELEMENTS = 32


def is_fixed_width(dtype: np.dtype[Any]) -> bool:
    """Tell whether an array's buffer holds all of its data."""
    # It does not for ``object`` (Python objects elsewhere) and ``StringDType`` (an arena elsewhere), which need pickle.
    return dtype.kind in "biufcmMSUV" and not dtype.hasobject


def byte_view(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Flat bytes of a fixed-width NumPy array: a view if the array is contiguous in C order, else a copy."""
    if array.nbytes == 0:  # NumPy cannot view elements of no width (an empty string dtype) as bytes
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Hold sorted keys, shape (n,) or (n, words), and values, shape (n, ...), whose row i belongs to key i."""

    keys: Array
    values: tuple[Array, ...] = ()

    def __post_init__(self) -> None:
        if self.keys.ndim != 1 and not (self.keys.ndim == 2 and self.keys.dtype == np.uint64):
            raise ValueError(
                f"keys of a run have one dimension, or rows of uint64 words, got shape {self.keys.shape}: "
                "ravel them first"
            )
        for value in self.values:
            if value.ndim == 0 or value.shape[0] != self.keys.shape[0]:
                raise ValueError(
                    f"a companion of shape {value.shape} does not fit {self.keys.shape[0]} keys: "
                    "its first axis must be as long as the keys"
                )

    def __len__(self) -> int:
        return int(self.keys.shape[0])

    def __getitem__(self, part: slice) -> Run:
        """Cut a run: the arrays of the result are views."""
        if not isinstance(part, slice):
            raise TypeError(f"a run is cut by a slice, got {part!r}: index its `keys` or `values` instead")
        return Run(self.keys[part], tuple(value[part] for value in self.values))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The keys, then the values."""
        return (self.keys, *self.values)

    @property
    def nbytes(self) -> int:
        """Bytes in the arrays' buffers (of Python objects: of the references)."""
        return sum(int(array.nbytes) for array in self.arrays)

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``: buffers exactly, Python objects and long strings estimated."""
        return object.__sizeof__(self) + self.nbytes + sum(_bytes_elsewhere(array) for array in self.arrays)

    def copy(self) -> Run:
        """Copy into contiguous memory."""
        return Run(self.keys.copy(), tuple(value.copy() for value in self.values))

    def own(self) -> Run:
        """Copy views and strided arrays, so that a slice does not keep its base array alive."""
        return Run(_owned(self.keys), tuple(_owned(value) for value in self.values))

    @staticmethod
    def concat(runs: Sequence[Run], *, copy: bool | None = True) -> Run:
        """Concatenate runs that have the same number of values."""
        # `copy` is as in NumPy: True always gives new memory, so that the result may be sorted in place; None gives
        # views if the runs are already contiguous in memory (as slices of kept runs are), which saves a copy of the
        # group.
        if not runs:
            raise ValueError("no runs to join: pass an empty run of the right dtypes")
        if len({len(run.values) for run in runs}) > 1:
            raise ValueError("runs to join must carry the same number of values")
        keys, *values = (_join(column, copy=copy) for column in zip(*(run.arrays for run in runs), strict=True))
        return Run(keys, tuple(values))

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Run], tuple[Any, ...]]:
        return _restore, tuple(_packed(array, int(protocol)) for array in self.arrays)


def _bytes_elsewhere(array: Array) -> int:
    """Estimate, from a few elements, the bytes that an array references outside its buffer."""
    if is_fixed_width(array.dtype) or array.size == 0:
        return 0
    flat = array.reshape(-1)
    sample = flat[:: max(1, flat.size // SAMPLED_ELEMENTS)]
    return int(sum(map(sys.getsizeof, sample.tolist())) / sample.size * flat.size)


def _owned(array: Array) -> Array:
    return array if array.base is None and array.flags.c_contiguous else array.copy()


def _join(arrays: Sequence[Array], *, copy: bool | None) -> Array:
    if not copy:
        joined = _view_across(arrays)
        if joined is not None:
            return joined
        if copy is False and any(array.size for array in arrays):
            raise ValueError("the runs are not contiguous in memory: pass copy=None to copy where needed")
    return concatenate(arrays)


def concatenate(arrays: Sequence[Array]) -> Array:
    """Concatenate arrays, NumPy or CuPy, along their first dimension; a common dtype is preserved."""
    # By default NumPy makes swapped byte orders native and padded records packed.
    shared = arrays[0].dtype if len({array.dtype for array in arrays}) == 1 else None
    if shared is not None and shared.kind in "SUV" and not shared.hasobject and all(array.nbytes for array in arrays):
        # NumPy copies strings and records under the interpreter's lock, and their bytes without it.
        joined = np.concatenate([np.ascontiguousarray(array).view(np.uint8) for array in arrays])
        return joined.view(shared)
    return np.concatenate(arrays, dtype=shared)  # CuPy's own, for CuPy arrays


def _view_across(arrays: Sequence[Array]) -> Array | None:
    """One view across arrays that are contiguous in one base array, or None if they are not."""
    if len(arrays) == 1:
        return arrays[0]
    filled = [array for array in arrays if array.size]
    base = filled[0].base if filled else None
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous or len({array.dtype for array in arrays}) > 1:
        return None
    row_shape = filled[0].shape[1:]
    start = end = _address(filled[0])
    for array in filled:
        compatible = array.base is base and array.dtype == base.dtype and array.shape[1:] == row_shape
        if not compatible or not array.flags.c_contiguous or _address(array) != end:
            return None
        end += array.nbytes
    first, last = ((address - _address(base)) // base.itemsize for address in (start, end))
    return base.reshape(-1)[first:last].reshape(-1, *row_shape)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _packed(array: Array, protocol: int) -> tuple[Any, ...]:
    """Give the pickled form of one array: its bytes, out of band if the protocol allows, or the array itself."""
    if not isinstance(array, np.ndarray) or not is_fixed_width(array.dtype):
        return (array,)
    data: Any = byte_view(array)
    return array.dtype, array.shape, pickle.PickleBuffer(data) if protocol >= 5 else data.tobytes()


def _restore(*packed: tuple[Any, ...]) -> Run:
    keys, *values = (
        part[0] if len(part) == 1 else np.ndarray(part[1], part[0], buffer=_writable(part[2])) for part in packed
    )
    return Run(keys, tuple(values))


def _writable(buffer: Any) -> Any:
    """Copy a ``bytes`` object, which an in-band pickle gives, so that the restored array is writable."""
    return bytearray(buffer) if isinstance(buffer, bytes) else buffer
