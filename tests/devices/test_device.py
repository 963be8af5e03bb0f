"""Device names, beside those that the original was asked (tests/tf1/cases)."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.device import DeviceSpec, merge
from tests.cases import for_each

READ = [
    ("/Cpu:0", "/device:CPU:0"),
    ("/cpu:0/task:1/replica:2/job:ps", "/job:ps/replica:2/task:1/device:CPU:0"),
    ("/:0", ""),
]
REFUSED = [
    *(
        (text, "must end in a whole number")
        for text in ("/task:x", "/task:", "/gpu:x", "/device:GPU:")
    ),
    *(
        (text, "is not part of a device name")
        for text in ("/foo:1", "/device", "/cpu:0:1", "/XLA_CPU:0")
    ),
    *((text, "names two devices") for text in ("/cpu/gpu", "/cpu:0/gpu:0")),
    *(
        (text, "for a task write '/job:worker/task:1'")
        for text in ("worker:1", "/worker/1", "/job:worker:1")
    ),
]

numbers = st.none() | st.integers(-1, 9)
devices = st.builds(
    DeviceSpec,
    job=st.none() | st.sampled_from(["ps", "worker", "*"]),
    replica=numbers,
    task=numbers,
    device_type=st.none() | st.sampled_from(["cpu", "gpu", "TPU", "MyDev"]),
    device_index=numbers,
)
PARTS = ("job", "replica", "task", "device_type", "device_index")


def parts(spec: DeviceSpec) -> tuple[object, ...]:
    return tuple(getattr(spec, part) for part in PARTS)


@for_each(("text", "canonical"), READ)
def test_a_name_is_read_and_written_in_canonical_form(
    text: str, canonical: str
) -> None:
    assert DeviceSpec.from_string(text).to_string() == canonical


@for_each(("text", "words"), REFUSED)
def test_a_bad_name_is_a_value_error_that_quotes_it_and_says_why(
    text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        DeviceSpec.from_string(text)

    assert repr(text) in str(caught.value)


def test_setting_a_part_converts_it_and_there_are_no_others() -> None:
    spec = DeviceSpec()

    spec.task = "4"  # type: ignore[assignment]
    spec.device_type = "cpu"

    assert parts(spec) == (None, None, 4, "CPU", None)
    with pytest.raises(AttributeError):
        spec.jobs = "ps"


def test_parse_from_string_takes_over_all_parts_and_of_a_bad_name_none() -> None:
    spec = DeviceSpec("ps", device_type="GPU", device_index=1)

    assert spec.parse_from_string("/task:1") is spec
    with pytest.raises(ValueError, match="/foo"):
        spec.parse_from_string("/task:2/foo")

    assert parts(spec) == (None, None, 1, None, None)


def test_a_spec_equals_specs_that_print_the_same_and_no_str() -> None:
    spec = DeviceSpec.from_string("/job:ps/cpu:0")

    assert spec == DeviceSpec("ps", device_type="CPU", device_index=0)
    assert spec != DeviceSpec("ps")
    assert spec != "/job:ps/device:CPU:0"
    assert len({DeviceSpec(device_index=3), DeviceSpec()}) == 1


@given(devices, devices)
def test_merging_takes_each_part_from_the_inner_spec_if_it_is_set_there(
    outer: DeviceSpec, inner: DeviceSpec
) -> None:
    before = parts(outer), parts(inner)
    expected = tuple(
        theirs if mine is None else mine
        for mine, theirs in zip(parts(inner), parts(outer), strict=True)
    )

    assert parts(merge(outer, inner)) == expected
    assert (parts(outer), parts(inner)) == before


@given(devices)
def test_the_canonical_form_is_read_as_itself(spec: DeviceSpec) -> None:
    text = spec.to_string()

    assert DeviceSpec.from_string(text).to_string() == text == str(spec)


@given(devices)
def test_copies_pickles_and_the_repr_have_the_same_parts(spec: DeviceSpec) -> None:
    twins = [copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)), eval(repr(spec))]

    assert all(parts(twin) == parts(spec) for twin in twins)
