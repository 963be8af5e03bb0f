"""A loss of jax, of parameters in a pytree, as the step function of `kit.train`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import numpy as np

from kit.errors import InvalidArgumentError

_KEY: Final = "key"
_DTYPES: Final = ("float32", "float64")


def step(loss: Callable[..., Any], params: Any) -> TreeStep:
    """Make a step function of a loss in jax; it is compiled in each task.

    Parameters
    ----------
    loss : callable
        `loss(params, x, y)` returns the mean over the examples, or that and a dict of
        further numbers. A parameter called `key` gets a key of jax for dropout and the
        like, which depends on the training's seed, the step and the worker alone.
    params : pytree
        What to begin with: nested dicts, lists and tuples of float32, such as the
        parameters of a flax module. With `jax_enable_x64` also float64.

    Returns
    -------
    TreeStep
        The step. `params` are the values by name ("layers/0/kernel"), `evaluate` is a
        function for a `ValidationHook`, `tree(run.params)` gives the pytree back.

    Raises
    ------
    InvalidArgumentError
        A leaf cannot be trained, or two have the same name.

    Examples
    --------
    ::

        step = kit.jax.step(loss, params)
        run = kit.train(step, step.params, (images, labels), topology="ring").wait()
        trained = step.tree(run.params)
    """
    return TreeStep(loss, params)


class TreeStep:
    """What `kit.jax.step` returns: a step function of a loss and a pytree."""

    def __init__(self, loss: Callable[..., Any], params: Any) -> None:
        self._loss = loss
        self._skeleton = jax.tree_util.tree_map(np.asarray, params)
        names = list(self._named(self._skeleton))
        leaves = jax.tree_util.tree_leaves(self._skeleton)
        wrong = [
            f"{name} is {leaf.dtype}"
            for name, leaf in zip(names, leaves, strict=False)
            if str(leaf.dtype) not in _DTYPES[: 1 + bool(jax.config.jax_enable_x64)]
        ]
        if wrong or len(names) < len(leaves) or not leaves:
            what = ", ".join(wrong) or f"{len(leaves)} leaves are called {names}"
            raise InvalidArgumentError(
                f"{what}; give a pytree of float32 (of float64 too where "
                f"jax.config.update('jax_enable_x64', True) was called), whose leaves "
                f"have names of their own."
            )
        self._compiled: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_compiled": None}

    @property
    def params(self) -> dict[str, Any]:
        """Copies of the leaves, as numpy arrays by name."""
        named = self._named(self._skeleton)
        return {name: np.array(leaf) for name, leaf in named.items()}

    @property
    def __signature__(self) -> inspect.Signature:
        """What a training gives to the step: `rng` only if the loss takes a key."""
        names = ["params", "batch", *(["rng"] if self._takes_key else [])]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(
        self,
        params: Mapping[str, Any],
        batch: tuple[Any, ...],
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Compute a step; see `kit.train`."""
        (loss, measures), gradients = self._function()(
            self.tree(params), *batch, **self._chance(rng)
        )
        named = self._named(gradients)
        numbers = {name: float(value) for name, value in measures.items()}
        return float(loss), named, numbers

    def evaluate(
        self, params: Mapping[str, Any], data: Any
    ) -> tuple[float, None, dict[str, float]]:
        """Measure other data: `ValidationHook(step.evaluate, (x, y))`.

        A loss with a parameter called `key` gets None for it: without chance.
        """
        chance = {_KEY: None} if self._takes_key else {}
        loss, measures = _parted(self._loss(self.tree(params), *data, **chance))
        return float(loss), None, {name: float(v) for name, v in measures.items()}

    def tree(self, values: Mapping[str, Any]) -> Any:
        """Return the pytree with other values, by the names of its leaves.

        Parameters
        ----------
        values : mapping of str to array
            Such as `run.params` or a loaded checkpoint.

        Returns
        -------
        pytree
            Of the form of the one that was given to `kit.jax.step`.
        """
        structure = jax.tree_util.tree_structure(self._skeleton)
        leaves = [values[name] for name in self._named(self._skeleton)]
        return jax.tree_util.tree_unflatten(structure, leaves)

    @property
    def _takes_key(self) -> bool:
        return _KEY in inspect.signature(self._loss).parameters

    def _chance(self, rng: np.random.Generator | None) -> dict[str, Any]:
        if rng is None:
            return {}
        return {_KEY: jax.random.key(int(rng.integers(2**32)))}

    def _function(self) -> Any:
        if self._compiled is None:

            def loss(*args: Any, **chance: Any) -> Any:
                return _parted(self._loss(*args, **chance))

            self._compiled = jax.jit(jax.value_and_grad(loss, has_aux=True))
        return self._compiled

    @staticmethod
    def _named(tree: Any) -> dict[str, Any]:
        """Return the leaves by the way to them: "layers/0/kernel"."""
        paths, _ = jax.tree_util.tree_flatten_with_path(tree)
        return {"/".join(map(_shown, path)): leaf for path, leaf in paths}


def _parted(result: Any) -> tuple[Any, dict[str, Any]]:
    return result if isinstance(result, tuple) else (result, {})


def _shown(entry: Any) -> str:
    """Return one step of a way: a key, a number, or the name of an attribute."""
    for kind in ("key", "idx", "name"):
        if hasattr(entry, kind):
            return str(getattr(entry, kind))
    return str(entry)
