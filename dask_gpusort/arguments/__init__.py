"""What the public functions are given, checked as early as the arguments alone allow.

`checks` has scalars and choices, `arrays` what chunks and sizes must be, `indices` reads and writes at positions,
`packages` the arrays of `dask_array` beside those of `dask.array`.
"""
