"""Benchmarks: what is measured, how, and the figures drawn from it. See README.md beside this file.

::

    suites        asv: the library over time, commit by commit
    core          what the core of the package promises, beside what one would use instead
    comparison    keys that are no 64-bit integer, and several keys
    peers         the same keys, sorted by every library that one could use
    scaling       threads, chunks, phases, entropy, a network
    gpu_*, multi_gpu    on a GPU, and on several
    figures       drawn from what these have stored in results
"""
