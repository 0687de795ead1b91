"""The public functions behind the names and the arguments of other libraries, as the rows of `table` say.

`register` puts `replacements` into NumPy, Dask, SciPy (`scipy_stats`), xarray and flox. `accessor` and `reductions` are
the methods of `dask_gpusort.xarray`, `labelled` and `labelled_groups` what they do, and `lazy_labels` their index.
"""
