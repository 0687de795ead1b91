"""Pages for users are in words of users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from support.marks import for_each

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: All pages but those below "For developers".
PAGES = [
    ROOT / "README.md",
    *(path for part in ("", "guide", "gallery") for path in sorted((DOCS / part).glob("*.md"))),
]
PAGES = [path for path in PAGES if path.stem not in {"development", "benchmarks", "changelog"}]
#: What users say, for words of developers. Names in `code font` and generated tables are not text.
USER_WORDS = {
    "key": "element; or what an array is sorted by",
    "lane": "series",
    "companion": "other column",
    "needle": "value to look up",
    "bundle": "chunks",
    "member": "worker; or its task",
    "shard": "part",
    "sorted run": "sorted chunk",
    "in turn": "one after another",
    "splitter": "limit",
    "bracket": "limits",
    "digit": "bits; or leave it out",
    "tie group": "equal elements",
    "and its kind": "the names",
    "is told by": "the verb that is meant",
    "no array that can be sorted": "the remedy",
}
#: Where a word is the user's own: what rows are sorted by, `key=`, and words that plans print.
ALLOWED = {
    "key": {
        "which.md",
        "compatibility.md",
        "limits.md",
        *(f"guide/{name}.md" for name in ("functions", "index", "keys", "plans", "troubleshooting", "xarray")),
    },
    "member": {"guide/plans.md"},
    "digit": {"guide/plans.md"},
}

CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$|^    .*?$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"<!-- table: .*?<!-- end of table -->|<!--.*?-->|^---\n.*?^---$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
LINK = re.compile(r"\]\([^)\s]*\)")


def text_of(page: str) -> str:
    """A page without code, generated tables and targets of links; a name in `code font` is one word."""
    page = CODE.sub("\n\n", TABLE.sub("\n\n", page))
    return LINK.sub("] ", SPAN.sub("`", page))


def found_words(text: str, name: str) -> Iterator[str]:
    """Words of developers, each with what to write in place of it."""
    for word, instead in USER_WORDS.items():
        if name not in ALLOWED.get(word, ()):
            for match in re.finditer(rf"(?<![\w-]){word}s?(?![\w-])", " ".join(text.split()), re.IGNORECASE):
                yield f"{match[0]!r}: {instead}"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT if path.parent == ROOT else DOCS))


@for_each(PAGES)
def test_words_are_those_of_users(path: Path) -> None:
    assert list(found_words(text_of(path.read_text()), name_of(path))) == []
