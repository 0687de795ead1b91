"""Names in the rows of `gpu.multi`, shared by the measurement and its tables."""

from __future__ import annotations

STAGES = ("sort-local", "sort-count", "sort-scan", "sort-scatter", "sort-freed", "sort-merge")
PHASES = ("sort-gang", *STAGES, "sort", "argsort")
#: Samples of a row besides "ours": sorts that begin some time after the end of the one before.
AFTER_PAUSE = "after a pause"
