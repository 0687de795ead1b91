"""What the public functions are given, checked as early as the arguments alone allow.

`table` has the checks that are alike, a row for each argument, `checks` the other scalars, options and labels, `arrays`
what chunks and sizes must be, `indices` reads and writes at positions, `packages` the arrays of `dask_array` beside
those of `dask.array`.
"""
