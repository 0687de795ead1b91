"""Sort, argsort and print the plan: the package in one minute.

Run it with ``python examples/quickstart.py``.
"""

from __future__ import annotations

import dask.array as da
import numpy as np

import dask_gpusort


def main() -> None:
    """Sort a small array of ten chunks by each function."""
    x = da.random.default_rng(0).normal(size=1_000_000, chunks=100_000)

    # Nothing is computed yet: y is a Dask array with the same chunks.
    y = dask_gpusort.sort(x)
    print("chunks in: ", x.chunks)
    print("chunks out:", y.chunks)

    # The plan, before anything runs.
    print(f"\n{dask_gpusort.explain(x)}\n")

    # A part of the result computes only what that part needs.
    print("least:    ", y[:3].compute())
    print("middle:   ", y[len(y) // 2].compute())
    print("greatest: ", dask_gpusort.sort(x, descending=True, chunks=250_000)[:3].compute())

    # Positions that sort. Equal keys keep their order, on every scheduler.
    order = dask_gpusort.argsort(x)
    print("positions:", order[:3].compute())

    # NumPy's own functions can be made lazy too.
    dask_gpusort.register()
    z = np.sort(x)
    dask_gpusort.unregister()
    print("np.sort returns a Dask", type(z).__name__)

    np.testing.assert_array_equal(y.compute(), np.sort(x.compute()))
    print("The result equals that of numpy.sort. Next: y.to_zarr(...), or examples/larger_than_memory.py")


if __name__ == "__main__":
    main()
