"""Which names of TensorFlow a program uses and `kit.tf1` lacks, without running it.

`python -m kit tf1-check FILE...` prints what `report` returns. Names are followed
through imports and plain assignments, `slim = tf.contrib.slim`; what a program looks up
by `getattr`, and methods of objects, are not.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from kit import tf1
from kit.errors import InvalidArgumentError, KitError, NotFoundError
from kit.regular_file import read_regular
from kit.tf1.not_offered import OutsideScopeError

_MOST_BYTES = 16 << 20
_ROOTS = ("tensorflow.compat.v1", "tensorflow._api.v1", "tensorflow", "kit.tf1")


class Use(NamedTuple):
    """A name below `tf` ('train.Saver'; '' is `tf` itself) on a line.

    `is_foreign` marks another package, which needs TensorFlow itself.
    """

    line: int
    name: str
    is_foreign: bool = False


class Report(NamedTuple):
    """What to print, and whether all that is used is offered."""

    lines: list[str]
    is_offered: bool


def report(paths: Sequence[Path]) -> Report:
    """Check programs, and all `*.py` of folders.

    Raises `NotFoundError` for a file that is not there, `InvalidArgumentError` for what
    is no Python program.
    """
    lines: list[str] = []
    used: set[str] = set()
    lacking: set[str] = set()
    n_places = n_unread = 0
    files = list(_files(paths))
    for path in files:
        try:
            uses = uses_of(_read(path))
        except (SyntaxError, ValueError, RecursionError) as error:
            lines.append(f"{path}:{getattr(error, 'lineno', 0) or 0}: {_unread(error)}")
            n_unread += 1
            continue
        advice = {use.name: _walk(use) for use in uses}
        wrong = [use for use in uses if advice[use.name][1] is not None]
        lines += [
            f"{path}:{use.line}: {_shown(use)} is not offered. {advice[use.name][1]}"
            for use in wrong
        ]
        used |= {name for name, _ in advice.values()}
        lacking |= {use.name for use in wrong}
        n_places += len(wrong)
    lines.append(
        f"{_count(len(files), 'file')}: {_count(len(used), 'name')} of TensorFlow "
        f"used, {len(lacking)} not offered, at {_count(n_places, 'place')}"
        + (f"; {_count(n_unread, 'file')} not read" if n_unread else "")
        + "."
    )
    is_offered = not lacking and not n_unread
    if is_offered and used:
        lines.append("Change the import to: from kit import tf1 as tf")
    return Report(lines, is_offered)


def uses_of(source: bytes | str) -> list[Use]:
    """Return the uses of TensorFlow in a program, by line.

    Raises `SyntaxError` and `ValueError` for what is no Python of this interpreter.

    >>> uses_of("import tensorflow as tf; tf.train.Saver().save(s)")[1]
    Use(line=1, name='train.Saver', is_foreign=False)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the program's own
        tree = ast.parse(source)
    reader = _Reader()
    reader.visit(tree)
    return sorted(dict.fromkeys(reader.uses))


def advice_on(use: Use) -> str | None:
    """Return what to do about a name; None if it is offered."""
    return _walk(use)[1]


def _walk(use: Use) -> tuple[str, str | None]:
    """Return the name without what belongs to an object, and the advice on it."""
    if use.is_foreign:
        return use.name, "It needs TensorFlow itself; do without it."
    if use.name.split(".")[-1] == "*":
        return use.name, "What it brings cannot be followed: import tensorflow as tf."
    value: object = tf1
    done: list[str] = []
    for part in use.name.split(".") if use.name else []:
        if not isinstance(value, ModuleType | type):
            break  # an attribute of some object
        try:
            value = getattr(value, part)
        except OutsideScopeError as error:
            return use.name, str(error)[str(error).index("Instead") :]
        except AttributeError as error:
            module = _submodule(value, part)
            if module is None:
                return use.name, _unknown(".".join([*done, part]), error)
            value = module
        except KitError:
            return use.name, None  # it needs an optional package
        done.append(part)
    return ".".join(done), None


def _unknown(name: str, error: AttributeError) -> str:
    if name.startswith("python"):
        return "It is a private module of the original; use the public name in tf."
    text = str(error)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _submodule(value: object, name: str) -> object | None:
    """Return a module below another, which is loaded when a program imports it."""
    if not isinstance(value, ModuleType) or not hasattr(value, "__path__"):
        return None
    path = f"{value.__name__}.{name}"
    return import_module(path) if find_spec(path) is not None else None


class _Reader(ast.NodeVisitor):
    """Collects the uses; knows which variables stand for `tf` or a part of it."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._names: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            path = _below(alias.name)
            self._note(node, alias.name, path)
            if path is None:
                continue
            if alias.asname:
                self._names[alias.asname] = path
            elif alias.name.split(".")[0] == "tensorflow":
                self._names["tensorflow"] = ""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            path = _below(full)
            self._note(node, node.module, path)
            if path is not None and alias.name != "*":
                self._names[alias.asname or alias.name] = path

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self._note(node, "", path)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        path = self._path(node.value)
        for target in node.targets:
            self.visit(target)
            for name in _bound(target):
                self._names.pop(name, None)
                if path is not None and isinstance(target, ast.Name):
                    self._names[name] = path

    def _visit_scope(self, node: ast.AST) -> None:
        arguments = [
            node_inside.arg
            for node_inside in ast.walk(node)
            if isinstance(node_inside, ast.arg)
        ]
        outside = dict(self._names)
        for name in arguments:
            self._names.pop(name, None)
        self.generic_visit(node)
        # Of what a function imports, others see nothing.
        self._names = outside

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_scope

    def _path(self, node: ast.AST) -> str | None:
        """Return the name below `tf` that an expression stands for."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names:
            return None
        return _joined(self._names[node.id], *reversed(parts))

    def _note(self, node: ast.stmt | ast.expr, module: str, path: str | None) -> None:
        if path is not None:
            self.uses.append(Use(node.lineno, path))
        elif module.startswith("tensorflow_"):
            self.uses.append(Use(node.lineno, module.split(".")[0], is_foreign=True))


def _below(module: str) -> str | None:
    """Return the name below `tf` of a module that is imported; None for others.

    >>> _below("tensorflow.compat.v1.train"), _below("tensorflow"), _below("numpy")
    ('train', '', None)
    """
    for root in _ROOTS:
        if module == root or module.startswith(f"{root}."):
            return module[len(root) + 1 :]
    return None


def _joined(path: str, *parts: str) -> str:
    full = ".".join([*path.split("."), *parts] if path else parts)
    return full.removeprefix("compat.v1.")  # which are the same names


def _bound(target: ast.AST) -> Iterator[str]:
    for name_node in ast.walk(target):
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store):
            yield name_node.id


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.suffix == ".ipynb":
            raise InvalidArgumentError(
                f"{path} is a notebook; make a program of it first: jupyter nbconvert "
                f"--to script {path}"
            )
        else:
            yield path


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _MOST_BYTES)
    except OSError as exc:
        raise NotFoundError(f"{path} cannot be read: {exc.strerror}.") from exc


def _unread(error: Exception) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"not read, because it is not Python 3: {text}"


def _shown(use: Use) -> str:
    return use.name if use.is_foreign else f"tf.{use.name}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
