"""What groups receive and keep, from the bounds of the cuts."""

from __future__ import annotations


def piece(bounds, run, group):
    """Keys of a run that a group receives."""
    return slice(int(bounds.first[run, group]), int(bounds.last[run, group + 1]))


def lengths(bounds, group):
    """Keys that a group receives from each run."""
    return bounds.last[:, group + 1] - bounds.first[:, group]


def kept(bounds, group):
    """The range that a group keeps of its received keys after sorting."""
    start = int(bounds.ranks[group] - bounds.first[:, group].sum())
    return slice(start, start + int(bounds.ranks[group + 1] - bounds.ranks[group]))
