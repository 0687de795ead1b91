"""The choice of an exchange, and the plugins that it needs on a cluster."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ..config import setting
from ..plan import Exchange, InputChunks, Runs, Size
from ..plan.division import gang_of_gather
from .runtime import ONE_PROCESS, Kind, Runtime


def choose_exchange(
    asked: str,
    kind: Kind,
    library: str,
    *,
    joins: bool = False,
    gangs: bool = False,
) -> Exchange:
    """Choose the exchange for a scheduler and the library of the chunks.

    `joins` says whether one task should sort all chunks, `gangs` whether a gang can run, and is the best exchange of
    CuPy chunks.
    """
    if asked == "gang" and kind != "distributed":
        raise ValueError(
            "exchange='gang' needs a distributed Client, made before the sort is built: use exchange='auto'"
        )
    if asked == "runs" and (kind != "distributed" or library != "numpy"):
        reason = "keeps NumPy chunks alone" if kind == "distributed" else "needs a distributed Client, made before"
        raise ValueError(
            f"exchange='runs' {reason}{'' if kind == 'distributed' else ' the sort is built'}: use exchange='auto'"
        )
    if asked == "auto" and joins:
        return "join"
    if asked != "auto":
        return asked  # type: ignore[return-value]
    if library == "cupy":
        return "gang" if gangs else "device"
    if kind == "distributed":
        return "runs"
    return "gather" if kind in ONE_PROCESS else "tasks"


#: Where the plugins of an exchange are installed. These modules import distributed.
PLUGINS: dict[Exchange, str] = {"gang": ".gang.scheduler_plugin", "runs": ".runs.plugins"}


def install(exchange: Exchange, client: Any) -> str | None:
    """Make an exchange possible on the cluster of a client, once; or say why it is not."""
    try:
        module = import_module(PLUGINS[exchange], __package__)
    except (AttributeError, ImportError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    reason: str | None = module.install(client)
    return reason


#: What takes the place of an exchange whose plugins do not fit the cluster's version of distributed.
INSTEAD: dict[Exchange, Exchange] = {"gang": "device", "runs": "tasks"}


def install_or_else(exchange: Exchange, asked: str, client: Any) -> tuple[Exchange, str]:
    """Install an exchange, or name the one in its place and why, if its plugins cannot run on the client's cluster."""
    if exchange not in INSTEAD:
        return exchange, ""
    if exchange == "gang" and client.asynchronous:
        raise ValueError("exchange='gang' needs a Client that is not asynchronous: use exchange='tasks'")
    reason = install(exchange, client)
    if reason is None:
        return exchange, ""
    if asked == exchange:
        raise ValueError(
            f"exchange={exchange!r} does not fit this version of distributed ({reason}): use exchange='auto'"
        )
    _warn_once(exchange, reason)
    return INSTEAD[exchange], f"{exchange}, which does not fit distributed {version('distributed')} ({reason})"


@functools.cache
def _warn_once(exchange: Exchange, reason: str) -> None:
    warnings.warn(
        f"exchange={INSTEAD[exchange]!r} takes the place of {exchange!r}, which does not fit this version of "
        f"distributed ({reason}); it needs more memory: "
        "install another version of distributed, or a newer dask_gpusort",
        RuntimeWarning,
        stacklevel=2,
    )


def gang_of(
    runtime: Runtime, asked: str, sizes: Sequence[Size], arrays: Sequence[Any], choose: Callable[[InputChunks], Runs]
) -> Runs:
    """The chunks of each member of a gang, if it should make something of chunks which workers hold; else none.

    `choose` gives them, or none; `sizes` are those of the chunks of some arrays.
    """
    if asked != "gang" and (asked != "auto" or runtime.kind != "distributed" or runtime.library != "cupy"):
        return ()
    holders = runtime.holders(*arrays)
    sources = choose(InputChunks(sizes, workers=holders if len(holders) == len(sizes) else []))
    if not sources:
        return ()
    exchange = choose_exchange(asked, runtime.kind, runtime.library, gangs=True)
    return sources if install_or_else(exchange, asked, runtime.client)[0] == "gang" else ()


def gathering_members(
    runtime: Runtime, arrays: tuple[Any, Any], gathered: Sequence[Size], others: Sequence[Size]
) -> Runs:
    """The chunks of each member of a gang that gathers the first of two arrays, to read from it for the second one.

    Bytes of each chunk are those of elements, and for the second array of what is read too.
    """
    asked = setting("exchange")

    def choose(chunks: InputChunks) -> Runs:
        return gang_of_gather(chunks, len(gathered), runtime.workers, asked)

    return gang_of(runtime, asked, [*gathered, *others], arrays, choose)


def program_exchange(runtime: Runtime, asked: str) -> tuple[Exchange, str]:
    """The exchange of a program that no gang runs, as `install_or_else`."""
    wanted = {"gang": INSTEAD["gang"], "join": "auto"}.get(asked, asked)
    return install_or_else(choose_exchange(wanted, runtime.kind, runtime.library), wanted, runtime.client)


def exchange_by_group(runtime: Runtime) -> Exchange:
    """The same of searches, and of reads and writes at positions."""
    asked = setting("exchange")
    return program_exchange(runtime, asked if asked in ("auto", "runs") else "tasks")[0]
