"""What the core promises, measured: ``python -m benchmarks.core``.

Each section is a file: it yields rows, each with what is asked, what was measured, and the ratio to what one would use
instead, measured in the same run. `measure` runs the jobs, `report` says on what machine and writes the table.
"""
