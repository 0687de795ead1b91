"""Plans as text, one decision a line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dask.utils import format_bytes

from .plan import Plan

#: Columns of the names of decisions, before their text.
NAME_COLUMNS = 9


def format_lines(decisions: Mapping[str, str]) -> str:
    """Named decisions, a line each; empty ones are left out."""
    return "\n".join(f"{name:<{NAME_COLUMNS}} {text}" for name, text in decisions.items() if text)


def format_number(number: float) -> str:
    """A number that may be unknown (nan)."""
    return "an unknown number" if math.isnan(number) else f"{int(number):,}"


def format_chunks(count: int) -> str:
    """A number of chunks."""
    return f"{count:,} chunk{'' if count == 1 else 's'}"


def format_size(number: float) -> str:
    """Bytes that may be unknown: nan, or inf for no known limit."""
    return format_bytes(int(number)) if math.isfinite(number) else "an unknown size"


def format_tasks(tasks: int, chunks: int) -> str:
    """A number of tasks, and how many these are for each chunk."""
    return f"{tasks:,}, {tasks / max(chunks, 1):.3g} a chunk"


def describe(plan: Plan) -> str:
    """The plan as text, one decision a line."""
    order = plan.order
    path = (
        f"radix: {plan.radix_bits}-bit digit histograms, column-major scan"
        if plan.radix_bits
        else "merge: ranks of regular samples"
    )
    if len(plan.groups) == 1:
        path = "one group of all keys: nothing is cut, so the method has no effect"
    direction = "descending" if order.descending else "ascending"
    if order.less is not None:
        direction = "by a comparison"
    rows = {
        "keys": f"{order.kind}, {direction}{', stable' if order.stable else ''}",
        "path": path,
        "rounds": f"{plan.rounds} + 1 of counting, {plan.samples:,} keys a run in each",
        "table": f"at most {format_size(plan.table_bytes)} for a task, {plan.unresolved:.1%} of the keys unresolved",
        "chunks": f"{len(plan.sizes):,} in{_runs_of(plan)}, {len(plan.chunks):,} out"
        + ("" if plan.known else ", sizes unknown"),
        "groups": f"{len(plan.groups):,} of at most {format_size(plan.group_bytes)}",
        "exchange": plan.exchange + (_bundles_of(plan) if plan.sources else ""),
        "tasks": f"{plan.num_tasks:,}",
        "peak": f"{format_size(plan.projected_bytes)} for each thread of a worker",
    }
    if plan.instead_of:
        rows["exchange"] += f"; instead of {plan.instead_of}"
    if plan.exchange == "join":
        del rows["rounds"], rows["table"], rows["groups"]
        rows["path"] = "one sort of all chunks: nothing is cut, so the method has no effect"
        rows["exchange"] = "join: the chunks share one memory, which holds the sort"
        rows["peak"] = f"{format_size(plan.projected_bytes)} beside the input"
    if plan.exchange == "gang":
        rows["peak"] = f"{format_size(plan.projected_bytes)} for each member, beside an input that is kept"
    if plan.turns is not None:
        without = ", without the input" if plan.turns.held else ""
        alone = plan.turns.devices == 1
        whose = "the GPU's" if alone else "each GPU's"
        rows["peak"] = f"{format_size(plan.projected_bytes)} of {whose} {format_size(plan.turns.memory)}{without}"
        if not plan.turns.fits:
            # On a cluster NumPy chunks are kept in files where memory does not suffice.
            remedy = "NumPy chunks and device='cuda'" if alone else "more GPUs, or NumPy chunks"
            rows["peak"] += f"; over half of it is kept, and the pool may run out: use {remedy}"
    if plan.staging_memory is not None:
        device = format_size(plan.staging_memory)
        rows["step"] = f"{format_size(plan.step_bytes)} of the GPU's {device}, several side by side"
    return format_lines(rows)


def _runs_of(plan: Plan) -> str:
    return f" as {len(plan.runs):,} runs" if plan.exchange != "join" and len(plan.runs) < len(plan.sizes) else ""


def _bundles_of(plan: Plan) -> str:
    if plan.exchange == "gang":
        return f": {len(plan.sources):,} members sort {len(plan.runs):,} runs, exchange and merge, in one task each"
    first = ", all cut before a group is finished" if plan.cut_first else ""
    # On several devices there is no join.
    instead = f": a join would take {format_size(plan.joined_bytes)} beside the input" if plan.joined_bytes else ""
    return f", of {len(plan.sources):,} bundles of {len(plan.runs):,} runs{first}{instead}"
