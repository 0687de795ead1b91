"""Graphs of reads and writes at positions.

`take_and_put` goes from checked arguments to output arrays, `blocks` has lanes that are whole in a chunk. Indices that
name several groups of chunks are a program, `functions.positions`.
"""
