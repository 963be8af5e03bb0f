"""What decides a training besides its job: the step function and the data, as digests.

Pure. A digest of a step function covers its code, its default values, what it closes
over, and the functions and constants of its own module that it uses. Lists, dicts and
other objects are left out, as they may change while it runs. Arrays are digested by
their bytes, dask arrays by their name, which is itself a digest.

If both sides have the same version of Python, the bytecode is compared, else the source
if both have it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.training.data.dask_source import is_dask
from kit.training.features.graph_step.step import GraphStep

Facts = Mapping[str, Any]
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_MOST_DEEP = 50


def step_facts(step: Callable[..., Any] | GraphStep) -> Facts:
    """Return what is recorded of a step function: its module and name, and digests.

    >>> facts = step_facts(max)
    >>> facts["module"], facts["name"], facts["importable"]
    ('builtins', 'max', True)
    """
    facts = {"python": PYTHON, "bytecode": _digest_of(step), "source": ""}
    if isinstance(step, GraphStep):
        return {**facts, "module": "", "name": "a graph", "importable": False}
    module = str(getattr(step, "__module__", None) or "")
    name = str(getattr(step, "__qualname__", None) or type(step).__qualname__)
    try:
        text = inspect.getsource(step).encode()
        facts["source"] = hashlib.sha256(text).hexdigest()
    except (OSError, TypeError):
        pass  # typed at a prompt, or an object
    importable = module != "__main__" and referred(module, name) is step
    return {**facts, "module": module, "name": name, "importable": importable}


def referred(module: str, name: str) -> Any:
    """Return the object with a dotted name in a loaded module, or None."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def data_facts(data: Any) -> Facts:
    """Return what is recorded of training data: the digest of each array.

    Data from a generator have none. Reads the arrays once.

    >>> facts = data_facts((np.arange(3), np.zeros((2, 2))))
    >>> [array["shape"] for array in facts["arrays"]]
    [[3], [2, 2]]
    """
    if not _are_arrays(data):
        return {"kind": type(data).__name__, "arrays": []}
    return {"kind": "arrays", "arrays": [_array_facts(part) for part in _split(data)]}


def check_arrays(data: Any) -> None:
    """Raise `InvalidArgumentError` for data that cannot be written into a recording."""
    if not _are_arrays(data) or any(map(is_dask, _split(data))):
        raise InvalidArgumentError(
            f"the data are {type(data).__name__}; only arrays in memory can be stored "
            f"with a recording. Leave store_data out, and give the data to "
            f"kit.replay(..., data=...)."
        )


def arrays_of(data: Any) -> list[Any]:
    """Return data as numpy arrays, to be written into a recording."""
    return [to_numpy(part) for part in _split(data)]


def _split(data: Any) -> Sequence[Any]:
    return data if isinstance(data, tuple | list) else (data,)


def _are_arrays(data: Any) -> bool:
    parts = _split(data)
    return bool(parts) and all(
        hasattr(part, "dtype") and len(getattr(part, "shape", ())) > 0 for part in parts
    )


def _array_facts(part: Any) -> Facts:
    about = {"shape": [int(n) for n in part.shape], "dtype": str(part.dtype)}
    if is_dask(part):
        return {**about, "sha256": hashlib.sha256(part.name.encode()).hexdigest()}
    array = np.ascontiguousarray(to_numpy(part))
    raw = array.reshape(-1).view(np.uint8).data if array.size else b""
    return {**about, "sha256": hashlib.sha256(raw).hexdigest()}


def step_difference(recorded: Facts, now: Facts) -> str:
    """Return how a step function differs from the recorded one; empty if not."""
    return code_difference("step function", recorded, now)


def code_difference(which: str, recorded: Facts, now: Facts) -> str:
    """Return how code differs from what was recorded; empty if it does not."""
    if recorded["python"] == now["python"]:
        what = "bytecode"
    elif recorded["source"] and now["source"]:
        what = "source"
    else:
        return ""  # nothing can be compared; the digests of the parameters will tell
    if recorded[what] == now[what]:
        return ""
    return (
        f"the digest of the {which}'s {what} is {now[what][:12]} for "
        f"{now['name']}, and {recorded[what][:12]} for {recorded['name']} in the "
        f"recording"
    )


def data_difference(recorded: Facts, current: Facts) -> str:
    """Return how data differ from the recorded ones; empty if they do not.

    >>> first, other = (data_facts(np.array([n, 5])) for n in (3, 4))
    >>> data_difference(first, other).split(";")[0]
    'the digest of data[0] is 3d484babff90 and was a9928084ac1e'
    >>> data_difference(first, first)
    ''
    """
    before, now = recorded["arrays"], current["arrays"]
    if recorded["kind"] != current["kind"] or len(before) != len(now):
        return f"the data are {_in_words(current)} and were {_in_words(recorded)}"
    return "; ".join(
        f"the digest of data[{number}] is {new['sha256'][:12]} and was "
        f"{old['sha256'][:12]}; it is {new['dtype']}{new['shape']} and was "
        f"{old['dtype']}{old['shape']}"
        for number, (old, new) in enumerate(zip(before, now, strict=True))
        if old != new
    )


def _in_words(facts: Facts) -> str:
    count = len(facts["arrays"])
    return f"{count} array{'' if count == 1 else 's'}" if count else facts["kind"]


def _digest_of(step: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest, step, getattr(step, "__module__", None), set(), 0)
    return digest.hexdigest()


def digest_of_object(value: Any) -> str:
    """Return the digest of what an object does: its settings, its class's functions.

    Classes of this package are left out, as its version stands for them.
    """
    digest, kind = hashlib.sha256(), type(value)
    ours = __name__.split(".")[0]
    parts: list[Any] = [kind.__qualname__, *_parts_of_object(value)]
    for base in kind.__mro__:
        if base.__module__.split(".")[0] not in (ours, "builtins", "abc", "typing"):
            parts += _parts_of_class(base)
    _feed(digest, tuple(parts), kind.__module__, set(), 0)
    return digest.hexdigest()


def _feed(digest: Any, value: Any, module: Any, seen: set[int], deep: int) -> None:
    """Add a value to a digest, and what it is made of."""
    digest.update(f"<{type(value).__qualname__}>".encode())
    if deep > _MOST_DEEP:
        return

    def go_on(*more: Any) -> None:
        for part in more:
            _feed(digest, part, module, seen, deep + 1)

    match value:
        case FunctionType():
            if id(value) not in seen:
                seen.add(id(value))
                go_on(*_parts_of_function(value, module))
        case CodeType():
            digest.update(value.co_code)
            go_on(value.co_consts, value.co_names, value.co_varnames)
            go_on(value.co_freevars, value.co_argcount, value.co_kwonlyargcount)
        case MethodType():
            go_on(value.__func__, *_parts_of_object(value.__self__))
        case functools.partial():
            go_on(value.func, value.args, *sorted(value.keywords.items()))
        case BuiltinFunctionType():
            digest.update(value.__qualname__.encode())
        case GraphStep():
            nodes = [node[:-1] for node in value.nodes]  # not the line of each
            plain = [nodes, value.feeds, value.goals, value.loss]
            digest.update(json.dumps(plain, default=repr).encode())
            go_on(*value.arrays, *value.functions.values())
        case tuple():
            go_on(len(value), *value)
        case frozenset():
            go_on(len(value), *sorted(map(repr, value)))
        case np.ndarray() | np.generic():
            array = np.ascontiguousarray(value)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes() if not array.dtype.hasobject else b"")
        case _ if isinstance(value, _PLAIN):
            digest.update(repr(value).encode())
        case _ if callable(value) and not isinstance(value, type) and deep == 0:
            go_on(type(value).__call__, *_parts_of_object(value))


def _parts_of_function(function: FunctionType, module: Any) -> list[Any]:
    code, names = function.__code__, function.__globals__
    cells = [_contents(cell) for cell in function.__closure__ or ()]
    parts: list[Any] = [code, function.__defaults__ or (), *cells]
    parts += sorted((function.__kwdefaults__ or {}).items())
    for name in sorted({name for item in _codes(code) for name in item.co_names}):
        used = names.get(name)
        is_ours = isinstance(used, FunctionType) and used.__module__ == module
        if is_ours or isinstance(used, (*_PLAIN, tuple, np.ndarray, np.generic)):
            parts += [name, used]
    return parts


def _parts_of_class(kind: type) -> list[Any]:
    parts: list[Any] = []
    for name, value in sorted(vars(kind).items()):
        inner = getattr(value, "fget", None) or getattr(value, "__func__", value)
        is_setting = isinstance(inner, _PLAIN) and not name.startswith("__")
        if isinstance(inner, FunctionType) or is_setting:
            parts += [name, inner]
    return parts


def _codes(code: CodeType) -> list[CodeType]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return [code, *(nested for constant in inner for nested in _codes(constant))]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _parts_of_object(value: Any) -> list[Any]:
    kept = getattr(value, "__dict__", {})
    return [part for name in sorted(kept) for part in (name, kept[name])]
