"""The exchange of NumPy chunks on a cluster: sorted runs stay where they were made, and groups take their slices.

| file | what is in it |
|---|---|
| `tasks` | the graph of a sort: sort a run and keep it, find the cuts, take the slices of a group and finish it |
| `store` | the runs that a worker keeps, in memory or in files |
| `handles` | where the bytes of a run are, and how a slice of them is written and read |
| `files` | files on a disk or in memory, and checksums of their parts |
| `keep_and_take` | what tasks do: keep runs, list them, take slices from their worker, from a file, from a peer |
| `plugins` | how long runs are kept, and which are made again when a worker is lost |
"""
