"""The cost model (`dask_gpusort.cost`), compared with measurements and projected to a large cluster."""
