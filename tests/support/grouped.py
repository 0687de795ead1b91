"""Hypothesis strategies for labels, and order statistics of groups by a loop over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.dtypes import StringDType

from support import strategies as ours
from support.statistics import given_to_numpy, without_extremes

TOP = (1 << 64) - 1
DAYS = ["2020-02-29", "NaT", "1960-01-01", "2020-03-01"]
#: Labels by their dtype, some of them missing.
POOLS: dict[Any, list[Any]] = {
    **{f"{sign}{width}": [3, 0, 100, 7, 8] for sign in "iu" for width in (1, 2, 4, 8)},
    ">i4": [-7, 100_000, 2],
    "i8": [-(1 << 63), (1 << 63) - 1, (1 << 63) - 2, 0, 5],
    "u8": [TOP, TOP - 1, 1 << 63, (1 << 62) + 1, 1 << 62, 3],
    "?": [True, False],
    **{name: [1.5, math.nan, -0.0, 0.0, -math.inf] for name in ("f2", "f4", "f8", ">f8", "g")},
    "c16": [1 + 1j, complex(0, math.nan), 1, -2j],
    "U3": ["b", "", "abc", "\u00e9"],
    "S3": [b"b", b"", b"abc"],
    "M8[D]": DAYS,
    "M8[ns]": DAYS,
    "m8[s]": [5, "NaT", -1],
    # NumPy keeps strings of more than 15 bytes elsewhere.
    StringDType(): ["b", "", "of more than 15 bytes", "of more than 15 bytes, too"],
    StringDType(na_object=math.nan): ["b of more than 15 bytes", math.nan, "a of more than 15 bytes"],
    "O": ["b", None, "a", math.nan],
}
#: Other dtypes in which labels that are wanted may be given, by the kind of the labels.
WIDER = {"i": "i8", "u": "u8", "f": "f8", "U": "U9", "S": "S9", "M": "M8[s]", "m": "m8[ms]", "T": "U40", "O": "O"}
#: Labels that do not occur.
ABSENT = {"i": 44, "u": 44, "f": 44.5, "c": 9j, "U": "x", "S": b"x", "M": "2000-01-01", "m": 77, "T": "x", "O": "x"}
#: Kinds of dtypes whose results are those of methods that pick a key.
PICKED = "bMU"
PICKS = ["lower", "higher", "nearest", "inverted_cdf", "closest_observation"]


def plain(labels: np.ndarray) -> list[Any]:
    """Labels as Python objects that are equal where the labels are; None for one that is missing."""
    if labels.dtype.kind in "mM":
        unit = "D" if labels.dtype.kind == "M" else "ms"
        return [
            None if np.isnat(one) else int(one.astype(f"{labels.dtype.kind}8[{unit}]").astype("i8")) for one in labels
        ]
    return [None if one is None or one != one else one for one in labels.tolist()]


def in_order(labels: set[Any]) -> list[Any]:
    return sorted(labels, key=lambda one: (one.real, one.imag) if isinstance(one, complex) else one)


@st.composite
def labels_of(draw: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Labels of a shape; often few, so that groups are large."""
    dtype = draw(st.sampled_from(list(POOLS)))
    pool = np.array(POOLS[dtype], dtype)[: draw(st.integers(1, 6))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return pool[rng.integers(0, len(pool), math.prod(shape))].reshape(shape)


@st.composite
def groups_of(draw: Any, labels: np.ndarray, absent: bool) -> np.ndarray | None:
    """Groups that are asked for, in any order and of other widths, with one that is `absent`; or None."""
    if draw(st.booleans()):
        return None
    kind = labels.dtype.kind
    known = plain(labels.reshape(-1))
    first = [known.index(one) for one in dict.fromkeys(one for one in known if one is not None)]
    chosen = labels.reshape(-1)[draw(st.permutations(first))[: draw(st.integers(0, 6))]]
    if absent and kind in ABSENT:
        other = np.array([ABSENT[kind]], "M8[D]" if kind == "M" else labels.dtype)
        chosen = np.concatenate([chosen, other.astype(labels.dtype)])[:: draw(st.sampled_from([1, -1]))]
    if kind in WIDER and labels.dtype != np.longdouble and draw(st.booleans()):
        chosen = chosen.astype(WIDER[kind])
    return chosen


@st.composite
def keys_of(draw: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, str, list[Any], dict[str, Any]]:
    """Keys, and a function that NumPy has for them, with its arguments."""
    dtype = draw(st.sampled_from([*"?bhilBHILefd", ">f4", "c16", "M8[D]", "m8[s]", "U3", "O"]))
    array = ours.make(
        dtype, math.prod(shape), draw(st.sampled_from(["small", "special", "bits"])), draw(st.integers(0, 99))
    )
    if dtype == "O":
        array = np.array([Fraction(int(one), 3) for one in ours.make("i1", array.size)], object)
    kind, options = array.dtype.kind, {}
    names = ["median", "nanmedian"] if kind == "c" else ["quantile", "percentile"]
    if kind not in "cbMUO":
        names += ["nanquantile", "nanpercentile", "median", "nanmedian"]
    name, arguments = draw(st.sampled_from(names)), []
    if name == "nanmedian":
        array = without_extremes(array)
    if "median" not in name:
        options["method"] = draw(st.sampled_from(PICKS if kind in PICKED else ["linear", "hazen", "midpoint", *PICKS]))
        q = draw(st.sampled_from([0, 1, 0.5, 0.3, [0.9, 0, 0.5], [], np.float32(0.7), np.array([0.2])]))
        q = np.multiply(q, 100).tolist() if "percent" in name and np.ndim(q) < 1 else q
        arguments = [given_to_numpy(q)]
    return array.reshape(shape), name, arguments, options


def members_of(labels: np.ndarray, wanted: Any, window: int = 1) -> list[list[int]]:
    """Positions of the elements of each group, which are in it once for each neighbour of its label."""
    known = plain(labels.reshape(-1))
    names = in_order({one for one in known if one is not None}) if wanted is None else plain(wanted)
    return [
        [
            position + step
            for position, label in enumerate(known)
            for step in range(-(window // 2), window // 2 + 1)
            if label is not None and label == name and 0 <= position + step < len(known)
        ]
        for name in names
    ]


def expected(
    function: Callable[[Any], Any],
    array: np.ndarray,
    axes: tuple[int, ...],
    labels: np.ndarray,
    wanted: Any,
    window: int,
    least: int = 1,
    fill: int | None = None,
) -> tuple[np.ndarray, bool]:
    """The statistics of the groups, and whether one of these has fewer than `least` elements.

    `function` reduces the first axis; what it lacks of a few elements is `fill`, None for NaN.
    """
    lanes = np.moveaxis(array, axes, range(len(axes)))
    lanes = lanes.reshape(labels.size, *lanes.shape[len(axes) :])
    like = function(np.ones((max(least, 1), 1), array.dtype))[..., 0]
    members = members_of(labels, wanted, window)
    lacks = any(len(positions) < least for positions in members)
    dtype = np.dtype("f8") if lacks and fill is None and like.dtype.kind in "biu" else like.dtype
    found = np.zeros((*like.shape, len(members), *lanes.shape[1:]), dtype)
    if lacks and dtype.kind not in "USO":
        found[...] = fill if fill is not None else np.array("NaT" if dtype.kind in "mM" else np.nan, dtype)
    for number, positions in enumerate(members):
        if positions and lanes.size:
            own = np.asarray(function(lanes[positions]))
            found[(*map(slice, own.shape[: like.ndim]), number)] = own
    return np.moveaxis(found, like.ndim, like.ndim + min(axes)), lacks


def positions_of_members(found: np.ndarray, labels: np.ndarray, wanted: Any, axis: int) -> np.ndarray:
    """Positions among the members of each group, shape (k, ...), as positions along an axis; -1 stays."""
    groups = np.moveaxis(found.copy(), axis + 1, 0)
    for own, positions in zip(groups, members_of(labels, wanted), strict=True):
        own[...] = np.array([*positions, -1])[own]
    return np.moveaxis(groups, 0, axis + 1)
