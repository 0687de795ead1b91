"""The page of troubleshooting quotes the messages of the package, and all of those that do not name their remedy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.marks import for_each

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dask_gpusort"
PAGE = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text()
#: What varies in a message, here and on the page.
VARIES = "…"
#: Files whose errors show mistakes of the package itself, and are no user's.
INTERNAL = {
    "chunk/cupy_nccl.py",
    "chunk/numpy_radix.py",
    "chunk/run.py",
    "graph/serialization.py",
    "keys/codes.py",
    "table/selection.py",
}
#: Kernels are functions of their own: of their files, those whose errors a sort of a Dask array raises.
LAUNCH = "kernels/launch/loader.py"
#: Code of the page that is no message.
CODE = {"x[x > 0]", "a < b", "a <= b", 'if __name__ == "__main__":'}
#: What a message says where it names its remedy: what to do, or what an argument must be.
REMEDY = re.compile(
    r"(?:^|[:;,.…] |\b(?:and|or) )(?:please )?"
    r"(?:apply|assign|build|call|check|fill|free|give|install|leave|let|look at|make|move|name|put|rechunk|select|sort"
    r"|turn|use) |\b(?:must|needs at least|one of|only supported for) ",
    re.IGNORECASE,
)
#: Characters of a message, without what varies, that a quote has at least.
LEAST_QUOTED = 20


def text_of(node: ast.AST) -> str | None:
    """The text of a literal, with a mark for what varies."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) or VARIES for value in values)
    return None


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def fragments(text: str) -> list[str]:
    """The fixed parts of a message."""
    return [part for part in re.split(rf"[{VARIES}\n]", text) if re.search(r"\w{2}", part)]


def messages() -> Iterator[tuple[str, str]]:
    """The messages of errors and warnings that a user can get, with their files."""
    for path, tree in sources():
        if path in INTERNAL or (path.startswith("kernels/") and path != LAUNCH):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name.endswith("Error") or name in {"warn", "kind", "KernelsUnavailable", "Excluded"}:
                    yield from ((path, text) for argument in node.args if (text := text_of(argument)) and " " in text)


def quotes(page: str) -> list[str]:
    """The messages that a page quotes: code with a blank, but in items of other projects."""
    items = re.split(r"\n(?=- )|\n\n", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    ours = "\n\n".join(item for item in items if not re.match(r"- [A-Za-z]+: `", item))
    found = (re.sub(r"\s+", " ", text).strip() for _, text in re.findall(r"(`+)(.+?)(?<!`)\1(?!`)", ours, re.DOTALL))
    return [text for text in found if " " in text and text not in CODE]


def contains(message: str, quote: str) -> bool:
    """Whether a message contains the fixed parts of a quote, in their order."""
    pattern = ".*".join(map(re.escape, fragments(quote)))
    return re.search(pattern, message, re.DOTALL) is not None


LITERALS = {text for _, tree in sources() for node in ast.walk(tree) if (text := text_of(node))}
QUOTES = quotes(PAGE)


def is_quoted(message: str) -> bool:
    """Whether one of the quotes is a message, or enough of it to be found on the page."""
    length = sum(map(len, fragments(message)))
    return any(
        contains(message, quote) and sum(map(len, fragments(quote))) >= min(LEAST_QUOTED, length) for quote in QUOTES
    )


def test_quoted_messages_are_in_the_sources() -> None:
    assert len(QUOTES) > 40
    assert [quote for quote in QUOTES if not any(contains(literal, quote) for literal in LITERALS)] == []


@for_each(found for found in messages() if not REMEDY.search(found[1]))
def test_messages_without_a_remedy_are_quoted(path: str, message: str) -> None:
    assert is_quoted(message)
