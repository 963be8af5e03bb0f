"""The tree of errors: codes, parents, both ways to make one, and how they travel."""

from __future__ import annotations

import copy
import json
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import errors
from kit.errors import (
    KitError,
    error_code_from_exception_type,
    exception_type_from_error_code,
    from_plain,
    to_plain,
)
from tests.cases import for_each

# The canonical status codes of the original runtime.
CODES = {
    "CancelledError": 1,
    "UnknownError": 2,
    "InvalidArgumentError": 3,
    "DeadlineExceededError": 4,
    "NotFoundError": 5,
    "AlreadyExistsError": 6,
    "PermissionDeniedError": 7,
    "ResourceExhaustedError": 8,
    "FailedPreconditionError": 9,
    "AbortedError": 10,
    "OutOfRangeError": 11,
    "UnimplementedError": 12,
    "InternalError": 13,
    "UnavailableError": 14,
    "DataLossError": 15,
    "UnauthenticatedError": 16,
}

PARENTS = {
    "PlacementError": "InvalidArgumentError",
    "UnknownTopology": "InvalidArgumentError",
    "GradientMismatch": "InvalidArgumentError",
    "MemberMismatch": "InvalidArgumentError",
    "NotFinite": "InvalidArgumentError",
    "ProtocolError": "InvalidArgumentError",
    "LinkLost": "UnavailableError",
    "PeerLost": "UnavailableError",
    "ControllerLost": "UnavailableError",
    "StartFailed": "UnavailableError",
    "Fenced": "AbortedError",
    "StepFailed": "AbortedError",
    "ClusterBusy": "FailedPreconditionError",
    "VersionMismatch": "FailedPreconditionError",
    "AuthenticationFailed": "UnauthenticatedError",
    "AddressInUse": "AlreadyExistsError",
    "CheckpointFailed": "DataLossError",
    "NotEnoughMemory": "ResourceExhaustedError",
}

KINDS: list[type[KitError]] = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, KitError)
]
every_kind = for_each("kind", KINDS)


def state(error: KitError) -> tuple[object, ...]:
    return (type(error), error.args, *sorted(vars(error).items()))


@for_each(("name", "code"), CODES.items())
def test_a_class_of_the_original_has_its_code_and_is_looked_up_by_it(
    name: str, code: int
) -> None:
    kind: type[KitError] = getattr(errors, name)

    assert kind("why").error_code == kind.code == code
    assert kind.__bases__ == (KitError,)
    assert exception_type_from_error_code(code) is kind
    assert error_code_from_exception_type(kind) == code


@for_each(("name", "parent"), PARENTS.items())
def test_a_plain_name_is_below_its_code(name: str, parent: str) -> None:
    kind: type[KitError] = getattr(errors, name)

    assert kind.__bases__ == (getattr(errors, parent),)
    assert kind.code == error_code_from_exception_type(kind) == CODES[parent]


@every_kind
def test_each_class_is_in_the_tables_and_says_who_raises_it_and_whether_to_retry(
    kind: type[KitError],
) -> None:
    text = " ".join((kind.__doc__ or "").split())

    assert kind.__name__ in {"KitError", *CODES, *PARENTS}
    assert kind is KitError or all(word in text for word in ("Raised", "retry"))
    assert len(re.findall(r"[.:] [A-Z]", text)) >= (0 if kind is KitError else 3)


def test_a_lost_link_may_have_delivered_unless_it_is_known_not_to() -> None:
    assert errors.LinkLost("gone").may_have_happened


@every_kind
def test_an_error_takes_a_message_or_the_three_arguments_of_the_original(
    kind: type[KitError],
) -> None:
    error = kind("ps:0 is gone")

    assert (str(error), error.message) == ("ps:0 is gone", "ps:0 is gone")
    assert (error.node_def, error.op, error.task, error.step) == (None,) * 4
    error = kind("node", "op", "ps:0 is gone", task="/job:ps/task:0", step=7)
    assert (error.node_def, error.op, error.message) == ("node", "op", "ps:0 is gone")
    assert (error.task, error.step, str(error)) == ("/job:ps/task:0", 7, error.message)


@for_each("n_args", [0, 2, 4])
def test_any_other_number_of_arguments_is_a_type_error(n_args: int) -> None:
    with pytest.raises(TypeError, match=f"PeerLost takes .* got {n_args} arguments"):
        errors.PeerLost(*["text"] * n_args)


def test_the_remote_traceback_is_printed_below_the_message() -> None:
    error = errors.StepFailed("step 3 failed", remote_traceback="Traceback: ...")

    assert str(error) == "step 3 failed\n\nTraceback: ..."
    assert error.message == "step 3 failed"


@every_kind
@for_each("args", [("why",), ("node", "op", "why")])
def test_an_error_survives_pickle_and_copy_and_a_message_alone_json(
    kind: type[KitError], args: tuple[str, ...]
) -> None:
    error = kind(*args, task="/job:ps/task:0", step=7, remote_traceback="Traceback")

    twins = [pickle.loads(pickle.dumps(error)), copy.copy(error)]
    received = from_plain(json.loads(json.dumps(to_plain(error))))

    assert all(state(twin) == state(error) for twin in twins)
    assert received.message == "why"
    assert state(received) == state(error) or len(args) == 3


class OfOneTask(errors.PeerLost):
    """Takes other arguments than its base, as a class of a user may."""

    def __init__(self, name: str, *, why: str) -> None:
        super().__init__(f"{name} is gone: {why}", task=name)
        self.why = why


def test_an_error_with_arguments_of_its_own_survives_pickle_and_copy() -> None:
    error = OfOneTask("ps:0", why="killed")
    error.add_note("while it was tried")

    twins = [pickle.loads(pickle.dumps(error)), copy.copy(error)]

    assert all(state(twin) == state(error) for twin in twins)
    assert [str(twin) for twin in twins] == ["ps:0 is gone: killed"] * 2


@for_each("code", [0, 17, -1, "3", None])
def test_a_code_without_a_class_is_a_key_error(code: Any) -> None:
    with pytest.raises(KeyError, match=f"no error has the code {code!r}"):
        exception_type_from_error_code(code)


@for_each("thing", [KeyError, Exception, 3, errors.PeerLost("gone")])
def test_what_is_no_class_of_errors_has_no_code(thing: Any) -> None:
    with pytest.raises(TypeError, match="not a class of errors with a code"):
        error_code_from_exception_type(thing)


def test_an_error_of_others_becomes_unknown_and_keeps_its_name() -> None:
    twin = from_plain(json.loads(json.dumps(to_plain(KeyError("w1")))))

    assert type(twin) is errors.UnknownError
    assert twin.message == "KeyError: 'w1'"


@for_each("name", ["SystemExit", "os.system", "", None, 3])
def test_an_unknown_type_becomes_an_unknown_error(name: Any) -> None:
    twin = from_plain({"type": name, "message": "why"})

    assert (type(twin), twin.message) == (errors.UnknownError, "why")


scalars = st.none() | st.booleans() | st.integers() | st.text("aé\n", max_size=5)


@given(st.dictionaries(st.sampled_from(["type", "message", "task", "step"]), scalars))
def test_no_plain_data_make_from_plain_raise(plain: dict[str, Any]) -> None:
    assert isinstance(from_plain(plain), KitError)


@for_each("plain", [None, 3, "gone", ["PeerLost"]])
def test_what_is_no_error_as_data_becomes_an_unknown_one(plain: object) -> None:
    error = from_plain(plain)

    assert type(error) is errors.UnknownError
    assert repr(plain) in error.message


def test_texts_of_an_error_that_are_none_are_left_out() -> None:
    error = from_plain({"type": "PeerLost", "task": 3, "node": [], "traceback": {}})

    assert isinstance(error, errors.PeerLost)
    assert (error.task, error.node, error.remote_traceback) == (None, None, None)


def test_a_text_of_any_length_travels_with_both_its_ends() -> None:
    text = "begin" + "x" * 10_000_000 + "end"
    error = KitError(text, task=text, node=text, remote_traceback=text)
    plain = dict.fromkeys(("message", "task", "node", "traceback"), text)

    sent = to_plain(error)
    for travelled in (from_plain(sent), from_plain(plain)):
        texts = (travelled.task, travelled.node, travelled.remote_traceback)
        for result in (travelled.message, *texts):
            assert result
            assert re.fullmatch("beginx+.9,98.,... characters.*x+end", result)
    assert len(json.dumps(sent)) < 100_000
    assert len(to_plain(ValueError(text))["message"]) < 25_000
