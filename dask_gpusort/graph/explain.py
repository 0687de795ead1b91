"""Plans as text: a builder notes the plans that it makes, and who explains it prints the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from dask.base import is_dask_collection
from tlz import merge


@dataclass(frozen=True)
class Made:
    """Hold what a builder makes."""

    inputs: Sequence[Any]  # Dask arrays
    found: Sequence[Any]  # the arrays that are made from them
    steps: Sequence[Any]  # plans of the sorts and the like that are part of it

    @cached_property
    def tasks(self) -> int:
        """Tasks of the arrays without those of their inputs, before Dask optimizes the graph."""
        return count_tasks(self.found, self.inputs)

    @property
    def given_chunks(self) -> int:
        """Chunks of the first input."""
        return math.prod(self.inputs[0].numblocks)

    @property
    def found_chunks(self) -> int:
        """Chunks of the first array that is made."""
        return math.prod(self.found[0].numblocks)

    def step(self, kind: type) -> Any:
        """The first plan of a kind, None if there is none."""
        return next((plan for plan in self.steps if isinstance(plan, kind)), None)


Describe: TypeAlias = Callable[[Made], str]

#: What builders note in this context, while one is explained.
_noted: ContextVar[list[tuple[Any, Describe]] | None] = ContextVar("noted", default=None)


def note(plan: Any, describe: Describe) -> None:
    """Note a plan, and how it is told; lines about the input have no plan, and end with a newline."""
    if (noted := _noted.get()) is not None:
        noted.append((plan, describe))


def _built(build: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, list[tuple[Any, Describe]]]:
    """What a builder makes, and what it notes."""
    noted: list[tuple[Any, Describe]] = []
    token = _noted.set(noted)
    try:
        return build(*arguments, **options), noted
    finally:
        _noted.reset(token)


def plans_of(build: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    """The plans that a builder makes: its own, then those of its steps."""
    _, noted = _built(build, *arguments, **options)
    return [plan for plan, _ in noted if plan is not None]


def explained(build: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Call a builder, and tell the first plan that it makes, behind the lines about its input."""
    found, noted = _built(build, *arguments, **options)
    first = next(number for number, (plan, _) in enumerate(noted) if plan is not None)
    made = Made(
        inputs=[one for one in arguments if is_dask_collection(one)],
        found=found if isinstance(found, tuple) else (found,),
        steps=[plan for plan, _ in noted[first + 1 :]],
    )
    return "".join(describe(made) for _, describe in noted[: first + 1])


def count_tasks(found: Sequence[Any], inputs: Sequence[Any]) -> int:
    """Tasks of some arrays without those of their inputs, before Dask optimizes the graph."""
    made, given = (merge(dict(array.__dask_graph__()) for array in arrays) for arrays in (found, inputs))
    return len(made.keys() - given.keys())
