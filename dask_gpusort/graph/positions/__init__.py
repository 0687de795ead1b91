"""Graphs of reads and writes at positions: the exchange by position.

`take_and_put` goes from checked arguments to output arrays, `blocks` has lanes that are whole in a chunk, `exchange`
has indices that name several groups of chunks, and `runs.rows` the same through runs that workers keep.
"""
