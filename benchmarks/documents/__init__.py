"""Tables and figures in documents, generated from stored results.

::

    __main__    python -m benchmarks.documents: writes everything, or checks that nothing is stale
    markdown    numbers and tables as text
    reports     results/*.md, a whole table each
    blocks      tables inside README.md and docs, between markers
"""
