"""What every benchmark needs. Imports neither Dask nor CuPy at the top, so that each command needs only its own."""
