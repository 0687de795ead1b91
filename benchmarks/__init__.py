"""Measurements, stored results, and the tables and figures generated from them. See README.md.

::

    harness      runs jobs, verifies results, describes the machine, stores what was measured
    cpu, gpu     the measurements
    baselines    other libraries, with which our sorts are compared
    model        the cost model, compared with measurements and projected to a large cluster
    figures      drawings of stored results
    documents    writes tables and figures into the documents
    asv          the speed of the library at each commit
"""
