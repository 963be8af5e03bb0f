"""What a replay computes with: given to it, or trusted: stored, or imported by name.

These are the step function, the data, and custom optimizers and compressors. Each must
have the recorded digest. That does not make code safe: whoever writes the file writes
the digest. Without trust nothing that a recording names is imported, loaded or called.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.exchange.compression.quantization import compressor_of
from kit.exchange.compression.stages import checked_specs
from kit.graph.array_protocol import ArrayProtocol
from kit.recording.content import Content
from kit.recording.facts import (
    Facts,
    code_difference,
    data_difference,
    data_facts,
    referred,
    step_difference,
    step_facts,
)
from kit.recording.own_objects import COMPRESS, made_again, object_facts, ours
from kit.recording.stored_step import unpickled
from kit.training.core.job import Job, Work
from kit.training.features.graph_step.loss import work_of
from kit.training.optimizers import rules

Own = Mapping[str, Any]  # by the argument of `kit.train`; None where nothing is given


@dataclass(frozen=True)
class ReplayInputs:
    """A recorded job with its optimizers, and what its workers compute with."""

    job: Job
    work: Work


def inputs_for(
    content: Content, step: Any, data: Any, own: Own, *, trust_step: bool = False
) -> ReplayInputs:
    """Return what a recording is computed again with; raises as `kit.replay` does."""
    if isinstance(step, ArrayProtocol):
        if data is None:
            raise InvalidArgumentError(
                "a loss needs its data by placeholder: data={x: images, y: labels}."
            )
        made = work_of(step, data, None, content.job.seed)
        step, data = made.step, made.data
    needs = step is None or any(own.get(name) is None for name in content.own)
    stored = _stored(content) if trust_step and needs else {}
    if step is None:
        is_stored = "step" in stored
        step = stored["step"] if is_stored else _step_of(content, trust_step)
    if data is None:
        if content.data is None:
            raise FailedPreconditionError(
                f"{content.name} does not hold the training data; give those that "
                f"kit.train was given as data=..., or record with "
                f"kit.Recording(folder, store_data=True)."
            )
        data = content.stored_data()
    recorded = content.about
    wrong = []
    if recorded["data"] is not None:
        wrong.append(data_difference(recorded["data"], data_facts(data)))
    if recorded["step"] is not None:
        wrong.append(step_difference(recorded["step"], step_facts(step)))
    objects = {
        name: _object(content, name, own.get(name), stored, trust_step)
        for name in (*content.job.own_work.optimizers, COMPRESS)
    }
    wrong += [
        _object_difference(content, name, value) for name, value in objects.items()
    ]
    if any(wrong):
        raise InvalidArgumentError(
            f"{content.name} was recorded with something else: "
            f"{'; '.join(filter(None, wrong))}. A replay needs the same."
        )
    work = Work(step, data, compressor=objects[COMPRESS])
    return ReplayInputs(_job(content.job, objects), work)


def _job(job: Job, objects: Own) -> Job:
    """Return the job with the optimizers themselves."""
    changes = {
        field: objects[name]
        for name, field in job.own_work.optimizers.items()
        if objects[name] is not None
    }
    return replace(job, **changes)


def _stored(content: Content) -> dict[str, Any]:
    """Return what was stored by cloudpickle, by argument; executes code from the file.

    Without custom objects, the file contains the step function alone.
    """
    if content.code is None:
        return {}
    stored = unpickled(content.stored_step())
    return stored if isinstance(stored, dict) else {"step": stored}


def _step_of(content: Content, is_trusted: bool) -> Any:
    facts = content.about["step"] or {"importable": False, "name": "unknown"}
    if is_trusted and facts["importable"]:
        _import(facts, "the step function", "step")
        function = referred(facts["module"], facts["name"])
        if isinstance(
            function, FunctionType
        ):  # nothing else that a file names is called
            return function
    raise FailedPreconditionError(
        f"the step function of {content.name} was {_named(facts)}; give it as "
        f"step=...{_or_trust(content, facts, is_trusted)}."
    )


def _named(facts: Facts) -> str:
    module = facts.get("module")
    return f"{facts['name']!r}{f' of the module {module!r}' if module else ''}"


def _or_trust(content: Content, facts: Facts, is_trusted: bool) -> str:
    """Return what else there is to do, and what that would execute."""
    if is_trusted:
        return ": it was neither stored with the recording nor can it be imported"
    if content.code is not None:
        return ", or, if you trust the code that was stored with it, trust_step=True"
    if facts["importable"]:
        return ", or, if you trust that module and the recording, trust_step=True"
    return ""


def _import(facts: Facts, what: str, argument: str) -> None:
    try:
        importlib.import_module(facts["module"])
    except Exception as exc:
        raise FailedPreconditionError(
            f"{what} is {facts['module']}.{facts['name']}, which cannot be imported "
            f"here ({type(exc).__name__}: {exc}); give it as {argument}=...."
        ) from exc


def _object(
    content: Content, name: str, own: Any, stored: Own, is_trusted: bool
) -> Any:
    """Return an optimizer or compressor; None where the job has it, or there is none.

    Raises `FailedPreconditionError` if there was one, and it cannot be had.
    """
    job, facts = content.job, content.own.get(name)
    if name == COMPRESS:
        own = compressor_of(own)
        if own is None and facts is None and job.payload.encodes:
            own = _compressor(job.compress)
    elif isinstance(own, str):
        own = rules.by_name(own)
    if own is not None or facts is None:
        return own
    kind = ours(name, facts)
    if kind is None and name in stored:
        return stored[name]
    if kind is None and is_trusted and facts["importable"]:
        _import(facts, f"what was given as {name}", name)
        kind = referred(facts["module"], facts["name"])
    made = made_again(name, kind, facts)
    if made is None:
        raise FailedPreconditionError(
            f"{content.name} was trained with {name}={facts['told']}, which is "
            f"{_named(facts)}; give it as {name}=..."
            f"{_or_trust(content, facts, is_trusted)}."
        )
    return made


def _compressor(text: str) -> Any:
    try:
        return compressor_of(text)
    except InvalidArgumentError:
        raise FailedPreconditionError(
            f"the training had compress={text}, and the recording was begun without "
            f"it; give it as compress=...."
        ) from None


def _object_difference(content: Content, name: str, value: Any) -> str:
    """Return how an object differs from the recorded one; empty if it does not."""
    job, facts = content.job, content.own.get(name)
    if value is None:
        return ""
    if name == COMPRESS:
        n_workers = len(job.workers)
        specs = checked_specs(value.stages(job.specs, n_workers), f"compress={value}")
        if (str(value), specs) != (job.compress, job.stage_specs):
            return f"compress is {value} and was {job.compress or None}"
    else:
        recorded = getattr(job, job.own_work.optimizers[name])
        if facts is None:
            return (
                "" if value == recorded else f"{name} is {value!r} and was {recorded!r}"
            )
    if facts is None:
        return ""
    facts_now = object_facts(value)
    if (facts_now["told"], facts_now["name"]) != (facts["told"], facts["name"]):
        return f"{name} is {facts_now['told']} and was {facts['told']}"
    return code_difference(f"{name} {facts_now['told']}", facts, facts_now)
