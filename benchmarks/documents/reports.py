"""results/*.md: every row of a stored table, with its machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..harness.records import Record, Row, read
from .markdown import facts, number, ratio, short_commit, table

PHASES = ("sort-local", "sort-count", "sort-scan", "sort-scatter", "sort-freed", "sort-merge", "sort", "argsort")


def mark(row: Row) -> str:
    wrong = "" if row.verified else "**wrong** "
    return wrong + {None: "", True: "reached", False: "**missed**"}[row.reached]


def on_cpu(title: str, record: Record) -> str:
    machine, rows = record.machine, []
    for row in record.rows:
        baseline = "; ".join(f"{name}: {number(value)} {row.unit}" for name, value in row.baselines.items())
        rows.append((row.work, row.wanted, baseline, mark(row), f"{number(row.ours)} {row.unit}", ratio(row.ratio)))
    repeat = record.settings["repeat"]
    return f"""# {title}

{facts(machine)}

Medians of {repeat}, in turns; every result was verified. Times: the baseline over ours.

{table(["work", "wanted", "baseline", "", "ours", "times"], rows, text=4)}"""


def on_gpu(title: str, record: Record) -> str:
    names = list(dict.fromkeys(name for row in record.rows for name in row.baselines))
    several = len(names) > 2  # then a column for the name of the baseline, not a column for each
    rows = []
    for row in record.rows:
        ms = {name: f"{value:.3f}" for name, value in row.baselines.items()}
        theirs = [next(iter(ms), ""), next(iter(ms.values()), "")] if several else [ms.get(name, "") for name in names]
        share = f"{100 * row.copy_share:.0f} %" if row.copy_share else ""
        rate = f"{row.keys / row.ours / 1e6:.1f}" if row.ours else ""
        cells = [f"{row.keys:,}", f"{row.ours:.3f}", *theirs, ratio(row.ratio), row.wanted, rate, share, mark(row)]
        rows.append([row.work, *cells])
    head = ["work", "keys", "ours", *(["baseline", "theirs"] if several else names)]
    good = sum(row.verified for row in record.rows)
    lines = [f"# {title}", "", facts(record.machine), ""]
    lines += [
        f"Medians, milliseconds; {good} of {len(record.rows)} results verified. Times: the baseline over ours; of two "
        "baselines, the one that the goal names."
    ]
    lines += ["", table([*head, "times", "wanted", "Gkeys/s", "share of copy bandwidth", ""], rows)]
    return "\n".join(lines)


def on_gpus(title: str, record: Record) -> str:
    """Report of the table of several GPUs, with phases."""
    rows, phases = [], []
    for row in record.rows:
        details, commit = row.details, short_commit(row.details["commit"])
        if row.ours is None:
            rows.append([row.work, str(details["gpus"]), *[""] * 6, details["error"], commit])
            continue
        theirs = [f"{1e3 * value:.1f}" for value in row.baselines.values()] or [""]
        peak = f"{details['peak_bytes'] * details['gpus'] / details['data_bytes']:.2f} x"
        rate = f"{row.keys / row.ours / 1e9:.1f}"
        cells = [f"{row.keys:,}", f"{1e3 * row.ours:.1f}", rate, *theirs, ratio(row.ratio), peak]
        rows.append([row.work, str(details["gpus"]), *cells, "yes" if row.verified else "**no**", commit])
        found = [details["phases"].get(name) for name in (*PHASES, "scheduler")]
        texts = [f"{p['tasks']:.0f}: {1e3 * p['compute']:.1f} + {1e3 * p['transfer']:.1f}" if p else "" for p in found]
        if details["phases"]:
            phases.append([row.work, str(details["gpus"]), *texts])
    head = ["work", "GPUs", "keys", "ours, ms", "Gkeys/s", "PyTorch + NCCL, ms", "times", "peak", "verified", "commit"]
    lines = [
        f"# {title}",
        "",
        facts(record.machine),
        "",
        "Medians of 5 warm runs, wall time from `persist` to the last chunk. Peak: most device memory that a GPU had "
        "allocated at a time, without the input, as a multiple of its share of the data.",
        "",
        table(head, rows),
        "",
        "Phases: tasks, and compute + transfer of the busiest worker, ms.",
        "",
        table(["work", "GPUs", *PHASES, "scheduler"], phases),
    ]
    return "\n".join(lines)


#: For each report its generator, its title, and the command that measures it.
REPORTS: dict[str, tuple[Callable[[str, Record], str], str, str]] = {
    "core_cpu": (on_cpu, "The core on a CPU", "benchmarks.cpu.core"),
    "comparison_cpu": (on_cpu, "Compared keys and several keys on a CPU", "benchmarks.cpu.comparison"),
    "gpu_table": (on_gpu, "Radix sorts on a GPU", "benchmarks.gpu.table"),
    "gpu_comparison": (on_gpu, "Comparison sorts, wide keys and merging on a GPU", "benchmarks.gpu.comparison"),
    "multi_gpu": (on_gpus, "Sorts on several GPUs of one host", "benchmarks.gpu.multi"),
}


def report(name: str, results: Path) -> str:
    make, title, command = REPORTS[name]
    text = make(title, read(results / f"{name}.json"))
    return f"{text}\n\nMeasured by `python -m {command}`, generated by `python -m benchmarks.documents`.\n"
