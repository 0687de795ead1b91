"""How needles are searched for among sorted keys: in all of them at once, or group by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .runs import RUNS_PER_THREAD, THREADS_RUN_BYTES, chunk_ranges
from .terms import Runs, Size, Workers

#: Share of the memory up to which the sorted keys are one array, which every task reads.
JOINED_SHARE = 1 / 4
#: Share of the memory of a thread up to which chunks of keys are one group, and chunks of needles one bundle. A bundle
#: is sorted with positions, which takes about five times its bytes.
GROUP_SHARE = 1 / 16


@dataclass(frozen=True)
class SearchPlan:
    """How needles are searched for.

    Attributes
    ----------
    groups : tuple of tuples of int
        The chunks of the sorted keys that are joined.
    bundles : tuple of tuples of int
        The chunks of needles that are sorted together, numbered in C order; empty if each is looked up on its own.
    """

    groups: Runs
    bundles: Runs = ()

    @property
    def joined(self) -> bool:
        """Whether all keys are one array."""
        return len(self.groups) == 1


def make_search_plan(
    keys: Sequence[Size],
    needles: Sequence[Size],
    workers: Workers,
    memory: int | None,
    groups: int | None,
    *,
    one_memory: bool = False,
) -> SearchPlan:
    """The plan of a search.

    Parameters
    ----------
    keys, needles : sequence of int
        Bytes of each chunk, nan where unknown. Keys of an unknown number are assumed to fit.
    workers : Workers
    memory : int or None
        Bytes of memory that the process has, where the workers have no limit of their own; None if unknown.
    groups : int or None
        Number of groups that is asked for.
    one_memory : bool
        Whether neighbouring chunks of needles are looked up together: needles that are closer together share more of
        the cache. 12.8M int64 in as many take 2.6 s of CPU time in chunks of 200,000, 1.85 in chunks of 800,000 (EPYC).

    Notes
    -----
    Each bundle has a piece in each group, so the number of tasks is that of the chunks, and the product of groups and
    bundles, whose numbers follow from the bytes and not from the chunks.
    """
    own = workers.memory or (memory and memory // workers.threads) or math.inf
    total = sum(keys)
    if groups is None and not total > JOINED_SHARE * own * (1 if workers.memory else workers.threads):
        return SearchPlan((tuple(range(len(keys))),), _near(needles, workers) if one_memory else ())
    most = GROUP_SHARE * own
    share = most if groups is None else total / groups
    found = tuple(chunk_ranges(range(len(keys)), keys, share))
    return SearchPlan(found, tuple(chunk_ranges(range(len(needles)), needles, most)))


def _near(needles: Sequence[Size], workers: Workers) -> Runs:
    """Neighbouring chunks of needles that are looked up together, on the host; empty if each is alone."""
    most = min(THREADS_RUN_BYTES, sum(needles) / (RUNS_PER_THREAD * workers.threads))
    found = tuple(chunk_ranges(range(len(needles)), needles, most))
    return () if workers.devices or len(found) == len(needles) else found
