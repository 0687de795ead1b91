"""``python -m docs.drawings``."""

from __future__ import annotations

from pathlib import Path

from . import DRAWINGS

FOLDER = Path(__file__).parents[1] / "how" / "drawings"


def main() -> None:
    """Write all drawings."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, one in DRAWINGS.items():
        one.save(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
