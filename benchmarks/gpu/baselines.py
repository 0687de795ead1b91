"""int64 keys by every library that sorts on a GPU, from device memory to device memory, and by NumPy on the host.

    python -m benchmarks.gpu.baselines [--output DIRECTORY] [--commit COMMIT]

Writes results/baselines_gpu.json. The method is that of `gpu.algorithms`. Without PyTorch its line is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import cupy as cp
import dask.array as da
import numpy as np

import dask_gpusort
from dask_gpusort import kernels

from ..harness.device import Table, run_table
from ..harness.records import Point
from .algorithms import Sort, points_of

SIZES = [10**power for power in range(4, 10)]
#: Keys in a chunk. One of 512 MiB takes longer to sort than a task takes to start.
CHUNK_KEYS = 1 << 26


def by_torch(keys: Any, _: Any) -> Any:
    """PyTorch. Its sort always computes positions too."""
    import torch

    return cp.from_dlpack(torch.sort(torch.from_dlpack(keys)).values)


def in_chunks(keys: Any, _: Any) -> Any:
    x = da.from_array(keys, chunks=min(len(keys), CHUNK_KEYS), name=False)
    return dask_gpusort.sort(x).compute(scheduler="synchronous")


SORTS: dict[str, Sort] = {
    "dask_gpusort, kernels": lambda keys, _: kernels.sort_keys(keys),
    "dask_gpusort, CuPy chunks": in_chunks,
    "cupy.sort": lambda keys, _: cp.sort(keys),
    "numpy.sort": lambda keys, _: np.sort(cp.asnumpy(keys)),
    **({"torch.sort": by_torch} if find_spec("torch") else {}),
}


def points(table: Table, _: int) -> Iterator[Point]:
    yield from points_of(table, "baselines", np.int64, SORTS, SIZES)


if __name__ == "__main__":
    run_table("gpu.baselines", __doc__, "baselines_gpu", {"all": points})
