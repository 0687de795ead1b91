"""Shared by all benchmarks. No module imports Dask or CuPy at the top, so a command needs only what it uses."""
