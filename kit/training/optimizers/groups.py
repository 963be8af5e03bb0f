"""An optimizer with other settings for some parameters, which are named by patterns.

Pure. A task updates ranges of the flat parameters: each range is cut where one
parameter ends and the next has other settings, and the rules stay elementwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from kit.errors import InvalidArgumentError
from kit.exchange.layout import Layout, Range, intersect, itemsize_of
from kit.handles import handle
from kit.training.optimizers.rule import Flat, Optimizer, Rule, Slot


@handle
@dataclass(frozen=True)
class Groups:
    """An optimizer with other settings for parameters whose names match a pattern.

    Parameters
    ----------
    rule : Rule
        The optimizer of all parameters that no pattern matches, such as
        `kit.AdamW(0.001)`.
    groups : mapping of str to mapping, or of str to Rule
        For a regular expression, which is searched for in the name, the settings that
        are others: `{"bias|norm": {"weight_decay": 0.0}}`. The first that matches
        counts. Learning rates may be schedules, and 0 keeps parameters as they are.

    Raises
    ------
    InvalidArgumentError
        A pattern or a setting cannot be. `kit.train` raises it for a pattern that
        matches no parameter.

    Examples
    --------
    No decay for biases and norms, and a slower embedding:

    >>> import kit
    >>> optimizer = Groups(
    ...     kit.AdamW(0.001, weight_decay=0.1),
    ...     {"bias|norm": {"weight_decay": 0.0}, "^embed": {"learning_rate": 1e-4}},
    ... )
    >>> optimizer.rule_of("layer1.bias").weight_decay
    0.0
    >>> optimizer.rule_of("layer1.weight").weight_decay
    0.1
    """

    rule: Rule
    groups: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise InvalidArgumentError(
                f"rule is {self.rule!r}; give an optimizer such as kit.AdamW(0.001)."
            )
        if not isinstance(self.groups, Mapping):
            raise InvalidArgumentError(
                f"groups is {self.groups!r}; give settings by pattern, such as "
                f"{{'bias': {{'learning_rate': 0.01}}}}."
            )
        rules = {key: self._rule(key, value) for key, value in self.groups.items()}
        object.__setattr__(self, "groups", rules)

    def _rule(self, pattern: str, settings: Any) -> Rule:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InvalidArgumentError(
                f"{pattern!r} is not a regular expression: {error}."
            ) from error
        if isinstance(settings, Mapping):
            try:
                return replace(self.rule, **settings)
            except TypeError as error:
                names = ", ".join(field.name for field in fields(self.rule))
                raise InvalidArgumentError(
                    f"{pattern!r} has the settings {dict(settings)}; those of "
                    f"{self.rule.name} are {names}."
                ) from error
        if type(settings) is not type(self.rule):
            raise InvalidArgumentError(
                f"{pattern!r} has {settings!r}; give settings of {self.rule.name}, or "
                f"another {type(self.rule).__name__}: all groups keep the same slots."
            )
        return settings

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The arrays that all groups keep beside their parameters."""
        return self.rule.slots

    def rule_of(self, name: str) -> Rule:
        """Return the optimizer of a parameter.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Rule
            That of the first pattern that is found in the name.
        """
        matching = (rule for key, rule in self.groups.items() if re.search(key, name))
        return next(matching, self.rule)

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a pattern that matches no parameter, by `InvalidArgumentError`."""
        for pattern in self.groups:
            if not any(re.search(pattern, name) for name in names):
                raise InvalidArgumentError(
                    f"no parameter matches {pattern!r}; they are called "
                    f"{', '.join(names)}."
                )

    def over(self, layout: Layout, part: Range) -> Optimizer:
        """Return the optimizer of a range of the flat parameters, of one dtype."""
        pieces = list[Piece]()
        for leaf in sorted(layout.leaves, key=lambda leaf: leaf.lo):
            shared = intersect(leaf.range, part)
            if shared is None:
                continue
            rule = self.rule_of(leaf.spec.name)
            end = (shared.hi - part.lo) // itemsize_of(layout.dtype_at(part.lo))
            if pieces and pieces[-1].rule == rule:
                pieces[-1] = pieces[-1]._replace(end=end)
            else:
                pieces.append(Piece(rule, pieces[-1].end if pieces else 0, end))
        return pieces[0].rule if len(pieces) == 1 else InPieces(tuple(pieces))

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """Refuse: which parameters these are is not known here."""
        raise InvalidArgumentError(
            "a group of parameters is known by their names: give kit.Groups to "
            "kit.train, or apply rule_of(name)."
        )


class Piece(NamedTuple):
    """Elements of a range that have one rule."""

    rule: Rule
    start: int
    end: int


class InPieces(NamedTuple):
    """An optimizer of a range: for each piece the rule of its parameters."""

    pieces: tuple[Piece, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Those of each rule."""
        return self.pieces[0].rule.slots

    def apply(
        self,
        parameter: Flat,
        gradient: Flat,
        slots: Sequence[Flat],
        out: Flat,
        step: int,
    ) -> None:
        """See `Optimizer`: each rule by itself."""
        for rule, start, end in self.pieces:
            cut = slice(start, end)
            own = [slot[cut] for slot in slots]
            rule.apply(parameter[cut], gradient[cut], own, out[cut], step)
