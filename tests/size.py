"""Count what the project weighs: `python -m tests.size`.

A line of code is one that is neither blank nor comment nor docstring. Private is what
reaches into something that is not `self`: `run._link`, `setattr(run, "_link", None)`.
Dialect are names that say nothing about the thing they stand for.
"""

from __future__ import annotations

import ast
import io
import token
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("kit", "widgets", "tests", "benchmarks")
COLUMNS = ("files", "code", "json", "private", "dialect")
DIALECT = {"one", "found", "given", "told", "place", "known", "apart", "together"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {token.COMMENT, token.NL, token.NEWLINE, token.INDENT, token.DEDENT}
# Python documents them.
PUBLIC = {"_fields", "_replace", "_asdict", "_make", "_exit", "_getframe"}


def weight_of(text: str) -> Counter[str]:
    """Count the columns of one file of Python."""
    nodes = list(ast.walk(ast.parse(text)))
    weight = Counter(files=1, private=sum(map(_is_private, nodes)))
    lines: set[int] = set()
    for part in tokenize.generate_tokens(io.StringIO(text).readline):
        if part.type not in LAYOUT and part.string:
            lines.update(range(part.start[0], part.end[0] + 1))
        weight["dialect"] += part.type == token.NAME and part.string in DIALECT
    for node in nodes:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= {*range(docstring.lineno, (docstring.end_lineno or 0) + 1)}
    weight["code"] = len(lines)
    return weight


def _is_private(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return False
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return False
        case ast.Attribute(attr=name):
            called = "getattr"
        case ast.Call(args=[_, ast.Constant(value=str(name)), *_], func=function):
            called = ast.unparse(function)
        case _:
            return False
    is_own = name.startswith("_") and not name.endswith("_")  # as _repr_html_ does
    return is_own and name not in PUBLIC and called.endswith("attr")


def weights(root: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Yield each folder, and each package in it, with what it weighs."""
    for folder in FOLDERS:
        sums: dict[str, Counter[str]] = {}
        for path in sorted((root / folder).rglob("*.*")):
            if path.suffix == ".py":
                weight = weight_of(path.read_text("utf-8"))
            elif path.suffix == ".json":
                weight = Counter(json=len(path.read_text("utf-8").splitlines()))
            else:
                continue
            inner = path.relative_to(root).parts[:-1][:2]
            for name in {folder, "/".join(inner)}:
                sums.setdefault(name, Counter()).update(weight)
        yield from sorted(sums.items())


if __name__ == "__main__":
    print(f"{'package':24}", *(f"{name:>8}" for name in COLUMNS), sep="")
    for name, weight in weights(ROOT):
        print(f"{name:24}", *(f"{weight[key]:8}" for key in COLUMNS), sep="")
