"""Where the members of gangs run, and when they begin, on the scheduler.

A member has a worker of its own where there are enough, and no other worker can steal it. It runs on the workers that
the user asks for (`workers`, `resources`), but takes no unit of a resource: a member that waits for others would keep
it, and another member may need it.

A member that waits for others holds its sorted chunks. So a gang begins only if few others gather on its workers::

    chunks not all computed     fewer than `MOST_GATHERING` gangs gather on each of its workers
    all chunks are there        fewer than `MOST_GATHERING` of those whose chunks are all there too

A gang of the second kind ends without any other gang, and gangs of the first kind never hold it up. So two gangs never
wait for each other, even if one sorts what the other makes. Members of other gangs have no worker yet: the scheduler
keeps them, and workers know nothing of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dask.typing import Key
from tlz import concat

from .._distributed import monotonic
from ..placement import Placement, gpu_workers
from .member import NAME

#: Gangs of one kind that gather on a worker: one exchanges while the next one sorts.
MOST_GATHERING = 2
#: Tasks of one distance from a chunk that are looked at for those that workers hold.
MOST_SOURCES = 16


class Asked(NamedTuple):
    """The restrictions of a task, as the user gave them."""

    workers: set[str] | None
    hosts: set[str] | None
    resources: dict[str, float] | None
    loose: bool


class Assignment:
    """Assign workers to all members; `members` gives the scheduler's states of the members of a gang by its token."""

    def __init__(self, scheduler: Any, members: Callable[[str], Sequence[Any]]):
        self.scheduler, self._members = scheduler, members
        self._placement = Placement(scheduler, NAME)
        self._asked: dict[Key, Asked] = {}
        self._waiting: dict[str, None] = {}  # tokens of gangs that have not begun, in their order
        self._gathering: dict[str, set[str]] = {}  # addresses of those that have, until all have exchanged
        self._begun: set[str] = set()

    def add(self, token: str, members: Sequence[Any]) -> None:
        """Members that the scheduler may not have known."""
        new = [state for state in members if state.key not in self._asked]
        for one in new:
            asked = one.worker_restrictions, one.host_restrictions, one.resource_restrictions, one.loose_restrictions
            self._asked[one.key] = Asked(*asked)
            self._placement.put(one, None)
        if token in self._begun:
            self.assign(new)
        else:
            self._waiting[token] = None

    def begin(self) -> None:
        """Let those gangs begin that may, on each worker in their order."""
        everywhere = self.scheduler.workers.keys()
        held_up: dict[bool, set[str]] = {True: set(), False: set()}  # workers that an earlier one waits for, by kind
        for token in list(self._waiting):
            members = self._members(token)
            complete = _is_complete(members)
            if everywhere and everywhere <= held_up[complete]:
                continue
            chosen = self._choose(members)
            addresses = {address for address in chosen.values() if address is not None}
            full = any(self._gathers_on(address, complete) >= MOST_GATHERING for address in addresses)
            if full or addresses & held_up[complete]:
                # A gang whose chunks are not there may wait for any of the others, so it holds up no complete one.
                for kind in {complete, False}:
                    held_up[kind] |= addresses
                continue
            del self._waiting[token]
            self._begun.add(token)
            self._gathering[token] = addresses
            self._put(chosen)

    def _gathers_on(self, address: str, complete: bool) -> int:
        found = [token for token, addresses in self._gathering.items() if address in addresses]
        return sum(not complete or _is_complete(self._members(token)) for token in found)

    def renew(self) -> None:
        """Tell the scheduler that members of gangs that have not begun are not those that no worker can run.

        It fails those after the user's `no-workers-timeout`.
        """
        unrunnable = self.scheduler.unrunnable
        for state in [state for token in self._waiting for state in self._members(token) if state in unrunnable]:
            del unrunnable[state]
            unrunnable[state] = monotonic()  # the scheduler keeps them in this order

    def end(self, token: str) -> None:
        """All members of a gang have exchanged, or it has failed."""
        self._gathering.pop(token, None)

    def release(self, state: Any) -> None:
        """A task is no member any more: it may run where the user lets it."""
        asked = self._asked[state.key]
        state.worker_restrictions, state.host_restrictions, state.resource_restrictions, _ = asked
        state.loose_restrictions = asked.loose

    def forget_member(self, key: Key) -> None:
        """The scheduler has forgotten a member."""
        self._asked.pop(key, None)
        self._placement.forget(key)

    def forget(self, token: str) -> None:
        """No task of a gang is needed any more."""
        self.end(token)
        self._waiting.pop(token, None)
        self._begun.discard(token)

    def assign(self, members: Sequence[Any]) -> None:
        """Choose workers for some members of gangs that have begun."""
        self._put(self._choose(members))

    def reassign(self, token: str) -> None:
        """Choose workers for members whose own one cannot run them: it was lost or paused, perhaps long ago."""
        waiting = [state for state in self._members(token) if state.state == "no-worker"]
        self.assign([state for state in waiting if NAME not in state.worker_restrictions])

    def resume(self) -> None:
        """Choose workers for members of gangs that have begun, and have none: a worker has come, or goes on."""
        for token in self.tokens_on(None):
            self.assign([state for state in self._placement.at(None) if state.run_spec.mark.token == token])

    def tokens_on(self, worker: str | None) -> set[str]:
        """Tokens of the gangs that have begun, and have members on a worker, or without one."""
        return {state.run_spec.mark.token for state in self._placement.at(worker)} & self._begun

    def move(self, members: Sequence[Any]) -> list[Any]:
        """Choose other workers for some members of a gang; gives those for which one runs."""
        chosen = {state: address for state, address in self._choose(members).items() if address is not None}
        self._put(chosen)
        return list(chosen)

    def _put(self, chosen: Mapping[Any, str | None]) -> None:
        for state, address in chosen.items():
            self._placement.put(state, address)
        self._placement.resume(chosen)

    def _choose(self, members: Sequence[Any]) -> dict[Any, str | None]:
        """For each member the least used worker: of those that with most bytes of its chunks."""
        if not members:
            return {}
        others = set(self._members(members[0].run_spec.mark.token)).difference(members)
        used = Counter(address for state in others for address in state.worker_restrictions or ())
        chosen: dict[Any, str | None] = {}
        for state in sorted(members, key=lambda state: state.run_spec.mark.rank):
            allowed = sorted(worker.address for worker in self._allowed(state))
            least = min((used[address] for address in allowed), default=0)
            held = {address: 0 for address in allowed if used[address] == least}
            for one in concat(map(_nearest_held, state.dependencies)):
                for address in held.keys() & {worker.address for worker in one.who_has}:
                    held[address] += one.nbytes
            chosen[state] = max(held, key=held.__getitem__, default=None)
            used[chosen[state]] += 1
        return chosen

    def _allowed(self, state: Any) -> set[Any]:
        """The running workers on which the user lets a member run: with a GPU, if it sorts on one and some have one."""
        asked, before = self._asked[state.key], (state.worker_restrictions, state.resource_restrictions)
        state.worker_restrictions, state.host_restrictions, state.resource_restrictions, loose = asked
        allowed: set[Any] | None = self.scheduler.valid_workers(state)
        state.worker_restrictions, state.resource_restrictions = before
        state.host_restrictions = None
        if allowed is None or (loose and not allowed):
            allowed = self.scheduler.running
        gpus = gpu_workers(self.scheduler.workers.values()) if state.run_spec.mark.on_devices else set()
        return allowed & gpus if gpus and not asked.workers else set(allowed)


def _nearest_held(chunk: Any) -> list[Any]:
    """A chunk if a worker holds it, else those of the tasks nearest to it that workers hold."""
    near = [chunk]
    while near and not (held := [one for one in near if one.who_has]):
        near = [source for one in near for source in one.dependencies][:MOST_SOURCES]
    return held if near else []


def _is_complete(members: Sequence[Any]) -> bool:
    """Whether all chunks of a gang are there."""
    return all(
        state.state in ("processing", "memory") or all(chunk.who_has for chunk in state.dependencies)
        for state in members
    )
