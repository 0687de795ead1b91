"""The command line that the benchmarks share, and the run that stores what they measure."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .jobs import Effort
from .machine import RESULTS, ROOT, commit_of, describe_machine
from .records import Record, Row


def arguments(
    name: str,
    document: str | None,
    sections: Sequence[str] = (),
    more: Mapping[str, Mapping[str, Any]] | None = None,
    quick: bool = True,
) -> Any:
    """The options of a command: those that all benchmarks share, and more of its own.

    Without a choice of sections, all of them run. `output` is None for a quick run without ``--output``.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if sections:
        parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(sections)} (default: all)")
    if quick:
        parser.add_argument("--repeat", type=int, default=3, help="measurements of each job (default: %(default)s)")
        parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument("--output", type=Path, help="directory of the results (default: benchmarks/results)")
    parser.add_argument("--commit", default=commit_of(ROOT), help="the commit measured, where there is no git")
    for option, kind in (more or {}).items():
        parser.add_argument(option, **kind)
    options = parser.parse_args()
    if unknown := set(getattr(options, "sections", ())) - set(sections):
        parser.error(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(sections)}")
    options.sections = [one for one in sections if one in (options.sections or sections)]
    options.effort = Effort(quick and options.quick, 1 if quick and options.quick else getattr(options, "repeat", 1))
    if not options.effort.quick:
        options.output = options.output or RESULTS
    if getattr(options, "library", "cupy") == "numpy" and options.output == RESULTS:
        parser.error("times of NumPy say nothing of a GPU: store them elsewhere with --output")
    return options


def titled(sections: Mapping[str, Callable[..., Iterable[Row]]]) -> dict[str, Callable[..., Iterator[Row]]]:
    """The same sections, whose rows have their name, under which a page shows them."""

    def named(name: str, *args: Any) -> Iterator[Row]:
        for row in sections[name](*args):
            row.section = name
            yield row

    return {name: partial(named, name) for name in sections}


def measure(
    options: Any,
    file: str,
    sections: Mapping[str, Callable[..., Iterable[Any]]],
    *args: Any,
    packages: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Store and print the rows or points of the chosen sections. A wrong row raises; earlier measurements are kept.

    A stored file of the project is replaced only if all sections run.
    """
    chosen, effort = options.sections or list(sections), options.effort
    machine = describe_machine(*packages, commit=options.commit) | settings.pop("machine", {})
    record = Record(machine, {"quick": effort.quick, "repeat": effort.repeat, "sections": chosen, **settings})
    try:
        for section in chosen:
            record.add(sections[section](*args))
    finally:
        if options.output and (len(chosen) == len(sections) or options.output != RESULTS):
            record.write(options.output / f"{file}.json")
    if wrong := [row.work for row in record.rows if not row.verified]:
        raise SystemExit(f"wrong results: {wrong}")
