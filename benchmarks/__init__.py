"""Benchmarks.

``asv run`` measures the files in `suites` at each commit; ``python -m benchmarks.core`` measures what the core of the
package promises, beside what one would use instead.
"""
