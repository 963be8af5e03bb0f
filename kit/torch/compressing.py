"""Compressors of psring as a communication hook of DDP."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.exchange.compression.compressor import Arrays, Compressor, Turn
from kit.exchange.compression.feedback import RESIDUAL, Feedback, following
from kit.exchange.compression.quantization import compressor_of
from kit.exchange.compression.stages import StageSpecs, checked_specs
from kit.exchange.layout import Spec
from kit.torch.process_group import TaskProcessGroup
from kit.torch.tensors import OnHost, all_on_host, put_back


class Compress:
    """Makes DDP's gradients small before they are sent, with error feedback.

    Give each model a hook of its own: it keeps what was not sent yet.

    Parameters
    ----------
    compress : str or Compressor
        As in `kit.train`: "float16", "int8", `kit.TopK(0.01)`, `kit.PowerSGD(4)`, or
        your own.
    group : torch.distributed.ProcessGroup, optional
        The model's, by default the default one.

    Examples
    --------
    In a cell that begins with ``%%on worker``::

        model = DistributedDataParallel(net)
        model.register_comm_hook(None, kit.torch.Compress(kit.TopK(0.01)))
    """

    def __init__(self, compress: str | Compressor, group: Any = None) -> None:
        compressor = compressor_of(compress)
        if compressor is None:
            raise InvalidArgumentError(
                'Compress() got nothing; give "float16", "int8", kit.TopK(0.01), '
                "kit.PowerSGD(4) or a kit.exchange.Compressor."
            )
        self._compressor, self._group = deepcopy(compressor), group
        self._buckets: dict[tuple[int, ...], _Bucket] = {}
        # DDP's registration reads these, and knows no other hooks than functions.
        self.__name__ = self.__qualname__ = type(self).__name__

    def __call__(self, state: object, bucket: Any) -> Any:
        """Exchange one of DDP's buckets; returns a future that is done."""
        group = self._group or torch.distributed.group.WORLD
        if not isinstance(group, TaskProcessGroup):
            raise FailedPreconditionError(
                "kit.torch.Compress works in a process group of psring; make one with "
                "kit.torch.init() before the model."
            )
        key = tuple(map(id, bucket.parameters()))
        hosts = all_on_host(bucket.gradients(), adds=True)
        if key not in self._buckets:
            self._buckets[key] = self._new(key, hosts, group)
        self._buckets[key].exchange(hosts, group)
        put_back(hosts)
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def _new(
        self, key: tuple[int, ...], hosts: list[OnHost], group: TaskProcessGroup
    ) -> _Bucket:
        """Return a bucket, with what its parameters have kept in others.

        DDP forms its buckets anew after the first step.
        """
        specs = [
            Spec(str(name), host.array.shape, str(host.array.dtype))
            for name, host in zip(key, hosts, strict=True)
        ]
        wanted = {RESIDUAL + spec.name for spec in specs}
        kept = {
            name: bucket.kept.pop(name)
            for bucket in self._buckets.values()
            for name in wanted & bucket.kept.keys()
        }
        step = max((bucket.step for bucket in self._buckets.values()), default=0)
        stages = checked_specs(
            self._compressor.stages(specs, group.size()),
            type(self._compressor).__name__,
        )
        return _Bucket(self._compressor, specs, stages, kept, step, group)


class _Bucket:
    """Some parameters whose gradients DDP exchanges together."""

    def __init__(
        self,
        compressor: Compressor,
        specs: list[Spec],
        stages: StageSpecs,
        kept: Arrays,
        step: int,
        group: TaskProcessGroup,
    ) -> None:
        self.kept, self.step, self._compressor = kept, step, compressor
        self._names = [spec.name for spec in specs]
        task = group.calls.tasks[group.rank()].short
        self._feedback = Feedback(compressor, specs, stages, kept, task)
        self._n_stages = len(stages)

    def exchange(self, hosts: list[OnHost], group: TaskProcessGroup) -> None:
        """Put the mean gradients where this task's are."""
        arrays = [host.array for host in hosts]
        turn = Turn(self.step, group.rank(), group.size())
        own = dict(zip(self._names, arrays, strict=True))
        stages = self._feedback.exchange(own, turn)
        exchanged = next(stages)
        for _ in range(self._n_stages):
            sums = group.summed(list(exchanged.values()))
            mean = following(stages, dict(zip(exchanged, sums, strict=True)))
            if mean is None:
                raise InvalidArgumentError(
                    f"{self._compressor} wants no update in step {self.step}, and an "
                    f"optimizer of torch cannot be told so; scale the loss by torch's "
                    f"own GradScaler, or train with kit.train."
                )
            exchanged = mean
        for name, target in own.items():
            target[...] = exchanged[name]
        self.step += 1


# DDP refuses a hook that is annotated in any other way.
Compress.__call__.__annotations__ = {"bucket": torch.distributed.GradBucket}
