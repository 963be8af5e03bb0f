"""What a saver saves: each variable, or part of one, under its name in the files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.tensor import Tensor
from kit.tf1.variables.assigning import ref_of
from kit.tf1.variables.partitioned import PartitionedVariable


class Saveable(NamedTuple):
    """A variable under its name; `spec` tells which part of a tensor it is, or ''."""

    name: str
    spec: str
    ref: Tensor


def saveables_of(given: Any) -> list[Saveable]:
    """Return what a `var_list` means: variables, or names with what they are for.

    Raises `TypeError` for anything that is not a variable, `ValueError` for a name that
    comes twice, and for one variable under two names.
    """
    if not isinstance(given, list | tuple | set | dict):
        raise TypeError(
            f"Variables to save should be passed in a dict or a list: {given}"
        )
    named = given if isinstance(given, dict) else _named(given)
    found: list[Saveable] = []
    for name in sorted(named):
        found += _of_name(name, named[name])
    seen: set[Tensor] = set()
    for one in found:
        if one.ref in seen:
            raise ValueError(
                f"The same saveable will be restored with two names: {one.name}"
            )
        seen.add(one.ref)
    return found


def _named(given: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for one in sorted(given, key=lambda one: str(one.name)):
        part = getattr(one, "_save_slice_info", None)
        if part is not None:
            others = named.setdefault(part.full_name, [])
            if not isinstance(others, list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {part.full_name}"
                )
            others.append(one)
            continue
        if isinstance(one, PartitionedVariable):
            name = one.name
        else:
            name = _ref(one, f"Variable to save is not a Variable: {one}").op.name
        if name in named:
            raise ValueError(f"At least two variables have the same name: {name}")
        named[name] = one
    return named


def _of_name(name: Any, given: Any) -> list[Saveable]:
    if not isinstance(name, str):
        raise TypeError(
            f"names_to_saveables must be a dict mapping string names to Variables; the "
            f"name is not a string: {name!r}"
        )
    if isinstance(given, list | tuple | PartitionedVariable):
        return [_part(name, one) for one in given]
    message = (
        f"names_to_saveables must be a dict mapping string names to "
        f"Tensors/Variables. Not a variable: {given}"
    )
    return [Saveable(name, "", _ref(given, message))]


def _part(name: str, one: Any) -> Saveable:
    part = getattr(one, "_save_slice_info", None)
    if part is None:
        raise ValueError(
            f"what is saved under the one name {name!r} must be the parts of a "
            f"partitioned variable, not {one}."
        )
    return Saveable(name, part.spec, one.ref)


def _ref(given: Any, message: str) -> Tensor:
    try:
        return ref_of(given, "SaveV2")
    except AttributeError as exc:
        convert_to_tensor(given)
        raise TypeError(message) from exc
