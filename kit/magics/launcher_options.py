"""Options of launchers on a `%%cluster` line, and the launcher that results.

    --launcher ssh --hosts nodea:3,nodeb:2    SSH(hosts={"nodea": 3, "nodeb": 2})
    --launcher mine                           a variable of the notebook

The options are the fields of the classes in `kit.launchers`, written according to their
types: a new launcher changes nothing here.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.error import UsageError

from kit.cluster.launchers import Launcher
from kit.cluster.launchers.dask_queues import refuse_queue
from kit.cluster.launchers.fields import COMMON, classes, fields, nearest
from kit.magics.line_parsing import option


def flag(name: str) -> str:
    """Return the option for a field.

    >>> flag("ssh_args")
    '--ssh-args'
    """
    return "--" + name.replace("_", "-")


def owners() -> dict[str, list[str]]:
    """Return for each field the launchers that have it."""
    result: dict[str, list[str]] = {}
    for launcher, kind in classes().items():
        for name in fields(kind):
            result.setdefault(name, []).append(launcher)
    return result


def launcher_options() -> list[Any]:
    """Return the options for `takes`."""
    names = ", ".join(classes())
    what = f"what brings the tasks to other hosts: {names}, or a variable"
    options = [option("--launcher", metavar="NAME", help=what)]
    for name, having in owners().items():
        kinds = [classes()[item] for item in having]
        whose = "every launcher" if name in COMMON else ", ".join(having)
        about = f"{whose}: {_about(kinds[0], name)}".replace("%", "%%")
        metavar = fields(kinds[0])[name].metavar
        options.append(option(flag(name), dest=name, metavar=metavar, help=about))
    return options


def _about(kind: type, name: str) -> str:
    """Return the first sentence about a field in its class's docstring, or a base's."""
    for base in kind.__mro__:
        pattern = rf"^(?:\w+, )*{name}(?:, \w+)* : .*\n((?:    .+\n)+)"
        match = re.search(pattern, (inspect.getdoc(base) or "") + "\n", re.MULTILINE)
        if match is not None:
            return " ".join(match[1].split()).partition(". ")[0].rstrip(".")
    return "see kit.launchers"


# --------------------------------------------------------------------------------------
# From a line to its launcher.


def asked_launcher(
    options: argparse.Namespace,
    variables: Mapping[str, object],
    defaults: Callable[[str], Mapping[str, object]],
) -> Launcher | None:
    """Return the launcher that a line asks for, None without one.

    `variables` are the notebook's; `defaults` returns the site's fields of a launcher.
    Raises `UsageError` for an error on the line, and the errors of the class and of the
    site's file.
    """
    chosen = vars(options)
    texts = {name: chosen[name] for name in owners() if chosen.get(name) is not None}
    name: str | None = options.launcher
    if name is None:
        _refuse_without_launcher(texts)
        return None
    kind = classes().get(name)
    if kind is None:
        own = _variable(name, variables)
        return dataclasses.replace(own, **_read(name, type(own), texts))
    values = {**defaults(name), **_read(name, kind, texts)}
    _check_complete(name, kind, values)
    return kind(**values)


def _refuse_without_launcher(options: Mapping[str, str]) -> None:
    for name in options:
        right = " or ".join(f"--launcher {owner}" for owner in owners()[name])
        raise UsageError(f"%%cluster: {flag(name)} needs a launcher; add {right}.")


def _variable(name: str, variables: Mapping[str, object]) -> Launcher:
    value = variables.get(name)
    if isinstance(value, Launcher):
        return value
    if name not in variables:
        refuse_queue(name)
    is_what = (
        f"a variable of type {type(value).__name__}"
        if name in variables
        else "neither a known one nor a variable"
    )
    names = list(classes())
    raise UsageError(
        f"%%cluster: --launcher {name} is {is_what}.{nearest(name, names)} Give one of "
        f"{', '.join(names)}, or a variable that holds one of kit.launchers."
    )


def _read(
    launcher: str, kind: type[Launcher], texts: Mapping[str, str]
) -> dict[str, Any]:
    forms, values = fields(kind), {}
    for name, text in texts.items():
        if name not in forms:
            flags = ", ".join(map(flag, forms))
            raise UsageError(
                f"%%cluster: --launcher {launcher} has no option {flag(name)}; it has "
                f"{flags}."
            )
        try:
            values[name] = forms[name].read(text)
        except ValueError as error:
            raise UsageError(
                f"%%cluster: {error}; write it like {flag(name)} {forms[name].on_line}."
            ) from None
    return values


def _check_complete(
    launcher: str, kind: type[Launcher], values: Mapping[str, Any]
) -> None:
    no = dataclasses.MISSING
    for field in dataclasses.fields(kind):
        is_needed = field.default is no and field.default_factory is no
        if field.init and is_needed and field.name not in values:
            right = f"{flag(field.name)} {fields(kind)[field.name].on_line}"
            raise UsageError(
                f"%%cluster: --launcher {launcher} needs {flag(field.name)}; write it "
                f"like {right}."
            )
