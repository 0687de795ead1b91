"""Grouped medians and quantiles of xarray's objects, exact and lazy along any chunks.

The labels are xarray's own work, of a stand-in without data: by `flox`, lazily, if xarray's options say so; otherwise
one element is reduced, expanded to all groups, and given xarray's coordinates of these. The arrays, which are computed
from its codes of the groups, are put in then.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection
from xarray.groupers import RESAMPLE_DIM

from .. import api
from .labelled import (
    as_dataset,
    in_full_chunks,
    keeps_attrs,
    modes,
    ranks,
    reduced,
    skipping_nan,
    through_dask,
    with_dataset,
)
from .signatures import refusing_interpolation

#: Name of the dimension of all groups, before it is divided into one of each grouper.
_GROUPS = "<dask_gpusort: groups>"


class Groups:
    """Groups of an object, of which there are order statistics.

    What is not computed here, such as statistics of arrays in memory, is left to xarray's methods.
    """

    def __init__(self, groups: Any):
        self._groups = groups

    def median(
        self, dim: Any = None, *, skipna: bool | None = None, keep_attrs: bool | None = None
    ) -> xr.DataArray | xr.Dataset:
        """Medians of groups, with the arguments and labels of xarray's method of this name."""
        return self._reduce("median", dim, skipna=skipna, keep_attrs=keep_attrs)

    @refusing_interpolation
    def quantile(
        self,
        q: Any,
        dim: Any = None,
        *,
        method: str = "linear",
        keep_attrs: bool | None = None,
        skipna: bool | None = None,
    ) -> xr.DataArray | xr.Dataset:
        """Quantiles of groups, with the arguments and labels of xarray's method of this name."""
        return self._reduce("quantile", q, dim, method=method, keep_attrs=keep_attrs, skipna=skipna)

    def rank(
        self, *, ascending: bool = True, pct: bool = False, keep_attrs: bool | None = None, window: int = 1
    ) -> xr.DataArray | xr.Dataset:
        """Ranks of the elements in their groups, in the place of the object's; those of none are NaN.

        With a window, an odd number of elements, the neighbours of a group's elements are among these.
        """
        dim = self._dimension()
        count = math.prod(_sizes_of(self._groups).values())
        by = _whole_numbers(self._groups.encoded.codes.variable).data
        labels = {"by": by, "groups": np.arange(count), "window": window}
        return ranks(self._groups._original_obj, dim, ascending, pct, keep_attrs, **labels)

    def topk(self, k: int) -> xr.DataArray | xr.Dataset:
        """The largest values of groups, smallest if `k` is negative, in place of those along the dimension of groups.

        Groups of fewer elements have NaN behind them. Variables of a Dataset without the dimension are left alone.
        """
        groups, dim, sizes = self._groups, self._dimension(), _sizes_of(self._groups)
        if dim in sizes:
            raise ValueError(f"topk has the dimension {dim!r}, as groups have: give groupby another coordinate")
        # One element has the labels of all groups.
        labels = _template(groups, None, [dim], {}, lambda piece, dims: piece.isel(dict.fromkeys(dims, 0), drop=True))

        def of_variable(one: xr.Variable) -> xr.Variable:
            if dim not in one.dims:
                return one
            dims = [new for each in one.dims for new in ([*sizes, dim] if each == dim else [each])]
            found = _of_groups(
                in_full_chunks(one), groups, [dim], lambda x, axis, **by: api.topk(x, k, *axis, **by), dim
            )
            return xr.Variable(dims, found.transpose(*dims).data, one.attrs)

        def of_dataset(ds: xr.Dataset) -> xr.Dataset:
            held = ds.drop_vars(labels.coords, errors="ignore").data_vars
            found = {name: of_variable(array.variable) for name, array in held.items()}
            return xr.Dataset(found, labels.coords, ds.attrs)

        return with_dataset(groups._original_obj, of_dataset)

    def _dimension(self) -> Hashable:
        """The one dimension along which groups are."""
        source, codes = self._groups._original_obj, self._groups.encoded.codes
        if codes.ndim != 1 or codes.dims[0] not in source.dims:
            raise ValueError(
                f"groups must be along one dimension of {tuple(source.dims)}, not {codes.dims}: stack them"
            )
        return codes.dims[0]

    def mode(self, dim: Any = None, *, skipna: bool | None = None, keep_attrs: bool | None = None) -> Any:
        """The most common values of groups, of several that are as common the smallest."""
        return self._find(functools.partial(modes, skipna=skipna), dim, keep_attrs)

    def nunique(self, dim: Any = None, *, keep_attrs: bool | None = None) -> Any:
        """The numbers of distinct values of groups, 0 of those that are empty; all NaN are one value."""
        return self._find(api.nunique, dim, keep_attrs)

    def _find(self, function: Callable[..., Any], dim: Any, keep_attrs: bool | None) -> Any:
        """What a function finds of groups that xarray has no method for."""

        def by_xarray(groups: Any) -> Any:
            return reduced(groups, function, dim, keeps_attrs(keep_attrs))

        def of_piece(piece: Any, dims: Sequence[Hashable]) -> Any:
            piece = piece if isinstance(piece, xr.Dataset) else piece.variable
            return piece.reduce(_reduce_any, dims, keep_attrs=keeps_attrs(keep_attrs))

        found = _by_variables(by_xarray, self._groups, dim, "biufcmMSUTO", function, of_piece, by_flox=False)
        return by_xarray(self._groups) if found is None else found

    def _reduce(self, name: str, *args: Any, **options: Any) -> Any:
        # xarray's own method, also after `register`.
        return reduce_groups(inspect.unwrap(getattr(type(self._groups), name)), self._groups, *args, **options)


def reduce_groups(previous: Callable[..., Any], groups: Any, *args: Any, **options: Any) -> Any:
    """Reduce groups as xarray's method `previous` of them does, which is called for what is not computed here."""

    def by_xarray(groups: Any) -> Any:
        return previous(groups, *args, **options)

    given = inspect.signature(previous).bind(groups, *args, **options).arguments
    del given["self"]
    others = given.keys() - {"dim", "q", "method", "skipna", "keep_attrs"}
    found = None if others else _reduced(by_xarray, groups, **given)
    return by_xarray(groups) if found is None else found


def _reduced(
    by_xarray: Callable[[Any], Any],
    groups: Any,
    dim: Any = None,
    *,
    q: Any = None,
    method: str = "linear",
    skipna: bool | None = None,
    keep_attrs: bool | None = None,
) -> Any:
    """Medians of groups of Dask arrays, or their quantiles if there is `q`; None for what is left to xarray."""
    if q is None:
        kinds, of_array = "biufm", skipping_nan("median", skipna)  # dates have no mean
    else:
        q = np.asarray(q, np.float64)
        if q.ndim > 1 or not all(map(_is_of_numpy, as_dataset(groups._original_obj).values())):
            return None
        kinds, of_array = "biufmM", functools.partial(skipping_nan("quantile", skipna), q=q, method=method)

    def of_piece(piece: Any, dims: Sequence[Hashable]) -> Any:
        if q is not None:  # labels do not depend on the method, and for others numbagg is compiled
            return piece.quantile(q, dims, method="lower", keep_attrs=keep_attrs, skipna=False)
        # xarray reduces the variable of a DataArray alone.
        piece, options = (piece, {"numeric_only": True}) if isinstance(piece, xr.Dataset) else (piece.variable, {})
        return piece.reduce(_reduce_any, dims, keep_attrs=keeps_attrs(keep_attrs), **options)

    return _by_variables(by_xarray, groups, dim, kinds, of_array, of_piece)


def _is_of_numpy(array: xr.DataArray) -> bool:
    """Tell an array from one of pandas, which xarray drops from medians, and does not expand to groups."""
    return isinstance(array.dtype, np.dtype)


def _by_variables(
    by_xarray: Callable[[Any], Any],
    groups: Any,
    dim: Any,
    kinds: str,
    of_array: Callable[..., Any],
    of_piece: Callable[[Any, Sequence[Hashable]], Any],
    by_flox: bool = True,
) -> Any:
    """Reduce variables of some kinds of dtypes in each group; None for what is left to xarray.

    `by_flox` says whether xarray has a method of it, which may use `flox`.
    """
    source, codes = groups._original_obj, groups.encoded.codes
    own = [each for each in codes.dims if each in source.dims]
    dims = own if dim is None else list(source.dims) if dim is ... else [dim] if isinstance(dim, str) else list(dim)
    if not own or not set(own) <= set(dims) <= set(source.dims):
        return None
    every = {name: in_full_chunks(array.variable) for name, array in as_dataset(source).items() if _is_of_numpy(array)}
    reduced = {name: one for name, one in every.items() if {*dims} & {*one.dims}}
    # Seasons that overlap have a dimension of their own, by which xarray expands all variables.
    grouped = {name for name, one in every.items() if len(own) < codes.ndim or set(own) & set(one.dims)}
    known = {name: one for name, one in reduced.items() if one.dtype.kind in kinds}
    if by_flox and not any(is_dask_collection(one) and name in grouped for name, one in known.items()):
        return None
    template, filled = None, _are_filled(groups)
    if by_flox and (dim is None or len(own) == codes.ndim):
        # Labels that xarray refuses with `flox` are made without.
        with contextlib.suppress(ValueError):
            template = _template_of_flox(by_xarray, groups, known)
    if without_flox := template is None:
        # It reduces scalars too.
        reduced |= {name: one for name, one in every.items() if name in grouped or not one.dims}
        known = {name: one for name, one in reduced.items() if one.dtype.kind in kinds}
        dtypes = {name: of_array(da.zeros(1, dtype=one.dtype, chunks=1), axis=0).dtype for name, one in known.items()}
        template = _template(groups, filled, dims, dtypes, of_piece)
    # Variables by which a Dataset is grouped become coordinates.
    names = [name for name in reduced if name in as_dataset(template).data_vars]
    if not known.keys() >= {*names}:
        return None

    def put_in(ds: xr.Dataset) -> xr.Dataset:
        found = {}
        for name in names:
            like = ds.variables[name]
            of_variable = _of_groups if name in grouped else _of_all
            one = of_variable(known[name], groups, dims, of_array)
            one = one if name in grouped else _where_filled(one, filled)
            data = one.transpose(*like.dims).data
            # xarray knows the dtype if labels are in memory, but not that counts stay. Labels that are given may not
            # occur, and integers and booleans have no NaN for them.
            converted = without_flox and not groups._by_chunked and (by_flox or data.dtype.kind == "f")
            converted &= filled is None or like.dtype.kind not in "biu"
            found[name] = like.copy(data=data.astype(like.dtype) if converted else data)
        return ds.assign(found)

    return with_dataset(template, put_in)


def _sizes_of(groups: Any) -> dict[Hashable, int]:
    """How many groups there are along each of their dimensions."""
    return {getattr(groups, "_dim", grouper.name): len(grouper) for grouper in groups.groupers}


def _are_filled(groups: Any) -> xr.Variable | None:
    """Whether each group has elements; None if it is known that all have some."""
    sizes, lazy = _sizes_of(groups), groups._by_chunked
    codes = _whole_numbers(groups.encoded.codes.variable.to_base_variable())
    filled = (api if lazy else np).isin(np.arange(math.prod(sizes.values())), codes.data)
    return None if not lazy and filled.all() else xr.Variable(_GROUPS, filled).unstack({_GROUPS: sizes})


def _template_of_flox(by_xarray: Callable[[Any], Any], groups: Any, names: Collection[Hashable]) -> Any:
    """What xarray gives by `flox`, but for the data of variables of some names; None if it does without `flox`."""
    source = as_dataset(groups._original_obj)

    def reduce(self: Any, dim: Any, keep_attrs: Any = None, *, q: Any = None, **options: Any) -> Any:
        # `flox` refuses medians of Dask arrays along some dimensions, and lazy labels.
        found = kind._flox_reduce(self, dim, keep_attrs, **options | {"func": "max", "method": "map-reduce"})
        return found if q is None else with_dataset(found, functools.partial(with_quantiles, q=q))

    def with_quantiles(ds: xr.Dataset, q: np.ndarray) -> xr.Dataset:
        along = {}
        for name, array in ds.items() if q.ndim else ():
            # What is repeated for each group has its own dimensions last.
            own = () if name in names else source[name].dims
            dims = [*(each for each in array.dims if each not in own), "quantile", *own]
            along[name] = array.variable.set_dims({each: array.sizes.get(each, q.size) for each in dims})
        labels = {name: coord for name, coord in ds.coords.items() if {*coord.dims} & {*_sizes_of(groups)}}
        return ds.drop_vars(labels).assign(along).assign_coords(quantile=q).assign_coords(labels)

    kind, twin = type(groups), copy.copy(groups)
    others = dict.fromkeys(("map", "reduce"), lambda *args, **options: None)
    twin.__class__ = type("Twin", (kind,), {"__slots__": (), "_flox_reduce": reduce, **others})
    twin._original_obj = _without_data(groups._original_obj, names)
    return by_xarray(twin)


def _without_data(obj: Any, names: Iterable[Hashable], reduced: Iterable[Hashable] = ()) -> Any:
    """An object with zeros for variables of some names; in memory if all their dimensions are reduced."""

    def zeros(like: xr.Variable) -> xr.Variable:
        if {*like.dims} <= {*reduced}:  # Dask has no quantiles of whole arrays
            return like.copy(data=np.broadcast_to(np.zeros((), like.dtype), like.shape))
        # One chunk, lest tasks are as many as those of the source; results stay in Dask, for their size.
        return like.copy(data=da.zeros(like.shape, dtype=like.dtype, chunks=-1))

    def without(ds: xr.Dataset) -> xr.Dataset:
        held = {name: in_full_chunks(array.variable) for name, array in ds.data_vars.items()}
        return ds.assign(held | {name: zeros(ds.variables[name]) for name in names})

    return with_dataset(obj, without)


def _template(
    groups: Any,
    filled: xr.Variable | None,
    dims: Sequence[Hashable],
    dtypes: Mapping[Any, Any],
    of_piece: Callable[..., Any],
) -> Any:
    """What xarray gives for the source of groups, but for the data of variables, whose groups have some dtypes."""
    lazy = groups._by_chunked
    codes, source = groups.encoded.codes, groups._original_obj if lazy else groups._obj
    own = codes.dims if lazy else [groups._group_dim]
    reduced = [*own, *(each for each in dims if each not in codes.dims)]
    count = groups.encoded.unique_coord.size
    twin = copy.copy(groups)
    twin._obj = _without_data(source, dtypes, reduced)
    if math.prod(source.sizes[each] for each in own) != count:  # xarray may take old labels for those of groups
        twin._obj = twin._obj.drop_vars([name for name, each in source.coords.items() if {*own} & {*each.dims}])
    example = of_piece(twin._obj.isel({each: slice(0, 1) for each in reduced}), reduced)

    def with_dtypes(ds: xr.Dataset) -> xr.Dataset:
        return ds.assign({name: ds.variables[name].astype(dtype) for name, dtype in dtypes.items()})

    def with_nan(ds: xr.Dataset) -> xr.Dataset:
        held = {name: each.variable for name, each in ds.items() if name not in dtypes and _is_of_numpy(each)}
        return ds.assign({name: _where_filled(each, filled).transpose(*each.dims) for name, each in held.items()})

    # As xarray's `_combine` of one piece for each group, at the cost of one.
    (groups_dim,) = groups.encoded.unique_coord.dims
    if isinstance(example, xr.Variable):
        (dtype,) = dtypes.values()
        expanded = example.astype(dtype).set_dims({groups_dim: count, **example.sizes})
        combined = twin._obj._replace_maybe_drop_dims(expanded)
    else:
        combined = with_dataset(example, with_dtypes).drop_vars(groups_dim, errors="ignore")
        combined = combined.expand_dims({groups_dim: count})
    combined = twin._restore_dim_order(combined) if isinstance(combined, xr.DataArray) else combined
    combined = twin._maybe_reindex(twin._maybe_unstack(combined.assign_coords(groups.encoded.coords)))
    if RESAMPLE_DIM in combined.dims:
        combined = combined.drop_vars(groups._dim, errors="ignore").rename({RESAMPLE_DIM: groups._dim})
    return with_dataset(combined, with_nan)


def _where_filled(variable: xr.Variable, filled: xr.Variable | None) -> xr.Variable:
    """A variable with NaN for the groups that are empty."""
    return variable if filled is None else variable.where(filled)


def _reduce_any(array: Any, axis: Any = None) -> Any:
    """Reduce an array of any dtype to one whose values have no meaning."""
    return array if axis == () else np.zeros_like(array, dtype=bool).any(axis)


def _of_groups(
    variable: xr.Variable,
    groups: Any,
    dims: Sequence[Hashable],
    of_array: Callable[..., Any],
    several: Hashable = "quantile",
) -> xr.Variable:
    """Reduce the groups of a variable, which may lack some of their dimensions, to one element or to several."""
    codes, sizes = groups.encoded.codes.variable.to_base_variable(), _sizes_of(groups)
    absent = {each: size for each, size in codes.sizes.items() if each not in variable.dims}
    variable = variable.set_dims({**absent, **variable.sizes})
    others = [each for each in variable.dims if each in dims and each not in codes.dims]
    if others or is_dask_collection(codes):
        variable = variable.chunk()
        codes = _whole_numbers(codes.chunk({each: variable.chunksizes[each] for each in codes.dims}))
        codes = codes.set_dims({each: variable.sizes[each] for each in (*codes.dims, *others)})
        codes = codes.chunk({each: variable.chunksizes[each] for each in others})
    options = {
        "axis": variable.get_axis_num(codes.dims),
        "by": codes.data,
        "groups": np.arange(math.prod(sizes.values())),
    }
    data = through_dask(lambda array: of_array(array, **options), variable.data)
    found = [each for each in variable.dims if each not in codes.dims]
    found.insert(min(options["axis"]), _GROUPS)
    return xr.Variable([several] * (data.ndim - len(found)) + found, data).unstack({_GROUPS: sizes})


def _whole_numbers(codes: Any) -> Any:
    """Codes of int64: chunks of xarray's codes of bins have another dtype than it says."""
    return codes.copy(data=codes.data.map_blocks(np.int64, dtype=np.int64)) if is_dask_collection(codes) else codes


def _of_all(variable: xr.Variable, groups: Any, dims: Sequence[Hashable], of_array: Callable[..., Any]) -> xr.Variable:
    """Reduce a variable that does not vary along groups, each of which is the whole variable."""
    axes = tuple(axis for axis, each in enumerate(variable.dims) if each in dims)

    def of_lazy(array: Any) -> Any:
        found = of_array(array, axis=axes or None)
        # A chunk without dimensions is a scalar, whose bytes are in the order of the machine.
        return found.map_blocks(np.asanyarray, found.dtype, dtype=found.dtype, meta=found._meta)

    data = through_dask(of_lazy, variable.data)
    found = [each for each in variable.dims if each not in dims]
    whole = xr.Variable(["quantile"] * (data.ndim - len(found)) + found, data)
    return whole.set_dims({**_sizes_of(groups), **whole.sizes})
