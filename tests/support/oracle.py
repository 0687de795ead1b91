"""Reference sorts that use no code of the package.

The order is NumPy 2.5's, for every dtype and both directions. NumPy sorts every dtype in ascending order, and since 2.5
most dtypes in descending order; `test_oracle.py` compares this file with it. Dtypes that NumPy does not sort in
descending order (records, void, objects, variable-width strings) follow the same rule: missing values come last, and
equal keys keep their input order.

Every key becomes a few integer columns, most significant first: a *class* that marks missing values, then the dense
rank among the other values. A descending sort negates the ranks, but not the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def sort(a: Array, axis: int | None = -1, *, descending: bool = False, order: Any = None) -> Array:
    """The stable sort."""
    a, axis = _flattened(a, axis)
    return np.take_along_axis(a, argsort(a, axis, descending=descending, order=order), axis)


def argsort(a: Array, axis: int | None = -1, *, descending: bool = False, order: Any = None) -> Array:
    """The stable indirect sort."""
    a, axis = _flattened(a, axis)
    rows = np.moveaxis(a, axis, -1)
    found = np.empty(rows.shape, np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        found[index] = _argsort_row(rows[index], descending, order)
    return np.moveaxis(found, -1, axis)


def lexsort(keys: Sequence[Array], axis: int = -1, descending: Sequence[bool] | None = None) -> Array:
    """`numpy.lexsort` with a direction for each key; the last key is the most significant one."""
    directions = [False] * len(keys) if descending is None else descending
    rows = [np.moveaxis(key, axis, -1) for key in keys]
    found = np.empty(rows[0].shape, np.int64)
    for index in np.ndindex(rows[0].shape[:-1]):
        columns: list[Array] = []
        for row, down in zip(reversed(rows), reversed(list(directions)), strict=True):
            columns += [-values if down and not fixed else values for values, fixed in _columns(row[index])]
        found[index] = np.lexsort(columns[::-1])
    return np.moveaxis(found, -1, axis)


def _flattened(a: Array, axis: int | None) -> tuple[Array, int]:
    return (a.ravel(), 0) if axis is None else (a, axis)


def _argsort_row(row: Array, descending: bool, order: Any) -> Array:
    if row.dtype.kind == "O" and not descending:
        # Dense ranks would need transitive equality, which objects need not have: use Python's stable sort.
        missing = _not_equal_to_itself(row)
        present, absent = np.flatnonzero(~missing).tolist(), np.flatnonzero(missing).tolist()
        return np.array(sorted(present, key=row.__getitem__) + absent, np.int64)
    columns = _columns(row, order)
    turned = [-values if descending and not fixed else values for values, fixed in columns]
    return np.lexsort(turned[::-1]) if turned else np.arange(len(row))


def _columns(row: Array, order: Any = None) -> list[tuple[Array, bool]]:
    """Columns of integers, and whether each keeps its direction in a descending sort."""
    dtype = row.dtype
    if dtype.names is not None:
        first = [order] if isinstance(order, str) else list(order or ())
        names = first + [name for name in dtype.names if name not in first]
        return [column for name in names for column in _field(row[name])]
    if dtype.kind == "c":
        real, imag = np.isnan(row.real), np.isnan(row.imag)
        classes = 2 * real.astype(np.int64) + imag
        parts = [np.where(nan, 0, part) for part, nan in ((row.real, real), (row.imag, imag))]
        return [(classes, True)] + [(_dense(part), False) for part in parts]
    if dtype.kind in "fmM":
        missing = np.isnan(row) if dtype.kind == "f" else np.isnat(row)
        filled = np.where(missing, np.zeros(1, dtype), row)
        return [(missing.astype(np.int64), True), (_dense(filled), False)]
    if dtype.kind == "T":
        missing = np.array([not isinstance(element, str) for element in row.tolist()], bool)
        return [(missing.astype(np.int64), True), (_dense(_texts(row)), False)]
    if dtype.kind == "V":
        return [(_dense(_bytes(row)), False)]
    if dtype.kind == "O":
        missing = _not_equal_to_itself(row)
        present = row.copy()
        present[missing] = row[~missing][0] if not missing.all() else 0
        return [(missing.astype(np.int64), True), (_dense(present), False)]
    return [(_dense(row), False)]


def _not_equal_to_itself(row: Array) -> Array:
    return np.array([element != element for element in row], bool)


def _field(field: Array) -> list[tuple[Array, bool]]:
    # NumPy compares a field that is itself an array by its bytes.
    return _columns(field) if field.ndim == 1 else [(_dense(_bytes(field)), False)]


def _texts(row: Array) -> Array:
    texts = np.empty(len(row), object)
    texts[:] = [element if isinstance(element, str) else "" for element in row.tolist()]
    return texts


def _bytes(field: Array) -> Array:
    found = np.empty(len(field), object)
    found[:] = [element.tobytes() for element in field]
    return found


def _dense(values: Array) -> Array:
    """Rank among the distinct values, from 0."""
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1].reshape(values.shape).astype(np.int64)
    ranks = np.empty(len(values), np.int64)
    rank = -1
    previous: Any = None
    for position in sorted(range(len(values)), key=values.__getitem__):
        if rank < 0 or values[position] != previous:
            rank += 1
        previous = values[position]
        ranks[position] = rank
    return ranks


def may_be_nan(dtype: Any) -> bool:
    """Whether there are NaN, NaT, or missing strings among keys of a dtype."""
    return dtype.kind in "fcmMO" or not isinstance(getattr(dtype, "na_object", ""), str)


def as_numbers(*arrays: Array) -> tuple[list[Array], Array]:
    """Strings and objects as floats in the same order, NaN where they are missing, and the keys that these number.

    NumPy's functions of distinct values lose missing strings, which neither equal nor differ from any other.
    """
    elements = [element for array in arrays for element in array.ravel().tolist()]
    missing = [one for one in elements if not isinstance(one, str) and (arrays[0].dtype.kind == "T" or one != one)]
    keys = sorted({one for one in elements if not any(one is other for other in missing)})
    number = {key: float(position) for position, key in enumerate(keys)}
    floats = [
        np.array([number.get(one, np.nan) for one in array.ravel().tolist()]).reshape(array.shape) for array in arrays
    ]
    return floats, np.array([*keys, *missing[:1]], object).astype(arrays[0].dtype)


def by_numbers(function: Callable[..., Any], *arrays: Array, values: bool = True) -> Any:
    """What a function finds of arrays, or of their numbers; the first result are values, unless none is."""
    if arrays[0].dtype.kind not in "OT":
        return function(*arrays)
    floats, keys = as_numbers(*arrays)
    found = function(*floats)
    if not values:
        return found
    first, *others = found if isinstance(found, tuple) else (found,)
    first = keys[np.where(np.isnan(first), len(keys) - 1, first).astype(int)] if len(keys) else keys
    return (first, *others) if others else first


def bits(a: Array) -> list[Any]:
    """The exact content of an array, element by element, with NaN payloads, signs of zeros and types of objects.

    Padding in long doubles and between the fields of a record is left out.
    """
    a = np.asarray(a)
    if a.dtype.names is not None:
        if a.size == 0:
            return []
        columns = [bits(a[name].reshape(a.size, -1)) for name in a.dtype.names]
        return [tuple(_share(column, a.size, number) for column in columns) for number in range(a.size)]
    flat = np.ascontiguousarray(a).reshape(-1)
    if a.dtype.kind in "OT":
        return [(type(element).__name__, repr(element)) for element in flat.tolist()]
    if flat.nbytes == 0:
        return [b""] * flat.size
    rows = flat.view(np.uint8).reshape(flat.size, a.dtype.itemsize)
    if a.dtype.char in "gG" and a.dtype.isnative:
        part = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
        # The value of an 80-bit float takes ten bytes.
        kept = 10 if np.finfo(np.longdouble).nmant == 63 else part
        rows = rows.reshape(flat.size, -1, part)[:, :, :kept].reshape(flat.size, -1)
    return [row.tobytes() for row in rows]


def _share(column: list[Any], size: int, number: int) -> tuple[Any, ...]:
    width = len(column) // size
    return tuple(column[number * width : (number + 1) * width])


def assert_same_bits(got: Any, wanted: Any) -> None:
    """Assert the same type, dtype, shape and bits."""
    assert type(got) is type(wanted), (type(got), type(wanted))
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    mine, theirs = bits(got), bits(wanted)
    if mine != theirs:
        first = next(number for number, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1])
        raise AssertionError(
            f"element {first} of {got.size} is {got.reshape(-1)[first]!r} ({mine[first]!r}), "
            f"expected {wanted.reshape(-1)[first]!r} ({theirs[first]!r})"
        )


def assert_same_values(got: Any, wanted: Any) -> None:
    """Assert equal arrays of a dtype, with NaN equal to NaN of other bits."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "OT":
        pairs = zip(got.ravel().tolist(), wanted.ravel().tolist(), strict=True)
        assert all(one is other or one == other or (one != one and other != other) for one, other in pairs)
    elif wanted.dtype.names is None:
        np.testing.assert_array_equal(got, wanted)
    else:
        assert str(got.tolist()) == str(wanted.tolist())


def assert_same_elements(got: Array, wanted: Array) -> None:
    """Assert that both arrays hold the same elements, bit for bit, in any order."""
    assert sorted(bits(got)) == sorted(bits(wanted))


def assert_sorts(got: Array, a: Array, axis: int | None = -1, *, descending: bool = False, order: Any = None) -> None:
    """Assert that each row of `got` has the bits of that row of `a`, in NumPy's order, stable or not."""
    wanted = sort(a, axis, descending=descending, order=order)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    a, axis = _flattened(a, axis)
    got_rows, rows, wanted_rows = (np.moveaxis(array, axis, -1) for array in (got, a, wanted))
    for index in np.ndindex(rows.shape[:-1]):
        assert_same_elements(got_rows[index], rows[index])
        both = np.concatenate([got_rows[index], wanted_rows[index]])
        half = len(both) // 2
        if both.dtype.kind == "O":
            assert both[:half].tolist() == both[half:].tolist()
        else:
            for values, _ in _columns(both, order):
                np.testing.assert_array_equal(values[:half], values[half:])


def assert_partitions(got: Array, a: Array, kth: Any, axis: int | None = -1) -> None:
    """Assert that each row of `got` is a partition of that row of `a`: the same elements, in the right segments."""
    a, axis = _flattened(a, axis)
    assert (got.dtype, got.shape) == (a.dtype, a.shape)
    size = a.shape[axis]
    got_rows, rows = (np.moveaxis(array, axis, -1) for array in (got, a))
    for index in np.ndindex(rows.shape[:-1]) if a.size else ():
        mine, theirs = got_rows[index], rows[index]
        assert_same_elements(mine, theirs)
        columns = [values for values, _ in _columns(np.concatenate([theirs, mine]))]
        codes = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(2, size)
        ordered, found = np.sort(codes[0]), codes[1]
        # Each key at a rank is a segment by itself, and so are the keys between two ranks.
        edges = {edge for rank in np.ravel(kth).tolist() for edge in (rank % size, rank % size + 1)}
        for start, stop in pairwise([0, *sorted(edges - {0, size}), size]):
            assert (np.sort(found[start:stop]) == ordered[start:stop]).all(), f"ranks {start} to {stop} of {size}"


def checksum(blocks: Sequence[Array] | Any) -> int:
    """A sum over the mixed bits of 64-bit keys; it does not depend on their order.

    The bits are mixed by the finaliser of SplitMix64 (Steele, Lea, Flood 2014). A plain sum would not change if two
    keys swapped their low halves.
    """
    total = 0
    for block in blocks:
        word = np.ascontiguousarray(block).view(np.uint64).copy()
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word ^= word >> np.uint64(shift)
            word *= np.uint64(factor)
        word ^= word >> np.uint64(31)
        total += int(word.sum(dtype=np.uint64))
    return total % (1 << 64)


def assert_ascends(blocks: Any) -> int:
    """Assert that numbers ascend within and across blocks, and return how many there are."""
    count, last = 0, None
    for block in blocks:
        if len(block):
            assert (block[1:] >= block[:-1]).all(), f"not sorted within the block at {count}"
            assert last is None or last <= block[0], f"not sorted across the block boundary at {count}"
            last = block[-1]
        count += len(block)
    return count
