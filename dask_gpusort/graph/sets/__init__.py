r"""Distinct keys of all chunks, and what is known of each: how it is numbered, how often it occurs, and where first.

::

    chunk 0         chunk 1         chunk 2
      |               |               |
    unique-local, one a chunk                      its distinct keys, sorted; the inverse stays with the chunk
      |               |               |
    a global sort of the distinct keys             with the number of their chunk, and what else is wanted
      |               |               |
    unique-edges, one a sorted chunk               its first and its last tie group
       \\             |              /
              unique-scan                          where each chunk's tie groups begin in the whole
       /              |              \\
    unique-number, one a sorted chunk              the results: one for each tie group that begins in the chunk
      |               |               |
    a stable sort by the number of the chunk       what each chunk must know of its distinct keys
      |               |               |
    take, one a chunk                              by the inverse

The last two stages make an inverse, or ranks. Only distinct keys move, so few distinct keys make small messages,
whatever the number of keys is. Distinct keys of one chunk are in ascending order before and after the global sort.
Therefore a stable sort by the number of the chunk brings them back to their order, and no position needs to travel.

On a cluster, workers keep sorted chunks as runs until they are numbered, and inverses until they are used (see
`runs.rows`).
"""
