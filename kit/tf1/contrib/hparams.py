"""`tf.contrib.training.HParams`: settings of a model by name, and read from a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_SETTING = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*=\s*"
    r"(?:\[(?P<values>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)


class HParams:
    """Settings as attributes, each of the type of its first value; lists too."""

    def __init__(self, **kwargs: Any) -> None:
        self._names: list[str] = []
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a setting. Raises `ValueError` for a name that is taken."""
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(
                    f"Multi-valued hyperparameters cannot be empty: {name}"
                )
            value = list(value)
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Change a setting. Raises `KeyError` for a name that it does not have."""
        old = self._known(name)
        if isinstance(old, list) != isinstance(value, list):
            kind = "a list" if isinstance(old, list) else "one value"
            raise ValueError(f"{name} is {kind}, not {value!r}.")
        if isinstance(old, list):
            setattr(self, name, [_cast(name, item, old[0]) for item in value])
        else:
            setattr(self, name, _cast(name, value, old))

    def del_hparam(self, name: str) -> None:
        """Take a setting away."""
        self._known(name)
        self._names.remove(name)
        delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Change settings by a text: "rate=0.1,sizes=[3,4]"."""
        at = 0
        while at < len(values):
            match = _SETTING.match(values, at)
            if match is None:
                raise ValueError(f"Could not parse {values[at:]!r}; write name=value.")
            at = match.end()
            name = match["name"]
            if name not in self._names:
                raise ValueError(f"Unknown hyperparameter name for {name}")
            if match["values"] is not None:
                items = [item.strip() for item in match["values"].split(",")]
                self.set_hparam(name, items)
            else:
                self.set_hparam(name, match["value"].strip())
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Change the settings that a dict names."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Change the settings that a JSON object names."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self._names}

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting, or the default where there is none of that name."""
        return getattr(self, key) if key in self._names else default

    def to_json(self, **how: Any) -> str:
        """Return the settings as a JSON object."""
        return json.dumps(self.values(), **how)

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"HParams({self})"

    def _known(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self, name)


def _cast(name: str, value: Any, like: Any) -> Any:
    """Return a value, or a text of one, in the type of another value."""
    if like is None or isinstance(value, type(like)):
        return value
    try:
        if isinstance(like, bool):
            return {"true": True, "1": True, "false": False, "0": False}[
                str(value).lower()
            ]
        if isinstance(value, str) or isinstance(like, float):
            return type(like)(value)
    except (KeyError, ValueError):
        pass
    raise ValueError(
        f"Could not cast hparam '{name}' of type '{type(like)}' from value {value!r}"
    )
