"""`tensorflow.python.training.training_ops`: the updates that optimizers are made of.

`apply_adam(var, m, v, beta1_power, ...)` and its like; `sparse_apply_...` of the rows
that `indices` names. Settings may be tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from kit.errors import InvalidArgumentError
from kit.tf1.signature import arguments_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.variables.assigning import ref_of
from kit.training.optimizers import graph_rules, rules
from kit.training.optimizers.minimize import settings_of, title_of
from kit.training.optimizers.rule import Rule

_UPDATES: dict[str, tuple[Rule, str]] = {
    "gradient_descent": (rules.GradientDescent(0.5), "var alpha delta"),
    "momentum": (rules.Momentum(0.5), "var accum lr grad momentum"),
    "adagrad": (rules.Adagrad(0.5), "var accum lr grad"),
    "adadelta": (
        graph_rules.Adadelta(),
        "var accum accum_update lr rho epsilon grad",
    ),
    "ftrl": (graph_rules.Ftrl(0.5), "var accum linear grad lr l1 l2 lr_power"),
    "rms_prop": (rules.RMSProp(0.5), "var ms mom lr rho momentum epsilon grad"),
    "centered_rms_prop": (
        rules.RMSProp(0.5, centered=True),
        "var mg ms mom lr rho momentum epsilon grad",
    ),
    "adam": (
        rules.Adam(),
        "var m v beta1_power beta2_power lr beta1 beta2 epsilon grad",
    ),
}
# Variables in the order in which the operations take them.
_REFS = ("var", "ms", "mg", "mom", "accum", "accum_update", "linear", "m", "v")
_PARTS = ("delta", "grad", "indices")
_POWERS = ("beta1_power", "beta2_power")
_SETTINGS = {"alpha": "learning_rate", "lr": "learning_rate"}


def _update(title: str, rule: Rule, names: list[str]) -> Callable[..., Any]:
    defaults = {"use_locking": False, "name": None}
    if isinstance(rule, rules.Momentum):
        defaults["use_nesterov"] = False
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(name, kind) for name in names]
        + [
            inspect.Parameter(n, kind, default=default)
            for n, default in defaults.items()
        ]
    )
    settings = [field.name for field in fields(rule)]

    def setting(name: str) -> str:
        name = _SETTINGS.get(name, name)
        return name if name in settings else "decay"  # what RMSProp calls rho

    def apply(*args: Any, **kwargs: Any) -> Any:
        bound = {"name": None, **arguments_of(title, signature, args, kwargs)}
        if bound.pop("lr_power", -0.5) != -0.5:
            raise InvalidArgumentError("lr_power is -0.5, the root; give that.")
        plain = dict(settings_of(rule)[0])
        if bound.pop("use_nesterov", False):
            plain["use_nesterov"] = True
        bound.pop("use_locking", None)  # an update is one step in any case
        with op_scope(bound.pop("name"), title, [bound["var"]]) as scope:
            refs = [ref_of(bound.pop(name), title) for name in _REFS if name in bound]
            own = refs[0].static.dtype
            powers = [bound.pop(name) for name in _POWERS if name in bound]
            gradient, *rows = [bound.pop(name) for name in _PARTS if name in bound]
            numbers = [*powers, *bound.values(), gradient]
            made = refs[0].graph.create(
                title,
                *refs,
                *(convert_to_tensor(number, own) for number in numbers),
                *map(convert_to_tensor, rows),
                name=scope,
                rule=tuple(plain.items()),
                fed=tuple(map(setting, bound)),
            )
        return made.outputs[0]

    apply.__doc__ = f"Update variables as the rule {rule.name} says; return the first."
    apply.__signature__ = signature  # type: ignore[attr-defined]
    return apply


def _all_updates() -> dict[str, Callable[..., Any]]:
    updates = {}
    for name, (rule, text) in _UPDATES.items():
        names, title = text.split(), f"Apply{title_of(rule)}"
        updates[f"apply_{name}"] = _update(title, rule, names)
        at = names.index("grad") + 1 if "grad" in names else None
        if at is not None and name != "adam":
            rows = [*names[:at], "indices", *names[at:]]
            updates[f"sparse_apply_{name}"] = _update(f"Sparse{title}", rule, rows)
    return updates


globals().update(_all_updates())
