"""Builders of Dask graphs, one file a stage: the only package that knows Dask's tasks."""
