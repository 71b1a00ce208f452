"""`pytest-nsight run` measures benchmark scripts that know nothing of it, and gates them like tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toolchain import require_triton

Gate = Callable[..., pytest.RunResult]

TESTS = Path(__file__).parents[1]
# FlashInfer, tilelang and matplotlib as small modules; a collector without torch, whose import takes seconds.
PACKAGES = (TESTS / "fakes" / "packages", TESTS / "examples" / "clock_collector")
CLOCK = ("--nsight-collector=clock", "--nsight-no-canaries")
LOST_FUSION = """
import torch


def scale_and_add(x, y):
    return torch.clone(x * 2.0 + y)
"""


@pytest.fixture
def gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Writes `script` into bench.py, if given, and runs the command on it or on another program."""
    path = (*map(str, PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")

    def run(*options: str, script: str | None = None, command: tuple[str, ...] = ("bench.py",)) -> pytest.RunResult:
        if script is not None:
            pytester.makepyfile(bench=HEAD + script)
        nsight = (sys.executable, "-m", "pytest_nsight.cli", "run", "--nsight-rounds=10", *options)
        return pytester.run(*nsight, "--", sys.executable, *command)

    return run


HEAD = """
import os
import sys
from pathlib import Path
from tilelang.profiler.bench import do_bench

x = 16.0
passes = Path("passes.txt")
with passes.open("a") as file:
    file.write("x")
is_first = len(passes.read_text()) == 1

"""
THREE = """
def alpha():
    return do_bench(lambda: x + x)

def beta():
    return do_bench(lambda: x * x if is_first else BREAK)

def gamma():
    return do_bench(lambda: x - x)

print(alpha(), beta(), gamma())
"""


def cases_of(pytester: pytest.Pytester, path: str = "out.json") -> dict[str, dict[str, object]]:
    """Case -> what the JSON report says under "nsight"."""
    benchmarks = json.loads((pytester.path / path).read_text())["benchmarks"]
    return {one["fullname"]: one["extra_info"]["nsight"] for one in benchmarks}


def commit_all(pytester: pytest.Pytester) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "a commit")):
        assert pytester.run("git", *arguments).ret == 0


def logs(pytester: pytest.Pytester, folder: str) -> str:
    """The output of the newest session's processes below a folder."""
    newest = max((pytester.path / ".nsight").glob("2*"))
    return "".join(path.read_text() for path in newest.glob(f"{folder}/worker.log"))


@pytest.mark.long
def test_a_script_of_many_tools_is_saved_and_unchanged_and_a_lost_fusion_fails_by_name(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    require_triton()
    pytester.copy_example("scripts")
    command = ("bench_calls.py", "--size", "32")
    fused = ["with_triton", "add[first]", "add[second]", "add#2[first]", "with_flashinfer", "with_tilelang"]
    fused.append("with_tilelang#2")
    every = {f"bench_calls.py::--size 32::{name}" for name in (*fused, "with_triton#2")}

    saved = gate("--nsight-save", "--nsight-runs=1", "--nsight-json=out.json", command=command)

    assert saved.ret == 0
    saved.assert_outcomes(passed=8)
    saved.stdout.fnmatch_lines(["nsight: script python bench_calls.py --size 32", "*made 8 calls to measure; *"])
    assert set(cases_of(pytester)) == every
    (pytester.path / "conftest.py").write_text("import sys\nsys.path.insert(0, 'elsewhere')\n")
    (pytester.mkdir("elsewhere") / "operators.py").write_text("raise ImportError('the wrong one')\n")
    first_output = logs(pytester, "first-pass")
    assert "arguments ['--size', '32']" in first_output
    assert f"folder {pytester.path.name} " in first_output
    assert "with_tilelang (" in first_output
    assert "with_triton" not in logs(pytester, "run-*")

    unchanged = gate("--nsight-json=out.json", command=command)

    assert unchanged.ret == 0
    unchanged.assert_outcomes(passed=8)
    assert {case for case, one in cases_of(pytester).items() if one["verdict"] == "NO_BASELINE"} == set()

    pytester.makepyfile(operators=LOST_FUSION)
    lost = gate("--nsight-json=out.json", command=command)

    assert lost.ret == pytest.ExitCode.TESTS_FAILED
    lost.assert_outcomes(failed=7, passed=1)
    lost.stdout.fnmatch_lines_random(
        [
            "--size 32::with_flashinfer: launches gained, 1 -> 3 per round;*",
            "to accept the change, and then commit the baselines with it:",
            "pytest-nsight run --nsight-save *",
            "*-- python bench_calls.py --size 32",
        ]
    )
    structure = {case for case, one in cases_of(pytester).items() if one["verdict"] == "STRUCTURE"}
    assert structure == {f"bench_calls.py::--size 32::{name}" for name in fused}
    # Later passes end with their last case, so what comes after it happens in first passes only.
    assert (pytester.path / "results.txt").read_text() == "all printed\n" * 3


@pytest.mark.slow
def test_where_no_case_of_a_script_is_selected_no_mark_is_asked_for(gate: Gate) -> None:
    unmatched = gate(*CLOCK, "-k", "nope", script=THREE.replace("BREAK", "x"))
    deselected = gate(*CLOCK, "-k", "nope", "--deselect=bench.py::beta")

    cases = "(bench.py::alpha, bench.py::beta, bench.py::gamma); select one of them"
    for result, said in (
        (unmatched, f"none of 3 cases matches -k nope {cases}"),
        (deselected, f"all 3 cases of the script were deselected by -k nope, --deselect bench.py::beta {cases}"),
    ):
        assert f"nsight: nothing was measured: {said}" in " ".join(result.stdout.str().split())
        assert "pytest.mark.nsight" not in result.stdout.str()


@pytest.mark.long
def test_the_points_of_a_report_are_cases_and_may_be_selected(gate: Gate, pytester: pytest.Pytester) -> None:
    require_triton()
    pytester.copy_example("scripts")

    result = gate("-v", "-k", "fused", "--junitxml=junit.xml", command=("-m", "bench_report"))

    assert result.ret == 0
    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "nsight: script python -m bench_report",
            "bench_report.py::scale-and-add[[]N=32-fused[]] NO_BASELINE*",
            "bench_report.py::scale-and-add[[]N=64-fused[]] NO_BASELINE*",
        ]
    )
    assert "GB/s" in logs(pytester, "first-pass")


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("raise ValueError('no such size')", "*bench.py failed with exit code 1 in its first pass*ends with:"),
        ("sys.exit(3)", "*bench.py failed with exit code 3 in its first pass*"),
        ("os.kill(os.getpid(), 11)", "*bench.py died with SIGSEGV in its first pass*"),
        (
            "input()",
            "*in its first pass, *: if it reads its standard input, that is empty in every pass: give it a file*",
        ),
        ("list(sys.stdin)", "*called nothing that can be measured; if it reads its standard input, that is empty*"),
        ("os._exit(0)", "*bench.py left its process with exit code 0 before Python could end it*sys.exit*"),
        ("print('nothing here')", "*bench.py called nothing that can be measured: it has to call triton.testing*"),
    ],
)
def test_a_script_that_fails_or_measures_nothing_gets_a_sentence(gate: Gate, script: str, sentence: str) -> None:
    result = gate(script=script)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
    if "ValueError" in script:
        at = result.errlines.index("ValueError: no such size")
        assert result.errlines[at - 2].startswith('  File "')
        assert result.errlines[at - 1] == "    raise ValueError('no such size')"
        assert not any("pytest_nsight" in line for line in result.errlines[1:])


@pytest.mark.long
def test_tests_cannot_be_named_beside_a_script(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")

    result = gate("test_it.py", script=THREE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: run measures one script, and test_it.py stands before the --; *"])
    assert not (pytester.path / "passes.txt").exists()


@pytest.mark.long
def test_collecting_lists_the_calls_and_measures_nothing(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--collect-only", "-q", "--name", "small", script=THREE.replace("BREAK", "x"))

    assert result.ret == 0
    assert result.outlines[:3] == [f"bench.py::small::{name}" for name in ("alpha", "beta", "gamma")]
    assert (pytester.path / "passes.txt").read_text() == "x"


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("1 / 0", "*ZeroDivisionError: division by zero*"),
        ("os.kill(os.getpid(), 11)", "*the worker process died with SIGSEGV while bench.py::beta ran*"),
    ],
)
def test_a_call_that_breaks_in_a_later_pass_costs_its_own_case_only(gate: Gate, what: str, sentence: str) -> None:
    result = gate(*CLOCK, "-v", script=THREE.replace("BREAK", what))

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=1)
    summary = f"FAILED bench.py::beta - {sentence.strip('*')[:30]}*"
    result.stdout.fnmatch_lines_random(["bench.py::beta FAILED*", sentence, summary])


@pytest.mark.long
def test_a_call_that_is_interrupted_is_not_judged(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--version")
    waiting = "Path('slow').touch() or time.sleep(0.3)"
    slow = THREE.replace("x * x if is_first else BREAK", f"x * x if is_first else {waiting}")
    pytester.makepyfile(bench=f"{HEAD}import time\n{slow}")
    nsight = (sys.executable, "-m", "pytest_nsight.cli", "run", "--nsight-rounds=100", *CLOCK, "--", sys.executable)
    started = subprocess.Popen(
        (*nsight, "bench.py"), cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    give_up_s = time.monotonic() + 60
    while not (pytester.path / "slow").exists() and time.monotonic() < give_up_s:
        time.sleep(0.05)
    time.sleep(1)

    started.send_signal(signal.SIGINT)
    output, _ = started.communicate(timeout=60)

    assert started.returncode == 2, output
    assert "1 passed" in output, "alpha"
    assert "beta" not in output, "it has no end"


@pytest.mark.long
@pytest.mark.parametrize(
    ("later", "failed", "warnings", "sentence"),
    [
        ("", "gamma", 0, "*bench.py did not make this call in a later pass: a script is run several times*"),
        # What fails beside others is tried once more, and warns again.
        ("delta()", "gamma", 2, "*bench.py did not make this call in a later pass (it made others: delta)*"),
        ("raise OSError('disk full')", "gamma", 0, "OSError: disk full"),
        ("(delta(), gamma())", "", 1, "*UserWarning: bench.py made calls that its first pass did not make*: delta"),
    ],
)
def test_a_script_that_makes_other_calls_each_time_is_found_out(
    gate: Gate, later: str, failed: str, warnings: int, sentence: str
) -> None:
    script = THREE.replace("BREAK", "x").replace(", gamma())", ")") + (
        f"def delta(): return do_bench(lambda: x / 2)\nif is_first: gamma()\nelse: {later or 'pass'}\n"
    )
    result = gate(*CLOCK, "-v", script=script)

    result.assert_outcomes(passed=2 if failed else 3, failed=1 if failed else 0, warnings=warnings)
    result.stdout.fnmatch_lines_random([sentence])
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)


CATCHES = """
def fused():
    return do_bench(lambda: BREAK)

def alpha():
    return do_bench(lambda: x + x)

try:
    fused()
except ZeroDivisionError:
    print("too large for this board")
"""
RAISED = "1 call raised in the first pass and is not measured: fused: ZeroDivisionError: division by zero"


@pytest.mark.long
def test_a_call_whose_error_the_script_catches_is_no_case_and_no_warning_and_is_named(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    result = gate(*CLOCK, "-v", "--nsight-markdown=report.md", script=CATCHES.replace("BREAK", "1 / 0") + "alpha()")

    assert result.ret == 0
    result.assert_outcomes(passed=1, warnings=0)
    assert "did not make" not in result.stdout.str()
    assert " ".join(result.stdout.str().split()).count(RAISED) == 1
    assert RAISED in pytester.path.joinpath("report.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_stored_call_that_raises_fails_a_strict_session_and_is_not_to_be_removed(gate: Gate) -> None:
    fine, broken = (CATCHES.replace("BREAK", what) + "alpha()" for what in ("x * x", "1 / 0"))
    assert gate(*CLOCK, "--nsight-save", "--nsight-runs=1", script=fine).ret == 0

    result = gate(*CLOCK, "--nsight-runs=1", "--nsight-strict", script=broken)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(result.stdout.str().split())
    assert f"FAILED --nsight-strict: {RAISED}" in text
    assert (
        "nothing checks 1 stored case, because its call raised in the first pass: bench.py::fused; correct the "
        "script so that it can measure it again" in text
    )
    assert "prune" not in text


@pytest.mark.long
def test_a_script_all_of_whose_calls_raise_says_why_nothing_is_measured(gate: Gate) -> None:
    result = gate(*CLOCK, script=CATCHES.replace("BREAK", "1 / 0"))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: bench.py called nothing that can be measured; {RAISED}: it has to call*"])


LEAVES = """
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor

def alpha():
    return do_bench(lambda: x + x)

"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("t = threading.Thread(target=stop.wait); t.start()", "t.join()"),
        ("t = fork.Process(target=stop.wait); t.start()", "t.join()"),
        ("t = ProcessPoolExecutor(1, fork); t.submit(abs, 1).result()", "t.shutdown()"),
    ],
    ids=["thread", "process", "pool"],
)
def test_what_the_rest_of_a_script_would_end_does_not_hold_up_a_later_pass(
    gate: Gate, begin: str, end: str
) -> None:
    # The first pass comes to the script's own end.
    script = f"""{LEAVES}
fork = multiprocessing.get_context("fork")
stop = fork.Event()
{begin}
alpha()
stop.set()
{end}
"""
    began_s = time.monotonic()
    result = gate(*CLOCK, "-v", "--nsight-runs=1", "--nsight-timeout=30s", script=script)

    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    assert time.monotonic() - began_s < 25


@pytest.mark.long
def test_a_script_decides_by_the_same_numbers_in_every_pass(gate: Gate, pytester: pytest.Pytester) -> None:
    script = """
def alpha():
    return do_bench(lambda: x + x)

value = alpha()
with open("values.txt", "a") as file:
    file.write(f"{value!r}\\n")
print(do_bench(lambda: x * x))
"""
    result = gate(*CLOCK, "--nsight-runs=2", script=script)

    result.assert_outcomes(passed=2)
    values = (pytester.path / "values.txt").read_text().splitlines()
    assert len(values) == 3
    assert len(set(values)) == 1


@pytest.mark.long
def test_a_recorded_session_is_judged_again_and_a_call_that_is_gone_is_named(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    script = THREE.replace("BREAK", "x")
    gate(*CLOCK, "--nsight-save", "--nsight-runs=1", "--name=other", script=script)
    assert gate(*CLOCK, "--nsight-save", "--nsight-runs=1", "--nsight-keep").ret == 0
    (recorded, *_) = sorted((pytester.path / ".nsight").glob("2*"))[-1:]
    passes = (pytester.path / "passes.txt").read_text()

    replayed = gate(f"--nsight-replay=.nsight/{recorded.name}", "-v")

    assert replayed.ret == 0
    replayed.assert_outcomes(passed=3)
    assert (pytester.path / "passes.txt").read_text() == passes

    gone = gate(*CLOCK, script=script.replace(", gamma())", ")"))

    assert gone.ret == 0
    text = " ".join(" ".join(gone.outlines).split())
    remedy = "pytest-nsight baselines prune --delete bench.py::gamma"
    assert (
        "1 stored case has no test any more, so nothing checks it: bench.py::gamma; if that is intended, remove it "
        f"with: {remedy}" in text
    )
    pruned = pytester.run(sys.executable, "-m", "pytest_nsight.cli", *remedy.split()[1:])
    assert pruned.ret == 0
    pruned.stdout.fnmatch_lines(["  bench.py::gamma", "removed from *"])


@pytest.mark.long
def test_two_trees_are_compared_by_the_same_script(gate: Gate, pytester: pytest.Pytester) -> None:
    script = """
import torch
from operators import scale_and_add
x = torch.ones(16, 16)
print(do_bench(lambda: scale_and_add(x, x)), do_bench(lambda: x - x))
"""
    pytester.copy_example("scripts")
    pytester.makepyfile(bench=HEAD + script)
    commit_all(pytester)
    pytester.makepyfile(operators=LOST_FUSION)

    result = gate("--nsight-against=HEAD", "-v")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["bench.py::module STRUCTURE*"])
    result.assert_outcomes(failed=1, passed=1)


@pytest.mark.long
def test_a_script_that_fails_in_the_revision_says_why_nothing_is_compared(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.copy_example("scripts")
    pytester.makepyfile(bench=f"{HEAD}raise RuntimeError('boom')\n")
    commit_all(pytester)
    pytester.makepyfile(bench=f"{HEAD}import torch\nx = torch.ones(16, 16)\ndo_bench(lambda: x - x)\n")

    result = gate("--nsight-against=HEAD", "-v")

    said = " ".join(result.stdout.str().split())
    assert "NO_BASELINE" in said
    assert "RuntimeError: boom" in said


FORKS = """
import torch
x = torch.ones(64, 64)
def alpha(): do_bench(lambda: x + x)
def beta(): do_bench(lambda: x * x)
alpha()
if os.fork() == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]), file=open("codes", "a"))
beta()
"""


@pytest.mark.long
def test_a_copy_that_a_script_forks_ends_with_its_code_and_does_not_hang(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    result = gate("--nsight-runs=1", "--nsight-save", "-v", script=HEAD + FORKS)

    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    assert set((pytester.path / "codes").read_text().split()) == {"3"}


@pytest.mark.long
def test_pytest_behind_the_dashes_measures_the_tests_of_pytest_benchmark(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(
        test_it="import torch\n\ndef test_it(benchmark):\n    benchmark(torch.ones, 3)\n\ndef test_other(): pass\n"
    )

    result = gate("-v", command=("-m", "pytest", "-k", "test_it and not other"))

    assert result.ret == 0
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["test_it.py::test_it NO_BASELINE*"])


@pytest.mark.parametrize("options", [(), ("-q",)], ids=["loud", "quiet"])
def test_calls_on_other_threads_are_named_in_the_reports(
    gate: Gate, pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    script = """
import threading

def alpha():
    return do_bench(lambda: x + x)

other = threading.Thread(target=alpha)
other.start()
other.join()
alpha()
"""
    result = gate(*CLOCK, "--nsight-runs=1", "--nsight-markdown=report.md", *options, script=script)

    sentence = "calls on other threads than the script's first one are not measured"
    assert result.ret == pytest.ExitCode.OK
    assert " ".join(result.stdout.str().split()).count(sentence) == 1
    assert sentence in pytester.path.joinpath("report.md").read_text(encoding="utf-8")
    if not options:
        strict = gate(*CLOCK, "--nsight-runs=1", "--nsight-save", "--nsight-strict", script=script)
        assert strict.ret == pytest.ExitCode.TESTS_FAILED
        assert f"FAILED --nsight-strict: {sentence}" in " ".join(strict.stdout.str().split())


@pytest.mark.parametrize(
    ("late", "sentence"),
    [
        (
            "import atexit; atexit.register(alpha)",
            "calls of exit handlers, after the script's last line, are not measured",
        ),
        (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.5), alpha())).start()",
            "calls on other threads than the script's first one are not measured",
        ),
    ],
    ids=["exit handler", "thread"],
)
def test_calls_after_the_last_line_are_named(gate: Gate, late: str, sentence: str) -> None:
    script = f"def alpha(): return do_bench(lambda: x + x)\nalpha()\n{late}\n"

    result = gate(*CLOCK, "--nsight-runs=1", "--nsight-save", "--nsight-strict", script=script)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"FAILED --nsight-strict: {sentence}" in " ".join(result.stdout.str().split())


def test_a_call_in_front_of_others_of_its_name_is_named_as_the_likely_cause(gate: Gate) -> None:
    two = "do_bench(lambda: x + x)\ndo_bench(lambda: x - x)\n"
    assert gate(*CLOCK, "--nsight-runs=1", "--nsight-save", script=two).ret == pytest.ExitCode.OK
    note = "calls of one name are numbered in their order"

    unchanged = gate(*CLOCK, "--nsight-runs=1", script=two)
    added = gate(*CLOCK, "--nsight-runs=1", script="do_bench(lambda: x * x)\n" + two)

    assert note not in " ".join(unchanged.stdout.str().split())
    assert f"{note}, so" in " ".join(added.stdout.str().split())
    assert "bench.py::module (3 calls, 2 stored)" in " ".join(added.stdout.str().split())


def test_a_call_that_could_not_be_saved_has_its_number_all_the_same(gate: Gate) -> None:
    script = "import torch\nt = torch.ones(64)\ndo_bench(lambda: t + t)\ndo_bench(lambda: None)\n"
    saved = gate("--nsight-collector=torch", "--nsight-runs=1", "--nsight-save", script=script)
    assert "not saved: bench.py::module#2" in " ".join(saved.stdout.str().split())

    checked = gate("--nsight-collector=torch", "--nsight-runs=1", script=script)

    assert "calls of one name are numbered" not in " ".join(checked.stdout.str().split())


def test_a_set_has_the_same_order_in_each_process(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    names = " ".join("abcdefgh")
    script = f"""
for name in set("{names}".split()):
    with open("order", "a") as file:
        file.write(name)
    do_bench(lambda: x + x)
"""
    gate(*CLOCK, "--nsight-runs=2", "--nsight-save", script=script)

    # Of the first pass and two runs.
    order = (pytester.path / "order").read_text()
    assert sorted(order[:8]) == names.split()
    assert order == 3 * order[:8]


def test_a_conftest_that_ends_pytest_is_no_pass(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\nsys.exit(0)")

    result = gate(*CLOCK, script="do_bench(lambda: x + x)")

    assert result.ret != pytest.ExitCode.OK
    result.stderr.fnmatch_lines(["*SystemExit(0) before it was done, so nothing was judged*"])
