"""A recorded training's custom optimizers and compressors, which are code.

Pure. A class is recorded by its name and its digest, as a step function is, and an
object's settings if they are numbers and texts. An object that is not given to a replay
is made from these again, if it is a compressor of kit's, or if the recording is trusted
and its class can be imported here. For kit's own compressors only the settings count.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

from kit.errors import FailedPreconditionError
from kit.exchange.compression.clipping import ClipByNorm
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.gathering import Krum, MajorityVote, Median, TrimmedMean
from kit.exchange.compression.loss_scale import LossScale
from kit.exchange.compression.power_sgd import PowerSGD
from kit.exchange.compression.quantization import Float16, Int8
from kit.exchange.compression.top_k import TopK
from kit.exchange.compression.whole import Whole
from kit.exchange.ports.memory import Array
from kit.message_fields import (
    Field,
    anything,
    flag,
    list_of,
    maybe,
    object_of,
    row_of,
    table_of,
    text,
)
from kit.recording.facts import PYTHON, Facts, digest_of_object, referred
from kit.training.core.axes import LocalTraining, OwnWork
from kit.training.core.job import Job, Work
from kit.training.core.terms import text_of
from kit.training.optimizers import rules
from kit.training.optimizers.rule import Optimizer, Slot

COMPRESS: Final = "compress"  # as the arguments of `kit.train` are called
_OURS: Final = (
    *(TopK, PowerSGD, Float16, Int8, ClipByNorm),
    *(Krum, LossScale, MajorityVote, Median, TrimmedMean, Whole),
)
_INF: Final = float("inf")
_MOST_TOLD: Final = 1000
FIELD: Final[Field] = table_of(
    object_of(
        {
            **dict.fromkeys(("python", "bytecode", "source", "module"), text(1000)),
            "name": text(1000),
            "told": text(_MOST_TOLD),
            "settings": maybe(table_of(anything())),
            "importable": flag(),
            "slots": list_of(row_of(text(1000), text(100)), 1000),  # see float.hex
        }
    ),
    3,
)


def own_objects(job: Job, work: Work | None) -> dict[str, Any]:
    """Return such objects of a training, by the argument of `kit.train`."""
    objects = {
        name: getattr(job, field)
        for name, field in job.own_work.optimizers.items()
        if "class" in rules.named(getattr(job, field))
    }
    if work is not None and work.compressor is not None:
        objects[COMPRESS] = work.compressor
    return objects


def object_facts(own: Any) -> Facts:
    """Return what is recorded of such an object.

    >>> from kit.exchange.compression.top_k import TopK
    >>> facts = object_facts(TopK(0.1))
    >>> facts["name"], facts["settings"], facts["importable"]
    ('TopK', {'share': 0.1}, True)
    """
    kind = type(own)
    try:
        source = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        source = ""
    module, name = kind.__module__, kind.__qualname__
    return {
        "python": PYTHON,
        "bytecode": digest_of_object(own),
        "source": source,
        "module": module,
        "name": name,
        "told": text_of(own)[:_MOST_TOLD],
        "settings": _settings(own),
        "importable": module != "__main__" and referred(module, name) is kind,
        "slots": [
            [slot.name, float(slot.initial).hex()] for slot in getattr(own, "slots", ())
        ],
    }


def _settings(owner: Any) -> dict[str, Any] | None:
    """Return the settings of a dataclass, if they make it; None if they may not."""
    if not is_dataclass(owner):
        return None
    settings = {
        each.name: getattr(owner, each.name) for each in fields(owner) if each.init
    }
    for value in settings.values():
        if type(value) not in (int, float, bool, str) or value in (_INF, -_INF):
            return None
        if value != value:  # NaN, which JSON has not either
            return None
    return settings


def ours(name: str, facts: Facts) -> type[Compressor] | None:
    """Return kit's own class that the facts of a `compress` name; None for another."""
    named = facts["module"], facts["name"]
    kinds = {(kind.__module__, kind.__qualname__): kind for kind in _OURS}
    return kinds.get(named) if name == COMPRESS else None


def made_again(name: str, kind: object, facts: Facts) -> Any:
    """Return an object of a class with the recorded settings; None if it is not such.

    The class must be a dataclass, and an optimizer, or a compressor as `name` says.
    Making it runs its code: only for a class of kit's, or of a trusted recording.
    """
    settings = facts["settings"]
    is_one = isinstance(kind, type) and (
        issubclass(kind, Compressor)
        if name == COMPRESS
        else {"slots", "apply"} <= {*dir(kind)}
    )
    if settings is None or not (is_one and is_dataclass(kind)):
        return None
    make: Any = kind
    try:
        return make(**settings)
    except Exception:  # other settings than this class has
        return None


@dataclass(frozen=True, repr=False)
class RecordedOptimizer:
    """Stands for an optimizer that is not here: its name and slots are recorded."""

    text: str
    slots: tuple[Slot, ...]

    def __repr__(self) -> str:
        return self.text

    def apply(
        self,
        parameter: Array,
        gradient: Array,
        slots: Sequence[Array],
        out: Array,
        step: int,
    ) -> None:
        """Refuse: it was not given."""
        raise FailedPreconditionError(
            f"the optimizer {self.text} is not in the recording; give it to "
            f"kit.replay(..., optimizer=...)."
        )


def job_from(plain: Mapping[str, Any], own: Mapping[str, Facts]) -> Job:
    """Return the recorded job, with `RecordedOptimizer` for what is not plain.

    Raises as `Job.from_plain`.
    """
    job_fields, optimizers = dict(plain), dict[str, Optimizer]()
    own_work = OwnWork if job_fields.get("inner") is None else LocalTraining
    for name, field in own_work.optimizers.items():
        optimizer = job_fields.get(field)
        if isinstance(optimizer, Mapping) and "class" in optimizer and name in own:
            slots = tuple(
                Slot(slot, float.fromhex(initial))
                for slot, initial in own[name]["slots"]
            )
            optimizers[field] = RecordedOptimizer(own[name]["told"], slots)
            job_fields[field] = rules.to_plain(rules.GradientDescent(1.0))
    job = Job.from_plain(job_fields)
    return replace(job, **optimizers) if optimizers else job  # type: ignore[arg-type]
