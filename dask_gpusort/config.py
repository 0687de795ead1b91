"""Settings, under ``gpusort`` in `dask.config`."""

from __future__ import annotations

from typing import Any

import dask

#: ``exchange``: one of `EXCHANGES`. ``groups``: number of exchange groups, or None to choose. ``device``: one of
#: `DEVICES`; None sorts NumPy chunks on the host. ``merged_runs``: most sorted runs that are merged rather than sorted
#: afresh, or None to measure which is faster; it is read where the chunks are, and has no effect on results.
#: ``gang_timeout``: seconds, besides those that its bytes take, after which a gang makes an exchange again, and
#: moves a member that a paused worker keeps. ``held_share``: share of the memory up to which a selection holds its
#: source between two passes, and above which it reads the source again; workers spill to disk from a share of 0.6
#: on. ``directories``: folders where workers keep files of runs, one after another, or None for the own folder of
#: each; it is read on the workers. ``register``: whether the import of the package registers, or a list of what it
#: registers.
DEFAULTS: dict[str, Any] = {
    "exchange": "auto",
    "groups": None,
    "device": None,
    "merged_runs": None,
    "gang_timeout": 60,
    "held_share": 0.3,
    "directories": None,
    "register": False,
}

dask.config.update_defaults({"gpusort": DEFAULTS})


EXCHANGES = ("auto", "join", "gather", "runs", "tasks", "device", "gang")
DEVICES = (None, "cuda")


def setting(name: str) -> Any:
    """Read the current value of a setting, and refuse an invalid one."""
    value = dask.config.get(f"gpusort.{name}")
    if name == "exchange" and value not in EXCHANGES:
        raise ValueError(f"gpusort.exchange must be one of {', '.join(map(repr, EXCHANGES))} (got {value!r})")
    if name == "groups" and value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"gpusort.groups must be a positive integer, or None to have it chosen (got {value!r})")
    if name == "merged_runs" and value is not None and (type(value) is not int or value < 0):
        raise ValueError(f"gpusort.merged_runs must be an integer of at least 0, or None to measure it (got {value!r})")
    if name == "gang_timeout" and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise ValueError(f"gpusort.gang_timeout must be a positive number of seconds (got {value!r})")
    if name == "held_share" and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise ValueError(f"gpusort.held_share must be a number from 0 to 1 (got {value!r})")
    paths = value if isinstance(value, list | tuple) else ()
    if name == "directories" and value is not None and not (paths and all(isinstance(one, str) for one in paths)):
        raise ValueError(f"gpusort.directories must be a list of folders, or None for Dask's (got {value!r})")
    names = value if isinstance(value, list | tuple) else ()
    if name == "register" and not (isinstance(value, bool) or (names and all(isinstance(one, str) for one in names))):
        raise ValueError(f"gpusort.register must be True, False, or a list of names of register (got {value!r})")
    if name == "device" and value not in DEVICES:
        raise ValueError(f"gpusort.device must be None or 'cuda' (got {value!r})")
    return value
