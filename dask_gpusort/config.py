"""Settings, under ``gpusort`` in `dask.config`."""

from __future__ import annotations

from typing import Any

import dask

#: ``exchange``: "auto", "gather", "p2p" or "tasks". ``groups``: number of exchange groups, or None to choose it.
DEFAULTS: dict[str, Any] = {"exchange": "auto", "groups": None}

dask.config.update_defaults({"gpusort": DEFAULTS})


def setting(name: str) -> Any:
    """One of this package's settings as it stands now."""
    return dask.config.get(f"gpusort.{name}")
