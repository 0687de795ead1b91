"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .jobs import Effort
from .machine import RESULTS, ROOT, commit_of, describe_machine
from .records import Record, Row


def parser_of(module: str, document: str | None, sections: Sequence[str] = (), *, quick: bool = True) -> Any:
    """A parser with the options that all benchmarks share. Without a choice of sections, all of them run."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if sections:
        parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(sections)} (default: all)")
    if quick:
        parser.add_argument("--repeat", type=int, default=3, help="measurements of each job (default: %(default)s)")
        parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument("--output", type=Path, help="directory of the results (default: benchmarks/results)")
    parser.add_argument("--commit", default=commit_of(ROOT), help="the commit measured, where there is no git")
    return parser


def parse(parser: Any, sections: Sequence[str] = ()) -> Any:
    """Parse the command line and add `effort`. `output` is None for a quick run without ``--output``."""
    options = parser.parse_args()
    if sections:
        unknown = set(options.sections) - set(sections)
        if unknown:
            parser.error(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(sections)}")
        options.sections = [name for name in sections if name in (options.sections or sections)]
    quick = getattr(options, "quick", False)
    if not quick:
        options.output = options.output or RESULTS
    options.effort = Effort(quick, 1 if quick else getattr(options, "repeat", 1))
    return options


def run_sections(
    options: Any, record: Record, file: str, sections: Mapping[str, Callable[..., Iterable[Any]]], *args: Any
) -> None:
    """Store and print the rows or points of the chosen sections. A wrong row raises; earlier measurements are kept."""
    try:
        for section in options.sections:
            record.add(sections[section](*args))
    finally:
        record.write(options.output / file)
    wrong = [row.work for row in record.rows if not row.verified]
    if wrong:
        raise SystemExit(f"wrong results: {wrong}")


def run_rows(
    module: str, document: str | None, name: str, sections: Mapping[str, Callable[[Effort], Iterator[Row]]]
) -> None:
    """Run the command that measures a table on a CPU. A wrong result raises.

    The stored file `name` is replaced only if all sections run.
    """
    options = parse(parser_of(module, document, list(sections)), list(sections))
    effort = options.effort
    settings = {"quick": effort.quick, "repeat": effort.repeat, "sections": options.sections}
    record = Record(describe_machine(commit=options.commit), settings)
    for section in options.sections:
        # The goals do not hold for small sizes.
        record.add(replace(row, reached=None) if effort.quick else row for row in sections[section](effort))
    if options.output and (len(options.sections) == len(sections) or options.output != RESULTS):
        record.write(options.output / f"{name}.json")
        print(f"written to {options.output}; `python -m benchmarks.documents` updates the documents", flush=True)
