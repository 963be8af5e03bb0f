"""A site's file with defaults for launchers, launchers.toml, for all programs.

    [ssh]                                  defaults for `--launcher ssh`: fields of
    hosts = {"nodea" = 3, "nodeb" = 2}     kit.launchers.SSH
    python = "/opt/psring/bin/python"

The file is the one that KIT_LAUNCHERS names, else ~/.config/psring/launchers.toml.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.cluster.launchers.dask_queues import refuse_queue
from kit.cluster.launchers.fields import classes, fields, nearest
from kit.cluster.launchers.forms import Form
from kit.cluster.launchers.launcher import Launcher
from kit.errors import InvalidArgumentError, NotFoundError
from kit.regular_file import read_regular

VARIABLE = "KIT_LAUNCHERS"
_MOST_BYTES = 1 << 20


def from_site(name: str, **options: Any) -> Launcher:
    """Return a launcher as the site's file describes it.

    The file is the one that `KIT_LAUNCHERS` names, else
    `~/.config/psring/launchers.toml`, and has a table for each launcher.

    Parameters
    ----------
    name : str
        The launcher's name in lower case: `"ssh"`, `"slurm"`, `"mpi"`.
    **options
        Parameters of the launcher that override the file.

    Returns
    -------
    Launcher
        One of `kit.launchers`.

    Raises
    ------
    InvalidArgumentError
        The launcher or a parameter is unknown, or the file has an error.
    UnimplementedError
        It is a queue that dask-jobqueue submits to; the message says what to write.
    NotFoundError
        `KIT_LAUNCHERS` names a file that does not exist.

    Examples
    --------
    The site's queue, for a long run::

        launcher = kit.launchers.from_site("slurm", time="24:00:00")
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """
    kind = classes().get(name)
    if kind is None:
        refuse_queue(name)
        raise InvalidArgumentError(
            f"no launcher is called {name!r}.{nearest(name, list(classes()))} "
            f"There are: {', '.join(classes())}."
        )
    values = launcher_defaults(name) | options
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{kind.__name__} cannot be made of {values!r}: {error}. It takes "
            f"{', '.join(fields(kind))}."
        ) from error


def launcher_for(asked: Launcher | str | None) -> Launcher | None:
    """Return the launcher that the user gave, or the site's launcher of that name.

    Raises `InvalidArgumentError` for anything else, and what `from_site` raises.
    """
    if isinstance(asked, str):
        return from_site(asked)
    if asked is None or isinstance(asked, Launcher):
        return asked
    raise InvalidArgumentError(
        f"launcher={asked!r} is not one of kit.launchers, nor the name of one: "
        f"{', '.join(classes())}."
    )


def launcher_defaults(
    name: str, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the site's fields of the launcher `name`; empty without a file.

    Raises `InvalidArgumentError` for an error in the file, and `NotFoundError` if
    KIT_LAUNCHERS names a file that does not exist.
    """
    path = site_file(environ)
    # Links are followed: the file is the user's own, and settings are often linked.
    real = path.resolve()
    if not real.exists():
        if environ.get(VARIABLE):
            raise NotFoundError(
                f"{VARIABLE} names {path}, which does not exist; correct or unset it."
            )
        return {}
    try:
        tables = tomllib.loads(read_regular(real, _MOST_BYTES).decode())
    except (ValueError, OSError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}.") from error
    for table in tables:
        if table not in classes():
            refuse_queue(table)
            raise InvalidArgumentError(
                f"{path}: no launcher is called [{table}]."
                f"{nearest(table, list(classes()))} There are: {', '.join(classes())}."
            )
    return _checked(f"{path}: [{name}]", tables.get(name, {}), fields(classes()[name]))


def site_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the site's file, which may not exist.

    >>> site_file({"KIT_LAUNCHERS": "/etc/psring.toml"})
    PosixPath('/etc/psring.toml')
    >>> site_file({"XDG_CONFIG_HOME": "/etc/xdg"})
    PosixPath('/etc/xdg/psring/launchers.toml')
    """
    if named := environ.get(VARIABLE):
        return Path(named).expanduser()
    config = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "psring" / "launchers.toml"


def _checked(where: str, values: object, forms: Mapping[str, Form]) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InvalidArgumentError(f"{where} is not a table; write its name like this.")
    for name, value in values.items():
        if name not in forms:
            raise InvalidArgumentError(
                f"{where} has no field {name!r}.{nearest(name, list(forms))} It has: "
                f"{', '.join(forms)}."
            )
        if not forms[name].is_right(value):
            raise InvalidArgumentError(
                f"{where} has {name} = {value!r}; write it like {name} = "
                f"{forms[name].in_file}."
            )
    return values
