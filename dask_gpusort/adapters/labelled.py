"""Sorts and order statistics of xarray's objects: labels in, labels out, for the accessor of `dask_gpusort.xarray`.

Every function takes and gives a Dataset; a DataArray is a Dataset of one variable for a moment. Dask arrays give Dask
arrays, lazily. Arrays in memory are sorted in memory, at once.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize
from tlz import partition

from .. import api
from ..arguments.arrays import in_memory
from ..arguments.packages import for_both_packages
from ..builders.sort import build_moved
from ..graph.inputs import without_empty_chunks
from ..graph.runtime import planned_for
from .lazy_labels import LazyLabels
from .table import ROWS, Method

#: Name of the variable of a DataArray.
_ONE = "<dask_gpusort: this array>"
#: Keys of the encoding that describe an array in its file by its shape or its chunks (Zarr, netCDF).
_FILE_CHUNKS = {"chunks", "preferred_chunks", "shards", "chunksizes", "contiguous", "original_shape"}


def with_dataset(obj: Any, function: Callable[[xr.Dataset], xr.Dataset]) -> Any:
    """What a function of a Dataset gives for a Dataset, a DataArray, or each node of a DataTree."""
    if isinstance(obj, xr.DataTree):
        return obj.map_over_datasets(function)
    found = function(as_dataset(obj))
    return found if isinstance(obj, xr.Dataset) else found[_ONE].rename(obj.name)


def as_dataset(obj: Any) -> xr.Dataset:
    """A Dataset, or that of one variable for a DataArray."""
    return obj if isinstance(obj, xr.Dataset) else obj.to_dataset(name=_ONE)


def in_full_chunks(variable: xr.Variable) -> xr.Variable:
    """A variable without empty chunks, so that it can be given further dimensions."""
    if variable.chunks is None:
        return variable
    return variable.copy(data=for_both_packages(without_empty_chunks)(variable.data))


def through_dask(function: Callable[..., Any], *arrays: Any) -> Any:
    """What a function of Dask arrays gives, computed if all arrays are in memory."""
    if any(map(is_dask_collection, arrays)):
        return function(*arrays)
    lazy = (da.from_array(array, chunks=-1, asarray=False) for array in arrays)
    with planned_for("synchronous"):
        (found,) = dask.compute(function(*lazy), scheduler="synchronous")
    return found


def map_along(obj: Any, dim: Hashable, function: Callable[..., Any], method: Method) -> Any:
    """Replace the arrays of all variables along a dimension by those of a function, of another size perhaps."""

    def map_dataset(ds: xr.Dataset) -> xr.Dataset:
        _check_dims(ds, [dim])
        found = {}
        for name, array in ds.data_vars.items():
            if dim in array.dims:
                data = through_dask(functools.partial(function, axis=array.get_axis_num(dim)), array.data)
                if is_dask_collection(data) and np.isnan(data.shape).any():
                    data = data.compute_chunk_sizes()  # xarray knows no sizes that are unknown
                encoding = _encoding_of(array.variable, data) if method.encoding else None
                found[name] = xr.Variable(array.dims, data, array.attrs, encoding)
        dropped = [] if method.labels else [name for name, coord in ds.coords.items() if dim in coord.dims]
        dropped += [] if method.others else [name for name in ds.data_vars if name not in found]
        return ds.drop_vars(dropped).assign(found)

    return with_dataset(obj, map_dataset)


def _encoding_of(variable: Any, data: Any) -> dict[Any, Any]:
    """The encoding of a variable for data whose values are its own; without chunks of the file if theirs are others."""
    same = (variable.shape, variable.chunks) == (data.shape, getattr(data, "chunks", None))
    return {key: value for key, value in variable.encoding.items() if same or key not in _FILE_CHUNKS}


def _check_dims(ds: xr.Dataset, dims: Iterable[Hashable]) -> None:
    unknown = tuple(dim for dim in dims if dim not in ds.dims)
    if unknown:
        raise ValueError(
            f"Dimensions {unknown} not found in data dimensions {tuple(ds.dims)}: give dim one that there is"
        )


def skipping_nan(name: str, skipna: bool | None) -> Callable[..., Any]:
    """The function of a name that skips NaN where xarray does: if there may be any, unless it is told not to."""

    def function(array: Any, *args: Any, **options: Any) -> Any:
        skips = array.dtype.kind in "cfO" if skipna is None else skipna
        return getattr(api, f"nan{name}" if skips else name)(array, *args, **options)

    return function


def keeps_attrs(keep_attrs: bool | None) -> bool:
    """Whether attributes are kept: xarray's option decides if it is left open, whose default is to keep them."""
    return bool(xr.get_options()["keep_attrs"] if keep_attrs is None else keep_attrs)


def ranks(obj: Any, dim: Hashable, ascending: bool, pct: bool, keep_attrs: bool | None, **groups: Any) -> Any:
    """Ranks along a dimension, among all values that are not NaN or those of a group."""
    function = functools.partial(api.rank, nan_policy="omit", pct=pct, descending=not ascending, **groups)
    found = map_along(obj, dim, function, ROWS["rank"].xarray)
    return found if keeps_attrs(keep_attrs) else found.drop_attrs(deep=False)


def reduced(obj: Any, function: Callable[..., Any], dim: Any, keep_attrs: bool | None, **options: Any) -> Any:
    """What a function finds along some dimensions of each variable."""

    def of_array(array: Any, axis: Any = None) -> Any:
        return array if axis == () else through_dask(lambda darr: function(darr, axis=axis), array)

    return obj.reduce(of_array, dim, keep_attrs=keep_attrs, **options)


def modes(array: Any, axis: Any, skipna: bool | None, **groups: Any) -> Any:
    """The most common values along some axes; NaN are skipped as in other functions of xarray."""
    skips = array.dtype.kind in "cfO" if skipna is None else skipna
    return api.mode(array, axis, nan_policy="omit" if skips else "propagate", **groups).mode


def quantiles(
    ds: xr.Dataset,
    q: Any,
    dim: Any,
    method: str | None,
    keep_attrs: bool | None,
    skipna: bool | None,
    numeric_only: bool,
    weights: Any,
) -> xr.Dataset:
    """Quantiles of all variables along some dimensions, as `xarray.Dataset.quantile`, by weights if there are any."""
    dims = dict.fromkeys(ds.dims if dim is None or dim is ... else [dim] if isinstance(dim, str) else dim)
    _check_dims(ds, dims)
    if isinstance(weights, xr.DataArray | xr.Variable):
        weights = _aligned_weights(ds, xr.DataArray(weights))
    method = method or ("linear" if weights is None else "inverted_cdf")
    keep = keeps_attrs(keep_attrs)
    wanted = np.asarray(in_memory(q, "q"), np.float64)
    if wanted.ndim > 1:
        raise ValueError(f"q must be a scalar or 1d, not an array of {wanted.ndim} dimensions")
    found = {}
    for name, array in ds.data_vars.items():
        own = [each for each in array.dims if each in dims]
        if array.dims and not own:
            found[name] = array.variable
        elif not numeric_only or array.dtype.kind in "biufcm":
            both = [array.variable]
            if weights is not None and own:
                both = _with_weights(array.variable, weights, [each for each in dims if each in own])
                own = [each for each in both[0].dims if each in dims]
            found[name] = _quantiles_of(both, wanted, own, method, keep, skipna)
    # As in xarray, coordinates without dimensions do not stay.
    rest = [name for name, coord in ds.coords.items() if dims.keys() & coord.dims or not coord.dims]
    result = ds.drop_vars([*ds.data_vars, *rest]).assign(found).assign_coords(quantile=wanted)
    return result if keep else result.drop_attrs(deep=False)


def weighted_medians(
    ds: xr.Dataset, dim: Any, keep_attrs: bool | None, skipna: bool | None, numeric_only: bool, weights: Any
) -> xr.Dataset:
    """Quantiles of 0.5 by weights, with the labels and attributes of `xarray.Dataset.median`."""
    found = quantiles(ds, 0.5, dim, None, keep_attrs, skipna, numeric_only, weights)
    if not keeps_attrs(keep_attrs):
        found = found.assign({name: array.drop_attrs(deep=False) for name, array in found.data_vars.items()})
    scalars = {name: coord for name, coord in ds.coords.items() if not coord.dims}
    return found.drop_vars("quantile").assign_coords(scalars)


def _aligned_weights(ds: xr.Dataset, weights: xr.DataArray) -> xr.Variable:
    """The variable of weights that have the labels of a dataset along the dimensions of both."""
    if unknown := tuple(dim for dim in weights.dims if dim not in ds.dims):
        raise ValueError(
            f"weights has dimensions {unknown} that are not in {tuple(ds.dims)}: give weights without them"
        )
    try:
        xr.align(ds, weights, join="exact", copy=False)
    except xr.AlignmentError as error:
        raise xr.AlignmentError(
            f"weights must have the labels of the object, in their order: give weights.reindex_like(object) ({error})"
        ) from error
    return weights.variable


def _with_weights(variable: xr.Variable, weights: Any, dims: Sequence[Hashable]) -> list[xr.Variable]:
    """A variable and its weights, which have its shape, or its sizes along the reduced dimensions alone."""
    if not isinstance(weights, xr.Variable):
        weights = weights if hasattr(weights, "dtype") else np.asarray(weights)
        if weights.shape == variable.shape:
            dims = variable.dims
        elif weights.shape != tuple(variable.sizes[each] for each in dims):
            raise ValueError(
                f"weights has shape {weights.shape}, neither {variable.shape}, that of the object, nor its sizes along "
                f"{tuple(dims)}: give weights as a DataArray, whose dimensions have names"
            )
        weights = xr.Variable(dims, weights)
    if set(weights.dims) == set(dims):
        return [variable, weights]
    if variable.chunks is not None:
        weights = weights.chunk()  # a graph would hold all elements of a broadcast array in memory
    sizes = {**variable.sizes, **weights.sizes}
    return [in_full_chunks(each).set_dims(sizes) for each in (variable, weights)]


def _quantiles_of(
    both: Sequence[xr.Variable],
    q: np.ndarray,
    dims: Sequence[Hashable],
    method: str,
    keep_attrs: bool,
    skipna: bool | None,
) -> Any:
    """Quantiles of a variable, with its weights if there are any."""
    function = skipping_nan("quantile", skipna)
    axis = tuple(range(-len(dims), 0))

    def of_last(*arrays: Any) -> Any:
        def of_lazy(darr: Any, weights: Any = None) -> Any:
            return function(darr, q, axis=axis, method=method, weights=weights)

        found = through_dask(of_lazy, *arrays)
        return np.moveaxis(found, 0, -1) if q.ndim else found

    result = xr.apply_ufunc(
        of_last,
        *both,
        input_core_dims=[dims] * len(both),
        exclude_dims=set(dims),
        output_core_dims=[["quantile"] * q.ndim],
        dask="allowed",
        keep_attrs=keep_attrs,
    )
    return result.transpose("quantile", ...) if q.ndim else result


def sort_dimensions(obj: Any, variables: Any, ascending: bool) -> Any:
    """Sort an object by the values of one-dimensional variables, as `xarray.Dataset.sortby`."""
    if callable(variables):
        variables = variables(obj)
    given = variables if isinstance(variables, list) else [variables]
    keys = [key if isinstance(key, xr.DataArray) else _variable_of(obj, key) for key in given]
    return with_dataset(obj, lambda ds: _sort_by(ds, keys, ascending))


def _variable_of(obj: Any, name: Any) -> xr.DataArray:
    try:
        return as_dataset(obj)[name]
    except KeyError:
        known = obj.variables if isinstance(obj, xr.Dataset) else obj.coords
        raise KeyError(f"variables has {name!r}: give one of {[*known]}, or a DataArray") from None


def _sort_by(ds: xr.Dataset, arrays: Sequence[xr.DataArray], ascending: bool) -> xr.Dataset:
    aligned: Sequence[Any] = xr.align(ds, *arrays, join="left")
    of_dim: dict[Hashable, list[xr.DataArray]] = defaultdict(list)
    for key in aligned[1:]:
        if key.ndim != 1:
            raise ValueError(f"Input DataArray is not 1-D: {key.name!r} has the dimensions {key.dims}")
        of_dim[key.dims[0]].append(key)
    found: xr.Dataset = aligned[0]
    _check_dims(found, of_dim)
    for dim, keys in of_dim.items():
        found = _sort_dimension(found, dim, keys, ascending)
    return found


def _sort_dimension(ds: xr.Dataset, dim: Hashable, keys: Sequence[xr.DataArray], ascending: bool) -> xr.Dataset:
    """Sort one dimension. Variables in memory are sorted at once if all keys are; if not, they move lazily."""
    arrays = [_array_of(key.variable) for key in keys]
    along = {name: variable for name, variable in ds.variables.items() if dim in variable.dims}
    if any(map(is_dask_collection, arrays)):
        # Labels that are tuples of those of other coordinates follow from these.
        of_tuples = isinstance(ds.xindexes.get(dim), xr.indexes.PandasMultiIndex)
        lazy = {name: variable for name, variable in along.items() if not (of_tuples and name == dim)}
        held = ds.drop_indexes([name for name in ds.xindexes if name in along]).drop_vars(list(along))
    else:
        lazy = {name: variable for name, variable in along.items() if variable.chunks is not None}
        held = ds.drop_vars(list(lazy)).isel({dim: _order_of(arrays, ascending)}, missing_dims="ignore")
    moved = _moved(lazy, dim, arrays, ascending)
    coords = {name: variable for name, variable in moved.items() if name in ds.coords}
    found = held.assign_coords(xr.Coordinates(coords, indexes=_lazy_indexes(ds, moved)))
    return found.assign({name: moved[name] for name in moved if name not in coords})[list(ds.data_vars)]


def _array_of(variable: Any) -> Any:
    """The array of a variable; that of an index is NumPy's."""
    return variable.values if isinstance(variable, xr.IndexVariable) else variable.data


def _lazy_indexes(ds: xr.Dataset, moved: Mapping[Hashable, xr.Variable]) -> dict[Hashable, xr.Index]:
    """Indexes in place of those of coordinates that move lazily."""
    found: dict[Hashable, xr.Index] = {}
    for _, variables in ds.xindexes.group_by_index():
        names = [name for name in variables if name in moved]
        if names:
            labels = [moved[name] for name in names]
            index = LazyLabels(names, labels[0].size, tokenize(*(each.data.name for each in labels)))
            found |= dict.fromkeys(names, index)
    return found


def _order_of(keys: Sequence[Any], ascending: bool) -> np.ndarray:
    """Positions that sort keys in memory, the first one most significant."""
    turned = keys if ascending else [key[::-1] for key in keys]
    order = through_dask(lambda *darrs: api.lexsort(darrs[::-1], descending=not ascending), *turned)
    return order if ascending else len(order) - 1 - order


def _moved(
    variables: Mapping[Hashable, Any], dim: Hashable, keys: Sequence[Any], ascending: bool
) -> dict[Hashable, xr.Variable]:
    """Sort the rows of variables along a dimension by keys, the first one most significant."""
    # Rows are divided as the chunks are, and the parts are companions. In descending order equal keys are reversed, as
    # in xarray: rows are turned round before the stable sort.
    if not variables:
        return {}
    sizes = next((key.chunks[0] for key in keys if is_dask_collection(key)), None)
    sizes = sizes or next(variable.chunksizes[dim] for variable in variables.values())
    axes = [variable.get_axis_num(dim) for variable in variables.values()]
    sorted_rows = _sorted_rows(list(map(_array_of, variables.values())), axes, sizes, keys, ascending)
    return {
        name: xr.Variable(own.dims, data, own.attrs, _encoding_of(own, data))
        for (name, own), data in zip(variables.items(), sorted_rows, strict=True)
    }


@for_both_packages
def _sorted_rows(
    arrays: Sequence[Any], axes: Sequence[int], sizes: Sequence[int], keys: Sequence[Any], ascending: bool
) -> list[Any]:
    """Sort arrays along one axis of each by keys, as Dask arrays, whose chunks have some sizes if they are new."""
    turn = (lambda rows: rows) if ascending else (lambda rows: without_empty_chunks(rows)[::-1])
    given = [_rows_first(array, axis, sizes) for array, axis in zip(arrays, axes, strict=True)]
    columns = [_columns(turn(rows)) for rows in given]
    chunked = {"chunks": (tuple(sizes),), "asarray": False}
    turned = [turn(key if is_dask_collection(key) else da.from_array(key, **chunked)) for key in keys]
    values = [column for own in columns for column in own]
    moved = iter(build_moved(turned[::-1], [not ascending] * len(keys), values, (tuple(sizes),)))
    found = []
    for rows, own, axis in zip(given, columns, axes, strict=True):
        whole = _joined([next(moved) for _ in own], rows.numblocks[1:]).rechunk({0: rows.chunks[0]})
        found.append(da.moveaxis(whole, 0, axis))
    return found


def _rows_first(array: Any, axis: int, sizes: Sequence[int]) -> Any:
    """An array as a Dask array, with an axis in front."""
    if not is_dask_collection(array):
        chunks = tuple(tuple(sizes) if number == axis else size for number, size in enumerate(array.shape))
        array = da.from_array(array, chunks=chunks, asarray=False)
    return da.moveaxis(array, axis, 0)


def _columns(rows: Any) -> list[Any]:
    """The parts of an array between the borders of its chunks in all dimensions but the first, in C order."""
    ends = [list(pairwise(accumulate(sizes, initial=0))) for sizes in rows.chunks[1:]]
    return [rows[(slice(None), *(slice(*end) for end in index))] for index in product(*ends)]


def _joined(columns: list[Any], counts: Sequence[int]) -> Any:
    """The array of which `_columns` gives the parts."""
    nested: list[Any] = columns
    for count in reversed(counts):
        nested = [list(part) for part in partition(count, nested)]
    return da.block(nested[0])
