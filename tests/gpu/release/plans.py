"""What runs on the boards: a plan is a function of a lane, and both lanes of a pair run the same one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.gpu.foreign.programs import PROGRAMS
from tests.gpu.release.lane import Lane

Plan = Callable[[Lane], None]

_WITHOUT_TORCH = "tests/gpu/test_without_torch.py"
_OTHERS_SCRIPTS = "tests/gpu/foreign/test_benchmark_scripts.py"
_CHANGES = {
    "softmax": (
        "tl.exp(x - tl.max(x, axis=1)[:, None])",
        "tl.exp2(1.4426950408889634 * (x - tl.max(x, axis=1)[:, None]))",
    ),
    # A training step of perf_tests/ uses it, too.
    "rotary": ("(a * cos - b * sin).to", "(a * cos - b * sin * 1.0000001).to"),
}
"""Kernel -> a piece of its code, and what launches the same with other machine code."""


def programs(board: int) -> list[str]:
    """Node ids of every second foreign program, for a board's number."""
    return [f"tests/gpu/foreign/test_foreign.py::test_program[{name}]" for name in list(PROGRAMS)[board % 2 :: 2]]


def _own_programs(lane: Lane) -> list[str]:
    return [*programs(0), *programs(1)] if lane.is_alone else programs(lane.number)


def identity(lane: Lane) -> None:
    """What is unchanged is IDENTICAL, what is changed is seen: mutations, two trees, a changed kernel, bisect."""
    if lane.does_second:
        lane.pytest("one-name", "tests/gpu/test_identity.py", "-k", "one_name or tuner_ran")
    if lane.does_first:
        lane.run("mutations", "-m", "benchmarks.cupti.identify")
        lane.run("trials", "-m", "benchmarks.cupti.trials")
        lane.forget_caches()
        lane.gate("untouched", "--nsight-against=HEAD", "perf_tests")
        for kernel, (code, other) in _CHANGES.items():
            lane.forget_caches()
            file = lane.tree / f"kernels/{kernel}.py"
            before = file.read_text()
            assert before.count(code) == 1
            file.write_text(before.replace(code, other))
            lane.gate(f"changed-{kernel}", "--nsight-against=HEAD", "perf_tests")
            file.write_text(before)
    # The project's baselines are of other boards.
    lane.forget_caches()
    lane.gate("new-board", "perf_tests")
    if lane.does_first:
        lane.pytest("bisect-structure", "tests/gpu/test_bisect.py", "-k", "not percent")
    if lane.does_second:
        lane.pytest("bisect-time", "tests/gpu/test_bisect.py", "-k", "percent")


def answers(lane: Lane) -> None:
    """Bottleneck classes, and what Nsight Compute says of a regression."""
    if lane.does_first:
        lane.pytest("drill", "tests/gpu/test_drill.py")
    if lane.does_second:
        lane.pytest("bottlenecks", "tests/gpu/test_bottlenecks.py")


def compilers(lane: Lane) -> None:
    """Foreign programs whose compiler chooses kernels: saved, and checked likewise."""
    _save(lane, runs=3, name="save-compiled", chosen=_is_compiled)
    _check_on_the_other_board(lane, name="cross-compiled", after="save-compiled", chosen=_is_compiled)


def autotuners(lane: Lane) -> None:
    """What autotuners and compilers choose anew."""
    chosen_by_compilers = "compiler_chose or xla"
    if lane.does_first:
        lane.pytest("autotuners", "tests/gpu/test_autotuners.py", "-k", f"not ({chosen_by_compilers})")
    if lane.does_second:
        lane.pytest("compilers", "tests/gpu/test_autotuners.py", "-k", chosen_by_compilers)


def faults(lane: Lane) -> None:
    """Tests that spoil their process or the device, each among twenty sound ones; CuPy and JAX without torch."""
    if lane.does_first:
        lane.pytest("faults", "tests/gpu/test_faults.py", "-n", "6")
    if lane.does_second:
        lane.pytest("without-torch", _WITHOUT_TORCH, "-k", "cupy or jax")


def cuda_python(lane: Lane) -> None:
    """Numba and cuda.core without torch."""
    if lane.does_first:
        lane.pytest("numba", _WITHOUT_TORCH, "-k", "numba", packages="cuda-python")
    if lane.does_second:
        lane.pytest("cuda-core", _WITHOUT_TORCH, "-k", "cuda_core", packages="cuda-python")


def foreign(lane: Lane) -> None:
    """Foreign programs: saved, checked, and checked by what the other board has stored, if there is one."""
    _save(lane, runs=3)
    _check(lane, "check")
    _check_on_the_other_board(lane)


def elsewhere(lane: Lane) -> None:
    """Foreign programs checked by what a board of another machine has stored: the folder RELEASE_BASELINES."""
    lane.gate("elsewhere", f"--nsight-baselines={os.environ['RELEASE_BASELINES']}", *_own_programs(lane))


def foreign_five(lane: Lane) -> None:
    """Foreign programs: five runs, five checks, and one with 2 % more work in half of them."""
    _save(lane, runs=5)
    _check(lane, "check-1")
    more = {"FOREIGN_MORE_WORK": "2%", "FOREIGN_TIMES": str(lane.results / f"save-{lane.number}.json")}
    lane.gate("more", *_stored(lane, lane.number), *_own_programs(lane), **more)
    for number in range(2, 6):
        _check(lane, f"check-{number}")


def baselines(lane: Lane) -> None:
    """Runs of both boards in one folder, for the repository; then each board judges itself by them."""
    stored = f"--nsight-baselines={lane.results / 'perf-baselines'}"
    lane.gate("perf-save", "--nsight-save", stored, "perf_tests")
    lane.wait_for("perf-save")
    lane.gate("perf-check", stored, "--nsight-no-identity", "perf_tests")


def study(lane: Lane) -> None:
    """Pools of the validation study: a session of unchanged code with confirming runs, and one to store."""
    # Eight confirming runs of each of 25 cases, three in each process.
    _collect(lane, "sound", "--minutes", "11", "--sound", "8", "--sessions", "1", "--confirming", "72")
    _collect(lane, "stored", "--minutes", "2", "--sound", "8", "--sessions", "1")


def injected(lane: Lane) -> None:
    """A pool of the validation study with more work."""
    _collect(lane, "inject", "--minutes", "7", "--inject", "54")


def forced(lane: Lane) -> None:
    """Checks of unchanged code, a minute each; in each three random cases go through all looks."""
    _collect(lane, "forced", "--minutes", "22", "--live", "9", "--forced")


def _collect(lane: Lane, name: str, *arguments: str) -> None:
    folder = lane.results / f"study-{name}-{lane.number}"
    lane.run(f"study-{name}", "-m", "benchmarks.validate.collect", str(folder), *arguments)


def scripts(lane: Lane) -> None:
    """Benchmark scripts with no line changed."""
    lane.pytest("scripts", "tests/gpu/test_scripts_on_gpu.py")


def others_scripts(lane: Lane) -> None:
    """Other projects' own benchmark scripts; most of them take the time that one of them takes alone."""
    longest = "flash-linear-attention"
    if lane.does_first:
        lane.pytest("others-scripts", _OTHERS_SCRIPTS, "-k", f"not {longest}", packages="others-scripts")
    if lane.does_second:
        lane.pytest("others-scripts-longest", _OTHERS_SCRIPTS, "-k", longest, packages="others-scripts")


def _stored(lane: Lane, of: int) -> list[str]:
    return [f"--nsight-baselines={lane.results / f'baselines-{of}'}"]


def _is_compiled(program: str) -> bool:
    return "max-autotune" in program or "[jax-" in program


def _save(lane: Lane, runs: int, name: str = "save", chosen: Callable[[str], bool] = bool) -> None:
    options = ["--nsight-save", f"--nsight-runs={runs}", *_stored(lane, lane.number)]
    lane.gate(name, *options, *filter(chosen, _own_programs(lane)))


def _check(lane: Lane, name: str) -> None:
    lane.gate(name, *_stored(lane, lane.number), *_own_programs(lane))


def _check_on_the_other_board(
    lane: Lane, name: str = "cross", after: str = "save", chosen: Callable[[str], bool] = bool
) -> None:
    """Checks the other board's programs by its runs, with empty caches; a board alone has none (`elsewhere`)."""
    if lane.is_alone:
        return
    lane.wait_for(after)
    lane.forget_caches()
    lane.gate(name, *_stored(lane, lane.other), *filter(chosen, programs(lane.other)))


PLANS: dict[str, Plan] = {
    "answers": answers,
    "autotuners": autotuners,
    "baselines": baselines,
    "compilers": compilers,
    "cuda-python": cuda_python,
    "elsewhere": elsewhere,
    "faults": faults,
    "forced": forced,
    "foreign": foreign,
    "foreign-five": foreign_five,
    "identity": identity,
    "injected": injected,
    "others-scripts": others_scripts,
    "scripts": scripts,
    "study": study,
}

PROJECT = Path(__file__).resolve().parents[3]
