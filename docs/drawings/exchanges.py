"""The drawings of ``docs/how/exchanges.md``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from .canvas import ACCENT, GREEN, GREY, GROUPS, ORANGE, PALE, PURPLE, SKY, SMALL, WHITE, Canvas, drawing


@drawing(34)
def gather(c: Canvas) -> None:
    """One task lists all sorted runs and their cuts; each group takes views from the list."""
    for number in range(3):
        x = 3 + 16 * number
        c.box(x, 1, 12, 3, f"run {number}")
        c.arrow((x + 6, 4), (x + 6, 8))
        for group in range(3):
            c.box(x + 4 * group, 9, 4, 2.6, fill=GROUPS[group])
        for group in range(3):
            c.arrow((x + 4 * group + 2, 11.8), (9 + 16 * group, 20), PALE)
        c.box(x, 20, 12, 3, f"group {number}", GROUPS[number])
        c.arrow((x + 6, 23), (x + 6, 28))
        c.box(x, 28, 12, 3, "output", GROUPS[number])
    c.box(1, 8, 48, 4.6, dashed=True, fill="none")
    c.note(49, 6.4, "sort-scatter: a list of runs", "right")
    c.note(49, 18.8, "views", "right")
    c.note(25, 25.6, "sort-merge: one copy, one sort or merge")


#: The left edges of what two workers do, and the middles of the four groups that they merge.
SIDES = (2.6, 27.4)
MIDDLES = tuple(x + 10 * place + 5 for x in SIDES for place in range(2))


def workers(c: Canvas, y: float, height: float, names: Sequence[str]) -> None:
    """Draw two dashed frames side by side."""
    for x, name in zip((0.6, 25.4), names, strict=True):
        c.box(x, y, 24, height, dashed=True, fill="none")
        c.text(x + 12, y + 1.6, name, weight="bold")


def merged_groups(c: Canvas, y: float, output: float) -> None:
    """Draw the groups of two workers and their output."""
    for group, (x, fill) in enumerate(zip(MIDDLES, GROUPS, strict=True)):
        c.box(x - 4.5, y, 9, 3.2, f"group {group}", fill)
        c.arrow((x, y + 3.2), (x, output))
        c.box(x - 4.5, output, 9, 2.8, "output")
    c.note(4, y - 1.6, "sort-merge", "left")


@drawing(44)
def runs(c: Canvas) -> None:
    """Workers keep sorted runs in memory or in files; one task lists runs and cuts, and each group takes its slices."""
    workers(c, 0.6, 42.8, ("worker A", "worker B"))
    for run in range(4):
        x = SIDES[run // 2] + 10.4 * (run % 2)
        c.box(x, 4, 9.6, 2.8, f"run {run}, sorted", GREY)
        c.arrow((x + 4.8, 6.8), (x + 4.8, 10.2))
        for part, fill in enumerate(GROUPS):
            c.box(x + 2.4 * part, 10.2, 2.4, 3, fill=fill)
            c.arrow((x + 2.4 * part + 1.2, 13.2), (MIDDLES[part], 30), PALE)
        c.note(x + 4.8, 14.8, ("memory", "file")[run % 2])
    merged_groups(c, 30, 38)
    c.box(12, 18, 26, 3.4, "sort-list: cut bounds, handles", WHITE)
    c.note(25, 26.4, "slices: own memory, files, messages")


#: The sorts of `times_of_runs`, and its stages: the prefix of their tasks, what they do, their colour.
MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "larger_than_memory_many_cores.json"
STAGES = (
    ("from-zarr", "read", SKY),
    ("sort-local", "sort, keep", ORANGE),
    ("sort-list", "bound the cuts", PURPLE),
    ("sort-store-map", "merge, write", GREEN),
    ("finalize-hlgfinalizecompute", "end", GREY),
)


@drawing(34)
def times_of_runs(c: Canvas) -> None:
    """The stages of two measured sorts against time."""
    sorts = [row for row in json.loads(MEASURED.read_text())["rows"] if row["name"].split("/")[0] == "sort-int64"]
    scale = 44 / max(row["ours"] for row in sorts)
    for number, row in enumerate((sorts[0], sorts[-1])):
        y = 1.6 + 17 * number
        c.heading(y, f"{row['work'].partition(', ')[2]}: {row['ours']:.1f} s")
        for place, (name, text, colour) in enumerate(STAGES):
            first, last, busy = row["details"]["stages"][name]
            at = y + 1.6 + 2.7 * place
            c.box(1 + scale * first, at, max(scale * (last - first), 0.4), 2.2, fill=colour)
            side = "left" if scale * last < 26 else "right"
            x = scale * last + 1.6 if side == "left" else scale * first + 0.4
            c.note(x, at + 1.1, f"{text}, {busy:.1f} thread s", side)


@drawing(48)
def tasks(c: Canvas) -> None:
    """Each worker sorts bundles of chunks, cuts one contiguous shard for each group, and merges its groups."""
    workers(c, 0.6, 46.6, ("worker A", "worker B"))
    for side, x in enumerate(SIDES):
        for chunk in range(4):
            c.box(x + 5 * chunk, 4, 5, 2.6, f"{4 * side + chunk}")
        c.arrow((x + 10, 6.6), (x + 10, 10))
        c.box(x, 10, 20, 3, f"bundle {side}, sorted", GREY)
        c.arrow((x + 10, 13), (x + 10, 22.6))
        for group, fill in enumerate(GROUPS):
            c.box(x + 5 * group, 22.6, 5, 3, "shard", fill)
            c.arrow((x + 5 * group + 2.5, 25.6), (MIDDLES[group], 35), PALE)
    merged_groups(c, 35, 42)
    c.box(14, 16, 22, 3.6, "sort-scan: cut bounds", WHITE)
    c.arrow((18, 13), (20, 16), PALE)
    c.arrow((32, 13), (30, 16), PALE)
    c.note(13.8, 20.9, "sort-scatter")


@drawing(35)
def device(c: Canvas) -> None:
    """Memory of a GPU over time: bundles are sorted and cut one after another, then groups are merged in turns."""
    c.heading(1.6, "memory of a GPU, in the order of time (large keys)")
    stages = (
        ("sort\nbundle 0", (("input", WHITE, 6), ("scratch", GREY, 4), ("", WHITE, 0))),
        ("cut\nbundle 0", (("input", WHITE, 6), ("shards", SKY, 3), ("", WHITE, 0))),
        ("sort, cut\nbundle 1", (("input", WHITE, 6), ("shards", SKY, 5), ("scratch", GREY, 4))),
        ("merge\ngroup 0", (("input", WHITE, 6), ("shards", SKY, 5), ("group", ORANGE, 4))),
        ("merge\ngroup 1", (("input", WHITE, 6), ("shards", SKY, 3), ("output", GREEN, 6))),
    )
    for number, (name, held) in enumerate(stages):
        x, y = 2 + 9.6 * number, 22.0
        for text, fill, height in held:
            if height:
                y -= height
                c.box(x, y, 8, height, text, fill)
        c.text(x + 4, 24.6, name, size=SMALL)
    c.line((1, 49), (4.6, 4.6), ACCENT, 1.5, style="--")
    c.text(49, 3.4, "memory of the GPU", align="right", size=SMALL, colour=ACCENT)
    c.arrow((1, 27.4), (49, 27.4))
    c.note(25, 29.6, "All bundles are cut before a group is merged: the keys are held once.")
    c.note(25, 31.8, "A group waits for the turn before the last one:")
    c.note(25, 34, "shards of one group arrive while another is merged.")


@drawing(50)
def gang(c: Canvas) -> None:
    """Members on two workers report to a coordinator, start together, exchange shards, and merge."""
    for x, name in ((2, "member on A"), (20, "coordinator"), (38, "member on B")):
        c.box(x, 0.8, 10, 4.4, name if x == 20 else name.replace(" on", "\non"), WHITE if x != 20 else GREY)
        c.line((x + 5, x + 5), (5.2, 48), PALE, style=":")
    for x in (2, 38):
        c.box(x - 0.5, 6.6, 11, 4.4, "sort,\nsummarize", SKY)
        c.box(x - 0.5, 21.4, 11, 2.8, "cut", SKY)
        c.box(x - 0.5, 27.6, 11, 4.4, "exchange", ORANGE)
        c.box(x - 0.5, 39.6, 11, 2.8, "merge", GREEN)
        c.box(x - 0.5, 44.4, 11, 2.8, "output", WHITE)
        side = 12.8 if x == 2 else 37.2
        c.arrow((side, 11.4), (25, 14))
        c.arrow((25, 18), (side, 20.6))
        c.arrow((side, 34), (25, 36.6))
        c.arrow((x + 5, 42.4), (x + 5, 44.4))
    c.arrow((12.8, 29.8), (37.2, 29.8), both=True)
    c.box(16, 14, 18, 3.4, "all are ready", GREY)
    c.box(16, 37, 18, 4.4, "all have exchanged:\nnext gang may start", GREY)
    for y, text in ((10.6, "ready, summaries"), (21.4, "start, all summaries"), (28.2, "shards, by NCCL")):
        c.note(25, y, text)
    c.note(25, 33.2, "exchanged")
