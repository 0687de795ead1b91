"""Elements whose keys are in order already (``in_order.cu``): a look at all keys, and a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import Elements
from ..launch.launch import Launch, Readback, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy

SOURCE = "msd/in_order.cu"
LOOK_THREADS, LOOK_TILE = (cxx_constant(SOURCE, name) for name in ("kLookThreads", "kLookTile"))
STORE_THREADS = 256


def store_in_order(
    elements: Elements, inputs: tuple[Any, Any], outputs: tuple[Any, Any], n: int, stored: Elements | None = None
) -> bool:
    """Store n elements as they are, or turned if their keys descend; False, with nothing written, if neither sorts.

    `stored` are the same elements as they are stored, if those that are compared lose bits.
    """
    (keys, values), (keys_out, positions_out), stored = inputs, outputs, stored or elements
    found = require_cupy().zeros(2, np.uint32)
    name = instance("find_steps", elements.source, elements.payload_type)
    Launch(SOURCE, name, blocks_for(n, LOOK_TILE), LOOK_THREADS, (keys, np.uint64(n), found)).run()
    falls, rises = Readback(found).wait()
    is_there = keys_out is not None and positions_out is None and keys.data.ptr == keys_out.data.ptr
    if not (falls and rises) and (falls or not is_there):
        name = instance("store_in_order", stored.source, stored.sink, stored.payload_type)
        arguments = keys, values, *outputs, np.uint64(n), np.uint32(falls)
        Launch(SOURCE, name, blocks_for(n, 2 * STORE_THREADS), STORE_THREADS, arguments).run()
    return not (falls and rises)
