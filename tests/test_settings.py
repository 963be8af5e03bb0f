"""Settings: documented, checked, read from the environment, changed for a block."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from kit.errors import InvalidArgumentError
from kit.settings import Settings, Value, current, settings
from tests.cases import for_each

# Of each setting the default, a text in the environment, and the value that this means.
# Defaults are promises to users, so they are written out once more.
SETTINGS: dict[str, tuple[Value, str, Value]] = {
    "connect_deadline_s": (5.0, "1.5", 1.5),
    "handshake_deadline_s": (5.0, "1", 1.0),
    "call_deadline_s": (10.0, "2e1", 20.0),
    "step_deadline_s": (30.0, " 60 ", 60.0),
    "run_deadline_s": (30.0, "40", 40.0),
    "still_waiting_s": (10.0, "20", 20.0),
    "start_deadline_s": (60.0, "90", 90.0),
    "stop_deadline_s": (10.0, "0.5", 0.5),
    "save_deadline_s": (300.0, "20", 20.0),
    "heartbeat_s": (0.5, "0.25", 0.25),
    "suspect_after_s": (2.0, "3", 3.0),
    "dead_after_s": (10.0, "2", 2.0),
    "lease_s": (15.0, "30", 30.0),
    "transport": ("auto", "tcp", "tcp"),
    "insecure": (False, "yes", True),
    "encryption": ("aes-gcm", "tls", "tls"),
    "streams": (1, "2", 2),
    "checksum": (True, "OFF", False),
    "bucket_bytes": (0, "65536", 65536),
    "digest_every": (100, "1", 1),
    "nan_loss": (False, "1", True),
    "native": (True, "0", False),
    "trace": (True, "0", False),
    "trace_rows": (200_000, "10_000", 10_000),
    "runtime_dir": ("", "/run/psring", "/run/psring"),
    "crash": ("", "step:3", "step:3"),
    "history": ("", "events.jsonl", "events.jsonl"),
}
DEFAULTS = {name: default for name, (default, _, _) in SETTINGS.items()}

OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("step_deadline_s", 0),
    ("step_deadline_s", -1.0),
    ("step_deadline_s", float("inf")),
    ("step_deadline_s", float("nan")),
    ("step_deadline_s", "5"),
    ("step_deadline_s", True),
    ("step_deadline_s", None),
    ("transport", "pigeon"),
    ("insecure", 1),
    ("encryption", "none"),
    ("streams", 0),
    ("streams", 9),
    ("checksum", "no"),
    ("bucket_bytes", -1),
    ("bucket_bytes", 0.5),
    ("bucket_bytes", True),
    ("trace_rows", 0),
    ("runtime_dir", None),
]


def test_the_defaults_are_those_that_are_promised() -> None:
    assert Settings().as_plain() == DEFAULTS


@for_each("how", [{"encryption": "tls"}, {"transport": "mpi"}])
def test_several_streams_are_refused_where_none_could_carry_parts(
    how: dict[str, Any],
) -> None:
    Settings(**how)

    with pytest.raises(InvalidArgumentError, match="streams must be 1 with"):
        Settings(**how, streams=2)


def test_the_documentation_names_each_setting_and_no_other() -> None:
    entries = re.findall(r"^(\w+) : ", inspect.getdoc(Settings) or "", re.MULTILINE)

    assert entries == list(DEFAULTS)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().trace = False  # type: ignore[misc]


@for_each(("name", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"setting {name} must be") as caught:
        Settings(**{name: value})

    assert str(caught.value).endswith(f"not {value!r}.")


@for_each(
    "changes", [{"heartbeat_s": 2}, {"suspect_after_s": 0.1}, {"dead_after_s": 1.9}]
)
def test_a_task_cannot_be_dead_before_it_is_suspect(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="change them together"):
        Settings(**changes)


@for_each("name", SETTINGS)
def test_each_variable_sets_its_setting_and_no_other(name: str) -> None:
    _, text, value = SETTINGS[name]

    result = Settings.from_environment({f"KIT_{name.upper()}": text}).as_plain()

    assert result == DEFAULTS | {name: value} != DEFAULTS
    assert type(result[name]) is type(DEFAULTS[name])


@for_each(
    ("variable", "text", "expected"),
    [
        ("KIT_STEP_DEADLINE_S", "soon", "a number of seconds above 0"),
        ("KIT_STEP_DEADLINE_S", "", "a number of seconds above 0"),
        ("KIT_STEP_DEADLINE_S", "0", "a number of seconds above 0"),
        ("KIT_STEP_DEADLINE_S", "nan", "a number of seconds above 0"),
        ("KIT_TRACE_ROWS", "1.5", "a whole number, at least 1"),
        ("KIT_BUCKET_BYTES", "-1", "a whole number, at least 0"),
        ("KIT_INSECURE", "maybe", "a switch: True or False"),
        ("KIT_TRANSPORT", "pigeon", "auto or unix or tcp"),
    ],
)
def test_a_bad_variable_is_named_with_its_value_and_what_is_expected(
    variable: str, text: str, expected: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Settings.from_environment({variable: text})

    message = str(caught.value)
    assert all(part in message for part in (variable, repr(text), expected))


def test_a_misspelt_variable_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="did you mean KIT_STEP_DEADLINE_S"):
        result = Settings.from_environment({"KIT_STEP_DEADLINE": "60"})

    assert result == Settings()


def test_variables_of_others_are_left_alone() -> None:
    result = Settings.from_environment({"KIT_CAT": "1", "STEP_DEADLINE": "1"})

    assert result == Settings()  # and a warning is an error


@pytest.mark.slow
def test_the_environment_is_read_once_at_the_first_use() -> None:
    program = (
        "import os\nfrom kit.settings import current\n"
        "os.environ['KIT_TRACE_ROWS'] = '7'\n"
        "first = current().trace_rows\n"
        "os.environ['KIT_TRACE_ROWS'] = '8'\n"
        "print(first, current().trace_rows)\n"
    )

    printed = subprocess.check_output([sys.executable, "-c", program], text=True)

    assert printed.split() == ["7", "7"]


def test_settings_hold_inside_their_block_and_blocks_nest() -> None:
    before = current()

    with settings(trace_rows=5) as outer:
        with settings(transport="tcp") as inner:
            assert current() is inner
        assert current() is outer

    assert outer == before.replace(trace_rows=5)
    assert inner == before.replace(trace_rows=5, transport="tcp")
    assert current() is before


def test_settings_are_restored_when_the_block_raises_and_a_change_is_refused() -> None:
    before = current()

    with pytest.raises(RuntimeError, match="inside"), settings(step_deadline_s=0.1):
        raise RuntimeError("inside the block")
    assert current() is before

    with pytest.raises(InvalidArgumentError), settings(trace_rows=0):
        pass
    assert current() is before


def test_a_block_does_not_reach_other_threads() -> None:
    seen: list[int] = []
    outside = current().trace_rows

    with settings(trace_rows=outside + 1):
        thread = threading.Thread(target=lambda: seen.append(current().trace_rows))
        thread.start()
        thread.join(timeout=10)

    assert seen == [outside]


def test_coroutines_inherit_the_block_and_keep_their_own_to_themselves() -> None:
    async def child(rows: int) -> tuple[int, int]:
        inherited = current().trace_rows
        with settings(trace_rows=rows):
            await asyncio.sleep(0)
            return inherited, current().trace_rows

    async def parent() -> list[tuple[int, int]]:
        with settings(trace_rows=5):
            return list(await asyncio.gather(child(6), child(7)))

    assert asyncio.run(parent()) == [(5, 6), (5, 7)]


@for_each(
    ("slip", "hint"),
    [
        ("step_deadline", "did you mean 'step_deadline_s'"),
        ("TRACE", "did you mean 'trace'"),
        ("zzz", "there are: connect_deadline_s, .*history"),
    ],
)
def test_an_unknown_setting_is_a_type_error_with_the_nearest_name(
    slip: str, hint: str
) -> None:
    with (
        pytest.raises(TypeError, match=f"no setting '{slip}'; {hint}"),
        settings(**{slip: 1}),
    ):
        pass


def test_settings_travel_as_json() -> None:
    sent = Settings.from_environment(
        {f"KIT_{name.upper()}": text for name, (_, text, _) in SETTINGS.items()}
        | {"KIT_DEAD_AFTER_S": "7"}
    )

    received = Settings.from_plain(json.loads(json.dumps(sent.as_plain())))

    assert received == sent != Settings()


def test_plain_settings_are_checked_as_any_others() -> None:
    with pytest.raises(TypeError, match="did you mean 'checksum'"):
        Settings.from_plain({"checksums": True})
    with pytest.raises(InvalidArgumentError, match="trace_rows"):
        Settings.from_plain({"trace_rows": 0})
