"""Shared by the tests of whole sorts."""

from __future__ import annotations

from contextlib import contextmanager

import dask
from dask.core import flatten


def groups(count):
    """Ask for a number of exchange groups."""
    return dask.config.set({"gpusort.groups": count})


@contextmanager
def no_computation():
    """A context in which computing any Dask collection fails."""

    def refuse(*_, **__):
        raise AssertionError("a Dask collection was computed while a graph was built")

    with dask.config.set(scheduler=refuse):
        yield


def computed(darr):
    return darr.compute(scheduler="synchronous")


def own_functions(lazy):
    """Names of the functions of this package, and of classes that can be called, that tasks call."""
    functions = (getattr(task, "func", None) for task in dict(lazy.__dask_graph__()).values())
    own = [one for one in functions if getattr(one, "__module__", "").startswith("dask_gpusort")]
    return {getattr(one, "__name__", type(one).__name__) for one in own}


def computed_in_chunks(arrays, get=dask.get):
    """Compute arrays together as `dask.compute` does; gives a list of the blocks of each one too."""
    optimised = dask.optimize(*arrays)
    graph = {key: task for darr in optimised for key, task in dict(darr.__dask_graph__()).items()}
    nested = get(graph, [darr.__dask_keys__() for darr in optimised])
    finish = [darr.__dask_postcompute__() for darr in optimised]
    whole = [function(blocks, *given) for (function, given), blocks in zip(finish, nested, strict=True)]
    return whole, [list(flatten(blocks, (list, tuple))) for blocks in nested]


def check_sizes(darr, chunks=None, blocks=None):
    """Assert that the shape of every block matches the chunks of the array, or others."""
    keys = list(flatten(darr.__dask_keys__()))
    blocks = dask.get(dict(darr.__dask_graph__()), keys) if blocks is None else blocks
    assert [block.shape for block in blocks] == [
        tuple(sizes[position] for sizes, position in zip(chunks or darr.chunks, key[1:], strict=True)) for key in keys
    ]
