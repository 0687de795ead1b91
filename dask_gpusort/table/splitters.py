"""Splitters of chunks that are not sorted, and the cuts of groups between them.

Chunks are divided at *splitters*: keys in segment ``j`` are at or above splitter ``j - 1`` and below splitter ``j``.
The counts of all chunks' segments are a table, whose column sums are scanned, as those of the papers' histograms::

    groups          |       g - 1       |         g         |       g + 1       |      ranks, known before
    cuts         |        g - 1        |       g        |        g + 1       |         splitters, from samples

The cut of a group is somewhat before its rank, so its keys are in its own segment, sorted, and in that of the next
group. Counts are exact, so a bad sample only costs time: where a cut is too far from its rank, all keys are sorted to
find the one at that rank. Keys that a sample has several times get a segment of their own. They are all the same, so it
is cut anywhere.

References
----------
Satish, Harris, Garland, IPDPS 2009, sections 4 and 5: counts, their column-major scan, and splitters from samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .digits import IntArray, exclusive_scan

Keys = np.ndarray[Any, Any]

#: Standard deviations of a rank's place in the sample by which a splitter is chosen before it.
DEVIATIONS = 4.0


def choose_splitters(sample: Keys, shares: np.ndarray[Any, Any]) -> Keys:
    """Choose ascending, distinct splitters from a sample, somewhat before some shares of all keys; none is NaN."""
    keys, count = np.sort(sample), len(sample)
    if not count:
        return keys
    at = shares * count - DEVIATIONS * np.sqrt(count * shares * (1 - shares)) - 1
    found = keys[np.floor(at[at >= 0]).astype(np.int64)]
    found = found[found == found]
    repeated = np.intersect1d(found, keys[1:][keys[1:] == keys[:-1]])
    return np.union1d(found, after(repeated))


def after(keys: Keys) -> Keys:
    """The key that follows each of some integers or floats, without those that have none."""
    if keys.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.nextafter(keys[keys < np.inf], keys.dtype.type(np.inf))
    return keys[keys < np.iinfo(keys.dtype).max] + keys.dtype.type(1)


def find_cuts(ends: IntArray, splitters: Keys, ranks: IntArray) -> tuple[IntArray, list[int]]:
    """Find where groups that begin at some ascending ranks, the first one 0 and the last one all keys, are cut.

    `ends`, shape (chunks, segments + 1), are where the segments of each chunk begin, and its end. Gives the cuts, shape
    (chunks, ranks), and the ranks that are too far behind the cut for the next group.
    """
    totals, cuts = ends.sum(axis=0), []
    for rank in ranks.tolist():
        segment = int(np.searchsorted(totals, rank, "right")) - 1
        start, missing = ends[:, segment], rank - int(totals[segment])
        if missing and segment and _alike(splitters, segment):
            sizes = ends[:, segment + 1] - start
            start = start + np.clip(missing - exclusive_scan(sizes)[:-1], 0, sizes)
        cuts.append(start)
    found = np.stack(cuts, axis=1)
    return found, ranks[1:][found.sum(axis=0)[1:] < ranks[:-1]].tolist()


def _alike(splitters: Keys, segment: int) -> bool:
    """Whether all keys of a segment, which is not the first one, are the same."""
    following = after(splitters[segment - 1 : segment])
    return not len(following) or bool((splitters[segment : segment + 1] == following).any())
