"""Merging of sorted runs, the last step for an exchange group."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_gpusort.chunk import ops_for
from dask_gpusort.chunk.run import Run
from dask_gpusort.order import Order

from .clock import seconds
from .data import BACKENDS, make_chunk, module_of

N = 1 << 22


class Merge:
    timer = staticmethod(seconds)
    params = ([N], ["i4", "i8"], [2, 4, 16, 64, 1024], BACKENDS)
    param_names = ("n", "dtype", "runs", "backend")
    #: asv calls a benchmark once for each set-up, because a merge may write to its runs.
    number = 1

    def setup(self, n: int, dtype: str, runs: int, backend: str) -> None:
        module = module_of(backend)
        self.order = Order(np.dtype(dtype))
        chunks = [make_chunk(number, n // runs, n, "uniform", dtype) for number in range(runs)]
        self.blocks = [module.asarray(chunk) for chunk in chunks]
        self.ops: Any = ops_for(self.blocks[0])
        self.pieces = [self.ops.local_sort(block, (), self.order, positions=False) for block in self.blocks]
        self.pairs = [Run(piece.keys, (module.arange(len(piece), dtype=np.uint32),)) for piece in self.pieces]
        self.sort_again = lambda: module.sort(module.concatenate(self.blocks))

    def time_keys(self, n: int, dtype: str, runs: int, backend: str) -> None:
        self.ops.merge(self.pieces, self.order)

    def time_pairs(self, n: int, dtype: str, runs: int, backend: str) -> None:
        self.ops.merge(self.pairs, self.order)

    def time_fresh_sort(self, n: int, dtype: str, runs: int, backend: str) -> None:
        """Without a merge: NumPy's sort, or CuPy's."""
        self.sort_again()
