"""Graphs of sorts. Files are in the order in which a sort goes through them.

=============  =============================================================
`request`      options applied to an array: its keys, and what is asked
`build`        from checked arguments to arrays
`global_sort`  one dimension of many chunks: the plan, then the recipe
`rows`         several dimensions, with `is_sorted`
`recipe`       all chunks of one memory in one task, or an exchange, stage by stage:
`local`        1. each run is sorted
`count`        2. where runs and groups are many, counts of each run before some keys
`scan`         3. the bounds of the cuts between groups
`scatter`      4. each group takes its slices of the runs
`finish`       5. each group is merged, and cut into output chunks
`by_tasks`     the stages of an exchange by tasks, with bounds of the cuts
=============  =============================================================

The other exchanges are `graph.runs` and `graph.gang`.
"""
