"""What the package takes of Dask that Dask does not promise to keep, in one place.

Everything here may be moved or renamed by a release; nothing else in the package imports it from Dask.
"""

from dask._collections import new_collection
from dask._task_spec import List, Task, TaskRef
from dask.array.core import normalize_chunks, slices_from_chunks
from dask.base import get_scheduler
from dask.core import flatten
from dask.layers import ArrayBlockwiseDep
from dask.local import get_sync

__all__ = [
    "ArrayBlockwiseDep",
    "List",
    "Task",
    "TaskRef",
    "flatten",
    "get_scheduler",
    "get_sync",
    "new_collection",
    "normalize_chunks",
    "slices_from_chunks",
]
