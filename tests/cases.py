"""Many cases of one sentence as one test, which tries all and names each that fails.

`@for_each` is written as `@pytest.mark.parametrize` is. A test of its own for each case
costs milliseconds to collect, to run and to report: more than a quick case takes. So it
is for quick cases that share the fixtures of the test, and of which none changes
anything for the next one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(
    names: str | Sequence[str],
    cases: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] = repr,
) -> Callable[[Test], Test]:
    """Call the test once with each case; `names` are those of its parameters.

    With one name a case is the value, with several a tuple of as many values. `ids` are
    the texts by which an error names the cases, or make one of each value.
    """
    parameters = [names] if isinstance(names, str) else [*names]
    listed = [(case,) if isinstance(names, str) else case for case in cases]
    if callable(ids):
        texts = ["-".join(str(ids(value)) for value in case) for case in listed]
    else:
        texts = [str(text) for text in ids]
    assert listed, f"there are no cases of {names}"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def tries_all(**fixtures: Any) -> None:
            failed: list[str] = []
            errors: list[BaseException] = []
            for text, case in zip(texts, listed, strict=True):
                try:
                    test(**fixtures, **dict(zip(parameters, case, strict=True)))
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as err:
                    err.add_note(f"This is the case {text}.")
                    failed.append(text)
                    errors.append(err)
            if errors:
                count = f"{len(errors)} of {len(listed)} cases fail:"
                raise BaseExceptionGroup("\n  ".join([count, *failed]), errors)

        signature = inspect.signature(test)
        inputs = signature.parameters.values()
        others = [item for item in inputs if item.name not in parameters]
        vars(tries_all)["__signature__"] = signature.replace(parameters=others)
        return tries_all

    return decorate
