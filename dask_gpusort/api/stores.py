"""The public function that stores an array whose sizes are unknown."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..arguments.stores import checked_stored, checked_zarr_chunks
from ..builders.stores import build_store, zarr_chunks
from ..chunk.zarr_chunks import ZarrTarget


def to_zarr(
    arr: Any,
    url: Any,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
    *,
    chunks: int | tuple[int, ...] | None = None,
    overwrite: bool = False,
    compute: bool = True,
    **options: Any,
) -> Any:
    """Store a Dask array of unknown chunk sizes to Zarr, in one pass: `dask.array.to_zarr`, which refuses them.

    Parameters
    ----------
    arr : dask array, shape (n, ...)
        Its sizes along one axis may be unknown, as those of distinct values, joins or ``x[x > 0]``.
    url : str, path, store of Zarr or zarr.Group
        Where the array is created. What is in the memory of this process is for threads.
    component : str, optional
        Its name in a group or in the store.
    storage_options : dict, optional
        Options of ``fsspec`` for a URL.
    chunks : int or tuple of int, optional
        Shape of the Zarr chunks, or their size along the axis of unknown size, which otherwise makes them about 8 MiB.
        Other sizes are those of the largest chunk of `arr`.
    overwrite : bool, default False
        Whether to delete an array that is there, when this function is called.
    compute : bool, default True
        Whether to store now.
    **options
        What else ``zarr.create_array`` takes, such as `shards`, `compressors` or `zarr_format`.

    Returns
    -------
    None, or dask array of int64, shape ()
        With ``compute=False`` the length of the axis; the array is stored when that is computed. Several are computed
        together, and what they have in common once, by ``dask.compute``.

    Raises
    ------
    ValueError
        If sizes are unknown along several axes; if `arr` has no dimension; if `chunks` does not fit; if there is an
        array already (``zarr.errors.ContainsArrayError``): give ``overwrite=True``.
    TypeError
        If `arr` has objects or CuPy chunks, or `url` is an array.
    RuntimeError
        If `url` is in the memory of this process, and another one computes. When chunks are computed: if their sizes
        change.
    ImportError
        Without Zarr 3.

    See Also
    --------
    unique, join_indices : arrays of unknown sizes

    Notes
    -----
    The array has length 0 until all chunks are written. So what is cut off, or fails, is an empty array.

    A chunk is written when it and all before it are computed, and freed then. Of each, less than two Zarr chunks, which
    it shares with others, move to another task. No two tasks write the same Zarr chunk, so there is no lock.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> import zarr
    >>> store, x = zarr.storage.MemoryStore(), da.from_array([7, 3, 7, 5], chunks=2)
    >>> values, counts = dask_gpusort.unique(x, return_counts=True)
    >>> stored = [
    ...     dask_gpusort.to_zarr(one, store, name, compute=False)
    ...     for one, name in [(values, "values"), (counts, "counts")]
    ... ]
    >>> dask.compute(*stored)
    (np.int64(3), np.int64(3))
    >>> zarr.open_group(store)["counts"][:]
    array([1, 1, 2])
    """
    zarr = import_module("zarr")
    if not hasattr(zarr, "create_array"):
        raise ImportError(f"to_zarr needs Zarr 3, and {zarr.__version__} is installed: install zarr>=3")
    array, axis = checked_stored(arr, zarr, url)
    own = {
        "shape": tuple(0 if dim == axis else size for dim, size in enumerate(array.shape)),
        "chunks": zarr_chunks(array, axis, checked_zarr_chunks(chunks, axis, array.ndim)),
        "dtype": array.dtype,
    }
    zarr.create_array({}, **own, **options)  # wrong options are errors before anything is deleted
    own |= {"name": component, "overwrite": overwrite, "storage_options": storage_options}
    try:
        made = zarr.create_array(url.store_path if isinstance(url, zarr.Group) else url, **own, **options)
    except (zarr.errors.ContainsArrayError, zarr.errors.ContainsGroupError) as error:
        error.add_note("Give overwrite=True to delete what is there, or another component.")
        raise
    length = build_store(array, ZarrTarget(made, options.get("config"), axis))
    if compute:
        length.compute()
    return None if compute else length
