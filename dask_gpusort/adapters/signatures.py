"""Our functions with the arguments of other libraries, which `help` shows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ..arguments.table import RENAMED

F = TypeVar("F", bound=Callable[..., Any])


class Arguments(NamedTuple):
    """Arguments of another library's function, by the names of ours."""

    #: Those given by position, in its order; with "/" at the end by position alone. The rest of ours is given by name.
    by_position: str
    #: Defaults that are others than ours, and those of arguments that we do not have, which have no effect.
    defaults: Mapping[str, Any] = {}
    #: What sees the arguments before the function, and refuses or changes some of them.
    check: Callable[[dict[str, Any]], None] | None = None


#: Arguments that are ours.
OURS = Arguments("")


def adapted(function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
    """One of our functions with the arguments of another library."""
    if arguments is OURS:
        return function
    own = inspect.signature(function).parameters
    signature = _signature_of(own, arguments)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}: give {function.__name__}{signature}") from None
        bound.apply_defaults()
        given = bound.arguments
        if arguments.check:
            arguments.check(given)
        return function(**{name: value for name, value in given.items() if name in own})

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def refusing_interpolation(function: F) -> F:
    """Let a method refuse the name that xarray had for `method`."""

    @functools.wraps(function)
    def refusing(*args: Any, **options: Any) -> Any:
        RENAMED.refuse(interpolation=options.get("interpolation"))
        return function(*args, **options)

    return refusing  # type: ignore[return-value]


def _signature_of(own: Mapping[str, inspect.Parameter], arguments: Arguments) -> inspect.Signature:
    names = arguments.by_position.removesuffix("/").split()
    alone = arguments.by_position.endswith("/")
    kind = inspect.Parameter.POSITIONAL_ONLY if alone else inspect.Parameter.POSITIONAL_OR_KEYWORD
    kinds = dict.fromkeys(names, kind) | {name: inspect.Parameter.KEYWORD_ONLY for name in own if name not in names}
    defaults = {**{name: one.default for name, one in own.items()}, **arguments.defaults}
    return inspect.Signature([inspect.Parameter(name, kinds[name], default=defaults[name]) for name in kinds])
