"""How programs run by Dask tasks: drivers, which know no function (see `functions.program`)."""
