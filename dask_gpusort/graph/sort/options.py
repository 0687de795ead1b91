"""The options that all sorts share, applied to an array: its keys with their order, and the request to the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...chunk import library_of
from ...order import Order
from ...plan import choose_path
from ..inputs import same_chunks
from ..runtime import Runtime
from .global_sort import Request, Want
from .keys import Keys, keys_by, pack_keys


@dataclass(frozen=True)
class Options:
    """Hold options of a sort, already checked as far as that needs no array."""

    stable: bool = False
    descending: bool = False
    order: tuple[str, ...] | None = None  # fields of a structured dtype to compare first
    method: str = "auto"
    exchange: str = "auto"
    key: Callable[[Any], Any] | None = None
    less: Callable[[Any, Any], Any] | str | None = None
    device: str | None = None  # where NumPy chunks are sorted

    @property
    def nat_last(self) -> bool:
        """Whether NaT must be the greatest integer where dates are sorted as integers; otherwise it is the least."""
        return self.less is None and not self.descending

    def keys(self, array: Any, want: Want) -> Keys:
        """Make the keys that decide the order of an array's elements."""
        if self.less is not None:
            _check_less_type(self.less, "cupy" if self.device else library_of(array._meta))
            return Keys(array, Order(array.dtype, stable=True, less=self.less))
        if self.key is None:
            stable = self.stable or want != "keys"
            return Keys(array, Order(array.dtype, self.descending, stable, fields_of(self.order, array.dtype)))
        found = keys_by(self.key, array, self.descending)
        if self.order is None:
            return found
        if found.order.directions:
            raise ValueError(
                "order cannot be combined with a key of several arrays: give the most significant one first"
            )
        dtype = found.order.dtype
        return Keys(found.array, Order(dtype, self.descending, True, fields_of(self.order, dtype)))

    def request(self, want: Want, keys: Keys, runtime: Runtime | None = None) -> Request:
        """Request a sort of these keys, by the scheduler in use if no other is given."""
        self.check(keys)
        runtime = Runtime.of(keys.array) if runtime is None else runtime.for_chunks_of(keys.array)
        return Request(keys.order, want, self.method, runtime, self.exchange)

    def check(self, keys: Keys) -> None:
        """Refuse keys that cannot be sorted so."""
        order = keys.order
        compared_by_numpy = not (order.coded or order.words or order.less is not None or order.dtype == np.complex128)
        if library_of(keys.array._meta) == "cupy" and compared_by_numpy:
            raise TypeError(
                f"CuPy chunks of {order.dtype} are not sorted: move them to NumPy chunks, with map_blocks(cupy.asnumpy)"
            )
        choose_path(order, self.method)


def _check_less_type(less: Any, library: str) -> None:
    if library == "cupy":
        if not isinstance(less, str):
            raise TypeError(
                "less of CuPy chunks, and of NumPy chunks with device='cuda', must be a CUDA C++ expression in a and "
                f"b, as a string such as 'a < b', not {type(less).__name__}"
            )
    elif not callable(less):
        raise TypeError(
            "less of NumPy chunks must be a function of two arrays that gives an array of bool, "
            f"such as numpy.less, not {type(less).__name__}"
        )


def fields_of(order: tuple[str, ...] | None, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """The fields to compare first, checked against a dtype."""
    if order is None:
        return ()
    if dtype.names is None:
        raise ValueError("Cannot specify order when the array has no fields: leave `order` out")
    for field in order:
        if field not in dtype.names:
            raise ValueError(f"unknown field name: {field!r}; the array has {', '.join(map(repr, dtype.names))}")
    if len(set(order)) < len(order):
        raise ValueError("duplicate field name in `order`: name each field once")
    return order


def lexsort_keys(arrays: Sequence[Any], directions: Sequence[bool], names: Sequence[str] | None = None) -> Keys:
    """Make the keys of `lexsort` one; the last array is most significant, and names are for error messages."""
    primary = arrays[-1]
    *of_others, of_primary = names or [*(f"key {number}" for number in range(len(arrays) - 1)), "the last key"]
    others = [same_chunks(primary, array, name, of_primary) for name, array in zip(of_others, arrays[:-1], strict=True)]
    if not others:
        return Keys(primary, Order(primary.dtype, directions[0], stable=True))
    return pack_keys([primary, *others[::-1]], directions[::-1])
