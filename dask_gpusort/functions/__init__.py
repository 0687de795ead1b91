"""What each function does with the chunks of an array, whichever way its data moves: programs, which know no Dask."""
