"""An index in place of labels that are sorted lazily: it keeps xarray from pairing other labels by position.

An index of pandas needs its labels at once. Without one, xarray adds the rows of two objects one by one, whatever their
labels are, and gives the sum the labels of the object that has an index: wrong numbers, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from dask.base import tokenize


class LazyLabels(xr.Index):
    """Hold the labels of a dimension in a lazy order, of which only equality is known.

    Equal labels have equal tokens; the names are those of the lazy coordinates.
    """

    # xarray refuses to align an object with this index and one with another index, and so does this index for labels in
    # another order. Labels are not selected by it, nor aligned: `set_xindex` computes them.

    def __init__(self, names: Iterable[Hashable], size: int, token: str):
        self._names, self._size, self._token = tuple(names), size, token
        self._change: Callable[[xr.Variable], xr.Variable] | None = None

    def isel(self, indexers: Mapping[Any, Any]) -> LazyLabels | None:
        """The index of some positions; None if they are one position, or positions along another dimension."""
        ((dim, chosen),) = indexers.items()
        if isinstance(chosen, slice):
            rows = range(self._size)[chosen]
            return self if rows == range(self._size) else self._select(indexers, len(rows), rows)
        if isinstance(chosen, xr.Variable):
            if chosen.dims != (dim,):
                return None
            chosen = chosen.data
        if isinstance(chosen, list):
            chosen = np.asarray(chosen)
        return self._select(indexers, np.shape(chosen)[0], chosen) if np.ndim(chosen) else None

    def _select(self, indexers: Mapping[Any, Any], size: int, chosen: Any) -> LazyLabels:
        found = LazyLabels(self._names, size, tokenize(self._token, chosen))
        found._change = lambda variable: variable.isel(indexers)
        return found

    def rename(self, name_dict: Mapping[Any, Hashable], dims_dict: Mapping[Any, Hashable]) -> LazyLabels:
        """The index of coordinates of other names."""
        found = LazyLabels([name_dict.get(name, name) for name in self._names], self._size, self._token)
        found._change = lambda variable: xr.Variable(
            [dims_dict.get(dim, dim) for dim in variable.dims], variable.data, variable.attrs, variable.encoding
        )
        return found

    def create_variables(self, variables: Mapping[Any, xr.Variable] | None = None) -> dict[Any, xr.Variable]:
        """The coordinates. Right after `isel` and `rename` xarray passes those before, and they are changed once."""
        change, self._change = self._change, None
        given = dict(variables or {})
        return given if change is None else {name: change(variable) for name, variable in given.items()}

    @classmethod
    def concat(cls, indexes: Sequence[Any], dim: Hashable, positions: Any = None) -> LazyLabels:
        """Refused: of labels one after another it is not known either whether they are others' labels."""
        raise NotImplementedError(f"{indexes[0]!r} labels of several objects are not joined")

    def equals(self, other: xr.Index, **_: Any) -> bool:
        """Whether the labels are known to be equal."""
        return isinstance(other, LazyLabels) and self._token == other._token

    def __repr__(self) -> str:
        names = repr(self._names[0] if len(self._names) == 1 else list(self._names))
        return (
            f"LazyLabels of {names}, whose order is lazy: call set_xindex({names}) to compute them, "
            f"or drop_indexes({names}) to go by position;"
        )

    def _repr_inline_(self, max_width: int) -> str:
        return "LazyLabels (not computed: see set_xindex)"
