"""Errors of inputs that are not what they were said to be, or what they were when they were counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..order import Order

#: What helps where an input changes.
REMEDY = "persist it, or give its random numbers a seed"


def checked_chunk(
    block: Any, dtype: np.dtype[Any] | None, what: str = "a chunk of the input", exact: bool = False
) -> Any:
    """The chunk itself, once it is found to be what its array says.

    Parameters
    ----------
    block : array
    dtype : numpy.dtype or None
        That of its array; None where any will do. Another byte order is as good.
    what : str
        The chunk, for what is said of it.
    exact : bool
        Whether strings must have the said length too: sorts take any, while Dask cuts them when it joins chunks.

    Raises
    ------
    TypeError
        If the chunk is masked, or of another dtype.
    """
    if isinstance(block, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is a masked array where its array says it is not, and masked arrays are not sorted: "
            "fill them first, with dask.array.ma.filled(a, fill_value)"
        )
    if dtype is None or block.dtype == dtype or np.can_cast(block.dtype, dtype, "equiv"):
        return block
    if not exact and block.dtype.kind == dtype.kind and dtype.kind in "SU":
        return block
    raise TypeError(
        f"{what} has dtype {block.dtype} where its array says {dtype}: give map_blocks the true dtype= and "
        "meta=, or let its function return what astype makes of them"
    )


def wrong_size(what: str, expected: float) -> ValueError:
    """The error of a chunk that is not as long as its array says.

    A lost chunk that changed when it was computed again, together with all that was counted of it, looks no different.
    """
    return ValueError(
        f"{what} where its chunk size says {expected:.0f}: call compute_chunk_sizes() on it before sorting, "
        f"or if it is not the same each time it is computed, {REMEDY}"
    )


def changed_source(what: str, order: Order) -> RuntimeError:
    """The error of an input that is not the same each time it is computed."""
    less = "" if order.less is None else ". If it does not change, less= is no strict weak order"
    return RuntimeError(f"{what}: the input changes when it is computed again; {REMEDY}{less}")


def changed_chunk(chunk: int, order: Order) -> RuntimeError:
    """The error of a chunk that is not the same each time it is computed."""
    return changed_source(f"chunk {chunk} is not what it was when it was counted", order)


def changed_run(chunks: Sequence[int], order: Order) -> RuntimeError:
    """The error of chunks that were sorted as one and are not the same each time they are computed."""
    if len(chunks) == 1:
        return changed_chunk(chunks[0], order)
    which = f"one of the chunks {', '.join(map(str, chunks))}"
    return changed_source(f"{which} is not what it was when it was counted", order)
