"""A torch module as the step function of `kit.train`: `kit.torch.step`.

Nothing is copied: the module computes with the parameters where the exchange has put
them, and its gradients are added up where the exchange takes them from.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from kit.errors import InvalidArgumentError
from kit.torch.data import own_chance

_BUFFER = "buffer/"  # of the names under which buffers are kept
_DTYPES = (torch.float32, torch.float64)


def step(
    model: Any,
    loss: Callable[..., Any],
    *,
    measures: Mapping[str, Callable[..., Any]] | None = None,
    overlap: bool = False,
    autocast: Any = None,
) -> ModuleStep:
    """Make a step function of a torch module.

    The last array of a mini-batch is the target, the others are what the module is
    called with. Parameters that need no gradient stay as they are. What a module draws,
    such as dropout, depends on the training's seed, the step and the worker alone.

    Parameters
    ----------
    model : torch.nn.Module
        On the CPU, with parameters of float32 or float64. It is left as it is until
        `load`; each worker trains a copy, with `device="gpu"` one on its GPU.
    loss : callable
        `loss(output, target)` returns the mean over the examples, as
        `torch.nn.functional.cross_entropy` does.
    measures : dict of str to callable, optional
        Further numbers of a step, by name: `f(output, target)`, means as well.
    overlap : bool, default False
        Exchange gradients while the backward pass goes on, from the last layer to the
        first. Pays on slow links, for models with more than one bucket
        (`kit.settings(bucket_bytes=2**20)`).
    autocast : torch.dtype, optional
        `torch.bfloat16` or `torch.float16` computes the loss in mixed precision, as
        `torch.autocast` does. Parameters, their gradients and the optimizer keep their
        dtype. With float16 the loss is scaled, by a scale that is in `run.frame()` as
        `loss_scale`: give `kit.train` the argument `compress=kit.LossScale()`.

    Returns
    -------
    ModuleStep
        The step. `params` are the values to begin with, `evaluate` is a function for a
        `ValidationHook`, `load(run)` puts what was trained into the model.

    Raises
    ------
    InvalidArgumentError
        The model has no parameters that can be trained here, or `autocast` is another
        dtype.

    Notes
    -----
    Buffers, such as the averages of a batch norm, stay with each worker, as those of
    DDP with `broadcast_buffers=False`. They are kept in the step's `state`: `evaluate`
    sees the first worker's, and so does `load` of a checkpoint.

    Examples
    --------
    ::

        step = kit.torch.step(model, torch.nn.functional.cross_entropy)
        run = kit.train(step, step.params, (images, labels), optimizer=kit.AdamW(0.001),
                        topology="ring", steps=500).wait()
        step.load(run)
    """
    return ModuleStep(model, loss, dict(measures or {}), overlap, autocast)


class ModuleStep:
    """What `kit.torch.step` returns: a step function of a module."""

    def __init__(
        self,
        model: Any,
        loss: Callable[..., Any],
        measures: dict[str, Callable[..., Any]],
        overlap: bool,
        autocast: Any = None,
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise InvalidArgumentError(
                f"model is {type(model).__name__}; give a torch.nn.Module."
            )
        self.model, self._loss, self._measures = model, loss, measures
        self._overlap, self._autocast = overlap, autocast
        if autocast not in (None, torch.bfloat16, torch.float16):
            raise InvalidArgumentError(
                f"autocast is {autocast!r}; give torch.bfloat16 or torch.float16, or "
                f"nothing."
            )
        self._scales = autocast is torch.float16
        trained = _trained(model)
        wrong = {
            name: f"{parameter.dtype} on {parameter.device}"
            for name, parameter in trained.items()
            if parameter.dtype not in _DTYPES or parameter.device.type != "cpu"
        }
        if wrong or not trained:
            what = wrong or "there is none that needs a gradient"
            raise InvalidArgumentError(
                f"the parameters of {type(model).__name__} are trained as float32 or "
                f"float64 on the CPU: {what}; write model.float().cpu() first."
            )
        self._keeps = bool(dict(model.named_buffers()))
        self._replicas = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_replicas"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._replicas = threading.local()

    @property
    def params(self) -> dict[str, Any]:
        """Copies of the parameters that are trained, as numpy arrays by name."""
        trained = _trained(self.model)
        return {name: param.detach().numpy().copy() for name, param in trained.items()}

    @property
    def __signature__(self) -> inspect.Signature:
        """What a training gives to the step.

        `state` only if there are buffers, `scale` only if it scales its loss.
        """
        names = ["params", "batch", "grads", "rng", *(["state"] if self._keeps else [])]
        names += ["scale"] if self._scales else []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(
        self,
        params: Mapping[str, Any],
        batch: tuple[Any, ...],
        grads: Mapping[str, Any],
        rng: np.random.Generator,
        state: dict[str, Any] | None = None,
        scale: float = 1.0,
    ) -> Any:
        """Compute a step; see `kit.train`."""
        compute = self._in_turn if self._overlap else self._at_once
        return compute(params, batch, grads, rng, state, scale)

    def evaluate(
        self, params: Mapping[str, Any], data: Any, state: Any = None
    ) -> tuple[float, None, dict[str, float]]:
        """Measure the model on other data: `ValidationHook(step.evaluate, (x, y))`.

        In eval mode and without gradients; `state` is that of a worker.
        """
        tensors = {k: _tensor(value) for k, value in params.items()}
        replica = self._replica(tensors)
        replica.begin(tensors, state)
        replica.model.eval()
        try:
            with torch.no_grad(), own_chance():
                loss, measured = self._forward(replica, _tensors(data))
        finally:
            replica.model.train()
        return float(loss), None, measured

    def load(self, trained: Any) -> Any:
        """Put what was trained into the model, and return it.

        Parameters
        ----------
        trained : Run or loaded checkpoint
            A run has the parameters. `kit.load_checkpoint(folder)` also has the buffers
            of the first worker; without it the model's stay as they were.

        Returns
        -------
        torch.nn.Module
            The model that was given to `kit.torch.step`.
        """
        values = dict(getattr(trained, "params", trained))
        states = getattr(trained, "states", {})
        kept = states[min(states)] if states else {}
        own = {**_trained(self.model), **_buffers(self.model)}
        named = {name.removeprefix(_BUFFER): item for name, item in kept.items()}
        with torch.no_grad():
            for name, value in {**values, **named}.items():
                own[name].copy_(torch.from_numpy(np.array(value)))
        return self.model

    # -- one step ----------------------------------------------------------------

    def _at_once(
        self, params: Any, batch: Any, grads: Any, rng: Any, state: Any, scale: float
    ) -> Any:
        replica = self._replica(params)
        replica.begin(replica.views(params), state)
        replica.take(grads)
        with own_chance():
            torch.manual_seed(int(rng.integers(2**63)))
            loss, measured = self._forward(replica, _tensors(batch))
        self._scaled(loss, scale, measured).backward()
        replica.keep(state)
        return float(loss.detach()), None, measured

    def _in_turn(
        self, params: Any, batch: Any, grads: Any, rng: Any, state: Any, scale: float
    ) -> Generator[Any, None, Any]:
        """Yield each gradient's name as soon as it is there."""
        replica = self._replica(params)
        replica.begin(replica.views(params), state)
        replica.take(grads)
        with own_chance():
            torch.manual_seed(int(rng.integers(2**63)))
            loss, measured = self._forward(replica, _tensors(batch))
        ready: SimpleQueue[Any] = SimpleQueue()
        missing = dict.fromkeys(replica.trained)
        replica.ready.tell = ready.put
        # Beside this thread, which hands over what is ready: the backward pass is one
        # call that releases the interpreter.
        scaled = self._scaled(loss, scale, measured)
        thread = threading.Thread(target=_backward, args=(scaled, ready), daemon=True)
        thread.start()
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            del missing[item]
            yield item
        thread.join()
        yield from missing  # the loss does not depend on them
        replica.keep(state)
        return float(loss.detach()), measured

    def _forward(
        self, replica: Replica, batch: tuple[Any, ...]
    ) -> tuple[Any, dict[str, float]]:
        *inputs, target = batch
        kind, dtype = replica.device.type, self._autocast
        with torch.autocast(kind, dtype, enabled=dtype is not None):
            output = replica.model(*inputs)
            loss = self._loss(output, target)
        with torch.no_grad():
            measured = {
                name: float(call(output, target))
                for name, call in self._measures.items()
            }
        return loss, measured

    def _scaled(self, loss: Any, scale: float, measured: dict[str, float]) -> Any:
        if not self._scales:
            return loss
        measured["loss_scale"] = scale
        return loss.float() * scale

    def _replica(self, params: Mapping[str, Any]) -> Replica:
        """Return the copy that computes where the parameters are."""
        device = _tensor(next(iter(params.values()))).device
        # A copy for each thread: the workers of a local cluster share this object.
        replicas: dict[Any, Replica] = vars(self._replicas)
        if (name := str(device)) not in replicas:
            replicas[name] = Replica(copy.deepcopy(self.model).to(device), device)
        return replicas[name]


class Replica:
    """One worker's copy of a module, over arrays that others give."""

    def __init__(self, model: Any, device: Any) -> None:
        self.model, self.device = model.train(), device
        self.trained, self._buffers = _trained(model), _buffers(model)
        self._views: dict[tuple[int, str], Any] = {}  # by address: there are few
        #: Is told the name of each parameter whose gradient is complete.
        self.ready = Told()
        self._first = {
            k: buffer.detach().clone() for k, buffer in self._buffers.items()
        }
        for name, parameter in self.trained.items():
            parameter.register_post_accumulate_grad_hook(
                partial(_complete, self.ready, name)
            )

    def begin(self, params: Mapping[str, Any], state: Any) -> None:
        """Compute with these tensors as parameters, and with buffers that were kept."""
        for name, parameter in self.trained.items():
            parameter.data = params[name]
        kept = {} if state is None else state
        for name, buffer in self._buffers.items():
            value = kept.get(_BUFFER + name)
            buffer.copy_(self._first[name] if value is None else _tensor(value))

    def take(self, grads: Mapping[str, Any]) -> None:
        """Let gradients be added up in these arrays, which are zero."""
        self.ready.tell = None
        for array in grads.values():
            if array.size:
                array.reshape(-1)[0] = 0  # written, though all of it may stay zero
        for name, view in self.views(grads).items():
            self.trained[name].grad = view

    def keep(self, state: Any) -> None:
        """Put the buffers where they are kept."""
        for name, buffer in self._buffers.items():
            state[_BUFFER + name] = buffer.detach().cpu().numpy().copy()

    def views(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return tensors over the arrays of a training, which come again and again."""
        views_of = {}
        for name, array in arrays.items():
            about = getattr(array, "__cuda_array_interface__", None)
            key = (about or array.__array_interface__)["data"][0], name
            if key not in self._views:
                self._views[key] = _tensor(array)
            views_of[name] = self._views[key]
        return views_of


class Told:
    """Who is told of gradients that are complete, if anybody.

    An object of its own, so that parameters refer to it and not to their replica: in a
    circle the memory of a training would stay until the garbage collector comes.
    """

    tell: Callable[[Any], None] | None = None


def _complete(ready: Told, name: str, _: Any) -> None:
    if ready.tell is not None:
        ready.tell(name)


def _backward(loss: Any, ready: SimpleQueue[Any]) -> None:
    try:
        loss.backward()
    except BaseException as error:
        ready.put(error)
    else:
        ready.put(None)


def _trained(model: Any) -> dict[str, Any]:
    return {
        name: param for name, param in model.named_parameters() if param.requires_grad
    }


def _buffers(model: Any) -> dict[str, Any]:
    return dict(model.named_buffers())


class _Writable:
    """The memory of an array, to which torch may write as far as numpy knows.

    A module does not write into its parameters; torch would warn of each that it could.
    """

    def __init__(self, array: Any) -> None:
        about = array.__array_interface__
        data = about["data"][0], False
        self.__array_interface__ = {**about, "data": data}
        self._array = array  # it must stay


def _tensor(array: Any) -> Any:
    if hasattr(array, "__cuda_array_interface__"):
        return torch.from_dlpack(array)  # of cupy: the same memory
    whole = np.asarray(array)
    if not whole.flags.writeable:
        whole = np.asarray(_Writable(whole))
    return torch.from_numpy(whole)


def _tensors(batch: Any) -> tuple[Any, ...]:
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    return tuple(
        part if isinstance(part, torch.Tensor) else _tensor(part) for part in parts
    )
