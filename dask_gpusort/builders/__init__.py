"""From checked arguments to a plan and Dask arrays; `request` says what is asked of all sorts."""
