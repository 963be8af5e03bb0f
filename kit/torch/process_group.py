"""The process group of torch.distributed whose collectives are those of a `kit.Group`.

torch 2.6 and later call it; some methods have two names, of older and newer ones.

Tensors on a CPU are read and written where they lie. `async_op=True` gives a handle of
`kit.torch.calls`. Messages have a group of their own, since one may be waited for while
a collective goes on.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import distributed_c10d as c10d

from kit.errors import InvalidArgumentError, UnimplementedError
from kit.groups.group import TaskGroup
from kit.groups.values import Array
from kit.torch.calls import Call, CallQueue, CallWork, MessageWork
from kit.torch.tensors import OnHost, all_on_host, arrays_of, on_host, pieces, put_back

_OPS = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "mean",
    ReduceOp.PRODUCT: "prod",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
}
Tensors = Sequence[Any]


class TaskProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group on a group of tasks; for each device it is its own backend."""

    supports_coalescing = supports_splitting = False

    def __init__(self, calls: TaskGroup, messages: TaskGroup) -> None:
        super().__init__(calls.rank, calls.size)
        self.calls, self.messages = calls, messages
        self._queue = CallQueue(calls)
        self._receives: dict[tuple[int | None, int], deque[_Receive]] = {}
        self._name = self._desc = ""

    # -- what torch asks of a group --------------------------------------------

    def getBackendName(self) -> str:
        """Return what `init_process_group` was called with."""
        return "psring"

    name = getBackendName

    def setGroupName(self, name: str) -> None:
        """Keep the name by which functional collectives find this group."""
        self._name = name

    def getGroupName(self) -> str:
        """Return it."""
        return self._name

    def setGroupDesc(self, desc: str) -> None:
        """Keep a description."""
        self._desc = desc

    def getGroupDesc(self) -> str:
        """Return it."""
        return self._desc

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def _get_backend(self, device: torch.device) -> TaskProcessGroup:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def shutdown(self) -> None:
        """Let go of links and memory."""
        self.calls.close()
        self.messages.close()

    abort = shutdown

    # -- collectives -----------------------------------------------------------

    def _begin(
        self,
        opts: Any,
        tensors: Tensors,
        hosts: Sequence[OnHost],
        act: Callable[[], object],
    ) -> CallWork:
        """Begin a call whose results are put into some tensors."""

        def whole() -> None:
            act()
            put_back(hosts)

        call = Call(whole, tensors)
        # What calls from C++, as DDP's reducer does, waits there, where nothing can end
        # that: so it gets what is done.
        is_from_python = sys._getframe(2).f_code.co_filename == c10d.__file__
        is_waited_for = not (is_from_python and getattr(opts, "asyncOp", False))
        self._queue.begin(call, is_waited_for=is_waited_for)
        work = CallWork(self._queue, call)
        if is_waited_for:
            work.wait()
        return work

    def allreduce(self, tensors: Tensors, opts: Any = None) -> CallWork:
        """Put the sum of all tasks' tensors into them."""
        opts = opts or c10d.AllreduceOptions()
        op = _op(opts.reduceOp)
        hosts = all_on_host(tensors, adds=True)
        arrays: Any = arrays_of(hosts)
        if len(arrays) == 1:
            (arrays,) = arrays

        def act() -> object:
            return self.calls.all_reduce(arrays, op, out=arrays)

        return self._begin(opts, tensors, hosts, act)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> CallWork:
        """Put the sum into the root's tensor."""
        host, op = on_host(_one(tensors), adds=True), _op(opts.reduceOp)
        results = [host] if self.calls.rank == opts.rootRank else []

        def act() -> object:
            return self.calls.reduce(host.array, opts.rootRank, op, out=host.array)

        return self._begin(opts, tensors, results, act)

    def broadcast(self, tensors: Tensors, opts: Any) -> CallWork:
        """Put the root's tensors into all tasks' ones."""
        hosts, root = all_on_host(tensors), opts.rootRank
        arrays = arrays_of(hosts)

        def act() -> object:
            return self.calls.broadcast(arrays, root, out=arrays)

        results = [] if self.calls.rank == root else hosts
        return self._begin(opts, tensors, results, act)

    def allgather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> CallWork:
        """Put all tasks' tensors into lists by rank."""
        return self.allgather_coalesced(list(zip(*outputs, strict=True)), inputs, opts)

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> CallWork:
        """Put several tensors of all tasks into lists, one for each rank."""
        opts = opts or c10d.AllgatherOptions()
        arrays = arrays_of(all_on_host(inputs))
        results = all_on_host([tensor for row in outputs for tensor in row])

        def act() -> object:
            return self.calls.all_gather(arrays, out=arrays_of(results))

        return self._begin(
            opts, [tensor for row in outputs for tensor in row], results, act
        )

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> CallWork:
        """Put all tasks' tensors into one tensor each, one behind the other."""
        opts = opts or c10d.AllgatherOptions()
        arrays = [array.reshape(-1) for array in arrays_of(all_on_host(inputs))]
        results = all_on_host(outputs)
        parts = [result.array.reshape(self.size(), -1) for result in results]
        room = [part[rank] for rank in range(self.size()) for part in parts]

        def act() -> object:
            return self.calls.all_gather(arrays, out=room)

        return self._begin(opts, outputs, results, act)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None) -> CallWork:
        """Put all tasks' tensors into one, one behind the other."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _allgather_base = all_gather_single

    def gather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any
    ) -> CallWork:
        """Put all tasks' tensors into the root's list."""
        tensor, root = on_host(_one(inputs)), opts.rootRank
        tensors = list(outputs[0]) if self.calls.rank == root else []
        results = all_on_host(tensors)

        def act() -> object:
            return self.calls.gather(tensor.array, root, out=arrays_of(results))

        return self._begin(opts, tensors, results, act)

    def scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any
    ) -> CallWork:
        """Put this task's one of the root's list into a tensor."""
        result, root = on_host(_one(outputs)), opts.rootRank
        arrays = None
        if self.calls.rank == root:
            arrays = arrays_of(all_on_host(inputs[0]))

        def act() -> object:
            return self.calls.scatter(arrays, root, out=result.array)

        return self._begin(opts, outputs, [result], act)

    def reduce_scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None
    ) -> CallWork:
        """Put the sum of what all tasks have for this one into a tensor."""
        opts = opts or c10d.ReduceScatterOptions()
        arrays = arrays_of(all_on_host(_one(inputs), adds=True))
        return self._reduce_scatter(outputs, [[array] for array in arrays], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> CallWork:
        """Do the same, where an input has the parts of all tasks behind each other."""
        n = self.size()
        arrays = [
            array.reshape(n, -1) for array in arrays_of(all_on_host(inputs, adds=True))
        ]
        parts = [[array[rank] for array in arrays] for rank in range(n)]
        return self._reduce_scatter(outputs, parts, opts or c10d.ReduceScatterOptions())

    def reduce_scatter_single(
        self, output: Any, tensor: Any, opts: Any = None
    ) -> CallWork:
        """Do the same for one tensor."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter(
        self, outputs: Tensors, arrays: Sequence[Sequence[Any]], opts: Any
    ) -> CallWork:
        op, results = _op(opts.reduceOp), all_on_host(outputs, adds=True)
        pairs = zip(arrays_of(results), arrays[0], strict=True)
        room = [result.reshape(like.shape) for result, like in pairs]

        def act() -> object:
            return self.calls.reduce_scatter(arrays, op, out=room)

        return self._begin(opts, outputs, results, act)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> CallWork:
        """Put what each task has for this one into a list by rank."""
        arrays, results = arrays_of(all_on_host(inputs)), all_on_host(outputs)

        def act() -> object:
            return self.calls.all_to_all(arrays, out=arrays_of(results))

        return self._begin(opts, outputs, results, act)

    def all_to_all_single(
        self,
        output: Any,
        tensor: Any,
        output_sizes: Sequence[int] | None,
        input_sizes: Sequence[int] | None,
        opts: Any = None,
    ) -> CallWork:
        """Do the same, where the parts lie behind each other in one tensor."""
        result, source = on_host(output), on_host(tensor)
        parts = pieces(source, input_sizes or self._equal(tensor))
        room = pieces(result, output_sizes or self._equal(output))

        def act() -> object:
            return self.calls.all_to_all(parts, out=room)

        return self._begin(opts, [output], [result], act)

    alltoall_base = all_to_all_single

    def _equal(self, tensor: Any) -> list[int]:
        each, rest = divmod(tensor.shape[0], self.size())
        if rest:
            raise InvalidArgumentError(
                f"all_to_all_single() got {list(tensor.shape)} for {self.size()} "
                f"tasks; make the first axis a multiple of that, or give split sizes."
            )
        return [each] * self.size()

    def summed(self, arrays: list[Array]) -> list[Array]:
        """Return the sums of arrays over all tasks, after the calls begun before."""
        results = list[Array]()
        call = Call(lambda: results.extend(self.calls.all_reduce(arrays)), [])
        self._queue.begin(call, is_waited_for=True)
        self._queue.finish(call)
        return results

    def barrier(self, opts: Any = None) -> CallWork:
        """Return when all tasks are in it."""
        return self._begin(opts, [], [], self.calls.barrier)

    # -- messages --------------------------------------------------------------

    def send(self, tensors: Tensors, to: int, tag: int) -> MessageWork:
        """Send a tensor; it lies there when it is waited for."""
        pending = self.messages.isend(on_host(_one(tensors)).array, to, tag)

        def finish() -> int:
            pending.wait()
            return to

        return MessageWork(finish, lambda: pending.done, tensors)

    def recv(self, tensors: Tensors, source: int | None, tag: int) -> MessageWork:
        """Receive into a tensor, when it is waited for."""
        waiting = self._receives.setdefault((source, tag), deque())
        receive = _Receive(self.messages, _one(tensors), source, tag)
        waiting.append(receive)

        def finish() -> int:
            # Those that were begun before this one get what has come before.
            while receive.source is None:
                waiting[0].finish()
                waiting.popleft()
            return receive.source

        def is_done() -> bool:
            return receive.source is not None or receive.may_finish()

        return MessageWork(finish, is_done, tensors)

    def recv_anysource(self, tensors: Tensors, tag: int) -> MessageWork:
        """Receive from whoever sends first."""
        return self.recv(tensors, None, tag)


class _Receive:
    """A tensor that a message will be put into."""

    def __init__(
        self, group: TaskGroup, tensor: Any, source: int | None, tag: int
    ) -> None:
        self._group, self._tensor, self._tag = group, tensor, tag
        self._wanted = source
        self.source: int | None = None

    def may_finish(self) -> bool:
        """Whether its message is there."""
        return self._group.probe(self._wanted, self._tag) is not None

    def finish(self) -> None:
        """Wait for the message."""
        message = self._group.receive_message(self._wanted, self._tag)
        host, value = on_host(self._tensor), message.value
        if value.dtype != host.array.dtype or value.size != host.array.size:
            raise InvalidArgumentError(
                f"rank {message.source} has sent {value.dtype}{list(value.shape)}, and "
                f"the tensor to receive it is {host.array.dtype}"
                f"{list(host.array.shape)}; receive into one of that shape."
            )
        host.array[...] = value.reshape(host.array.shape)
        put_back([host])
        self.source = message.source


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise InvalidArgumentError(
            f"psring exchanges one tensor in this call, and got {len(tensors)}."
        )
    return tensors[0]


def _op(op: Any) -> str:
    name = _OPS.get(getattr(op, "op", op))
    if name is None:
        raise UnimplementedError(
            f"psring does not make {op}; there are SUM, AVG, PRODUCT, MIN and MAX."
        )
    return name
