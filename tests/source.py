"""One file of the project as its laws see it: what it imports.

Read with one parse, and the tree is not kept: those of all files are millions of
objects, and every collection of garbage in the same process would visit them.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ("kit/", "widgets/")  # what a wheel contains


@dataclass(frozen=True)
class Source:
    """One file: where it lies in the repository, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".")

    @cached_property
    def contents(self) -> Contents:
        """What the laws ask of the tree."""
        tree = ast.parse(self.text, self.path)
        imports: dict[str, int] = {}
        for node in _statements(tree, deeper=bool(_CALLED_IMPORT.search(self.text))):
            for name in _imported(node):
                imports.setdefault(name, getattr(node, "lineno", 0))
        needed = frozenset(_needed(tree))
        return Contents(ast.get_docstring(tree) or "", imports, needed)

    @property
    def imports(self) -> dict[str, int]:
        """What is imported anywhere in the file, with the line."""
        return self.contents.imports


@dataclass(frozen=True)
class Contents:
    """What a file imports."""

    docstring: str
    imports: dict[str, int]
    needed: frozenset[str]  # what is imported otherwise than for types


_CALLED_IMPORT = re.compile("import_module|__import__")


def _statements(node: ast.AST, *, deeper: bool) -> Iterator[ast.AST]:
    """Yield all statements of a tree; the expressions too, if it goes deeper."""
    for child in ast.iter_child_nodes(node):
        if deeper or isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child, deeper=deeper)


def _needed(node: ast.AST) -> Iterator[str]:
    """Yield what is imported at some time, in functions too, but for types alone."""
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child)
        if not is_typing:
            yield from _imported(child)
            if isinstance(child, ast.stmt | ast.excepthandler):
                yield from _needed(child)


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(level=0, module=str(module), names=names):
            return [f"{module}.{alias.name}" for alias in names]
        case ast.ImportFrom():
            return [".relative"]
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if (
            ast.unparse(func).split(".")[-1] in {"import_module", "__import__"}
        ):
            return [name]
    return []


def within(name: str, package: str) -> bool:
    """Whether the dotted name is the package or something in it."""
    return name == package or name.startswith(f"{package}.")


def sources() -> list[Source]:
    folders = ("kit", "widgets", "tests", "benchmarks")
    paths = sorted(path for name in folders for path in (ROOT / name).rglob("*.py"))
    return [Source(str(p.relative_to(ROOT)), p.read_text("utf-8")) for p in paths]


FILES = sources()


def files() -> list[Path]:
    """What is, or would be, in the repository; without git, what lies in its folder."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        hidden = {".venv", ".mypy_cache", ".ruff_cache", "__pycache__", ".hypothesis"}
        result = (path for path in ROOT.rglob("*") if not hidden & {*path.parts})
        return [path for path in result if path.is_file()]
    # A clone may belong to another user, as in a container; reading it is harmless.
    command = [git, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    command.append("--exclude-standard")
    out = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = (ROOT / name for name in out.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]
