"""Sorts that are no programs, and what is asked of all.

===========  ===============================================================
`request`    options applied to an array: its keys, and what is asked
`joined`     all chunks of one memory in one task
`sort_last`  keys alone in one memory: divided first, then sorted once
===========  ===============================================================

Others are programs: see `functions.sort`. Builders make the arrays.
"""
