"""The table of device names: what is read, what it is written as, what is refused."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.device import DeviceSpec, merge
from tests.cases import for_each

READ = [
    ("", ""),
    ("/", ""),
    ("//", ""),
    (None, ""),
    ("/cpu:0", "/device:CPU:0"),
    ("/CPU:0", "/device:CPU:0"),
    ("/Cpu:0", "/device:CPU:0"),
    ("cpu:0", "/device:CPU:0"),
    ("/device:CPU:0", "/device:CPU:0"),
    ("/device:cpu:0", "/device:CPU:0"),
    ("/gpu:1", "/device:GPU:1"),
    ("/GPU:1", "/device:GPU:1"),
    ("/device:gpu:1", "/device:GPU:1"),
    ("/cpu", "/device:CPU:*"),
    ("CPU", "/device:CPU:*"),
    ("/cpu:*", "/device:CPU:*"),
    ("/device:CPU:*", "/device:CPU:*"),
    ("/device:MyDev:3", "/device:MyDev:3"),
    ("/device:xpu:0", "/device:xpu:0"),
    ("/device:Cpu:0", "/device:Cpu:0"),
    ("/TPU:0", "/device:TPU:0"),
    ("/cpu:0/task:1/replica:2/job:ps", "/job:ps/replica:2/task:1/device:CPU:0"),
    ("//job:ps//task:1/", "/job:ps/task:1"),
    ("job:ps/task:1", "/job:ps/task:1"),
    ("/job:a/job:b", "/job:b"),
    ("/task:1/task:2", "/task:2"),
    ("/job:*", "/job:*"),
    ("/task: 1", "/task:1"),
    ("/cpu:0 ", "/device:CPU:0"),
    ("/task:-1", "/task:-1"),
    ("/gpu:-1", "/device:GPU:-1"),
    ("/job:", "/job:"),
    ("/:0", ""),
]

REFUSED = [
    "/device:GPU",
    "/cpu:0/gpu:0",
    "/device:CPU:0/device:CPU:0",
    "/cpu/gpu",
    "/task:*",
    "/replica:*",
    "/task:x",
    "/task:1.5",
    "/task:",
    "/gpu:x",
    "/device:GPU:x",
    "/device:GPU:",
    " /cpu:0",
    "/JOB:ps",
    "/Task:1",
    "/foo:1",
    "/foo",
    "/job",
    "/device",
    "/job:a:b",
    "/cpu:0:1",
    "/XLA_CPU:0",
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
    text: str | None, canonical: str
) -> None:
    assert DeviceSpec.from_string(text).to_string() == canonical


@for_each("text", REFUSED)
def test_a_bad_name_is_a_value_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        DeviceSpec.from_string(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [3, 0, ["/cpu:0"], DeviceSpec()])
def test_a_name_that_is_no_str_is_an_attribute_error(value: Any) -> None:
    with pytest.raises(AttributeError, match="a device name is a str"):
        DeviceSpec.from_string(value)


def test_a_name_in_bytes_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a device name is a str"):
        DeviceSpec.from_string(b"/cpu:0")  # type: ignore[arg-type]


@for_each("order", list(itertools.permutations(range(4))))
def test_the_order_of_the_parts_does_not_matter(order: tuple[int, ...]) -> None:
    texts = ["job:ps", "replica:0", "task:2", "gpu:1"]

    spec = DeviceSpec.from_string("/".join(texts[i] for i in order))

    assert parts(spec) == ("ps", 0, 2, "GPU", 1)


@for_each(
    ("parts", "canonical"),
    [
        ({}, ""),
        ({"job": 3}, "/job:3"),
        ({"replica": "1", "task": "2"}, "/replica:1/task:2"),
        ({"task": 1.7}, "/task:1"),
        ({"device_type": "cpu", "device_index": "0"}, "/device:CPU:0"),
        ({"device_type": "gpu"}, "/device:GPU:*"),
        ({"device_type": "Cpu"}, "/device:Cpu:*"),
        ({"device_index": 3}, ""),
    ],
)
def test_the_constructor_converts_its_parts(
    parts: dict[str, Any], canonical: str
) -> None:
    assert DeviceSpec(**parts).to_string() == canonical


@pytest.mark.parametrize("part", ["replica", "task", "device_index"])
def test_a_number_that_is_none_is_a_value_error(part: str) -> None:
    with pytest.raises(ValueError, match="'x'"):
        DeviceSpec(**{part: "x"})


def test_setting_a_part_converts_it_too() -> None:
    spec = DeviceSpec()

    spec.task = "4"  # type: ignore[assignment]
    spec.device_type = "cpu"

    assert parts(spec) == (None, None, 4, "CPU", None)


def test_a_spec_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        DeviceSpec().jobs = "ps"


def test_parse_from_string_takes_over_all_parts_and_returns_the_spec() -> None:
    spec = DeviceSpec("ps", device_type="GPU", device_index=1)

    returned = spec.parse_from_string("/task:1")

    assert returned is spec
    assert parts(spec) == (None, None, 1, None, None)


def test_parse_from_string_of_a_bad_name_changes_nothing() -> None:
    spec = DeviceSpec("ps", task=1)

    with pytest.raises(ValueError, match="/foo"):
        spec.parse_from_string("/task:2/foo")

    assert parts(spec) == ("ps", None, 1, None, None)


def test_merge_from_changes_the_spec_and_returns_nothing() -> None:
    spec = DeviceSpec.from_string("/job:ps/task:0/gpu:1")

    spec.merge_from(DeviceSpec.from_string("/job:worker/cpu"))

    assert spec.to_string() == "/job:worker/task:0/device:CPU:1"


def test_make_merged_spec_leaves_both_specs_alone() -> None:
    outer, inner = DeviceSpec("ps", task=0), DeviceSpec(task=1)

    merged = outer.make_merged_spec(inner)

    assert [spec.to_string() for spec in (outer, inner, merged)] == [
        "/job:ps/task:0",
        "/task:1",
        "/job:ps/task:1",
    ]


@pytest.mark.parametrize("other", ["/cpu:0", None, 3])
def test_merging_what_is_no_spec_is_an_attribute_error(other: Any) -> None:
    with pytest.raises(AttributeError):
        DeviceSpec("ps").merge_from(other)


def test_replace_sets_and_unsets_parts_of_a_new_spec() -> None:
    spec = DeviceSpec("ps", task=0, device_type="CPU")

    changed = spec.replace(job=None, task="3", device_type="gpu")

    assert (changed.to_string(), spec.job) == ("/task:3/device:GPU:*", "ps")


def test_replace_of_an_unknown_part_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="jobs"):
        DeviceSpec().replace(jobs="ps")


def test_a_spec_equals_specs_that_print_the_same_and_no_str() -> None:
    spec = DeviceSpec.from_string("/job:ps/cpu:0")

    assert spec == DeviceSpec("ps", device_type="CPU", device_index=0)
    assert DeviceSpec(device_index=3) == DeviceSpec()
    assert spec != DeviceSpec("ps")
    assert spec != "/job:ps/device:CPU:0"


def test_equal_specs_are_one_key_of_a_dict() -> None:
    assert len({DeviceSpec(device_index=3), DeviceSpec()}) == 1
    assert hash(DeviceSpec("ps")) == hash("/job:ps")


# The rows of the table of nested scopes that have two names.
@for_each(
    ("outer", "inner", "device"),
    [
        ("/job:ps", "/cpu:0", "/job:ps/device:CPU:0"),
        ("/job:ps/task:0", "/job:worker", "/job:worker/task:0"),
        ("/job:ps/task:0", "/task:1", "/job:ps/task:1"),
        ("/device:GPU:1", "/device:CPU:*", "/device:CPU:1"),
        ("/device:GPU:1", "/cpu", "/device:CPU:1"),
        ("/job:ps", "", "/job:ps"),
        ("/job:ps", "/", "/job:ps"),
        ("/job:ps/task:1", "/job:fn/gpu:0", "/job:fn/task:1/device:GPU:0"),
    ],
)
def test_inner_scopes_win_and_outer_scopes_complete(
    outer: str, inner: str, device: str
) -> None:
    merged = merge(DeviceSpec.from_string(outer), DeviceSpec.from_string(inner))

    assert merged.to_string() == device


@given(devices, devices)
def test_merging_takes_each_part_from_the_inner_spec_if_it_is_set_there(
    outer: DeviceSpec, inner: DeviceSpec
) -> None:
    expected = tuple(
        theirs if mine is None else mine
        for mine, theirs in zip(parts(inner), parts(outer), strict=True)
    )

    assert parts(merge(outer, inner)) == expected


@given(devices, devices, devices)
def test_scopes_may_be_merged_from_either_end(
    first: DeviceSpec, second: DeviceSpec, third: DeviceSpec
) -> None:
    outwards = merge(first, merge(second, third))
    inwards = merge(merge(first, second), third)

    assert parts(outwards) == parts(inwards)


@given(devices)
def test_the_canonical_form_is_read_as_itself(spec: DeviceSpec) -> None:
    text = spec.to_string()

    assert DeviceSpec.from_string(text).to_string() == text == str(spec)


@given(devices)
def test_copies_pickles_and_the_repr_have_the_same_parts(spec: DeviceSpec) -> None:
    twins = [copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)), eval(repr(spec))]

    assert all(parts(twin) == parts(spec) for twin in twins)


@pytest.mark.parametrize("wrong", ["worker:1", "/worker/1", "/job:worker:1"])
def test_name_of_a_task_says_how_it_is_written_as_a_device(wrong: str) -> None:
    with pytest.raises(ValueError, match="for a task write '/job:worker/task:1'"):
        DeviceSpec.from_string(wrong)
