"""Shared by the tests of whole sorts."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import dask
from dask.core import flatten

from dask_gpusort.plan import counting


@contextmanager
def groups(count, table=(counting.FAN_IN, counting.TABLE_BYTES)):
    """Ask for a number of exchange groups; a small table and fan-in give the deep tree of a huge array."""
    fan_in, table_bytes = table
    with (
        dask.config.set({"gpusort.groups": count}),
        mock.patch.object(counting, "FAN_IN", fan_in),
        mock.patch.object(counting, "TABLE_BYTES", table_bytes),
    ):
        yield


@contextmanager
def no_computation():
    """A context in which computing any Dask collection fails."""

    def refuse(*_, **__):
        raise AssertionError("a Dask collection was computed while a graph was built")

    with dask.config.set(scheduler=refuse):
        yield


def computed(darr):
    return darr.compute(scheduler="synchronous")


def check_sizes(darr, chunks=None):
    """Assert that the shape of every block matches the chunks of the array, or others."""
    keys = list(flatten(darr.__dask_keys__()))
    blocks = dask.get(dict(darr.__dask_graph__()), keys)
    assert [block.shape for block in blocks] == [
        tuple(sizes[position] for sizes, position in zip(chunks or darr.chunks, key[1:], strict=True)) for key in keys
    ]
