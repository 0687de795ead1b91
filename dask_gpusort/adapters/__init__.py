"""The public functions behind the names and the arguments of other libraries.

`register` puts `replacements` into NumPy, Dask, SciPy (`scipy_stats`), xarray and flox. `labelled` and
`labelled_groups` are the methods of the accessor in `dask_gpusort.xarray`; `lazy_labels` is their index.
"""
