"""Print the part of locked.txt that the project needs with some extras.

Usage: python .ci/locked.py [EXTRA,...]. The output is for `pip install --require-hashes
--no-deps -r`, so nothing is installed but the very files that were tested. It uses the
standard library only, because it runs in an empty environment.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Who requires a package: comments that uv writes below its hashes.
_VIA = re.compile(r"^    #(?: via| ) +([A-Za-z0-9][A-Za-z0-9._-]*)$", re.MULTILINE)


def name_of(requirement: str) -> str:
    """Return the normalised name at the beginning of a requirement.

    >>> name_of("Jupyter_Bokeh>=4.0.5")
    'jupyter-bokeh'
    """
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def packages(text: str) -> dict[str, str]:
    """Return the lines of each package in a lock, with its hashes, by name."""
    starts = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    return {name_of(lines): lines for lines in starts}


def roots(project: dict[str, Any], extras: list[str]) -> set[str]:
    """Return what the project asks for itself, to be built and to be used."""
    about = project["project"]
    lists = [project["build-system"]["requires"], about["dependencies"]]
    waiting, seen = list(extras), {""}
    while waiting:
        extra = waiting.pop()
        if extra not in seen:
            seen.add(extra)
            lists.append(about["optional-dependencies"][extra])
            own = (re.fullmatch(rf"{about['name']}\[(.+)\]", one) for one in lists[-1])
            waiting += [name for found in own if found for name in found[1].split(",")]
    names = {name_of(one) for requirements in lists for one in requirements}
    return names - {about["name"]}


def needed(lock: dict[str, str], asked: set[str]) -> list[str]:
    """Return the names in a lock that these packages need, themselves included."""
    via = {name: set(_VIA.findall(lines)) for name, lines in lock.items()}
    found: set[str] = set()
    more = asked
    while more:
        found |= more
        more = {name for name in lock if via[name] & found} - found
    return sorted(found)


def main() -> None:
    """Print the lines for the extras that are named; refuse what the lock lacks."""
    extras = [one for word in sys.argv[1:] for one in word.split(",") if one]
    lock = packages((ROOT / "locked.txt").read_text())
    asked = roots(tomllib.loads((ROOT / "pyproject.toml").read_text()), extras)
    if missing := asked - lock.keys():
        sys.exit(
            f"locked.txt has no {', '.join(sorted(missing))}. It is made anew by the "
            f"command at its beginning."
        )
    print("".join(lock[name] for name in needed(lock, asked)), end="")


if __name__ == "__main__":
    main()
