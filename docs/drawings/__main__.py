"""``python -m docs.drawings``."""

from __future__ import annotations

from pathlib import Path

from . import DRAWINGS

FOLDER = Path(__file__).parents[1] / "how" / "drawings"

if __name__ == "__main__":
    for name, one in DRAWINGS.items():
        one.save(FOLDER / f"{name}.svg")
