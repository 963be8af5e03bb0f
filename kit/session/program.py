"""A segment made ready to run: a list of bound calls over numbered registers.

All that can be decided once is decided here: kernels are looked up, constants are
already in their registers, and it is known when a register is used for the last time. A
run then is one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kit.errors import KitError
from kit.graph.node import Edge, Node
from kit.graph.table import OpDef, lookup
from kit.session.call import StepCall
from kit.session.devices import Device
from kit.session.failure import of_node
from kit.session.home import Home
from kit.session.partition import DONE, Segment
from kit.session.step import Step

Registers = list[Any]


class Instruction(NamedTuple):
    """`plain` for the quick way: one output, from the inputs' values alone."""

    plain: Callable[..., Any] | None
    special: Callable[[Step, Registers], None] | None
    inputs: tuple[int, ...]
    output: int
    free: tuple[int, ...]
    label: str
    device: str


class Program:
    """A segment on its task.

    `run` may be called by many threads at once: each run has its own registers.
    """

    def __init__(self, segment: Segment, home: Home) -> None:
        """Raises `LookupError` for an op that this task does not know."""
        self._home, self._segment = home, segment
        self._slots: dict[tuple[Edge, Device | None], int] = {}
        self._where: dict[Edge, Device | None] = {}
        self._refs: set[Edge] = set()
        self._initial: Registers = []
        self._code: list[Instruction] = []
        self._receivable = dict(segment.receives)
        self._nodes = {node.name: node for node in segment.nodes}
        for edge in segment.feeds:
            self._new(edge, None)
        for node, device in zip(segment.nodes, segment.devices, strict=True):
            self._add(node, device)
        for edge, _ in segment.receives:
            self._value(edge, None)  # used by control edges only
        self._outputs = tuple(self._value(edge, None) for edge in segment.fetches)
        self._feeds = tuple(self._slots[edge, None] for edge in segment.feeds)
        self._code = _with_frees(self._code, {*self._outputs}, len(self._initial))

    def run(self, step: Step, feeds: Sequence[Any]) -> list[Any]:
        """Run once; `feeds` in the order of the segment's. Returns its fetches.

        Raises errors of `kit.errors`, with the op's name in the message.
        """
        registers = self._initial.copy()
        for slot, value in zip(self._feeds, feeds, strict=True):
            registers[slot] = value
        code = self._code
        if step.records is not None:
            code = self._traced(code, step)
        instruction = None
        try:
            with np.errstate(all="ignore"):
                for instruction in code:
                    plain, special, inputs, output, free, _, _ = instruction
                    if plain is not None:
                        registers[output] = plain(*[registers[i] for i in inputs])
                    else:
                        special(step, registers)  # type: ignore[misc]
                    for slot in free:
                        registers[slot] = None
        except BaseException as exc:
            if instruction is None or not isinstance(exc, Exception):
                raise
            raise self._named(exc, instruction, step) from exc
        return [registers[slot] for slot in self._outputs]

    def _named(self, exc: Exception, at: Instruction, step: Step) -> KitError:
        return of_node(exc, self._nodes.get(at.label), at.device, step.me)

    def _traced(self, code: Sequence[Instruction], step: Step) -> list[Instruction]:
        """Return the code with each instruction timed into the step's records."""
        records = step.records
        assert records is not None

        def timed(one: Instruction, step: Step, registers: Registers) -> None:
            begin = step.clock()
            if one.plain is not None:
                registers[one.output] = one.plain(*[registers[i] for i in one.inputs])
            elif one.special is not None:
                one.special(step, registers)
            records.nodes.append((one.label, one.device, begin, step.clock()))

        return [one._replace(plain=None, special=partial(timed, one)) for one in code]

    # -- making the code ---------------------------------------------------------------

    def _new(self, edge: Edge, device: Device | None) -> int:
        self._initial.append(None)
        slot = self._slots[edge, device] = len(self._initial) - 1
        self._where.setdefault(edge, device)
        return slot

    def _add(self, node: Node, device: Device) -> None:
        op_def = lookup(node.type)
        for name in node.control:
            if (name, DONE) in self._receivable:
                self._value((name, DONE), None)
        inputs = tuple(
            self._input(edge, i, op_def, device) for i, edge in enumerate(node.inputs)
        )
        outputs = self._n_outputs(node, op_def)
        edges = [(node.name, i) for i in range(outputs)]
        slots = tuple(self._new(edge, device) for edge in edges)
        if op_def.gives_ref:
            self._refs.update(edges)
        if node.type == "Const":
            self._initial[slots[0]] = self._home.constant(node.attrs["value"], device)
        elif op_def.stateful or outputs != 1:
            self._append_special(node, op_def, device, inputs, slots)
        else:
            kernel = self._kernel(node, op_def, device)
            self._emit(kernel, None, inputs, slots[0], node.name, device)
        for edge in (*edges, (node.name, DONE)):
            self._send(edge, node, device)

    def _n_outputs(self, node: Node, op_def: OpDef) -> int:
        """Return how many outputs of a node this segment can see used."""
        n = op_def.n_outputs
        return n if isinstance(n, int) else int(n(node.attrs))

    def _kernel(self, node: Node, op_def: OpDef, device: Device) -> Callable[..., Any]:
        module = self._home.module(device)
        return self._home.on(device, partial(op_def.forward, module, **node.attrs))

    def _append_special(
        self,
        node: Node,
        op_def: OpDef,
        device: Device,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        forward, home = op_def.forward, self._home
        module, attrs = home.module(device), node.attrs

        def stateful(step: Step, registers: Registers) -> None:
            call = StepCall(step, home, node, module, device)
            found = forward(call, *[registers[i] for i in inputs], **attrs)
            _store(found, outputs, registers)

        def several(_: Step, registers: Registers) -> None:
            found = forward(module, *[registers[i] for i in inputs], **attrs)
            _store(found, outputs, registers)

        special = stateful if op_def.stateful else several
        self._emit(None, home.on(device, special), inputs, -1, node.name, device)

    def _emit(
        self,
        plain: Callable[..., Any] | None,
        special: Callable[[Step, Registers], None] | None,
        inputs: tuple[int, ...],
        output: int,
        label: str,
        device: Device | None,
    ) -> None:
        name = "" if device is None else device.name
        self._code.append(Instruction(plain, special, inputs, output, (), label, name))

    def _input(self, edge: Edge, number: int, op_def: OpDef, device: Device) -> int:
        if edge in self._refs and number in op_def.refs:
            return self._slots[edge, self._where[edge]]
        return self._value(edge, device)

    def _value(self, edge: Edge, device: Device | None) -> int:
        """Return the register of a tensor's value on a device (None: the host)."""
        if edge in self._receivable and edge not in self._where:
            self._receive(edge)
        here = self._where[edge]
        if edge in self._refs:
            return self._read(edge, here, device)
        if here == device or self._home.is_same(here, device):
            return self._slots[edge, here]
        if (edge, device) not in self._slots:
            source, slot = self._slots[edge, here], self._new(edge, device)
            move = partial(self._home.move, here, device)
            self._emit(move, None, (source,), slot, edge[0], device)
        return self._slots[edge, device]

    def _read(self, edge: Edge, here: Device | None, device: Device | None) -> int:
        """Read a variable anew for each use: another use may follow its update."""
        self._initial.append(None)
        slot = len(self._initial) - 1
        read: Callable[..., Any] = lambda cell: cell.read()  # noqa: E731
        if not self._home.is_same(here, device):
            move = partial(self._home.move, here, device)
            read = lambda cell: move(cell.read())  # noqa: E731
        self._emit(read, None, (self._slots[edge, here],), slot, edge[0], here)
        return slot

    def _receive(self, edge: Edge) -> None:
        source, slot = self._receivable[edge], self._new(edge, None)

        def receive(step: Step, registers: Registers) -> None:
            registers[slot] = step.ways.receive(step, edge, source)

        self._emit(None, receive, (), slot, edge[0], None)

    def _send(self, edge: Edge, node: Node, device: Device) -> None:
        for sent, to in self._segment.sends:
            if sent != edge:
                continue
            slot = None if edge[1] == DONE else self._value(edge, None)

            def send(
                step: Step, registers: Registers, to: Any = to, slot: int | None = slot
            ) -> None:
                value = None if slot is None else registers[slot]
                step.ways.send(step, edge, to, value)

            used = () if slot is None else (slot,)
            self._emit(None, send, used, -1, node.name, device)


def _store(found: Any, outputs: tuple[int, ...], registers: Registers) -> None:
    if len(outputs) == 1:
        registers[outputs[0]] = found
        return
    for slot, one in zip(outputs, found or (), strict=True):
        registers[slot] = one


def _with_frees(
    code: Sequence[Instruction], kept: set[int], n: int
) -> list[Instruction]:
    """Let each instruction free the registers that nobody uses after it."""
    last: dict[int, int] = {}
    for at, one in enumerate(code):
        for slot in (*one.inputs, *([one.output] if one.output >= 0 else [])):
            last[slot] = at
    free: dict[int, list[int]] = {}
    for slot, at in last.items():
        if slot not in kept and slot < n:
            free.setdefault(at, []).append(slot)
    return [one._replace(free=tuple(free.get(at, ()))) for at, one in enumerate(code)]
