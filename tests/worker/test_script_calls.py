"""Which calls of a script count as cases, and what they are called."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pytest_nsight.worker.script_calls import Call, CallRouter, find_site, find_value


class Recorder:
    """A handler that keeps the names, and answers every call with its name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.router = CallRouter(self.handle)
        # Frames of the package's own modules are not the caller's.
        code = """
def bench(body=lambda: None, label=""):
    return router.route(lambda: "original", lambda: Call(body, lambda: "original", label=label))
"""
        names = in_module("pytest_nsight.example", code, router=self.router, Call=Call)
        self.bench: Callable[..., Any] = names["bench"]

    def handle(self, name: str, call: Call) -> str:
        self.names.append(name)
        call.body()
        return name


def in_module(name: str, code: str, folder: str = "", **values: object) -> dict[str, Any]:
    """The names that code defines in a module of this name."""
    names: dict[str, Any] = {**values, "__name__": name}
    exec(compile(code, f"{folder}{name}.py", "exec"), names)
    return names


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_a_call_is_named_after_the_scripts_function_and_counted(recorder: Recorder) -> None:
    code = """
def fused():
    return bench()

def helper(function):
    return [function() for _ in range(2)]

found = [helper(fused), fused(), bench(), bench(), (lambda: bench())()]
"""
    found = in_module("__main__", code, bench=recorder.bench)["found"]

    assert found == [["fused", "fused#2"], "fused#3", "module", "module#2", "module#3"]


def test_the_scripts_own_function_names_a_call_that_a_helper_of_another_file_makes(recorder: Recorder) -> None:
    helpers = in_module("tools.timing", "def measure(): return bench()", bench=recorder.bench)
    script = in_module("__main__", "def softmax(): return measure()\nfound = [softmax(), measure()]", **helpers)

    assert script["found"] == ["softmax", "timing.measure"]


@pytest.mark.parametrize(
    "module", ["triton.runtime.autotuner", "torch._inductor.runtime", "tilelang.autotuner", "quack.autotuner"]
)
@pytest.mark.parametrize("folder", ["/env/lib/python3.11/site-packages/", "/usr/lib/python3/dist-packages/"])
def test_what_a_library_tunes_for_itself_goes_to_its_own_function(
    recorder: Recorder, module: str, folder: str
) -> None:
    tune = in_module(module, "def tune(): return bench()", folder, bench=recorder.bench)["tune"]

    assert in_module("__main__", "def kernel(): return tune()\nfound = kernel()", tune=tune)["found"] == "original"
    with recorder.router.labelled("report[64]"):
        assert tune() == "original"
    assert recorder.names == []


@pytest.mark.parametrize("decorator", ["contextlib", "torch.utils._contextlib", "torch.amp.autocast_mode"])
def test_a_decorator_calls_for_who_calls_it(recorder: Recorder, decorator: str) -> None:
    code = "def decorate(function): return lambda *given: function(*given)"
    decorate = in_module(decorator, code)["decorate"]

    script = in_module("__main__", "def mean(): return wrapped()\nfound = mean()", wrapped=decorate(recorder.bench))
    tune = in_module("torch.tune", "def tune(): return wrapped()", wrapped=decorate(recorder.bench))["tune"]

    assert script["found"] == "mean"
    assert tune() == "original"


@pytest.mark.parametrize("module", ["my_autotuned_ops", "bench.autotuning"])
def test_a_module_beside_the_script_may_have_autotun_in_its_name(recorder: Recorder, module: str) -> None:
    helpers = in_module(module, "def measure(): return bench()", "/home/me/kernels/", bench=recorder.bench)

    assert (
        in_module("__main__", "def softmax(): return measure()\nfound = softmax()", **helpers)["found"] == "softmax"
    )


def test_a_call_of_a_forked_child_goes_to_the_librarys_own_function(recorder: Recorder) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, recorder.bench().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "original"
    assert recorder.bench() != "original"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["add", "add", "add#2"], ["add", "add#2", "add#2#2"]),
        (["add#2", "add", "add", "add"], ["add#2", "add", "add#3", "add#4"]),
        (["add[1]", "add[1]", "add#2[1]"], ["add[1]", "add#2[1]", "add#2#2[1]"]),
    ],
)
def test_no_two_calls_have_one_name(recorder: Recorder, labels: list[str], names: list[str]) -> None:
    assert [recorder.bench(label=label) for label in labels] == names


def test_a_call_inside_a_call_is_part_of_it(recorder: Recorder) -> None:
    inner: list[str] = []

    recorder.bench(lambda: inner.append(recorder.bench()))

    assert inner == ["original"]
    assert len(recorder.names) == 1


def test_a_call_that_raises_leaves_the_next_one_its_own(recorder: Recorder) -> None:
    with pytest.raises(ZeroDivisionError):
        recorder.bench(lambda: 1 / 0)

    name = recorder.bench()

    assert name.endswith("#2")


def test_calls_of_other_threads_pass_and_are_mentioned(recorder: Recorder) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(recorder.bench()))
    thread.start()
    thread.join()

    assert found == ["original"]
    assert recorder.router.unmeasured == ("calls on other threads than the script's first one are not measured",)


def test_a_call_of_another_thread_is_mentioned_while_the_first_one_is_inside_of_a_call(
    recorder: Recorder,
) -> None:
    def body() -> None:
        thread = threading.Thread(target=recorder.bench)
        thread.start()
        thread.join()

    recorder.bench(body)

    assert len(recorder.names) == 1
    assert recorder.router.unmeasured == ("calls on other threads than the script's first one are not measured",)


def test_labels_replace_places_and_are_made_fit_for_node_ids(recorder: Recorder) -> None:
    with recorder.router.labelled("soft\nmax::[N=64]"):
        assert recorder.bench(label="ignored") == "soft max:[N=64]~2da6b265"
        assert recorder.bench() == "soft max:#2[N=64]~2da6b265"
    assert recorder.bench(label="add[first]") == "add[first]"


def test_a_librarys_method_may_make_the_call_for_the_script_and_for_nobody_else(recorder: Recorder) -> None:
    inner = in_module("tilelang.profiler", "def inner(): return bench()", bench=recorder.bench)["inner"]
    code = "def do_bench(): return within('tilelang.profiler', inner)"
    profiler = in_module("pytest_nsight.example", code, within=recorder.router.within, inner=inner)
    tune = in_module("tilelang.autotuner", "def tune(): return do_bench()", **profiler)["tune"]
    script = in_module("__main__", "def kernel(): return do_bench()\nfound = kernel()", **profiler)

    assert script["found"] == "kernel"
    assert tune() == "original"


def test_a_call_that_cannot_be_measured_is_mentioned_if_it_counts(recorder: Recorder) -> None:
    tune = in_module("torch.tune", "def tune(): return refuse(lambda: 1, 'inside')", refuse=recorder.router.refuse)

    assert recorder.router.refuse(lambda: 7, "in C++") == 7
    assert tune["tune"]() == 1
    assert recorder.router.unmeasured == ("in C++",)


def test_no_frame_has_a_place_all_the_same() -> None:
    assert find_site(None) == "module"


def test_without_a_gpu_the_rounds_own_durations_stand_in_for_what_the_library_would_return() -> None:
    log: list[str] = []
    call = Call(
        body=lambda: log.append("body"),
        original=lambda: "original",
        value=lambda times_ms: [round(time_ms) for time_ms in times_ms],
        setup=lambda: log.append("set up"),
    )

    assert find_value(call, has_gpu=True) == "original"
    assert log == []
    assert find_value(call, has_gpu=False) == [0] * 5
    assert log == ["set up", "body"] * 6
    assert find_value(Call(body=lambda: None, original=lambda: "everywhere"), has_gpu=False) == "everywhere"


def test_a_label_is_fit_for_node_ids_and_other_labels_are_other_cases(recorder: Recorder) -> None:
    recorder.bench(label="norm::fused\n")
    recorder.bench(label="norm:fused")
    recorder.bench(label="n" * 200)

    assert len(set(recorder.names)) == 3
    assert all("::" not in name and "\n" not in name and len(name) <= 150 for name in recorder.names)
