"""From checked arguments to a plan and Dask arrays: unique values, sets, ranks, modes, elements at positions."""
