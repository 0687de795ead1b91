"""Names and text of the package and its pages use the terms of the glossary, in docs/development.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.marks import for_each

ROOT = Path(__file__).parents[2]
GLOSSARY = "\n## Glossary\n"
CODE = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "dask_gpusort").rglob("*")
    if path.suffix in {".py", ".cu", ".cuh", ".hpp"}
)
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"]
)
#: Terms that contain a refused word in another sense.
OTHER_TERMS = (("in", "place"),)

CXX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CXX_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
STRING_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Refused(NamedTuple):
    """A word, or a phrase, that the glossary replaces with a term."""

    term: str
    words: tuple[str, ...]
    everywhere: bool  # in text and names; otherwise only in names
    folders: tuple[str, ...]  # empty: all folders

    def concerns(self, path: Path) -> bool:
        return not self.folders or any(path.is_relative_to(folder) for folder in self.folders)

    def pattern(self, inflected: bool) -> re.Pattern[str]:
        """Pattern of the phrase in words separated by blanks."""
        words = " ".join(inflections(word) if inflected else word for word in self.words)
        return re.compile(rf"(?<!\S){words}(?!\S)")


def inflections(word: str) -> str:
    return word.removesuffix("e") + ("(e|es|ed|ing)" if word.endswith("e") else "(s|es|ed|ing)?")


def glossary_rows() -> list[list[str]]:
    text = (ROOT / "docs" / "development.md").read_text().partition(GLOSSARY)[2]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() != "term"]


def refused_words() -> Iterator[Refused]:
    for term, _, column in glossary_rows():
        for part in column.split(";"):
            listed = re.search(r"\(([\w/, ]+)\)", part)
            folders = tuple(listed[1].split(", ")) if listed else ()
            for mark, text in re.findall(r"([`*])([^`*]+)[`*]", part):
                yield Refused(term, tuple(text.split()), mark == "`", folders)


REFUSED = list(refused_words())


def words_of_name(name: str) -> str:
    """Words of a name in snake_case or CamelCase, without `OTHER_TERMS`."""
    name = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)(?=[A-Z][a-z])", r"\1\3_\2", name)
    text = "_" + "_".join(word.lower() for word in name.split("_") if word) + "_"
    for term in OTHER_TERMS:
        text = text.replace("_" + "_".join(term) + "_", "__")
    return text.strip("_").replace("_", " ")


def names_in_python(source: str) -> set[str]:
    """Names that a module defines. Names that it only uses may belong to other projects."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.arg():
                names.add(node.arg)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                names.add(node.attr)
            case ast.alias(asname=str()):
                names.add(node.asname)
    return names


def text_in_python(source: str) -> str:
    """Comments, and strings with blanks, such as docstrings and messages."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in tokens if token.type in STRING_TOKENS and " " in token.string)


def names_in(path: Path) -> set[str]:
    """The names that a file defines, and its own."""
    source = (ROOT / path).read_text()
    if path.suffix == ".py":
        return names_in_python(source) | {path.stem}
    return {*re.findall(r"[A-Za-z_]\w*", CXX_STRING.sub(" ", CXX_COMMENT.sub(" ", source))), path.stem}


def text_in(path: Path) -> str:
    source = (ROOT / path).read_text()
    if path.suffix == ".py":
        return text_in_python(source)
    if path.suffix == ".md":
        return re.sub(r"<!--.*?-->", "", source.partition(GLOSSARY)[0], flags=re.DOTALL)
    return "\n".join(CXX_COMMENT.findall(source))


def replacements(refused: list[Refused]) -> list[str]:
    """A message for each refused word that gives the terms of the glossary."""
    terms: dict[str, list[str]] = {}
    for word in refused:
        terms.setdefault(" ".join(word.words), []).append(word.term)
    return [f"not {word!r} but {' / '.join(found)}" for word, found in terms.items()]


def wrong_names(path: Path) -> list[str]:
    """What to change in the names of a file."""
    refused = [(word, word.pattern(inflected=word.everywhere)) for word in REFUSED if word.concerns(path)]
    found = []
    for name in sorted(names_in(path)):
        words = words_of_name(name)
        # The name of a test is a sentence, so it follows the rules for text.
        sentence = words.startswith("test ")
        wrong = [word for word, pattern in refused if (word.everywhere or not sentence) and pattern.search(words)]
        found += [f"{name}: {text}" for text in replacements(wrong)]
    return found


def wrong_words(path: Path) -> list[str]:
    """What to change in the text of a file. A phrase may continue on the next line."""
    words = (re.sub(r"\W|_", "", word.lower()) for word in re.split(r"[\s/\-]+", text_in(path)))
    text = " ".join(word for word in words if word)
    refused = [word for word in REFUSED if word.everywhere and word.concerns(path)]
    return replacements([word for word in refused if word.pattern(inflected=True).search(text)])


@for_each(CODE)
def test_names_use_the_terms_of_the_glossary(path: Path) -> None:
    assert wrong_names(path) == []


@for_each([*CODE, *DOCUMENTS])
def test_text_uses_the_terms_of_the_glossary(path: Path) -> None:
    assert wrong_words(path) == []


def test_rows_of_the_glossary_have_three_cells_and_different_terms() -> None:
    rows = glossary_rows()
    assert rows
    assert all(len(row) == 3 for row in rows)
    terms = [row[0] for row in rows]
    assert len(set(terms)) == len(terms)


def test_folders_in_the_glossary_exist() -> None:
    assert all((ROOT / folder).is_dir() for refused in REFUSED for folder in refused.folders)
