"""A segment made ready to run: a list of bound calls over numbered registers.

Whatever can be decided once is decided here: kernels are looked up, constants are in
their registers, and it is known when each register is used for the last time. So a run
is one loop.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import methodcaller
from typing import Any, Final, NamedTuple

import numpy as np

from kit.errors import (
    InvalidArgumentError,
    KitError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from kit.graph.node import Edge, Node
from kit.graph.table import OpDef, lookup
from kit.session.master.devices import Device
from kit.session.master.partition import DONE, READ_FOR, Segment, TensorMove
from kit.session.worker.call import StepCall
from kit.session.worker.on_host import computed_on_host
from kit.session.worker.side_by_side import OrderOfNeeds, SideBySide
from kit.session.worker.step import Step
from kit.session.worker.task_runtime import TaskRuntime
from kit.task import Task

Registers = list[Any]

_NOTHING: Final = frozenset[int]()


class Instruction(NamedTuple):
    """One call: `plain` is the quick way, one output from the inputs' values alone.

    `label` is the name of the op; `is_node` says whether this is the op itself, not a
    read or a transfer on its behalf.
    """

    plain: Callable[..., Any] | None
    special: Callable[[Step, Registers], None] | None
    inputs: tuple[int, ...]
    output: int
    free: tuple[int, ...]
    label: str
    device: str
    is_node: bool


class SegmentProgram:
    """A segment on its task.

    `run` may be called by many threads at once: each run has its own registers.
    """

    def __init__(self, segment: Segment, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._slots: dict[tuple[Edge, Device | None], int] = {}
        self._where: dict[Edge, Device | None] = {}
        self._refs: set[Edge] = set()
        self._initial: Registers = []
        self._on_host = computed_on_host(segment)
        self._code: list[Instruction] = []
        self._constants: list[tuple[str, str]] = []
        self._constant_slots: set[int] = set()
        self._receivable = {move.edge: move for move in segment.receives}
        self._sends: dict[str, list[TensorMove]] = {}
        for move in segment.sends:
            self._sends.setdefault(move.edge[0], []).append(move)
        self._guards: tuple[tuple[int, bool], ...] = ()  # of the node that is added
        # By instruction what it needs; by register and by node what must be done first.
        self._needs: list[set[int]] = []
        self._filled: dict[int, set[int]] = {}
        self._ended: dict[str, set[int]] = {}
        self._before: set[int] = set()  # what all of the node that is added follows
        waiting = [node for node in segment.nodes if lookup(node.type).blocking]
        self._may_wait = {node.name for node in waiting} if len(waiting) > 1 else set()
        # Entering a GPU for each op takes longer than many an op.
        only = None if self._may_wait else runtime.only_gpu(segment.devices)
        self._at_work = nullcontext if only is None else only.entered
        self._on = runtime.on if only is None else lambda _, call: call
        self._has_guards = any(node.guards for node in segment.nodes)
        self._nodes = {node.name: node for node in segment.nodes}
        self._fed = set(segment.feeds)
        for edge in segment.feeds:
            self._new(edge, None)
        for node, device in zip(segment.nodes, segment.devices, strict=True):
            self._add(node, device)
        self._before = set()
        self._outputs = tuple(self._value(edge, None) for edge in segment.fetches)
        self._feeds = tuple(self._slots[edge, None] for edge in segment.feeds)
        self._order = self._order_of_needs() if self._may_wait else None
        if self._order is None:  # the last use of a register is only known in order
            self._code = _with_frees(self._code, {*self._outputs}, len(self._initial))

    def run(self, step: Step, feeds: Sequence[Any]) -> list[Any]:
        """Run once; `feeds` in the order of the segment's. Returns its fetches.

        Raises errors of `kit.errors`, with the op's name in the message.
        """
        if len(feeds) != len(self._feeds):
            raise InvalidArgumentError(
                f"{len(feeds)} tensors were fed where {len(self._feeds)} are due."
            )
        # A run frees registers in its own copy; constants stay in `_initial`.
        registers = self._initial.copy()
        for slot, value in zip(self._feeds, feeds, strict=True):
            registers[slot] = value
        code = self._code if step.records is None else self._traced(step)
        if self._order is None:
            self._run_in_order(step, code, registers)
        else:
            self._run_side_by_side(self._order, step, code, registers)
        values = [registers[slot] for slot in self._outputs]
        if self._has_guards and any(item is None for item in values):
            raise InvalidArgumentError(
                "a tensor was fetched that has no value in this run, as it is in a "
                "branch that was not taken; fetch what tf.cond returned."
            )
        return values

    def _run_in_order(
        self, step: Step, code: Sequence[Instruction], registers: Registers
    ) -> None:
        instruction = None
        try:
            # Around all ops: entering it takes time.
            with np.errstate(all="ignore"), self._at_work():
                for instruction in code:
                    plain, special, inputs, output, free, _, _, _ = instruction
                    if plain is not None:
                        registers[output] = plain(*[registers[i] for i in inputs])
                    else:
                        special(step, registers)  # type: ignore[misc]
                    for slot in free:
                        registers[slot] = None
        except Exception as exc:
            if instruction is None:
                raise
            node = self._nodes.get(instruction.label)
            raise of_node(exc, node, instruction.device, step.me) from exc

    def _run_side_by_side(
        self,
        order: OrderOfNeeds,
        step: Step,
        code: Sequence[Instruction],
        registers: Registers,
    ) -> None:
        def execute(number: int) -> None:
            _execute(code[number], step, registers)

        parts = SideBySide(order, step, execute)
        with np.errstate(all="ignore"):
            failed = parts.run(lambda number: f"the end of {code[number].label!r}")
        if failed is None:
            return
        number, error = failed
        if not isinstance(error, Exception):
            raise error
        node = self._nodes.get(code[number].label)
        raised = of_node(error, node, code[number].device, step.me)
        parts.end(raised)
        raise raised from error

    def _order_of_needs(self) -> OrderOfNeeds:
        numbers = range(len(self._code))
        waits = {
            i
            for i in numbers
            if self._code[i].is_node and self._code[i].label in self._may_wait
        }
        # What is received says of no device that it is computed there.
        in_order = {i for i in numbers if not self._code[i].device}
        return OrderOfNeeds(self._needs, waits, in_order)

    def _traced(self, step: Step) -> list[Instruction]:
        """Return the code with each op timed into the step's records."""
        records = step.records
        assert records is not None, "only a traced step is timed"

        def timed(instruction: Instruction, step: Step, registers: Registers) -> None:
            begin = step.clock()
            _execute(instruction, step, registers)
            # A GPU has not computed it yet; what is timed is the op, not its launch.
            if instruction.label not in self._on_host:
                self._runtime.wait(instruction.device)
            records.nodes.append(
                (instruction.label, instruction.device, begin, step.clock())
            )

        now = step.clock()
        records.nodes += [(name, device, now, now) for name, device in self._constants]
        return [
            instruction._replace(plain=None, special=partial(timed, instruction))
            if instruction.is_node
            else instruction
            for instruction in self._code
        ]

    # -- making the code ---------------------------------------------------------------

    def _new(self, edge: Edge, device: Device | None) -> int:
        slot = self._slots[edge, device] = self._unnamed()
        self._where.setdefault(edge, device)
        return slot

    def _unnamed(self) -> int:
        self._initial.append(None)
        return len(self._initial) - 1

    def _add(self, node: Node, device: Device) -> None:
        op_def = lookup(node.type)
        # First what it must follow: inputs may be read only after that.
        self._before = set()
        for name in node.control:
            self._before |= self._ended.get(name, _NOTHING)
            if (name, DONE) in self._receivable:
                slot = self._value((name, DONE), None)
                self._before |= self._filled.get(slot, _NOTHING)
        self._guards = tuple(
            (self._value(edge, None), wanted) for edge, wanted in node.guards
        )
        # Where its results lie. A trace has it on its device all the same.
        is_constant = node.type == "Const"
        is_for_host = is_constant or op_def.of_shape or node.name in self._on_host
        target = None if is_for_host else device
        inputs = self._inputs(node, op_def, target)
        n = op_def.n_outputs
        outputs = n if isinstance(n, int) else int(n(node.attrs))
        # A fed output has its register already, and keeps the fed value: what the op
        # computes goes to one that nobody reads.
        edges = [(node.name, i) for i in range(outputs)]
        slots = tuple(
            self._unnamed() if edge in self._fed else self._new(edge, target)
            for edge in edges
        )
        if op_def.gives_ref:
            self._refs.update(set(edges) - self._fed)
        if is_constant:
            self._initial[slots[0]] = node.attrs["value"]
            self._constant_slots.add(slots[0])
            self._constants.append((node.name, device.name))
            if self._before:  # it may have to follow others
                self._filled[slots[0]] = self._ended[node.name] = set(self._before)
        elif op_def.stateful or outputs != 1:
            special = self._special(node, op_def, device, target, inputs, slots)
            self._emit(None, special, inputs, -1, node.name, device, is_node=True)
            if self._may_wait:
                self._filled |= {slot: {len(self._code) - 1} for slot in slots}
        else:
            plain = op_def.kernel(self._runtime.module(target), node.attrs)
            plain = self._on(target, plain)
            is_own = READ_FOR not in node.name
            self._emit(plain, None, inputs, slots[0], node.name, device, is_node=is_own)
        self._guards = ()
        if self._may_wait and node.type != "Const":
            self._ended[node.name] = {len(self._code) - 1}
        for move in self._sends.get(node.name, ()):
            self._send(move, device)

    def _special(
        self,
        node: Node,
        op_def: OpDef,
        device: Device,
        target: Device | None,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> Callable[[Step, Registers], None]:
        forward, runtime = op_def.forward, self._runtime
        module, attrs = runtime.module(target), node.attrs

        def stateful(step: Step, registers: Registers) -> None:
            # What runs late in a step that has ended must not change what lasts.
            if step.error is not None:
                raise step.error
            call = StepCall(step, runtime, node, module, device, SegmentProgram)
            value = forward(call, *[registers[i] for i in inputs], **attrs)
            _store(value, outputs, registers)

        def several(_: Step, registers: Registers) -> None:
            values = forward(module, *[registers[i] for i in inputs], **attrs)
            _store(values, outputs, registers)

        return self._on(target, stateful if op_def.stateful else several)

    def _emit(
        self,
        plain: Callable[..., Any] | None,
        special: Callable[[Step, Registers], None] | None,
        inputs: tuple[int, ...],
        output: int,
        label: str,
        device: Device | None,
        *,
        is_node: bool = False,
        is_own: bool = False,
    ) -> None:
        where = "" if device is None else device.name
        if self._guards and (is_node or is_own):
            special = _if_guards_hold(self._guards, plain, special, inputs, output)
            plain, inputs = None, (*inputs, *(slot for slot, _ in self._guards))
        if self._may_wait:
            number = len(self._code)
            filled = [self._filled.get(slot, _NOTHING) for slot in inputs]
            self._needs.append(self._before.union(*filled))
            self._before.add(number)
            if output >= 0:
                self._filled[output] = {number}
        self._code.append(
            Instruction(plain, special, inputs, output, (), label, where, is_node)
        )

    def _inputs(
        self, node: Node, op_def: OpDef, device: Device | None
    ) -> tuple[int, ...]:
        """Return the registers of an op's inputs.

        Variables are read last: what comes from other tasks may have to wait, also for
        a change of them.
        """
        numbers = range(len(node.inputs))
        order = sorted(numbers, key=lambda i: node.inputs[i] in self._refs)
        slots = dict[int, int]()
        for i in order:
            slots[i] = self._input(node.inputs[i], i, op_def, device)
            if slots[i] in self._filled:
                self._before |= self._filled[slots[i]]
        return tuple(slots[i] for i in numbers)

    def _input(
        self, edge: Edge, number: int, op_def: OpDef, device: Device | None
    ) -> int:
        if number not in op_def.refs:
            if op_def.of_shape:
                device = self._where.get(edge)
            elif op_def.sizes_from is not None and number >= op_def.sizes_from:
                device = None
            return self._value(edge, device)
        if edge not in self._refs:
            raise InvalidArgumentError(
                f"a {op_def.name} changes the variable {edge[0]!r} itself, so it "
                f"cannot be fed."
            )
        return self._slots[edge, self._where[edge]]

    def _value(self, edge: Edge, device: Device | None) -> int:
        """Return the register of a tensor's value on a device (None: the host)."""
        if edge in self._receivable and edge not in self._where:
            self._receive(self._receivable[edge])
        here = self._where[edge]
        if edge in self._refs:
            return self._read(edge, here, device)
        if here == device or self._runtime.is_same(here, device):
            return self._slots[edge, here]
        if (edge, device) not in self._slots:
            source, slot = self._slots[edge, here], self._new(edge, device)
            move = partial(self._runtime.move, here, device)
            if source in self._constant_slots:  # once, not in each run
                self._initial[slot] = move(self._initial[source])
                if source in self._filled:
                    self._filled[slot] = self._filled[source]
            else:
                self._emit(move, None, (source,), slot, edge[0], device)
        return self._slots[edge, device]

    def _read(self, edge: Edge, here: Device | None, device: Device | None) -> int:
        """Read a variable again for each use: an update may come between two uses."""
        slot = self._unnamed()
        read: Callable[[Any], Any] = methodcaller("read")
        if not self._runtime.is_same(here, device):
            move = partial(self._runtime.move, here, device)
            read = partial(_read_and_move, move)
        inputs = (self._slots[edge, here],)
        self._emit(read, None, inputs, slot, edge[0], here, is_own=True)
        return slot

    def _receive(self, move: TensorMove) -> None:
        slot = self._new(move.edge, None)

        def receive(step: Step, registers: Registers) -> None:
            registers[slot] = step.ways.receive(step, move)

        self._emit(None, receive, (), slot, move.edge[0], None)

    def _send(self, move: TensorMove, device: Device) -> None:
        if move.edge[1] == DONE:

            def send(step: Step, _: Registers) -> None:
                step.ways.send(step, move, None)

            self._emit(None, send, (), -1, move.edge[0], device)
            return
        slot = self._value(move.edge, None)

        def send_value(step: Step, registers: Registers) -> None:
            step.ways.send(step, move, registers[slot])

        self._emit(None, send_value, (slot,), -1, move.edge[0], device)


def _if_guards_hold(
    guards: Sequence[tuple[int, bool]],
    plain: Callable[..., Any] | None,
    special: Callable[[Step, Registers], None] | None,
    inputs: tuple[int, ...],
    output: int,
) -> Callable[[Step, Registers], None]:
    """Return an instruction that leaves its outputs empty if a guard does not hold."""

    def guarded(step: Step, registers: Registers) -> None:
        for slot, wanted in guards:
            # A guard that is guarded itself may have no value.
            if registers[slot] is None or bool(registers[slot]) is not wanted:
                return
        if special is not None:
            special(step, registers)
        elif plain is not None:
            registers[output] = plain(*[registers[i] for i in inputs])

    return guarded


def _execute(instruction: Instruction, step: Step, registers: Registers) -> None:
    if instruction.plain is not None:
        registers[instruction.output] = instruction.plain(
            *[registers[i] for i in instruction.inputs]
        )
    elif instruction.special is not None:
        instruction.special(step, registers)


def _read_and_move(move: Callable[[Any], Any], cell: Any) -> Any:
    return move(cell.read())


def _store(values: Any, outputs: tuple[int, ...], registers: Registers) -> None:
    if len(outputs) == 1:
        registers[outputs[0]] = values
        return
    for slot, value in zip(outputs, values or (), strict=True):
        registers[slot] = value


def _with_frees(
    code: Sequence[Instruction], kept: set[int], n: int
) -> list[Instruction]:
    """Let each instruction free the registers that none uses after it.

    Large intermediate results would otherwise all be kept until the run ends.
    """
    last: dict[int, int] = {}
    for at, instruction in enumerate(code):
        for slot in (
            *instruction.inputs,
            *([instruction.output] if instruction.output >= 0 else []),
        ):
            last[slot] = at
    free: dict[int, list[int]] = {}
    for slot, at in last.items():
        if slot not in kept and slot < n:
            free.setdefault(at, []).append(slot)
    return [item._replace(free=tuple(free.get(at, ()))) for at, item in enumerate(code)]


# --------------------------------------------------------------------------------------
# What an exception inside an op becomes: a typed error that names op, place and task.


_CLASSES: list[tuple[type[Exception], type[KitError]]] = [
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
    (StopIteration, OutOfRangeError),
    (ValueError, InvalidArgumentError),
    (TypeError, InvalidArgumentError),
    (LookupError, InvalidArgumentError),
    (ArithmeticError, InvalidArgumentError),
]


def of_node(exc: Exception, node: Node | None, device: str, task: Task) -> KitError:
    """Return the error to raise for an exception of one node on one task."""
    where = f"on {device or task}"
    name = node.name if node else None
    what = f"op {node.name!r} ({node.type}) {where}" if node else f"a transfer {where}"
    made_at = node.source_line if node else ""
    line = f"\nThe op was made at {made_at}." if made_at else ""
    if isinstance(exc, KitError):
        if exc.task is not None:  # it says where it happened already
            exc.node = exc.node or name
            return exc
        error: KitError = type(exc)(f"{what}: {exc.message}{line}", task=str(task))
        error.remote_traceback = exc.remote_traceback
    else:
        words = f"{type(exc).__name__}: {exc}"
        error = _class_of(exc)(f"{what}: {words}{line}", task=str(task))
        if node is not None and node.type == "PyFunc":
            error.remote_traceback = "".join(traceback.format_exception(exc))
    error.node = name
    return error


def _class_of(exc: Exception) -> type[KitError]:
    for kind, ours in _CLASSES:
        if isinstance(exc, kind):
            return ours
    return UnknownError
