"""`tf.app.flags`: typed arguments of a program, `--name=value` or `--name value`.

A switch is set by `--name` or `--name=true`, and cleared by `--noname`. The names are
those of absl's `flags`, as in the original; these are wrapped here:

    DEFINE_...   take the older names of their arguments, too, and no text of help
    FLAGS        reads the command line when a flag is first looked up
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

from absl import flags as _absl

from kit.tf1.not_offered import refuse

# A flag is listed by --help under the module that calls `DEFINE_...`, not under this.
_absl.disclaim_key_flags()

_OLDER: Final = {"flag_name": "name", "default_value": "default", "docstring": "help"}
_HELP: Final = ("help", "helpshort", "helpfull")
# The command line of a notebook's kernel is not the program's.
_KERNELS: Final = ("ipykernel_launcher.py", "colab_kernel_launcher.py")


class _Flags:
    """The program's flags as attributes; the first access parses the command line.

    Calling it parses a list of arguments, the program's name first, and returns those
    that are not flags. Raises `UnrecognizedFlagError` for a flag that is not defined,
    unless `known_only`, and `IllegalFlagValueError` for a value that cannot be read.
    """

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        _help_if_asked(argv)
        rest: list[str] = _absl.FLAGS(list(argv), known_only=known_only)
        return rest

    def _read(self) -> Any:
        if not _absl.FLAGS.is_parsed():
            is_kernel = Path(sys.argv[0]).name in _KERNELS
            self(sys.argv[:1] if is_kernel else sys.argv)
        return _absl.FLAGS

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` ask a new object for such names, before there are flags.
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(type(_absl.FLAGS), name) and name != "flag_values_dict":
            return getattr(_absl.FLAGS, name)
        return getattr(self._read(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_absl.FLAGS, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_absl.FLAGS, name)

    def __getitem__(self, name: str) -> Any:
        return _absl.FLAGS[name]

    def __contains__(self, name: str) -> bool:
        return name in _absl.FLAGS

    def __iter__(self) -> Iterator[str]:
        return iter(_absl.FLAGS)

    def __len__(self) -> int:
        return len(_absl.FLAGS)

    def __dir__(self) -> list[str]:
        return dir(_absl.FLAGS)

    def __str__(self) -> str:
        return str(_absl.FLAGS)

    def __reduce__(self) -> str:
        return "FLAGS"


FLAGS = _Flags()


def _help_if_asked(argv: Sequence[str]) -> None:
    """Print the flags and end the process, with the status 1 as the original's."""
    arguments = argv[1 : list(argv).index("--") if "--" in argv else None]
    asked = {argument.lstrip("-") for argument in arguments if argument.startswith("-")}
    if not asked.isdisjoint(name for name in _HELP if name not in _absl.FLAGS):
        about = sys.modules["__main__"].__doc__ or f"USAGE: {argv[0]} [flags]"
        main = _absl.FLAGS.main_module_help()
        is_full = "helpfull" in asked or not main
        print(about.strip(), "\nflags:", _absl.FLAGS.get_help() if is_full else main)
        sys.exit(1)


@cache
def _defining(name: str) -> Callable[..., Any]:
    """Return a function of absl that adds a flag."""
    original = getattr(_absl, name)
    has_help = name in _WITH_HELP_LAST

    @wraps(original)
    def define(*args: Any, **kwargs: Any) -> Any:
        fixed = {_OLDER.get(key, key): value for key, value in kwargs.items()}
        if has_help and len(args) < 3:
            fixed.setdefault("help", "")
        return original(*args, **fixed)

    return define


_WITH_HELP_LAST: Final = frozenset(
    f"DEFINE_{kind}"
    for kind in (
        *("string", "integer", "float", "bool", "boolean", "list", "spaceseplist"),
        *("multi_string", "multi_integer", "multi_float"),
    )
)


def __getattr__(name: str) -> Any:
    if name.startswith("DEFINE_") and hasattr(_absl, name):
        return _defining(name)
    if name in _PASSED_ON:
        return getattr(_absl, name)
    refuse("app.flags", name)


_PASSED_ON: Final = frozenset(
    name
    for name in dir(_absl)
    if not name.startswith("_") and getattr(_absl, name).__class__ is not type(sys)
)
