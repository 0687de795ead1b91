"""Labels of elements as codes on the host, which number the groups from 0, and are -1 for an element of none."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import library_of

#: Integers in a range of at most so many times their number, or of so many, are numbered by a table, in place of a
#: search or a sort.
_TABLE_SHARE, _TABLE_ENTRIES = 2, 1 << 16
#: Kinds of dtypes of labels that may be missing.
MISSING_KINDS = "fcmMOT"


def on_host(array: Any) -> Any:
    """An array of CuPy as one of NumPy; others as they are."""
    return array.get() if library_of(array) == "cupy" else array


def are_missing(labels: Any) -> Any:
    """Tell which labels are NaN, NaT, None or pandas.NA."""
    if labels.dtype.kind not in MISSING_KINDS:
        return np.zeros_like(labels, dtype=bool)
    if labels.dtype.kind in "OT":
        return np.frompyfunc(_is_missing, 1, 1)(labels.astype(object)).astype(bool)
    return labels != labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # of pandas.NA, as NumPy takes it in StringDType
        return True


def code_dtype(count: int) -> np.dtype[Any]:
    """The narrowest dtype of codes of so many groups."""
    return np.min_scalar_type(-count - 1)


def number_labels(labels: np.ndarray, groups: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Codes of labels, and how many each group has: those that are given, or the distinct labels in sorted order."""
    if labels.dtype.kind in MISSING_KINDS and (missing := are_missing(labels)).any():
        known, sizes = number_labels(labels[~missing], groups)
        codes = np.full(labels.shape, -1, known.dtype)
        codes[~missing] = known
        return codes, sizes
    if labels.dtype.kind == "b":
        labels = labels.view(np.uint8)
    if labels.dtype.kind in "iu" and (groups is None or groups.dtype.kind in "iu"):
        numbered = _by_table(labels, labels if groups is None else groups, groups is None)
        if numbered is not None:
            return numbered
    groups = np.unique(labels) if groups is None else groups
    codes = np.arange(len(groups), dtype=code_dtype(len(groups)))
    wanted = codes
    if labels.dtype.kind in "iu" and groups.dtype.kind in "iu":
        # A search would compare int64 and uint64 as floats.
        bounds = np.iinfo(labels.dtype)
        wanted, groups = codes[(groups >= bounds.min) & (groups <= bounds.max)], groups.astype(labels.dtype)
    order = wanted[np.argsort(groups[wanted], kind="stable")]
    if not labels.size or not len(order):
        return np.full(labels.shape, -1, codes.dtype), np.zeros(len(groups), np.int64)
    keys, needles = groups[order], labels
    if labels.dtype.kind == "T":  # NumPy's search mixes up long strings of two arrays
        keys, needles = keys.astype(object), needles.astype(object)
    found = order[np.searchsorted(keys, needles).clip(max=len(order) - 1)]
    codes = np.where(groups[found] == labels, found, -1)
    return codes, sizes_of(codes, len(groups))


def sizes_of(codes: np.ndarray, count: int) -> np.ndarray:
    """How many of some codes each group has."""
    return np.bincount(codes.ravel() + np.int64(1), minlength=count + 1)[1:]


def _by_table(labels: np.ndarray, ends: np.ndarray, distinct: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes of integers, and how many each group has, if the range of `ends` is small; these or all are the groups."""
    if not ends.size or not labels.size:
        return None
    least, most = ends.min(), ends.max()
    if (span := int(most) - int(least) + 1) > max(_TABLE_SHARE * ends.size, _TABLE_ENTRIES):
        return None
    offsets = _offsets(labels, least)
    if not distinct and (int(labels.min()) < least or int(labels.max()) > most):
        offsets = np.where((labels >= least) & (labels <= most), offsets, span)
    counts = np.bincount(offsets.ravel(), minlength=span)
    entries = np.flatnonzero(counts) if distinct else _offsets(ends, least)
    table = np.full(span + 1, -1, code_dtype(len(entries)))
    table[entries] = np.arange(len(entries))
    return table[offsets], counts[entries]


def _offsets(labels: np.ndarray, least: Any) -> np.ndarray:
    """Differences of integers and one that is not larger; all fit int64, which uint64 wraps to."""
    wrapped = labels.astype(np.int64, copy=False)
    return wrapped - least.astype(np.int64) if least else wrapped
