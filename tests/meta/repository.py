"""Where things are, and what pages and modules hold."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stepwell"

_NOT_OURS = {"__pycache__", "build", "dist", "local", "node_modules"}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)


def files(suffix: str = "") -> Iterator[Path]:
    """Yield the repository's own files, hidden folders but .ci left out."""
    for path in sorted(ROOT.rglob(f"*{suffix}")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
        if path.is_file() and not hidden and _NOT_OURS.isdisjoint(parts):
            yield path


def name_of(path: Path) -> str:
    """Return a path as people write it."""
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    runs: bool
    """Marked ``run``: executed, not only compiled."""
    text: str

    @property
    def name(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page."""

    page: Path
    text: str
    target: str


def fences(*languages: str) -> list[Fence]:
    """Return the blocks of all pages that are in one of ``languages``."""
    return [
        fence for page in files(".md") for fence in _fences(page) if fence.language in languages
    ]


def _fences(page: Path) -> Iterator[Fence]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        language, *marks = found[2].split() or [""]
        line = text.count("\n", 0, found.start()) + 1
        yield Fence(page, line, language, "run" in marks, found[3])


def links() -> list[Link]:
    """Return the links of all pages, those in code left out."""
    return [
        Link(page, text, target)
        for page in files(".md")
        for text, target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    ]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what the headings of a page can be linked by, as GitHub makes it."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    )


@cache
def definitions(module: Path) -> dict[str, ast.AST]:
    """Return the classes and functions of a module, and their methods, by dotted name."""
    return dict(_definitions(ast.parse(module.read_text(encoding="utf-8")), ""))


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _definitions(child, f"{name}.")
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _definitions(child, prefix)
