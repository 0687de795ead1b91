"""Tasks by key, and recipes: what the tasks of an array are made from, for either of Dask's array classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

from dask.tokenize import tokenize
from dask.typing import Key

from ._dask import List, Task, TaskRef

Chunks = tuple[tuple[float, ...], ...]

NOTHING: Mapping[Key, Any] = MappingProxyType({})


class Tasks(dict[Key, Any]):
    """Hold tasks by key: the name of their stage with a token, and numbers in the stage, behind those of the line."""

    def __init__(self, token: str):
        super().__init__()
        self.token = token
        self.line: tuple[int, ...] = ()

    def key(self, stage: str, *index: int) -> Key:
        """Name a task."""
        return (f"{stage}-{self.token}", *self.line, *index)

    def ref(self, stage: str, *index: int) -> TaskRef:
        """Refer to a task, which may be part of another graph."""
        return TaskRef(self.key(stage, *index))

    def refs(self, stage: str, indices: Iterable[int]) -> List:
        """Refer to several tasks of a stage."""
        return List(*(self.ref(stage, index) for index in indices))

    def add(
        self, stage: str, index: int | tuple[int, ...], function: Callable[..., Any], *arguments: Any, **more: Any
    ) -> TaskRef:
        """Add a task of a stage."""
        numbers = index if isinstance(index, tuple) else (index,)
        return self.put(self.key(stage, *numbers), function, *arguments, **more)

    def put(
        self, key: Key, function: Callable[..., Any], *arguments: Any, kind: type[Task] = Task, **more: Any
    ) -> TaskRef:
        """Add a task of any key, such as an output chunk; `more` is what tasks of its kind have besides."""
        self[key] = task = kind(key, function, *arguments, **more)
        return task.ref()


def chunk_of(key: Key, held: Mapping[Key, Any]) -> Any:
    """The chunk itself if it is held, and becomes part of the task that reads it; else a reference."""
    return held[key] if key in held else TaskRef(key)


def chunks_of(name: str, index: Iterable[Any], extra_dims: int = 0, held: Mapping[Key, Any] = NOTHING) -> list[Any]:
    """The chunks of an array by their indices, as `chunk_of`; its last `extra_dims` dimensions are one chunk each."""
    behind: tuple[int, ...] = (0,) * extra_dims
    return [chunk_of((name, *one, *behind), held) for one in index]


class ArrayRecipe:
    """Say what Dask arrays are made from: a subclass is a frozen dataclass whose fields determine all tasks."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    names: tuple[str, ...]  # of the input arrays, a field

    @cached_property
    def token(self) -> str:
        """What the names of the tasks contain: equal recipes of a class have equal tasks."""
        return tokenize(type(self).__name__, *(getattr(self, field.name) for field in fields(self) if field.compare))

    @property
    def takes_held_chunks(self) -> bool:
        """Whether chunks that the input's graph contains become part of the tasks."""
        return False

    @property
    def first_tasks(self) -> int:
        """Number of the tasks that read input chunks, if every output chunk needs all of them; else 0."""
        return 0

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks that all outputs share; chunks in `held` become part of them."""
        return Tasks(self.token)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the shared ones to the chunks of one output array."""
        raise NotImplementedError

    @property
    def whole_output(self) -> Callable[[str, int, Chunks], Tasks] | None:
        """What takes the place of `output` if all chunks are computed, where fewer tasks make them."""
        return None


def take_chunk(made: tuple[list[Any], ...], which: int, at: int) -> Any:
    """Task: one of the chunks of one output array, of which a task makes several."""
    return made[which][at]


def output_name(prefix: str, token: str, which: int, chunks: Chunks) -> str:
    """Name of one output array of a recipe; several sorts may share their stages and differ in the output's chunks."""
    return f"{prefix}-{tokenize(token, which, chunks)}"
