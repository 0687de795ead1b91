"""The cost of a plan: messages and bytes, from the plan alone.

With n keys of w bytes (with companions) in P sorted runs, G groups, s samples a run in entries of e bytes, and c
candidates, before which all runs count their keys if P and G are large::

    stage      bytes read and written           besides the keys
    sort       2 n w                            P tasks
    count      P s e, and 8 P c                 one task reads P summaries, or P tasks count, and a tree adds up
    exchange   0, 2 n w or 4 n w                messages: none (gather), bundles x G (tasks, device, gang)
                                                or at most (workers - 1) G (runs)
    merge      2 n w                            P G pieces, G tasks
    output     0, views of groups               output chunks

Unresolved keys are sent to two groups (at most the share `Plan.unresolved`); they are counted once here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dask.utils import format_bytes

from . import plan as plans
from .plan import Exchange, Plan
from .plan.counting import ENTRY_BYTES, count_sums
from .plan.terms import Projection, format_chunks, format_count

#: Reads and writes of every key between the sort of its chunk and the merge of its group: views of the sorted chunks,
#: shards written to disk and read back, or shards in memory.
CROSSINGS: dict[Exchange, int] = {"join": 0, "gather": 0, "runs": 4, "tasks": 2, "device": 2, "gang": 2}

#: What the plan says of a method that is asked for where rows are sorted whole.
WHOLE_ROWS = "rows are sorted whole: nothing is cut, so the method has no effect"


@dataclass(frozen=True)
class Cost:
    """Count the cost of one sort on any machine."""

    #: Separate messages that the exchange sends from task to task. Of runs, the most that it may send: slices that are
    #: on the same worker, or in files of the same host, need none.
    messages: int
    moved_bytes: float  # read and written by all tasks, nan if sizes are unknown
    counted_bytes: float  # most that the counting tasks receive, in all rounds


def cost_of(plan: Plan) -> Cost:
    """The cost of a plan, from shapes, dtypes and the number of groups."""
    runs, senders = len(plan.runs), len(plan.sources)
    if plan.exchange == "runs":  # those of one worker come together
        senders = min(runs, plan.processes - 1) if plan.processes else runs
    counted = plan.table_bytes
    if plan.candidates:
        drawn = runs * plan.samples * (plan.order.transit_dtype.itemsize + ENTRY_BYTES)
        counted = drawn + (runs + count_sums(runs)) * 8 * plan.candidates
    return Cost(
        messages=senders * len(plan.groups),
        moved_bytes=(4 + CROSSINGS[plan.exchange]) * sum(plan.sizes) * plan.row_bytes,
        counted_bytes=counted,
    )


def describe(plan: Plan) -> Projection:
    """What the plan decides and takes, with its cost."""
    cost = cost_of(plan)
    moved = "an unknown number of bytes" if math.isnan(cost.moved_bytes) else format_bytes(int(cost.moved_bytes))
    counted = format_bytes(int(cost.counted_bytes))
    messages = f"{'at most ' if plan.exchange == 'runs' else ''}{format_count(cost.messages, 'message')}"
    projected, text = plans.describe(plan), f"{moved} read and written, {messages}, {counted} counted"
    return replace(projected, rows={**projected.rows, "cost": text})


def describe_rows(
    strategy: str, count: int, plan: Plan | None = None, method: str = "auto", peak: float = math.nan
) -> Projection:
    """Describe how the rows along an axis are sorted, by a strategy of `row_strategy`.

    `count` is that of chunks for "join" and "whole", of rows for "global", whose `plan` is of one row. Other strategies
    have a `peak`.
    """
    chunks = format_chunks(count)
    whole = {
        "join": f"in {chunks} of one memory: one task concatenates the chunks and sorts all rows",
        "whole": f"each whole in a chunk: {chunks} sorted where they are",
        "rechunk": "in several chunks: rechunk so that they are whole, sort each chunk, rechunk back",
    }
    if plan is None or strategy in whole:
        decisions = {"rows": whole[strategy], "path": WHOLE_ROWS * (method != "auto")}
        exchange = None if strategy == "whole" else strategy
        return Projection(decisions, peak, "process" if strategy == "join" else "thread", exchange)
    projected = describe(plan)
    return replace(projected, rows={"rows": f"{count:,} too long for a chunk, one global sort each:", **projected.rows})
