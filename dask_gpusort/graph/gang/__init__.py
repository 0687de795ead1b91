r"""The gang: one task on each worker sorts its chunks, exchanges with the others, and merges, in one step.

A step from task to task costs milliseconds, whatever it does, and the exchange by tasks has four or five::

    chunks of bundle r              on worker r, if the chunks are there
          |
     sort-gang r  . . . . . . .     local sort; samples to the coordinator, and those of all members back; cut bounds;
          |    \                     shards through a communicator; merge
          |  [sort-joined r]        a tiny task, only if some output chunks are not computed: then every other one needs
          |          |              all R of them, so that no member is culled
    output chunks of r

If all output chunks are computed, of one array, and each member makes one of them, then sort-gang r is that chunk.

A gang needs all its members at the same time. Two gangs of which each has started half would wait for ever, so a
coordinator on the scheduler starts them::

    member, on a worker's thread                    coordinator, on the scheduler
    ------------------------------------            ------------------------------------------------------
    sort, summarize
    secede: no thread of the worker waits
    "ready", with the summaries           ----->    waits for all members, and for earlier gangs of their workers
    cut, exchange, merge                  <-----    "start", with all summaries and addresses: the all-gather
    "exchanged"                           ----->    waits for all members: then the next gang may start
    merge the last group, return

An attempt has one exchange, or several, one after the other: distinct values, sets and ranks need up to four, order
statistics three or more. Only one gang at a time exchanges on a worker, in one order for the whole cluster.

A gang tries once. If an exchange fails, or a worker is lost, the coordinator ends all members of the attempt, and Dask
runs them again from their chunks; it makes it run members again that had finished. After a failure without a lost
worker, they exchange over the workers' own comms; if that fails too, all raise. If a member raises an exception, all
members raise it.

The phases of a member are metrics of its task in Dask's dashboard (`distributed.metrics.context_meter`): "sort",
"wait", "cut", "exchange", "merge". Each costs 4 us.

===================  ================================================================================
`tasks`              the graph
`member`             a member's side of the conversation, on a worker's thread, and the plugin that passes messages
`communicator`       how shards move over the workers' own comms, or in a communicator that is kept
`coordinator`        which gang runs when: pure bookkeeping, without a cluster
`assignment`         where members run, and when a gang begins
`scheduler_plugin`   connects the coordinator to Dask's scheduler: faults, time-outs
===================  ================================================================================

What a member does that runs a program is in `drivers.gang`. The modules import distributed, so they are imported only
where it is in use.
"""
