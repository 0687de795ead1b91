"""Order statistics of lanes from keys at a few ranks, to the bits of NumPy 2.4 and 2.5.

NumPy computes the virtual index, a rank with a fraction, in the dtype of `q`. That dtype decides the last bits, so all
formulas here keep the order of NumPy's operations.

Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4), 1996.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from typing import Any, Literal, cast

import numpy as np

#: A NumPy array, or a CuPy array, to which NumPy's functions dispatch.
Array = Any

#: Methods that interpolate at the virtual index n q + alpha + q (1 - alpha - beta) - 1, with (alpha, beta).
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}

#: NumPy's methods, in its order, and whether a method picks an element, so that the dtype is kept.
METHODS = {
    "inverted_cdf": True,
    "averaged_inverted_cdf": False,
    "closest_observation": True,
    "interpolated_inverted_cdf": False,
    "hazen": False,
    "weibull": False,
    "linear": False,
    "median_unbiased": False,
    "normal_unbiased": False,
    "lower": True,
    "higher": True,
    "midpoint": False,
    "nearest": True,
}


def _check_method(method: Any) -> None:
    """Refuse what is none of NumPy's methods."""
    if not (isinstance(method, str) and method in METHODS):
        meant = get_close_matches(str(method), METHODS, 1)
        guess = f" Did you mean {meant[0]!r}?" if meant else ""
        raise ValueError(f"{method!r} is not a valid method.{guess} Use one of: {', '.join(map(repr, METHODS))}")


@dataclass(frozen=True, eq=False)
class Statistic:
    """Say what is wanted of each lane; `quantiles` or `median` make it."""

    kind: Literal["quantile", "median"]
    #: In [0, 1], of at most two dimensions, in the dtype in which NumPy computes; None for a median.
    q: np.ndarray | None
    method: str  # one of `METHODS`
    skip_nan: bool  # whether NaN and NaT take no part, as in `numpy.nanquantile`; otherwise a lane with one gives NaN
    weak: bool = False  # whether `q` was a Python number: the result then has the dtype of the keys, if they are floats
    warns: bool = True  # whether lanes without keys are warned of; not if masked keys are NaN

    #: Keys that a lane must have; without them its results are NaN.
    least, fill = 1, None

    @classmethod
    def quantiles(cls, q: Any, method: str = "linear", *, skip_nan: bool = False, percent: bool = False) -> Statistic:
        """Make quantiles, or percentiles, of NumPy's arguments `q` and `method`, and refuse what NumPy refuses."""
        weak = type(q) in (int, float)
        wanted = np.asarray(q)
        objects = wanted.dtype.kind == "O" and all(isinstance(one, (Real, Decimal)) for one in wanted.flat)
        if wanted.dtype.kind not in "biuf" and not objects:
            raise TypeError(f"q must be real numbers, not {q!r}")
        if percent:
            wanted = np.asarray(np.true_divide(wanted, 100))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            name, most = ("Percentiles", 100) if percent else ("Quantiles", 1)
            raise ValueError(f"{name} must be in the range [0, {most}] (got q={q!r})")
        if wanted.ndim > 2:
            raise ValueError(f"q must be a scalar or 1d, not an array of {wanted.ndim} dimensions")
        _check_method(method)
        # Quantiles of integers are 0 or 1: in int64, products with counts do not overflow.
        wanted = wanted if wanted.dtype.kind in "fO" else wanted.astype(np.int64)
        return cls("quantile", wanted, method, skip_nan, weak)

    @classmethod
    def median(cls, *, skip_nan: bool = False) -> Statistic:
        """Give the mean of the two middle keys, or the middle one."""
        return cls("median", None, "", skip_nan)

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading dimensions of the results: those of `q`."""
        return () if self.q is None else self.q.shape

    @property
    def objects(self) -> bool:
        """Whether `q` are Python objects, such as fractions."""
        return self.q is not None and self.q.dtype.kind == "O"

    @property
    def picks(self) -> bool:
        """Whether each result is one of the keys."""
        if self.q is None:
            return False
        return METHODS[self.method] or (self.method == "linear" and self.q.dtype.kind == "i")

    def dtype_of(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the results for keys of a dtype, and refuse keys that NumPy refuses."""
        if self.q is not None and dtype.kind == "c":
            raise TypeError(f"a must be an array of real numbers, not {dtype}")
        if self.picks or dtype.kind == "O":
            return dtype
        try:
            if self.objects:
                return np.asarray(self.by_numpy(np.zeros(1, dtype), (0,))).dtype
            keys = np.zeros((math.prod(self.shape), 1), dtype)
            found: np.dtype[Any] = self._combine(keys, keys, np.ones(1, np.int64)).dtype
        except TypeError as error:
            raise TypeError(self._refusal(dtype)) from error
        return found

    def check_objects(self, dtype: np.dtype[Any]) -> None:
        """Refuse Python objects as `q` that NumPy does not take with the method."""
        if self.objects:
            try:
                self.by_numpy(np.zeros(1, dtype), (0,))
            except (AttributeError, TypeError) as error:
                raise TypeError(
                    f"NumPy has no quantiles of {dtype} with method={self.method!r} and q of Python objects: "
                    "give q as floats, or in a list"
                ) from error

    def by_numpy(self, keys: np.ndarray, axes: tuple[int, ...], weights: np.ndarray | None = None) -> Any:
        """Compute the statistic by NumPy's function, which takes Python objects as they are, or refuses them."""
        try:
            if self.q is None and self.skip_nan and keys.dtype.kind == "O":
                return self._lane_by_lane(keys, axes, np.nanmedian)  # NumPy's own takes one lane of objects
            if self.q is None:
                return (np.nanmedian if self.skip_nan else np.median)(keys, axis=axes)
            if self.skip_nan and keys.dtype.kind == "T" and weights is None:
                return self._lane_by_lane(keys, axes, self._of_strings)
            function: Any = np.nanquantile if self.skip_nan else np.quantile
            q = self.q.item() if self.weak else self.q
            return function(keys, q, axis=axes, method=self.method, weights=weights)
        except TypeError as error:
            if self.picks:
                raise
            np.sort(keys, axis=None)  # raises the error again if it is that keys cannot be compared
            raise TypeError(self._refusal(keys.dtype)) from error

    def _lane_by_lane(self, keys: np.ndarray, axes: tuple[int, ...], function: Any) -> np.ndarray:
        """Apply a function of one lane to each."""
        lanes = np.moveaxis(keys, axes, range(-len(axes), 0))
        kept = lanes.shape[: lanes.ndim - len(axes)]
        found = np.empty((*kept, *self.shape), keys.dtype)
        for index in np.ndindex(kept):
            found[index] = function(lanes[index].ravel())
        return np.moveaxis(found, range(len(kept), found.ndim), range(len(self.shape)))

    def _of_strings(self, lane: np.ndarray) -> Any:
        """Leave out missing strings: `numpy.nanquantile` cuts results of lanes to the length of the first."""
        function = cast(Any, np.quantile)
        lane = lane[~np.isnan(lane)] if hasattr(lane.dtype, "na_object") else lane
        return function(lane, self.q, method=self.method) if lane.size else getattr(lane.dtype, "na_object", "")

    def _refusal(self, dtype: np.dtype[Any]) -> str:
        """Give the message for keys on which the statistic's arithmetic is not defined."""
        if self.q is None:
            method = "" if dtype.kind == "M" else ', method="lower"'
            return f"a median is a mean of keys, and keys of {dtype} have none: use quantile with q=0.5{method}"
        remedy = 'method="lower", or another that picks a key'
        if dtype.kind == "b":
            remedy += ', or a.astype("i1")'
        if dtype.kind == "O":
            remedy += ", or q of a type that multiplies them"
        return f"method={self.method!r} computes between keys, and those of {dtype} are no numbers: give {remedy}"

    def ranks(self, counts: Array) -> Array:
        """Rank the previous and the following key of each quantile, shape (2, quantiles, *counts.shape)."""
        # `counts` are the keys of each lane that take part; the ranks of a lane without keys are 0.
        if self.q is None:
            middle = [(counts - 1) // 2, counts // 2]
        elif self.picks:
            middle = [self._virtual_index(counts)] * 2
        else:
            middle = list(self._neighbours(counts)[:2])
        ranks = np.stack([np.where(rank < 0, rank + counts, rank) for rank in middle]).astype(np.int64)
        # Indices in float16 or float32 can exceed the last rank by rounding.
        clipped: Array = np.maximum(np.minimum(ranks, counts - 1), 0)
        return clipped.reshape(2, math.prod(self.shape), *counts.shape)

    def result(self, keys: Array, counts: Array, nans: Array) -> Array:
        """Compute the statistics, shape (quantiles, *lanes), from the keys at the `ranks`."""
        # `keys` has the shape (2, quantiles, *lanes); `counts` (keys that take part) and `nans` broadcast to the lanes.
        # If all lanes have keys and no NaN, these may be on the host: a GPU takes longer to begin such steps.
        # NaN or NaT is where a lane has no keys, or has NaN that are not skipped.
        previous, following = keys
        missing = counts == 0 if self.skip_nan else (counts == 0) | (nans > 0)
        if not missing.any():
            return self._combine(previous, following, counts)
        # Arithmetic on NaN can warn: NumPy's sort of float16 makes all of them signalling ones.
        zero = np.zeros_like(previous, shape=())
        found = self._combine(_filled(previous, missing, zero), _filled(following, missing, zero), counts)
        self._check_empty(counts, nans, found.dtype)
        nan = np.zeros_like(found, shape=())
        nan[...] = "NaT" if found.dtype.kind in "mM" else np.nan
        return _filled(found, missing, nan)

    def _check_empty(self, counts: Array, nans: Array, dtype: np.dtype[Any]) -> None:
        """Raise, or warn as NumPy does, if a lane is empty or has only NaN to skip."""
        if not self.warns:
            return
        empty = (counts == 0) & (nans == 0)
        if empty.any():
            if self.q is not None and not (self.skip_nan and dtype.kind in "fmM"):
                raise IndexError("index -1 is out of bounds for axis 0 with size 0")
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=3)
        if self.skip_nan and ((counts == 0) & (nans > 0)).any():
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)

    def _combine(self, previous: Array, following: Array, counts: Array) -> Array:
        """Give the statistics of lanes that are not empty."""
        if self.q is None:
            return _middle(previous, following, np.asarray(counts % 2 == 1, like=previous))
        if self.picks:
            return previous
        fraction = np.asarray(self._neighbours(counts)[2], like=previous)
        complement = 1 - fraction
        if self.weak:
            # A Python number takes the dtype of the keys, if they are floats, but 1 - fraction is computed before.
            dtype = previous.dtype if previous.dtype.kind == "f" else np.float64
            fraction_used, complement = fraction.astype(dtype), complement.astype(dtype)
        else:
            fraction_used = fraction
        distance = following - previous
        # NumPy counts from the nearer neighbour.
        return np.where(fraction >= 0.5, following - distance * complement, previous + distance * fraction_used)

    def _neighbours(self, counts: Array) -> tuple[Array, Array, Array]:
        """Find ranks below and above each virtual index, and its fraction; shape (quantiles, *lanes)."""
        # Rank -1 is the last. There, and below rank 0, both ranks are the same, and the fraction is not in [0, 1): it
        # decides the sign of a zero.
        index = self._virtual_index(counts)
        last = np.maximum(counts, 1) - 1
        floor = np.maximum(np.floor(index), 0)
        inside = index < last.astype(index.dtype)  # False for NaN
        previous = np.where(inside, floor, -1).astype(np.int64)
        # NumPy adds one in the dtype of `q`.
        following = np.where(inside & (index >= 0), floor + 1, previous).astype(np.int64)
        fraction = index - previous
        if self.method == "averaged_inverted_cdf":
            fraction = np.where(fraction == 0, 0.5, 1.0)
        elif self.method == "midpoint":
            fraction = np.where(index % 1 == 0, 0.0, 0.5)
        return previous, following, fraction.astype(index.dtype)

    def _virtual_index(self, counts: Array) -> Array:
        """Give the index of each quantile among the sorted keys of a lane: integers if the method picks one."""
        assert self.q is not None
        q = np.asarray(self.q, like=counts).reshape(-1, *(1,) * counts.ndim)
        counts = np.maximum(counts, 1)
        n, last = counts.astype(q.dtype), (counts - 1).astype(q.dtype)
        match self.method:
            case "linear":
                return last * q
            case "lower":
                index = np.floor(last * q)
            case "higher":
                index = np.ceil(last * q)
            case "nearest":
                index = np.around(last * q)
            case "midpoint":
                return 0.5 * (np.floor(last * q) + np.ceil(last * q))
            case "averaged_inverted_cdf":
                return n * q - 1
            case "inverted_cdf":
                index = np.ceil(n * q - 1)
            case "closest_observation":
                # Halfway between two keys, the one whose rank, counted from 1, is even.
                exact = n * q - 1 - 0.5
                floor = np.floor(exact)
                index = np.where((exact == floor) & (floor % 2 == 1), floor, floor + 1)
            case _:
                alpha, beta = _CONTINUOUS[self.method]
                return n * q + (alpha + q * (1 - alpha - beta)) - 1
        return np.maximum(index, 0).astype(np.int64)


@dataclass(frozen=True)
class Ranks:
    """Want the keys at given ranks of each lane, NaN included: ranks behind the numbers give NaN."""

    wanted: tuple[int, ...]  # not negative, and less than the number of keys

    #: As of `Statistic`.
    objects = False

    #: The ranks among the numbers are those among all keys, because NaN are last.
    skip_nan = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading dimensions of the results."""
        return (len(self.wanted),)

    def dtype_of(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the results for keys of a dtype: their own."""
        return dtype

    def ranks(self, counts: Array) -> Array:
        """Ranks of the numbers that are needed, shape (1, ranks, *counts.shape); for NaN that of the last number."""
        wanted = np.reshape(np.array(self.wanted, np.int64), (1, -1, *(1,) * counts.ndim))
        return np.minimum(wanted, np.maximum(counts - 1, 0))

    def result(self, keys: Array, counts: Array, nans: Array) -> Array:
        """Give the keys at the wanted ranks, shape (ranks, *lanes), from those at `ranks`."""
        (keys,) = keys
        wanted = np.reshape(np.array(self.wanted, np.int64), (-1, *(1,) * counts.ndim))
        if (wanted < counts).all():
            return keys
        return _filled(keys, wanted >= counts, np.array("NaT" if keys.dtype.kind in "mM" else "nan", keys.dtype))


def _filled(keys: Array, where: Array, filler: Array) -> Array:
    """Put a filler in the place of some keys; `numpy.where` alone makes swapped byte orders native."""
    filled: Array = np.where(where, filler, keys)
    return filled.astype(keys.dtype, copy=False)


def _middle(previous: Array, following: Array, odd: Array) -> Array:
    """Give the mean of the two middle keys, or of one key where their number is odd, as `numpy.mean` computes it."""
    dtype, half = previous.dtype, previous.dtype.type is np.float16
    summed = {"b": np.dtype(np.float64), "i": np.dtype(np.float64), "u": np.dtype(np.float64)}.get(dtype.kind, dtype)
    if half:
        summed = np.dtype(np.float32)
    # A sum starts from zero, so that the mean of -0.0 is 0.0.
    zero = np.zeros_like(previous, shape=(), dtype=summed)
    total = zero + previous.astype(summed, copy=False) + np.where(odd, zero, following.astype(summed, copy=False))
    number = np.where(odd, 1, 2)
    mean = total / (number if dtype.kind == "m" else number.astype(summed))
    return mean.astype(np.float16) if half else mean
