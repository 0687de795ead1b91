"""Sorted runs made into one: how a group is finished."""

from __future__ import annotations

import numpy as np

from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.order import Order

from .data import make_chunk

N = 1 << 22


class Merge:
    params = ([N], ["i4", "i8"], [2, 4, 16, 64, 1024])
    param_names = ("n", "dtype", "runs")
    #: A set-up for each measurement: a merge may write to its runs.
    number = 1

    def setup(self, n: int, dtype: str, runs: int) -> None:
        self.order = Order(np.dtype(dtype))
        self.blocks = [make_chunk(number, n // runs, n, "uniform", dtype) for number in range(runs)]
        self.pieces = [numpy_ops.local_sort(block, (), self.order, positions=False) for block in self.blocks]
        self.pairs = [Run(piece.keys, (np.arange(len(piece), dtype=np.uint32),)) for piece in self.pieces]

    def time_keys(self, n: int, dtype: str, runs: int) -> None:
        numpy_ops.merge(self.pieces, self.order)

    def time_pairs(self, n: int, dtype: str, runs: int) -> None:
        numpy_ops.merge(self.pairs, self.order)

    def time_numpy_sort(self, n: int, dtype: str, runs: int) -> None:
        """What there would be without a merge."""
        np.sort(np.concatenate(self.blocks))
