"""What runs on the boards: steps, each a function of a lane, and plans, which are lists of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.gpu.release.lane import Lane
from tests.gpu.release.queue import Step

_PARTS = 4
_CHECK_S = 120
_WITHOUT_TORCH = "tests/gpu/test_without_torch.py"
_OTHERS_SCRIPTS = "tests/gpu/foreign/test_benchmark_scripts.py"
_LONGEST_SCRIPTS = "flash-linear-attention"
_TUNED_BY_COMPILERS = "compiler_chose or xla"
_CHANGES = {
    "softmax": (
        "tl.exp(x - tl.max(x, axis=1)[:, None])",
        "tl.exp2(1.4426950408889634 * (x - tl.max(x, axis=1)[:, None]))",
    ),
    # A training step of perf_tests/ uses it, too.
    "rotary": ("(a * cos - b * sin).to", "(a * cos - b * sin * 1.0000001).to"),
}
"""Kernel -> a piece of its code, and what launches the same with other machine code."""


def _tests(
    name: str, file: str, chosen: str = "", packages: str = "", options: Sequence[str] = ()
) -> Callable[[Lane], None]:
    """Runs tests of a file, those of an expression of `-k`."""
    expression = ["-k", chosen] if chosen else []
    return lambda lane: lane.pytest(name, file, *expression, *options, packages=packages)


def _mutations(lane: Lane) -> None:
    """Changes of many kinds, all seen, and others that launch the same."""
    lane.run("mutations", "-m", "benchmarks.cupti.identify")


def _untouched(lane: Lane) -> None:
    """Two trees that are the same, with empty caches."""
    lane.forget_caches()
    lane.gate("untouched", "--nsight-against=HEAD", "perf_tests")


def _changed(kernel: str, lane: Lane) -> None:
    """Two trees, one kernel's code changed, with empty caches."""
    code, other = _CHANGES[kernel]
    lane.forget_caches()
    file = lane.tree / f"kernels/{kernel}.py"
    before = file.read_text()
    assert before.count(code) == 1
    file.write_text(before.replace(code, other))
    try:
        lane.gate(f"changed-{kernel}", "--nsight-against=HEAD", "perf_tests")
    finally:
        file.write_text(before)


def _new_board(lane: Lane) -> None:
    """The project's baselines are of other boards."""
    lane.forget_caches()
    lane.gate("new-board", "perf_tests")


def _programs(part: int) -> list[str]:
    """Node ids of every fourth foreign program."""
    from tests.gpu.foreign.programs import PROGRAMS  # noqa: PLC0415 - imports torch

    return [f"tests/gpu/foreign/test_foreign.py::test_program[{name}]" for name in list(PROGRAMS)[part::_PARTS]]


def _stored(lane: Lane, part: int) -> str:
    return f"--nsight-baselines={lane.results / f'baselines-{part}'}"


def _foreign(part: int, lane: Lane) -> None:
    """Foreign programs: five runs, five checks, and one with 2 % more work in half of them, while there is time."""
    stored, own = _stored(lane, part), _programs(part)
    lane.gate(f"save-{part}", "--nsight-save", "--nsight-runs=5", stored, *own)
    times = str(lane.results / f"save-{part}-{lane.number}.json")
    for number in range(1, 6):
        if lane.left_s > _CHECK_S:
            lane.gate(f"check-{number}-{part}", stored, *own)
        if number == 1 and lane.left_s > 2 * _CHECK_S:
            lane.gate(f"more-{part}", stored, *own, FOREIGN_MORE_WORK="2%", FOREIGN_TIMES=times)


def _foreign_once(part: int, lane: Lane) -> None:
    """Foreign programs: one run and one check, which identities alone can settle."""
    lane.gate(f"save-{part}", "--nsight-save", "--nsight-runs=1", _stored(lane, part), *_programs(part))
    lane.gate(f"check-{part}", _stored(lane, part), *_programs(part))


def _cross(part: int, lane: Lane) -> None:
    """Foreign programs checked by what another board of the machine has stored, with empty caches."""
    lane.forget_caches()
    lane.gate(f"cross-{part}", _stored(lane, part), *_programs(part))


def _elsewhere(part: int, lane: Lane) -> None:
    """Foreign programs checked by what a board of another machine has stored: the results of RELEASE_BASELINES."""
    stored = Path(os.environ["RELEASE_BASELINES"], f"baselines-{part}")
    lane.gate(f"elsewhere-{part}", f"--nsight-baselines={stored}", *_programs(part))


def _compiled() -> list[str]:
    every = [node for part in range(_PARTS) for node in _programs(part)]
    return [node for node in every if "max-autotune" in node or "[jax-" in node]


def _save_compiled(lane: Lane) -> None:
    """Foreign programs whose compiler chooses kernels."""
    stored = f"--nsight-baselines={lane.results / 'baselines-compiled'}"
    lane.gate("save-compiled", "--nsight-save", "--nsight-runs=3", stored, *_compiled())


def _cross_compiled(lane: Lane) -> None:
    """The same on another board, with empty caches."""
    lane.forget_caches()
    lane.gate("cross-compiled", f"--nsight-baselines={lane.results / 'baselines-compiled'}", *_compiled())


def _perf_save(lane: Lane) -> None:
    """Runs of every board in one folder, for the repository."""
    lane.gate("perf-save", "--nsight-save", f"--nsight-baselines={lane.results / 'perf-baselines'}", "perf_tests")


def _perf_check(lane: Lane) -> None:
    """Each board judges itself by what all of them have stored."""
    stored = f"--nsight-baselines={lane.results / 'perf-baselines'}"
    lane.gate("perf-check", stored, "--nsight-no-identity", "perf_tests")


def _study(name: str, *arguments: str) -> Callable[[Lane], None]:
    """A pool of the validation study."""

    def collect(lane: Lane) -> None:
        folder = lane.results / f"study-{name}-{lane.number}"
        lane.run(f"study-{name}", "-m", "benchmarks.validate.collect", str(folder), *arguments)

    return collect


def _forced(lane: Lane) -> None:
    """Checks of unchanged code, while there is time; in each three random cases go through all looks."""
    minutes = min(int(lane.left_s / 60 - 0.5), 22)
    _study("forced", "--minutes", str(minutes), "--live", "9", "--forced")(lane)


STEPS = {
    # Its bar is the closest.
    "changed-rotary": Step(partial(_changed, "rotary"), 110, is_quiet=True),
    "untouched": Step(_untouched, 55),
    "new-board": Step(_new_board, 60),
    "changed-softmax": Step(partial(_changed, "softmax"), 90),
    "mutations": Step(_mutations, 40),
    "trials": Step(lambda lane: lane.run("trials", "-m", "benchmarks.cupti.trials"), 60),
    "one-name": Step(_tests("one-name", "tests/gpu/test_identity.py", "one_name or tuner_ran"), 60),
    "bisect-structure": Step(_tests("bisect-structure", "tests/gpu/test_bisect.py", "not percent"), 310),
    "bisect-time": Step(_tests("bisect-time", "tests/gpu/test_bisect.py", "percent"), 570),
    "drill": Step(_tests("drill", "tests/gpu/test_drill.py"), 120),
    "bottlenecks": Step(_tests("bottlenecks", "tests/gpu/test_bottlenecks.py"), 120),
    "autotuners": Step(_tests("autotuners", "tests/gpu/test_autotuners.py", f"not ({_TUNED_BY_COMPILERS})"), 200),
    "compilers-choices": Step(
        _tests("compilers-choices", "tests/gpu/test_autotuners.py", _TUNED_BY_COMPILERS), 200
    ),
    # Tests that spoil their process or the device, each among twenty sound ones.
    "faults": Step(_tests("faults", "tests/gpu/test_faults.py", options=("-n", "6")), 100),
    "without-torch": Step(_tests("without-torch", _WITHOUT_TORCH, "cupy or jax"), 150),
    "numba": Step(_tests("numba", _WITHOUT_TORCH, "numba", "cuda-python"), 120),
    "cuda-core": Step(_tests("cuda-core", _WITHOUT_TORCH, "cuda_core", "cuda-python"), 120),
    "own-scripts": Step(_tests("own-scripts", "tests/gpu/test_scripts_on_gpu.py"), 120),
    "others-scripts": Step(
        _tests("others-scripts", _OTHERS_SCRIPTS, f"not {_LONGEST_SCRIPTS}", "others-scripts"), 200
    ),
    "others-scripts-longest": Step(
        _tests("others-scripts-longest", _OTHERS_SCRIPTS, _LONGEST_SCRIPTS, "others-scripts"), 200
    ),
    **{f"foreign-{part}": Step(partial(_foreign, part), 330) for part in range(_PARTS)},
    **{f"foreign-once-{part}": Step(partial(_foreign_once, part), 130) for part in range(_PARTS)},
    **{
        f"cross-{part}": Step(partial(_cross, part), 150, after=f"foreign-{part}", is_elsewhere=True)
        for part in range(_PARTS)
    },
    **{f"elsewhere-{part}": Step(partial(_elsewhere, part), 150) for part in range(_PARTS)},
    "save-compiled": Step(_save_compiled, 200),
    "cross-compiled": Step(_cross_compiled, 200, after="save-compiled", is_elsewhere=True),
    "perf-save": Step(_perf_save, 420, on_each=True),
    "perf-check": Step(_perf_check, 200, on_each=True, after="perf-save"),
    # Eight confirming runs of each of 25 cases, three in each process.
    "study-sound": Step(
        _study("sound", "--minutes", "11", "--sound", "8", "--sessions", "1", "--confirming", "72"),
        670,
        on_each=True,
    ),
    "study-stored": Step(
        _study("stored", "--minutes", "2", "--sound", "8", "--sessions", "1"),
        130,
        on_each=True,
        after="study-sound",
    ),
    "study-inject": Step(_study("inject", "--minutes", "7", "--inject", "54"), 430, on_each=True),
    "forced": Step(_forced, 240, on_each=True),
}

PLANS = {
    "identity": [
        *("changed-rotary", "untouched", "new-board", "changed-softmax", "mutations", "trials", "one-name"),
        *("bisect-time", "bisect-structure"),
    ],
    "answers": ["drill", "bottlenecks"],
    "tuners": ["autotuners", "compilers-choices"],
    "compilers": ["save-compiled", "cross-compiled"],
    "isolation": ["faults", "without-torch"],
    "cuda-python": ["numba", "cuda-core"],
    "foreign": [f"foreign-{part}" for part in range(_PARTS)],
    "foreign-once": [f"foreign-once-{part}" for part in range(_PARTS)],
    "cross": [f"cross-{part}" for part in range(_PARTS)],
    "elsewhere": [f"elsewhere-{part}" for part in range(_PARTS)],
    "scripts": ["own-scripts", "others-scripts", "others-scripts-longest"],
    "baselines": ["perf-save", "perf-check"],
    "study": ["study-sound", "study-stored"],
}
"""Name -> steps that belong together; a step's own name is a plan, too."""
