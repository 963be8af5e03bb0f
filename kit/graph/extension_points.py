"""Methods of tensors, variables and graphs that layers above implement.

Pure. These classes have the names that users and other libraries look up; a package
that registers with `lend` does the work. Without one there is no picture, and a tensor
is not a dask collection.

    kit.picture     -> visualize, _repr_html_
    kit.session.client.dask_graph  -> compute, persist, __dask_graph__ and its kin
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kit.markup import Html, in_cell

_lent: dict[str, Callable[..., Any]] = {}


def lend(**functions: Callable[..., Any]) -> None:
    """Implement the methods of the same names with these functions."""
    _lent.update(functions)


def _borrowed(name: str) -> Callable[..., Any]:
    try:
        return _lent[name]
    except KeyError:
        raise RuntimeError(f"nothing does {name}() here; import kit first.") from None


class Pictured:
    """Gives a class a picture: shown in notebooks, elsewhere by `visualize`."""

    def visualize(
        self,
        filename: Any = None,
        metadata: Any = None,
        *,
        max_nodes: int | None = None,
    ) -> Any:
        """Return a picture of what this needs to be computed, by task.

        Edges between tasks are bold; `metadata` of a run adds the bytes that moved, and
        shows what did not run in a fainter tone. With `filename` the picture is written
        too: `.svg` or `.html`. Beyond `max_nodes` ops the name scopes are folded.
        Raises `InvalidArgumentError` for another kind of file.
        """
        return _borrowed("visualize")(self, filename, metadata, max_nodes)

    def _repr_html_(self) -> Html | None:
        draw = _lent.get("repr_html")
        return None if draw is None else in_cell(draw(self))


class DaskCollection(Pictured):
    """Makes a class a collection of dask's: `dask.compute(t, array)` works."""

    def compute(
        self, feed_dict: Mapping[Any, Any] | None = None, **options: Any
    ) -> Any:
        """Return the value, computed by one run of a session.

        The session is the default one (`with kit.Session(...)`), else a new one on the
        running cluster, else a new one in this process, where variables have no values
        yet: there a tensor that needs one raises `FailedPreconditionError`.

        `options` are those of `dask.compute`. Raises what `session.run` does.
        """
        return _borrowed("compute")(self, feed_dict, **options)

    def persist(self, **options: Any) -> Any:
        """Compute the value now; return it as a constant tensor of the same graph."""
        return _borrowed("persist")(self, **options)

    def __dask_graph__(self) -> Any:
        # dask asks any object that has this method; None says that it is no collection.
        make = _lent.get("dask_graph")
        return None if make is None else make(self)

    def __dask_keys__(self) -> list[Any]:
        return list(_borrowed("dask_keys")(self))

    def __dask_postcompute__(self) -> Any:
        return _borrowed("dask_postcompute")(self)

    def __dask_postpersist__(self) -> Any:
        return _borrowed("dask_postpersist")(self)

    def __dask_tokenize__(self) -> Any:
        return _borrowed("dask_token")(self)

    @property
    def __dask_scheduler__(self) -> Any:
        return _borrowed("dask_scheduler")()

    @property
    def __dask_optimize__(self) -> Any:
        return _borrowed("dask_optimizer")()
