"""What a plan is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Path = Literal["radix", "merge"]
Exchange = Literal["gather", "p2p", "tasks", "device"]
Size = float  # a chunk size is an int, or nan where it is unknown


@dataclass(frozen=True)
class Workers:
    """What the plan knows of those who will run it.

    Attributes
    ----------
    threads : int
        In all. Where the chunks lie on GPUs, the GPUs.
    memory : int or None
        Bytes for one thread, or of one GPU, None if there is no limit that we know of.
    devices : bool
        Whether the chunks lie on GPUs, one for each worker.
    """

    threads: int
    memory: int | None = None
    devices: bool = False
