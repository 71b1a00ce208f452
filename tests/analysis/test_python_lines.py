"""Lines of Python: which one a stack is about, what it launches, and where the host is while devices are idle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.python_lines import CodeOwner, find_owner, label_places
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.python_stacks import PythonPlace
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import TraceBuilder

SITE = "/opt/venv/lib/python3.12/site-packages"
BACKWARD = f"_engine_run_backward @ {SITE}/torch/autograd/graph.py:869"
MAIN = "main @ /home/me/train.py:30"
RECORDING = Path(__file__).parents[1] / "data/recordings/h200_train_python.sqlite.xz"


def picture_of(builder: TraceBuilder, folder: Path) -> Picture:
    return analyse(read(builder.write(folder / "trace.sqlite")))


def name_stack(folder: Path, *frames: str) -> str:
    """The line that stands for a stack at a launch."""
    builder = TraceBuilder().launch("k", 10, 20, api_at=5).python_stack(5, *frames, is_sample=False)
    (found,) = picture_of(builder, folder).lines
    return found.code


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/me/project/train.py", CodeOwner.OWN),
        ("train.py", CodeOwner.OWN),
        ("<stdin>", CodeOwner.OWN),
        ("<ipython-input-3-0a1b>", CodeOwner.OWN),
        ("/tmp/ipykernel_12/3456.py", CodeOwner.OWN),
        (f"{SITE}/transformers/models/llama.py", CodeOwner.PACKAGE),
        ("/usr/lib/python3/dist-packages/apt/cache.py", CodeOwner.PACKAGE),
        (f"{SITE}/torch/nn/modules/linear.py", CodeOwner.SHARED),
        (f"{SITE}/triton/runtime/jit.py", CodeOwner.SHARED),
        ("/usr/lib/python3.12/queue.py", CodeOwner.SHARED),
        ("/usr/lib/python3.14t/queue.py", CodeOwner.SHARED),
        ("<frozen importlib._bootstrap>", CodeOwner.SHARED),
        ("<string>", CodeOwner.SHARED),
        ("/tmp/torchinductor_me/ab/cab.py", CodeOwner.SHARED),
        ("<eval_with_key>.12", CodeOwner.SHARED),
    ],
)
def test_whose_code_a_file_holds(file: str, owner: CodeOwner) -> None:
    assert find_owner(file) is owner


def test_files_of_one_name_have_the_folders_that_distinguish_them() -> None:
    places = [
        PythonPlace("f", file, 1)
        for file in ("/p/a/utils.py", "/p/b/utils.py", "/p/train.py", f"{SITE}/torch/utils.py")
    ]

    assert label_places(places) == ["a/utils.py:1 f", "b/utils.py:1 f", "train.py:1 f", "torch/utils.py:1 f"]


def test_an_own_file_is_distinguished_from_one_of_the_standard_library() -> None:
    files = ("/p/queue.py", "/usr/lib/python3.12/queue.py", "/main.py", "/q/main.py")

    labels = label_places([PythonPlace("f", file, 1) for file in files])

    assert labels == ["p/queue.py:1 f", "queue.py:1 f", "/main.py:1 f", "q/main.py:1 f"]


def test_the_innermost_own_line_names_a_stack(tmp_path: Path) -> None:
    frames = (f"forward @ {SITE}/torch/nn/linear.py:1", "block @ /me/model.py:7", MAIN)

    assert name_stack(tmp_path, *frames) == "model.py:7 block"


def test_without_an_own_line_a_package_names_it_and_then_a_framework(tmp_path: Path) -> None:
    frames = (f"mm @ {SITE}/torch/a.py:1", f"run @ {SITE}/vllm/worker.py:7", f"serve @ {SITE}/vllm/main.py:9")

    assert name_stack(tmp_path, *frames) == "vllm/worker.py:7 run"
    assert name_stack(tmp_path, frames[0], "run @ /usr/lib/python3.12/runpy.py:3") == "torch/a.py:1 mm"


def test_a_call_with_a_stack_belongs_to_its_line_and_another_to_the_nearest_stack(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(5, "f @ /me/a.py:1", is_sample=False)
    builder.launch("b", 30, 34, api_at=8).launch("b", 50, 54, api_at=21)
    picture = picture_of(builder.python_stack(20, "g @ /me/a.py:2", is_sample=False), tmp_path)

    assert [(one.code, one.launches, one.total_ns, one.kernel) for one in picture.lines] == [
        ("a.py:1 f", 2, 14, "a"),
        ("a.py:2 g", 1, 4, "b"),
    ]
    assert sum(one.share for one in picture.lines) == pytest.approx(1)


def test_samples_stand_for_launches_no_farther_than_a_period_and_a_half(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at in (1000, 2000, 3000):
        builder.python_stack(at, f"f @ /me/a.py:{at}")
    for at in (1100, 1900, 4400, 4600):
        builder.launch("k", at + 5, at + 15, api_at=at)
    found = {one.code: one.launches for one in picture_of(builder, tmp_path).lines}

    assert found == {"a.py:1000 f": 1, "a.py:2000 f": 1, "a.py:3000 f": 1, "": 1}


def test_stacks_of_other_threads_and_processes_say_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("k", 10, 20, api_at=5).python_stack(5, MAIN, is_sample=False)
    builder.launch("k", 30, 40, api_at=25, thread=101).launch("k", 50, 60, api_at=45, process=200, thread=100)
    found = {one.code: one.launches for one in picture_of(builder, tmp_path).lines}

    assert found == {"train.py:30 main": 1, "": 2}


def test_a_thread_of_autograd_launches_for_the_line_that_waits_for_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at in (0, 1000, 2000):
        builder.python_stack(at, BACKWARD, "step @ /me/train.py:27")
        builder.python_stack(at, "load @ /me/data.py:3", thread=105)
    builder.launch("k", 1110, 1120, api_at=1100, thread=101).launch(
        "k", 1130, 1140, api_at=1100, process=9, thread=9
    )
    found = {one.code: one.launches for one in picture_of(builder, tmp_path).lines}

    assert found == {"train.py:27 step": 1, "": 1}


def training(*, has_hooks: bool) -> TraceBuilder:
    """The main thread waits for the backward pass; autograd's thread launches, and runs Python once in a hook."""
    program = ("main @ /me/train.py:27", "<module> @ /me/train.py:40")
    builder = TraceBuilder()
    for at in range(0, 20_000, 1000):
        builder.python_stack(at, BACKWARD, *program)
    if has_hooks:
        builder.python_stack(500, "hook @ /me/train.py:5", thread=101)
        builder.launch("hooked", 510, 520, api_at=505, thread=101)
    for at in (9000, 18_000):
        builder.launch("k", at + 10, at + 20, api_at=at, thread=101)
    return builder


def test_a_thread_of_autograd_that_runs_a_hook_launches_the_rest_for_the_line_that_waits(tmp_path: Path) -> None:
    found = {one.code: one.launches for one in picture_of(training(has_hooks=True), tmp_path).lines}

    assert found == {"train.py:5 hook": 1, "train.py:27 main": 2}


@pytest.mark.parametrize("has_hooks", [True, False])
def test_idle_time_of_a_backward_pass_with_a_hook_is_that_of_the_line_that_waits(
    tmp_path: Path, *, has_hooks: bool
) -> None:
    found = {one.line: one.total_ns for one in picture_of(training(has_hooks=has_hooks), tmp_path).idle_lines}

    assert found == {"train.py:27 main": 18_010 - 9_020 + (9_010 - 520 if has_hooks else 0)}


def idle_of(folder: Path, samples: Sequence[tuple[int, str]], thread: int = 100) -> dict[str, tuple[int, str]]:
    """Idle time by line between two kernels, from 1000 to 5000, of a trace with samples of the main thread."""
    builder = TraceBuilder().launch("a", 900, 1000, api_at=890).launch("b", 5000, 5100, api_at=4990, thread=thread)
    for at, frame in samples:
        builder.python_stack(at, frame, MAIN)
    return {one.line: (one.total_ns, one.inside) for one in picture_of(builder, folder).idle_lines}


def test_idle_time_belongs_to_the_line_of_the_nearest_sample(tmp_path: Path) -> None:
    samples = [
        (at, "load @ /me/data.py:3" if at < 3000 else "step @ /me/data.py:9") for at in range(500, 6000, 1000)
    ]

    assert idle_of(tmp_path, samples) == {
        "data.py:3 load": (2000, "data.py:3 load"),
        "data.py:9 step": (2000, "data.py:9 step"),
    }


def test_idle_time_without_a_sample_has_a_row(tmp_path: Path) -> None:
    queue = "get @ /usr/lib/python3.12/queue.py:171"

    assert idle_of(tmp_path, [(500, queue), (1500, queue)]) == {
        "train.py:30 main": (1500, "queue.py:171 get"),
        "": (2500, ""),
    }


def test_of_a_thread_without_samples_the_one_that_calls_cuda_counts(tmp_path: Path) -> None:
    samples = [(at, BACKWARD) for at in range(500, 6000, 1000)]

    assert idle_of(tmp_path, samples, thread=101) == {
        "train.py:30 main": (4000, "torch/autograd/graph.py:869 _engine_run_backward")
    }


def test_idle_time_of_two_devices_counts_twice(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for device in (0, 1):
        builder.launch("a", 900, 1000, api_at=890, device=device).launch(
            "b", 3000, 3100, api_at=2990, device=device
        )
    for at in range(500, 4000, 1000):
        builder.python_stack(at, MAIN)
    (found,) = picture_of(builder, tmp_path).idle_lines

    assert (found.line, found.total_ns, found.share) == ("train.py:30 main", 4000, 1.0)


def test_without_samples_there_is_no_table_of_idle_time(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 0, 10, api_at=0).launch("a", 50, 60, api_at=40)

    assert picture_of(builder.python_stack(40, MAIN, is_sample=False), tmp_path).idle_lines == ()


def test_the_bottleneck_names_the_line_that_the_host_is_in(tmp_path: Path) -> None:
    ms = 1_000_000
    builder = TraceBuilder().launch("a", 0, ms, api_at=0).launch("b", 50 * ms, 51 * ms, api_at=50 * ms - 5000)
    for at in range(0, 52 * ms, ms):
        builder.python_stack(at, "get @ /usr/lib/python3.12/queue.py:171", MAIN)
    trace = read(builder.write(tmp_path / "trace.sqlite"))
    page = " ".join(render(trace, 120, View()).split())

    said = "Python is at train.py:30 main for 100 % of the idle time, mostly in queue.py:171 get"
    assert said in page
    assert "Where Python was while devices were idle" in page
    assert "Kernel time by the line of Python that launched it" in page


@pytest.mark.parametrize("domain", ["Python Backtrace on CUDA", "Python Periodic Sampling"])
def test_a_note_says_how_to_export_frames_that_are_missing(tmp_path: Path, domain: str) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).domain(domain)
    (note,) = [text for text in picture_of(builder, tmp_path).notes if "Python" in text]

    assert "export it again with `nsys export --type=sqlite --include-blobs=true`" in note


def test_stacks_of_an_unknown_form_are_not_to_be_exported_again(tmp_path: Path) -> None:
    """Another export of the same report would hold the same form."""
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, MAIN)
    for row in builder.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"]:
        row["offset"] = 24
    trace = read(builder.write(tmp_path / "trace.sqlite"))

    assert [note for note in trace.notes if "stack of Python has a form" in note]
    assert not [note for note in analyse(trace).notes if "export it again" in note]


def test_in_a_recording_each_line_launches_what_the_range_around_it_holds() -> None:
    """The lines 25, 27 and 29 of the program are the ranges `forward`, `backward` and `optimizer`."""
    picture = analyse(load_trace(RECORDING), name="train_step#*")
    of_range = {one.path[-1]: (one.launches, one.kernel_ns) for one in picture.ranges}

    assert {one.code: (one.launches, one.total_ns) for one in picture.lines} == {
        "train_in_ranges.py:25 main": of_range["forward"],
        "train_in_ranges.py:27 main": of_range["backward"],
        "train_in_ranges.py:29 main": of_range["optimizer"],
    }
    idle = {one.line: one.total_ns for one in picture.idle_lines}
    places = {one.label: one.total_ns for one in picture.idle}
    for line, label in ((25, "forward"), (27, "backward"), (29, "optimizer")):
        # Samples are 1 ms apart.
        assert idle[f"train_in_ranges.py:{line} main"] == pytest.approx(places[label], abs=6e6)
