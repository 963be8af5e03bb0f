"""Device names, beside those that the original was asked, and those that are not."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.device import DeviceSpec, check_known, listed, merge
from kit.errors import PlacementError
from kit.task import Task
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


TASKS = [Task("ps", 0), *(Task("worker", i) for i in range(4))]


def complaint(device: str, tasks: list[Task] = TASKS) -> str:
    with pytest.raises(PlacementError) as caught:
        check_known(device, tasks)
    return str(caught.value)


@for_each(
    "device",
    [
        "",
        "/cpu:0",
        "/gpu:99",
        "/job:ps",
        "/job:worker/task:3/device:GPU:7",
        "/task:3",
        "/job:worker/replica:0/task:0",
        "/job:*/task:3",
        "/job:*",
    ],
)
def test_a_name_that_matches_a_task_is_let_through(device: str) -> None:
    check_known(device, TASKS)


@pytest.mark.parametrize("device", ["", "/cpu:0", "/job:*"])
def test_a_name_that_asks_for_no_task_needs_none(device: str) -> None:
    check_known(device, [])


@for_each(
    ("device", "advice"),
    [
        ("/job:wroker", "Did you mean '/job:worker'?"),
        ("/job:wroker/task:1", "Did you mean '/job:worker/task:1'?"),
        ("/job:wroker/task:9/cpu:0", "Did you mean '/job:worker/task:3/device:CPU:0'?"),
        ("/job:Worker/task:2", "Did you mean '/job:worker/task:2'?"),
        ("/job:workers", "Did you mean '/job:worker'?"),
        ("/job:PS", "Did you mean '/job:ps'?"),
        ("/job:worker/task:4", "Did you mean '/job:worker/task:3'?"),
        ("/job:worker/task:-1", "Did you mean '/job:worker/task:0'?"),
        ("/job:ps/task:1", "Did you mean '/job:ps/task:0'?"),
        ("/task:7", "Did you mean '/task:3'?"),
        ("/replica:1", "Did you mean '/replica:0'?"),
        ("/job:ps/replica:1/task:0", "Did you mean '/job:ps/replica:0/task:0'?"),
        ("/job:moon", "Place on one of these."),
        ("/job:moon/task:0", "Place on one of these."),
    ],
)
def test_an_unknown_name_is_refused_with_all_tasks_and_the_nearest(
    device: str, advice: str
) -> None:
    assert complaint(device) == (
        f"no task is called {device!r}; this cluster has ps:0, worker:0..3. {advice}"
    )


def test_a_job_that_exists_is_never_corrected_to_one_like_it() -> None:
    tasks = [Task("Worker", 0), Task("worker", 0), Task("worker", 1)]

    assert "mean '/job:Worker/task:0'" in complaint("/job:Worker/task:1", tasks)


def test_an_unreadable_name_is_a_placement_error_too() -> None:
    text = complaint("/zzz:0")

    assert "'/zzz:0'" in text
    assert text.endswith("This cluster has ps:0, worker:0..3.")


def test_a_cluster_without_tasks_says_so() -> None:
    assert complaint("/job:ps", []) == (
        "no task is called '/job:ps'; this cluster has no tasks. Start a cluster first."
    )


indices = st.sets(st.integers(0, 12), min_size=1)
jobs = st.dictionaries(st.sampled_from(["ps", "worker", "eval"]), indices)


@given(jobs)
def test_the_list_names_each_task_once_and_no_other(jobs: dict[str, set[int]]) -> None:
    tasks = [Task(job, index) for job in jobs for index in sorted(jobs[job])]

    result = []
    for text in listed(tasks).split(", ") if tasks else []:
        job, _, span = text.partition(":")
        first, _, last = span.partition("..")
        result += [Task(job, i) for i in range(int(first), int(last or first) + 1)]

    assert result == tasks


@given(jobs, st.sampled_from(["ps", "worker", "eval", "wrker"]), st.integers(-2, 14))
def test_a_suggested_name_is_known(
    jobs: dict[str, set[int]], job: str, index: int
) -> None:
    tasks = [Task(job, index) for job in jobs for index in jobs[job]]
    device = f"/job:{job}/task:{index}"
    if Task(job, index) in tasks:
        check_known(device, tasks)
        return

    _, asked, suggestion = complaint(device, tasks).partition("Did you mean ")

    if asked:
        check_known(suggestion.strip("'?"), tasks)
