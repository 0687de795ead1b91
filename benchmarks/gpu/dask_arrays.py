"""Measures the public functions on Dask arrays of CuPy chunks, on one GPU.

    python -m benchmarks.gpu.dask_arrays [chunks sizes pairs lexsort large memory rows small host statistics order]
                                         [--keys-log2 28] [--library cupy] [--output DIRECTORY] [--commit COMMIT]

Writes results/gpu_dask_arrays.json. A time is the wall time from the call, so with the construction of the graph, to
the end of a synchronization of the device after ``persist(scheduler="threads")``: the median of 7 runs after two
warm-ups. The chunks are in device memory, each an allocation of its own unless the row says otherwise. Baselines by the
same clock, in the same run:

    CuPy      CuPy's function of the keys in one array, such as `cupy.sort`, the median of 3 runs after one warm-up
    kernel    our kernel on the keys in one array; not of `lexsort`, whose keys are packed first
    no-op     Dask on the same chunks, with tasks that return their chunk

Each result equals that of the kernel bit for bit (of `lexsort` that of CuPy), which is verified. Rows of "memory" are
no times, but the growth of CuPy's default memory pool in one call, in sizes of the input: its total bytes after the
call minus those before, when its free blocks were released. The result is a part of that, the input is not.

``--library numpy --keys-log2 14 --output DIRECTORY`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

from ..harness.command import arguments, measure
from .dask_functions import order_rows, statistic_rows
from .dask_sorts import (
    chunk_rows,
    host_rows,
    large_rows,
    lexsort_rows,
    memory_rows,
    pair_rows,
    row_rows,
    size_rows,
    small_rows,
)
from .library import REPEATS, library_of

SECTIONS = {
    "chunks": chunk_rows,
    "sizes": size_rows,
    "pairs": pair_rows,
    "lexsort": lexsort_rows,
    "large": large_rows,
    "memory": memory_rows,
    "rows": row_rows,
    "small": small_rows,
    "host": host_rows,
    "statistics": statistic_rows,
    "order": order_rows,
}


if __name__ == "__main__":
    more = {
        "--keys-log2": {"type": int, "default": 28, "help": "keys of the main rows, as a power of two"},
        "--library": {"choices": ("cupy", "numpy"), "default": "cupy"},
    }
    options = arguments("gpu.dask_arrays", __doc__, list(SECTIONS), more, quick=False)
    args = library_of(options.library), 1 << options.keys_log2
    measure(options, "gpu_dask_arrays", SECTIONS, *args, repeats=REPEATS, library=options.library)
