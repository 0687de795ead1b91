"""Graphs of reads and writes at positions: the exchange by position.

===============  ============================================================
`take_and_put`   from checked arguments to output arrays
`blocks`         lanes that are whole in a chunk: a task for each chunk
`requests`       indices divided by the groups of chunks that they name
`take`           requests go to the groups, elements come back
`put`            values go to the groups; also the scatter of a permutation
`kept_positions` both through runs that workers keep
===============  ============================================================
"""
