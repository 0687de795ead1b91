"""Builders of Dask graphs, one file a stage: the only room that knows Dask's tasks."""
