"""Graphs of searches among sorted keys.

`searches` goes from checked arguments to arrays, `lookup` has the tasks, in one array of keys or group by group, and
`runs.rows` those group by group through runs that workers keep.
"""
