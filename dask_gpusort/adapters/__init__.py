"""The public functions behind the names and the arguments of other libraries, as the rows of `table` say.

`register` puts `replacements` into NumPy, Dask, SciPy (`scipy_stats`), xarray and flox. `accessor` and `reductions` are
the methods of `dask_gpusort.xarray`; `labelled`, `labelled_groups` and `days` are what they do, with `lazy_labels` as
their index.
"""
