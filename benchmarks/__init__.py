"""Benchmarks: measurements, stored results, and the tables and figures generated from them. See README.md.

::

    harness      runs jobs, verifies results, describes the machine, stores what was measured
    cpu, gpu     the measurements
    baselines    what our sorts are compared with
    model        the cost model against measurements, and its projection to a large cluster
    figures      drawings of stored results
    documents    writes tables and figures into the documents
    asv          the library over time, commit by commit
"""
