"""Writes tables and figures into the documents, from stored results.

::

    __main__    python -m benchmarks.documents: writes everything, or checks that everything is up to date
    markdown    numbers and tables as text
    reports     results/*.md, each with a whole table
    blocks      tables inside README.md and docs, between markers
"""
