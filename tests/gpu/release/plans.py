"""What runs on the boards: a plan is a function of a lane, and both lanes of a pair run the same one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.gpu.foreign.programs import PROGRAMS
from tests.gpu.release.lane import Lane

Plan = Callable[[Lane], None]

_WITHOUT_TORCH = "tests/gpu/test_without_torch.py"
_OTHERS_SCRIPTS = "tests/gpu/foreign/test_benchmark_scripts.py"
_SOFTMAX = "tl.exp(x - tl.max(x, axis=1)[:, None])"
_OTHER_SOFTMAX = "tl.exp2(1.4426950408889634 * (x - tl.max(x, axis=1)[:, None]))"


def programs(board: int) -> list[str]:
    """Node ids of every second foreign program, for a board's number."""
    return [f"tests/gpu/foreign/test_foreign.py::test_program[{name}]" for name in list(PROGRAMS)[board % 2 :: 2]]


def identity(lane: Lane) -> None:
    """What is unchanged is IDENTICAL, what is changed is seen: mutations, two trees, a changed kernel, bisect."""
    if not lane.is_second:
        lane.run("mutations", "-m", "benchmarks.cupti.identify")
        lane.gate("untouched", "--nsight-against=HEAD", "perf_tests")
        softmax = lane.tree / "kernels/softmax.py"
        before = softmax.read_text()
        assert before.count(_SOFTMAX) == 1
        softmax.write_text(before.replace(_SOFTMAX, _OTHER_SOFTMAX))
        lane.gate("touched", "--nsight-against=HEAD", "perf_tests")
        softmax.write_text(before)
    else:
        lane.pytest("one-name", "tests/gpu/test_identity.py", "-k", "one_name")
    # The project's baselines are of other boards.
    lane.gate("new-board", "perf_tests")
    lane.pytest("bisect", "tests/gpu/test_bisect.py", "-k", "percent" if lane.is_second else "not percent")


def answers(lane: Lane) -> None:
    """Bottleneck classes, and what Nsight Compute says of a regression."""
    lane.pytest("answers", "tests/gpu/test_bottlenecks.py" if lane.is_second else "tests/gpu/test_drill.py")


def compilers(lane: Lane) -> None:
    """Foreign programs whose compiler chooses kernels: saved, and checked on the other board with empty caches."""
    own, others = (
        [one for one in programs(number) if "max-autotune" in one or "[jax-" in one]
        for number in (lane.number, lane.other)
    )
    lane.gate("save-compiled", "--nsight-save", "--nsight-runs=3", *_stored(lane, lane.number), *own)
    lane.wait_for("save-compiled")
    lane.forget_caches()
    lane.gate("cross-compiled", *_stored(lane, lane.other), *others)


def autotuners(lane: Lane) -> None:
    """What autotuners and compilers choose anew."""
    chosen_by_compilers = "compiler_chose or xla"
    chosen = chosen_by_compilers if lane.is_second else f"not ({chosen_by_compilers})"
    lane.pytest("autotuners", "tests/gpu/test_autotuners.py", "-k", chosen)


def faults(lane: Lane) -> None:
    """Tests that spoil their process or the device, each among twenty sound ones; CuPy and JAX without torch."""
    if not lane.is_second:
        lane.pytest("faults", "tests/gpu/test_faults.py", "-n", "6")
    else:
        lane.pytest("without-torch", _WITHOUT_TORCH, "-k", "cupy or jax")


def cuda_python(lane: Lane) -> None:
    """Numba and cuda.core without torch."""
    chosen = "cuda_core" if lane.is_second else "numba"
    lane.pytest("cuda-python", _WITHOUT_TORCH, "-k", chosen, packages="cuda-python")


def foreign(lane: Lane) -> None:
    """Half of the foreign programs: saved, checked, checked on the other board with empty caches."""
    _save(lane, runs=3)
    _check(lane, "check")
    _check_on_the_other_board(lane)


def foreign_five(lane: Lane) -> None:
    """Half of the foreign programs: five runs, five checks, and one with 2 % more work in half of them."""
    _save(lane, runs=5)
    _check(lane, "check-1")
    more = {"FOREIGN_MORE_WORK": "2%", "FOREIGN_TIMES": str(lane.results / f"save-{lane.number}.json")}
    lane.gate("more", *_stored(lane, lane.number), *programs(lane.number), **more)
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
    chosen = "flash-linear-attention" if lane.is_second else "not flash-linear-attention"
    lane.pytest("others-scripts", _OTHERS_SCRIPTS, "-k", chosen, packages="others-scripts")


def _stored(lane: Lane, of: int) -> list[str]:
    return [f"--nsight-baselines={lane.results / f'baselines-{of}'}"]


def _save(lane: Lane, runs: int) -> None:
    options = ["--nsight-save", f"--nsight-runs={runs}", *_stored(lane, lane.number)]
    lane.gate("save", *options, *programs(lane.number))


def _check(lane: Lane, name: str) -> None:
    lane.gate(name, *_stored(lane, lane.number), *programs(lane.number))


def _check_on_the_other_board(lane: Lane) -> None:
    lane.wait_for("save")
    lane.forget_caches()
    lane.gate("cross", *_stored(lane, lane.other), *programs(lane.other))


PLANS: dict[str, Plan] = {
    "answers": answers,
    "autotuners": autotuners,
    "baselines": baselines,
    "compilers": compilers,
    "cuda-python": cuda_python,
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
