r"""The driver by plain tasks: each sender cuts a shard for each receiver, which Dask moves.

It is the driver of CuPy chunks, and of NumPy chunks where workers cannot keep runs. On a host with fast links between
its GPUs the network is not the bottleneck. Tasks are: each one on the critical path costs milliseconds, however little
it does. So one task, a *bundle*, has the parts of one worker::

    unique-local b           the parts of bundle b
       |       \
       |    unique-local-note b      small, on the host: sent to the one task that decides
       |        |
       |    unique-scan
       |        |
    unique-shard (b, g)      rows of bundle b for group g, copied end to end: one message
                |
       [sort-freed b]        large data: all bundles are cut before any group is finished,
                |            [sort-turn g] and groups wait for earlier ones
          unique-merge g     divided into pieces again

With B bundles, G groups and C output chunks there are B (2 + G) + 1 + G + C tasks, and B and up to G more for large
data. If a group is one chunk of the only output, that chunk's task finishes the group: one task and one step less.

Shards are copies. A bundle is freed once its shards are cut, and a shard once its group is finished. By default Dask
finishes group after group and cuts one shard off every bundle for each, so at the end all bundles coexist with nearly
all groups. If a GPU cannot hold both, all bundles are cut first, bundle by bundle, and the rows are held once at any
time (see `plan.memory`).

Then groups are finished in turns, one group on each GPU. A worker fetches the shards of all groups that it is given,
however many. So a group is given to it only after the turn before the last one (tasks ``sort-turn``): the shards of one
group arrive while another is merged. Tasks name the worker that has their bundle or group (`PlacedTask`). Without that
Dask copies bundles to less busy workers to cut them: of two workers with 75 MB of keys each, planned as GPUs, one held
117 MB of results, with it each held 86 to 88.

Every array is complete when its task ends (`complete`), because transfers ignore CUDA streams.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

from dask.typing import Key

from ..chunk import complete
from ..chunk.checks import Blocks
from ..chunk.run import Run
from ..functions.program import Superstep
from ..graph import serialization
from ..graph._dask import List, Task, TaskRef
from ..graph.placement import PlacedTask
from ..graph.tasks import Tasks
from ..plan import Runs
from ..plan.memory import FETCHED_GROUPS
from .notes import add_combined, conclude
from .turns import Bundle, Listed, Store, Turn, check_same, list_turns, take_array, work_on
from .wiring import Wired, replies_alone, shards_of, wire


@dataclass(frozen=True)
class Pace:
    """Say which parts one task has, on which worker, and which tasks wait for others."""

    bundles: Runs  # the parts of each task
    workers: tuple[str | int, ...] = ()  # of each bundle, if tasks are placed
    cut_first: bool = False  # whether all bundles are cut before any group is finished
    turn_size: int = 0  # groups that are finished at once, each on a worker of its own; 0 if all are, anywhere

    def awaited_by(self, group: int) -> range:
        """The groups that are finished before the shards of a group move, so that few shards are held twice."""
        first = (group // self.turn_size - FETCHED_GROUPS) * self.turn_size if self.turn_size else 0
        return range(max(first, 0), max(first + self.turn_size, 0))


def take_bundle(
    step: Superstep,
    numbers: tuple[int, ...],
    parts: Sequence[Blocks | None],
    own: Bundle | None,
    listed: Listed | None,
    shards: Sequence[Run | Turn],
) -> Bundle:
    """Task: one superstep of some parts, from what they have kept, and shards that groups have sent."""
    turns = own.turns if own else [None] * len(numbers)
    groups = tuple((group,) for group in range(len(shards)))
    pieces = _pieces(step, listed, shards, groups, numbers)
    given = zip(numbers, parts, turns, pieces, strict=True)
    serialization.register()
    made = (work_on(step, number, Store(), part, turn, listed, one, None) for number, part, turn, one in given)
    return Bundle(numbers, tuple(made))


def take_group(
    step: Superstep,
    number: int,
    part: Blocks | None,
    own: Turn | None,
    listed: Listed | None,
    shards: Sequence[Run | Turn],
    bundles: Runs,
    earlier: Sequence[None],
) -> Turn:
    """Task: one superstep of a group, from what it has kept, and shards of all bundles.

    `earlier` makes the task wait for bundles, or for earlier groups, and is not used.
    """
    serialization.register()
    (pieces,) = _pieces(step, listed, shards, bundles, (number,))
    ends = listed.ends_of(step, number) if listed else None
    return work_on(step, number, Store(), part, own, listed, pieces, ends)


def _pieces(
    step: Superstep, listed: Listed | None, shards: Sequence[Run | Turn], senders: Runs, receivers: tuple[int, ...]
) -> list[list[tuple[int, Run]]]:
    """What has arrived for each receiver, in a shard for all of them of each of some lists of senders."""
    if not shards:
        return [[] for _ in receivers]
    sent: list[Run] = [one.runs[0] if isinstance(one, Turn) else one for one in shards]
    if step.portions:
        return [list(enumerate(sent))]
    assert listed is not None
    assert listed.ends is not None
    found = listed.ends.split(senders, sent, receivers)
    return [found[receiver] for receiver in receivers]


def take_note(made: Bundle | Turn) -> Bundle | Turn:
    """Task: what a turn, or those of a bundle, tell all others."""
    if isinstance(made, Bundle):
        return Bundle(made.numbers, tuple(Turn(turn.note, turn.mark) for turn in made.turns))
    return Turn(made.note, made.mark)


def cut_shard(
    step: Superstep, senders: tuple[int, ...], made: Bundle | Turn, listed: Listed, receivers: tuple[int, ...]
) -> Run:
    """Task: the rows of a bundle, or of a group, for some receivers, copied."""
    serialization.register()
    turns = made.turns if isinstance(made, Bundle) else (made,)
    for number, turn in zip(senders, turns, strict=True):
        check_same(step, number, turn, listed)
    assert listed.ends is not None
    shard = listed.ends.cut(senders, [turn.runs[0] for turn in turns], receivers, copy=True)
    complete(shard.keys)
    return shard


def turn_of(bundle: Bundle, at: int) -> Turn:
    """The turn of one part of a bundle."""
    return bundle.turns[at]


def note_done(_: Any) -> None:
    """Task: all shards of a bundle are cut, or a group is finished."""


#: Tasks, by the receivers of their results: each bundle, or each group.
Arrivals: TypeAlias = dict[int, list[TaskRef]]


@dataclass(frozen=True)
class PlainTasks:
    """Make the tasks of a program that cut shards, and move these."""

    steps: Sequence[Superstep]
    groups: int
    pace: Pace

    def add(self, tasks: Tasks, blocks: Mapping[str, Sequence[Any]], alone: Collection[int]) -> None:
        """Add the tasks of all supersteps, as `KeptRuns.add`."""
        arrived: Arrivals = {}
        wired, seen = wire(self.steps, list_replies=False), set[str]()
        for at, own in enumerate(wired):
            step, last = own.step, at + 1 == len(wired)
            parts = blocks[step.side]
            if step.side in seen and not step.rereads:
                parts = [None] * len(parts)
            seen.add(step.side)
            if replies_alone(step):
                arrived = self._replies(tasks, own, parts, arrived)
                continue
            if step.side == "part":
                for bundle in range(len(self.pace.bundles) if step.stage else 0):
                    turn = self._bundle(tasks, own, bundle, parts, arrived.get(bundle, []))
                    tasks.add(step.stage, bundle, *turn, **self._placed_bundle(bundle))
            else:
                for group in (one for one in range(self.groups) if not (last and one in alone)):
                    turn = self._group(tasks, own, group, parts[group], arrived.get(group, []))
                    made = tasks.add(step.stage, group, *turn, **self._placed_group(group if last else None))
                    self._note_turn(tasks, group, made, last)
            if step.listing:
                self._listing(tasks, own)
            arrived = self._shards(tasks, own) if own.sender else {}

    def put_last(self, tasks: Tasks, key: Key, group: int, which: int) -> None:
        """Add the last superstep of a group, as the task of a chunk that is one of its arrays."""
        *_, own = wire(self.steps)
        shards = [tasks.ref(own.arrives, bundle, group) for bundle in range(len(self.pace.bundles))]
        turn = Task(None, *self._group(tasks, own, group, None, shards))
        self._note_turn(tasks, group, tasks.put(key, take_array, turn, which, None, **self._placed_group(group)), True)

    def made_by(self, tasks: Tasks, step: Superstep, number: int) -> TaskRef | Task:
        """What a superstep has made of a part or a group."""
        if step.side == "group":
            return tasks.ref(step.stage, number)
        bundle, at = self._positions[number]
        made: Any = tasks.ref(step.stage, bundle)
        if not step.stage:
            *_, own = wire(self.steps)
            made = Task(None, *self._bundle(tasks, own, bundle, [None] * len(self._positions), []))
        return Task(None, turn_of, made, at)

    @cached_property
    def _positions(self) -> dict[int, tuple[int, int]]:
        """The bundle of each part, and which of its parts it is."""
        return {part: (bundle, at) for bundle, own in enumerate(self.pace.bundles) for at, part in enumerate(own)}

    def _numbers(self, side: str) -> list[tuple[int, ...]]:
        """The parts of each bundle, or each group."""
        return list(self.pace.bundles) if side == "part" else [(group,) for group in range(self.groups)]

    def _bundle(
        self, tasks: Tasks, own: Wired, bundle: int, parts: Sequence[Any], shards: Sequence[TaskRef]
    ) -> tuple[Any, ...]:
        """A superstep of the parts of a bundle: a task's function and arguments."""
        numbers = self.pace.bundles[bundle]
        chunks = List(*(parts[number] for number in numbers))
        return take_bundle, own.step.lean, numbers, chunks, *_known(tasks, own, bundle), List(*shards)

    def _group(self, tasks: Tasks, own: Wired, group: int, part: Any, shards: Sequence[TaskRef]) -> tuple[Any, ...]:
        """A superstep of a group: a task's function and arguments."""
        awaited = self.pace.awaited_by(group)
        earlier = tasks.refs("sort-turn", awaited)
        if self.pace.cut_first and not awaited:
            earlier = tasks.refs("sort-freed", range(len(self.pace.bundles)))
        kept, decided = _known(tasks, own, group)
        return take_group, own.step.lean, group, part, kept, decided, List(*shards), self.pace.bundles, earlier

    def _note_turn(self, tasks: Tasks, group: int, made: TaskRef, last: bool) -> None:
        """Add the task that other groups wait for, if some do."""
        if last and group < self.pace.awaited_by(self.groups - 1).stop:
            tasks.add("sort-turn", group, note_done, made)

    def _replies(self, tasks: Tasks, own: Wired, parts: Sequence[Any], arrived: Arrivals) -> Arrivals:
        """Add the replies of all groups: each piece has one of its own, so no task holds more, whatever arrives."""
        bundles = range(len(self.pace.bundles))
        for bundle, group in product(bundles, range(self.groups)):
            turn = self._group(tasks, own, group, parts[group], [arrived[group][bundle]])
            tasks.add(own.step.stage, (bundle, group), *turn)
        return {
            bundle: [tasks.ref(own.step.stage, bundle, group) for group in range(self.groups)] for bundle in bundles
        }

    def _listing(self, tasks: Tasks, own: Wired) -> None:
        """Add the decision behind a superstep."""
        step, numbers = own.step, range(len(self._numbers(own.step.side)))
        notes = [tasks.ref(step.stage, number) for number in numbers]
        if step.keeps or step.moves == "back":  # more than notes
            name = step.noting or f"{step.stage}-note"
            notes = [tasks.add(name, number, take_note, made) for number, made in enumerate(notes)]
        if step.concludes:
            tasks.add(step.listing, 0, conclude, step, add_combined(tasks, step, notes))
            return
        before = tasks.ref(own.decided, 0) if own.decided else None
        tasks.add(step.listing, 0, list_turns, step, List(*notes), List(), Store(), before)

    def _shards(self, tasks: Tasks, own: Wired) -> Arrivals:
        """Add the shards that move behind a superstep."""
        step, listed = own.step, tasks.ref(own.step.listing, 0)
        is_out = step.moves == "out"
        senders, receivers = (self._numbers(side) for side in ("part", "group")[:: 1 if is_out else -1])
        for receiver, to in enumerate(receivers):
            for sender, numbers in enumerate(senders):
                made = tasks.ref(own.sender, sender)
                placed = self._placed_bundle(sender) if is_out else {}
                tasks.add(
                    shards_of(step), (sender, receiver), cut_shard, step.lean, numbers, made, listed, to, **placed
                )
        arrived = {
            receiver: [tasks.ref(shards_of(step), sender, receiver) for sender in range(len(senders))]
            for receiver in range(len(receivers))
        }
        if self.pace.cut_first and is_out:
            for bundle in range(len(senders)):
                tasks.add("sort-freed", bundle, note_done, List(*(shards[bundle] for shards in arrived.values())))
        return arrived

    def _placed_bundle(self, bundle: int) -> dict[str, Any]:
        """The options of a task for the worker of a bundle, if it has one."""
        return {"kind": PlacedTask, "mark": self.pace.workers[bundle]} if self.pace.workers else {}

    def _placed_group(self, group: int | None) -> dict[str, Any]:
        """The options of a task for the worker of a group, if groups are finished in turns."""
        return {"kind": PlacedTask, "mark": group} if group is not None and self.pace.turn_size else {}


def _known(tasks: Tasks, own: Wired, number: int) -> tuple[TaskRef | None, TaskRef | None]:
    """What a bundle or a group has kept, and the last decision."""
    kept = tasks.ref(own.owner, number) if own.owner else None
    return kept, tasks.ref(own.decided, 0) if own.decided else None
