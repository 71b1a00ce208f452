"""Whole sessions in which launches are identified first: CUPTI and the driver are a library of tests/fakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.baselines.store import model_slug
from pytest_nsight.model.identity import READING
from pytest_nsight.processes.machine import measured_product
from pytest_nsight.worker.nvrtc import compile_source
from tests.protocol.test_fixed_memory import is_allowed
from tests.toolchain import require_gcc, require_nvrtc

pytestmark = pytest.mark.slow
long = pytest.mark.long

SOURCE = Path(__file__).parents[1] / "fakes/launching_gpu.c"

SCALE = """
extern "C" __global__ void scale(float* x, const float* y, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = y[threadIdx.x] * 2.0f;
}
"""

CONFTEST = """
import os
import clock_collector
import pytest_nsight.controller.workers.identity_shares
import pytest_nsight.controller.session_plan

if os.environ.get("SHARES"):
    pytest_nsight.controller.workers.identity_shares._CPUS_PER_PROCESS = 1
    pytest_nsight.controller.workers.identity_shares._CASES_PER_PROCESS = 4
    os.sched_getaffinity = lambda process: {0, 1}
if os.environ.get("EIGHT_CPUS"):
    os.sched_getaffinity = lambda process: set(range(8))

if os.environ.get("SLOW_IMPORT"):
    import pytest_nsight.worker.late_imports
    pytest_nsight.worker.late_imports.SLOW_IMPORTS = (os.environ["SLOW_IMPORT"],)

if os.environ.get("CROWDED"):
    from pytest_nsight.worker.device import CpuDevice
    CpuDevice.count_memory_retries = lambda self: int(os.path.exists(f"retried-{os.getpid()}"))

# As if there were a GPU, whose kernels the clock collector times.
pytest_nsight.controller.session_plan.gpu_names = lambda: ("fake",)
clock_collector.ClockCollector.times_cpu = False

"""

CASES = """
import ctypes, gc, os
import pytest

gpu = ctypes.CDLL(os.environ["CUPTI_LIBRARY"])
X, Y = ctypes.c_uint64(0x7F0000010000), ctypes.c_uint64(0x7F0000011000)
SPOILED = os.environ.get("SPOILED", "")
images = [open(name, "rb").read() for name in ("one.cubin", "other.cubin")]
gpu.fake_load(ctypes.c_uint64(1), images[SPOILED == "code"])
with open("personalities", "a") as file, open("/proc/self/personality") as own:
    file.write(own.read())
with open("allocators", "a") as file:
    print(os.environ.get("PYTORCH_CUDA_ALLOC_CONF"), file=file)

def launch(n=100, grid=4):
    gpu.fake_launch(ctypes.c_uint64(1), grid, X, Y, n)

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(5))
def test_same(nsight, n):
    nsight(launch, n)

@pytest.mark.nsight
def test_touched(nsight):
    with open("frozen", "a") as file:
        print(os.environ.get("PYTORCH_CUDA_ALLOC_CONF"), gc.get_freeze_count() > 5000, file=file)
    nsight(launch, 101 if SPOILED == "argument" else 100)

@pytest.mark.nsight(metric="wall")
def test_wall(nsight):
    nsight(launch)

@pytest.mark.nsight
def test_dying(nsight):
    if os.environ.get("POISON"):
        os._exit(3)
    if os.environ.get("FULL") and not os.path.exists("full"):
        open("full", "w").close()
        raise RuntimeError("CUDA out of memory")
    nsight(launch, 7)

@pytest.mark.nsight
def test_counting(nsight):
    numbers = iter(range(10_000))
    nsight(lambda: launch(next(numbers)))

@pytest.mark.nsight
def test_random(nsight):
    nsight(lambda: launch(int.from_bytes(os.urandom(3), "little")))

@pytest.mark.nsight
def test_changing(nsight):
    grids = iter(range(1, 10_000))
    nsight(lambda: launch(grid=next(grids)))
"""

WAITING_CASES = """
import time

EVENTS = os.environ["EVENTS"]

def imports():
    with open(EVENTS) as file:
        return file.read().split().count("timed")

is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"
with open(EVENTS, "a") as file:
    print("pass" if is_pass else "timed", file=file)

@pytest.mark.nsight
def test_waiting(nsight):
    nsight(launch)
    # The first one is the controller.
    deadline = time.monotonic() + 20
    while is_pass and imports() < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_pass:
        with open(EVENTS, "a") as file:
            print("end-after", imports(), file=file)
"""

SLOW_MODULE = """
import os
with open(os.environ["SLOW_IMPORTS"], "a") as file:
    print("pass" if os.environ.get("PYTORCH_CUDA_ALLOC_CONF") else "timed", file=file)
"""

SLOW_CASE = """
import sys, time
import slow_package

@pytest.mark.nsight
def test_slow_import(nsight):
    process = "pass" if os.environ.get("PYTORCH_CUDA_ALLOC_CONF") else "timed"
    with open(os.environ["SLOW_CASES"], "a") as file:
        print(f"{process}:", "imported" if "slow_package.slow_module" in sys.modules else "not imported", file=file)
    import slow_package.slow_module
    nsight(launch)
    deadline = time.monotonic() + 5
    while process == "timed" and os.environ.get("SIX_PROCESSES") and time.monotonic() < deadline:
        imports, cases = (open(os.environ[name]).read() for name in ("SLOW_IMPORTS", "SLOW_CASES"))
        # The two that get ready beside this one.
        if imports.count("timed") >= min(cases.count("timed") + 2, 6):
            break
        time.sleep(0.05)

@pytest.mark.nsight
def test_waiting(nsight):
    nsight(launch)
    deadline = time.monotonic() + 20
    while os.environ.get("PYTORCH_CUDA_ALLOC_CONF") and time.monotonic() < deadline:
        if open(os.environ["SLOW_IMPORTS"]).read().split().count("timed") == 2:
            break
        time.sleep(0.05)
"""

ORDERED_CASES = """
import time

ORDER = os.environ["ORDER"]
is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"

def others():
    with open(ORDER) as file:
        lines = [line.split() for line in file]
    return sum(folder == os.getcwd() and pid != str(os.getpid()) for folder, pid, _ in lines)

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(12))
def test_ordered(nsight, n):
    if is_pass:
        with open(ORDER, "a") as file:
            print(os.getcwd(), os.getpid(), n, file=file)
    deadline = time.monotonic() + 20
    while is_pass and n == 0 and others() < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    nsight(launch, n)
"""

MOVED_CASES = """
MOVES = os.environ["MOVES"]
is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(2))
def test_moving(nsight, n):
    passes = 0
    if is_pass:
        with open(f"{MOVES}-{n}", "a") as file:
            print(n, file=file, flush=True)
            passes = file.seek(0, os.SEEK_CUR) // 2
    # The first process of the pass has other memory; of n = 1 each one has.
    moved = ctypes.c_uint64(0x7F0000011000 + (16 << passes if n else 16 * (passes == 1)))
    nsight(lambda: gpu.fake_launch(ctypes.c_uint64(1), 4, X, moved, 100))
"""

BEHIND_CASES = """
SHIFTED = False
ran = []

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(2))
def test_behind(nsight, n):
    place = ctypes.c_uint64(0x7F0000011000 + (16 if ran and SHIFTED else 0))
    ran.append(n)
    nsight(lambda: gpu.fake_launch(ctypes.c_uint64(1), 4, X, place, 100))
"""

CROWDED_CASES = """
is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"

@pytest.mark.nsight
def test_crowded(nsight):
    if is_pass:
        with open("crowded", "a") as file:
            print("pass", file=file)
        open(f"retried-{os.getpid()}", "w").close()
    nsight(launch, 8)
"""

FILLING_CASES = """
import time

EVENTS = os.environ["EVENTS"]
is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False" and "FULL" in os.environ

def note(event):
    if is_pass:
        with open(EVENTS, "a") as file:
            print(event, file=file)

def wait_for(event, number):
    deadline = time.monotonic() + 20
    while is_pass and time.monotonic() < deadline:
        with open(EVENTS) as file:
            if file.read().splitlines().count(event) >= number:
                return
        time.sleep(0.05)
    note(f"waited in vain for {number} {event}")

note("import")

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(8))
def test_filling(nsight, n):
    # One process takes 0, 3, 4 and 7, the other one 1, 2, 5 and 6.
    note(f"case {n}")
    if n == 0:
        wait_for("import", 4)
    if n == 2 and is_pass and open(EVENTS).read().count("case 2") == 1:
        raise RuntimeError("CUDA out of memory")
    if n in (2, 5):
        wait_for("case 2", 2)
        wait_for("case 5", 1)
    nsight(launch, n)
"""

EARLY_CASES = """
import time

EVENTS = os.environ["EVENTS"]
is_pass = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == "expandable_segments:False"

def events():
    with open(EVENTS, "a+") as file:
        file.seek(0)
        return file.read().split()

def note(event):
    with open(EVENTS, "a") as file:
        print(event, file=file)

if is_pass:
    note("pass")
elif "collected" not in events():
    # The user's pytest, whose collection takes until processes of the pass are there.
    deadline = time.monotonic() + 20
    while events().count("pass") < int(os.environ["EARLY"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    note("collected")
    if os.environ.get("BROKEN"):
        raise ImportError("broken")
"""

SHARED_CASES = """
@pytest.fixture(scope="module")
def server():
    yield
    raise RuntimeError("server leaked 3 buffers")

@pytest.mark.nsight
def test_a_server(nsight, server):
    nsight(launch)

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(3))
def test_beside(nsight, n):
    nsight(launch, n)
"""

PART_CASES = """
@pytest.mark.nsight
def test_step(nsight):
    def step():
        with nsight.range("forward"):
            launch(101 if SPOILED == "argument" else 100)
        with nsight.range("optimizer"):
            launch(7)
    nsight(step)
"""

Gate = Callable[..., "Session"]


class Session:
    """What a session came to."""

    def __init__(self, ran: pytest.RunResult, written: Path) -> None:
        self.said = ran.stdout.str() + ran.stderr.str()
        self.code = ran.ret
        content: dict[str, Any] = json.loads(written.read_text())
        self.notes = "\n".join(content["nsight"]["notes"])
        found = [benchmark["extra_info"]["nsight"] for benchmark in content["benchmarks"]]
        found += content["nsight"]["unmeasured"]
        names = ["/".join(filter(None, (one["case"].partition("::")[2], one["part"]))) for one in found]
        self.verdicts = {name: one["verdict"] for name, one in zip(names, found, strict=True)}
        self.sentences = {name: one["sentence"] for name, one in zip(names, found, strict=True)}

    @property
    def identical(self) -> set[str]:
        return {case for case, verdict in self.verdicts.items() if verdict == "IDENTICAL"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    path = folder / "libcuda.so.1"
    subprocess.run(
        [require_gcc(), "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True, capture_output=True
    )
    return path


@pytest.fixture(scope="module")
def cubins() -> list[bytes]:
    nvrtc = require_nvrtc()
    sources = (SCALE, SCALE.replace("2.0f", "2.0f + sinf(y[0])"))
    return [compile_source(nvrtc, source, (9, 0), ()).image for source in sources]


@pytest.fixture
def gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, library: Path, cubins: list[bytes]) -> Gate:
    folder = pytester.copy_example("clock_collector")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent), prepend=os.pathsep)
    monkeypatch.setenv("CUPTI_LIBRARY", str(library))
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_case=CASES)
    for name, image in zip(("one", "other"), cubins, strict=True):
        (pytester.path / f"{name}.cubin").write_bytes(image)

    def run(*arguments: str, spoiled: str = "") -> Session:
        monkeypatch.setenv("SPOILED", spoiled)
        written = pytester.path / "out.json"
        options = ("--nsight", "--nsight-collector=clock", "--nsight-rounds=10", "--nsight-json=out.json", "-v")
        ran = pytester.runpytest_subprocess(*options, *arguments)
        assert written.exists(), ran.stdout.str() + ran.stderr.str()
        return Session(ran, written)

    return run


SAME = {f"test_same[{n}]" for n in range(5)}


def test_what_is_identical_with_its_baseline_is_not_timed(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=3")
    personalities = (pytester.path / "personalities").read_text().split()

    checked = gate("--nsight-keep")

    fixed = [int(one, 16) & 0x0040000 for one in personalities]
    assert fixed.count(0) >= 3, "what is timed lies where it happens to"
    assert any(fixed) or not is_allowed()
    allocators = set((pytester.path / "allocators").read_text().splitlines())
    assert allocators == {"None", "expandable_segments:False"}, "what is timed keeps its allocator"
    frozen = set((pytester.path / "frozen").read_text().splitlines())
    assert frozen == {"None False", "expandable_segments:False True"}, "a pass looks for garbage of its cases only"
    assert checked.identical == {*SAME, "test_touched", "test_dying", "test_counting"}, checked.said
    assert checked.verdicts["test_wall"] != "IDENTICAL", "the time on the host is not decided by the launches"
    untimed = [one for one in checked.sentences.values() if one.endswith("; not timed")]
    assert len(untimed) == 5
    assert "the same machine code, launch shapes and arguments as its baseline of 20" in untimed[0]
    assert "audit: 3 identical cases timed all the same" in checked.notes
    assert "1 case without an identity (test_changing): its rounds differ: grid of launch 1" in checked.notes
    assert "argument 2 changes from round to round, in another way than before" in checked.sentences["test_random"]
    assert "IDENTICAL" in checked.said
    (session,) = (
        folder.parent
        for folder in (pytester.path / ".nsight").glob("2*/identity-*")
        if (folder.parent / "run-001/clock.jsonl").exists()
    )

    replayed = gate(f"--nsight-replay={session}")

    assert replayed.sentences == checked.sentences
    assert replayed.identical == checked.identical

    verified = subprocess.run(
        (sys.executable, "-m", "pytest_nsight.cli", "verify", str(session)),
        cwd=pytester.path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "OF THIS TREE" in verified.stdout


@long
def test_what_another_version_has_read_is_timed_and_no_pass_runs(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=3")
    (stored,) = pytester.path.glob("baselines/*/test_case.json")
    text = stored.read_text()
    assert f'"reading":{READING}' in text
    stored.write_text(text.replace(f'"reading":{READING}', f'"reading": {READING - 1}'))

    checked = gate("--nsight-keep", spoiled="argument")

    assert not checked.identical
    assert "stored cases launched was read by another version of pytest-nsight" in checked.notes
    assert "argument 2" not in checked.sentences["test_touched"]
    newest = max((pytester.path / ".nsight").glob("2*"))
    assert not list(newest.glob("identity-*"))


@long
@pytest.mark.parametrize(
    ("spoiled", "identical", "cause"),
    [
        ("argument", {*SAME, "test_dying", "test_counting"}, "; argument 2: 100 -> 101"),
        ("code", set(), "; machine code changed: "),
    ],
)
def test_what_is_touched_is_timed_and_says_what_changed(
    gate: Gate, spoiled: str, identical: set[str], cause: str
) -> None:
    gate("--nsight-save", "--nsight-runs=3")

    checked = gate(spoiled=spoiled)

    assert checked.identical == identical
    assert cause in checked.sentences["test_touched"]


@long
def test_the_option_and_the_setting_turn_it_off(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=1")

    assert not gate("--nsight-no-identity").identical
    assert not gate("-o", "nsight_identity=false").identical
    assert gate().identical


@long
@pytest.mark.parametrize(
    ("fault", "note"),
    [
        ("REFUSES", "launches were not identified, so these cases are timed: cuptiSubscribe: "),
        ("LOSES", "launches have no record: another profiler takes CUPTI's records"),
    ],
)
def test_a_pass_that_fails_is_a_note_and_all_is_timed(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, fault: str, note: str
) -> None:
    gate("--nsight-save", "--nsight-runs=1")
    monkeypatch.setenv(fault, "1")

    checked = gate()

    assert note in checked.notes
    assert not checked.identical
    assert len(checked.verdicts) == 11


@long
def test_a_pass_of_two_processes_finds_the_same_and_loses_no_more_than_the_case_that_kills_one(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARES", "1")
    gate("--nsight-save", "--nsight-runs=1")
    (saving,) = (pytester.path / ".nsight").glob("2*")
    passes = list(saving.glob("identity-*"))

    checked = gate()
    monkeypatch.setenv("POISON", "1")
    poisoned = gate()

    assert len(passes) == 2
    assert checked.identical == {*SAME, "test_touched", "test_dying", "test_counting"}, checked.said
    # The case that kills its process does so in the pass, twice, and when it is timed.
    assert poisoned.identical == {*SAME, "test_touched", "test_counting"}, poisoned.said
    assert "launches of test_dying were not identified" in poisoned.notes
    assert poisoned.code == pytest.ExitCode.TESTS_FAILED


@long
@pytest.mark.parametrize("shares", ["", "1"])
def test_a_case_that_runs_out_of_memory_beside_others_costs_no_case_its_identity(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shares: str
) -> None:
    monkeypatch.setenv("SHARES", shares)
    gate("--nsight-save", "--nsight-runs=1")
    monkeypatch.setenv("FULL", "1")

    checked = gate()

    assert (pytester.path / "full").exists()
    assert checked.identical == {*SAME, "test_touched", "test_dying", "test_counting"}, checked.said
    assert checked.code == pytest.ExitCode.OK


@long
def test_what_an_unusable_process_has_left_is_identified_in_two_that_get_ready_while_the_other_one_runs(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    monkeypatch.setenv("EVENTS", str(events))
    monkeypatch.setenv("SHARES", "1")
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + FILLING_CASES)
    gate("--nsight-save", "--nsight-runs=1", "-k", "filling")
    monkeypatch.setenv("FULL", "1")

    checked = gate("-k", "filling")

    assert checked.identical == {f"test_filling[{n}]" for n in range(8)}, checked.said
    ran = events.read_text().splitlines()
    # Two of the pass, and two for what one of them leaves. The case that ran out of memory and the first that had
    # not begun then wait for one another.
    assert not [event for event in ran if "in vain" in event], ran
    assert ran.count("import") == 4, ran
    assert {event for event in ran if ran.count(event) == 2} == {"case 2"}, ran


def commit_all(folder: Path) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-b", "main"), ("add", "--all"), ("commit", "-m", "a commit")):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_timed_process_of_each_tree_gets_ready_while_the_pass_runs(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    monkeypatch.setenv("EVENTS", str(events))
    monkeypatch.setenv("EIGHT_CPUS", "1")
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + WAITING_CASES)
    commit_all(pytester.path)

    checked = gate("--nsight-against=HEAD")

    assert "test_waiting" in checked.identical, checked.said
    ended = [line.split()[1] for line in events.read_text().splitlines() if line.startswith("end-after")]
    assert ended == ["3", "3"], events.read_text()


@pytest.fixture
def early(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A suite whose collection waits for processes of the pass, and the file of what happened."""
    events = tmp_path / "events"
    monkeypatch.setenv("EVENTS", str(events))
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + EARLY_CASES)
    (pytester.path / ".gitignore").write_text("__pycache__\n")
    commit_all(pytester.path)
    return events


def list_worktrees(folder: Path) -> list[str]:
    """Those beside the user's."""
    listed = subprocess.run(["git", "worktree", "list"], cwd=folder, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()[1:]


@pytest.mark.parametrize("trees", [1, pytest.param(2, marks=long)])
def test_processes_of_the_pass_get_ready_while_tests_are_collected(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, early: Path, trees: int
) -> None:
    monkeypatch.setenv("EARLY", "0")
    if trees == 1:
        gate("--nsight-save", "--nsight-runs=3", "-k", "same")
        early.unlink()
    monkeypatch.setenv("EARLY", str(trees))

    # By default pytest passes over the folder of the sessions, which now has a revision's tests.
    recursing = ("-o", "norecursedirs=build")
    checked = gate(*["--nsight-against=HEAD"][: trees - 1], "-k", "same", *recursing)

    assert checked.identical == SAME, checked.said
    # None is started beside the early ones, and those that measure are no part of the pass.
    assert early.read_text().split() == ["pass"] * trees + ["collected"]
    assert list_worktrees(pytester.path) == []


@long
def test_more_processes_get_ready_where_many_cases_are_likely_and_those_too_many_end(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, early: Path
) -> None:
    monkeypatch.setenv("EIGHT_CPUS", "1")
    monkeypatch.setenv("EARLY", "8")

    checked = gate("--nsight-against=HEAD")

    assert {*SAME, "test_touched"} <= checked.identical, checked.said
    assert early.read_text().split()[:9] == ["pass"] * 8 + ["collected"]
    assert list_worktrees(pytester.path) == []


AGAINST = "--nsight-against=HEAD"


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize(
    ("broken", "arguments", "code"),
    [
        ("1", (AGAINST,), 2),
        ("", (AGAINST, "-k", "no_such_test"), 5),
        ("", (AGAINST, "-p", "interrupting"), 2),
        ("", ("--nsight-baselines=damaged",), 4),
    ],
    ids=["broken module", "nothing selected", "interrupted", "damaged baselines"],
)
def test_what_has_started_early_ends_where_nothing_is_measured(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    early: Path,
    broken: str,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    processes = 2 if AGAINST in arguments else 1
    monkeypatch.setenv("EARLY", str(processes))
    monkeypatch.setenv("BROKEN", broken)
    pytester.makepyfile(interrupting="def pytest_collection_finish():\n    raise KeyboardInterrupt\n")
    damaged = pytester.mkdir("damaged") / model_slug(measured_product())
    damaged.mkdir()
    (damaged / "test_case.json").write_text("{")
    commit_all(pytester.path)

    ran = pytester.runpytest_subprocess("--nsight", "--nsight-collector=clock", *arguments)

    assert ran.ret == code, ran.stdout.str()
    assert early.read_text().split()[: processes + 1] == ["pass"] * processes + ["collected"]
    assert list_worktrees(pytester.path) == []
    # What could not be measured has a result, and nothing else.
    assert [path for path in (pytester.path / ".nsight").glob("2*/*") if path.is_dir()] == []


@long
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails at first"])
def test_a_run_has_the_environment_that_is_known_after_the_collection(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, early: Path, fails: bool
) -> None:
    monkeypatch.setenv("EARLY", "0" if fails else "1")
    asked = f"""
times = []
def pytest_nsight_environment(config):
    times.append(1)
    if {fails} and len(times) == 1:
        raise KeyError("not collected yet")
    return {{"asked": str(len(times))}}
"""
    pytester.makeconftest(CONFTEST + asked)

    gate("--nsight-save", "--nsight-runs=1", "-k", "same")

    assert early.read_text().split()[:2] == (["collected", "pass"] if fails else ["pass", "collected"])
    stored = "".join(path.read_text() for path in pytester.path.glob("baselines/*/*.json"))
    assert '"asked"' in stored
    runs = (pytester.path / ".nsight").glob("2*/*/manifest.jsonl")
    devices = [line for path in runs for line in path.read_text().splitlines() if '"asked"' in line]
    assert len(devices) == 2
    assert all('"asked": "2"' in line for line in devices)


def test_processes_that_wait_import_what_cases_of_the_pass_import(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports, cases = pytester.path / "imports", pytester.path / "cases"
    monkeypatch.setenv("SLOW_IMPORTS", str(imports))
    monkeypatch.setenv("SLOW_CASES", str(cases))
    monkeypatch.setenv("SLOW_IMPORT", "slow_package.slow_module")
    monkeypatch.setenv("EIGHT_CPUS", "1")
    (pytester.path / "slow_package").mkdir()
    (pytester.path / "slow_package/__init__.py").touch()
    (pytester.path / "slow_package/slow_module.py").write_text(SLOW_MODULE)
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + SLOW_CASE)
    commit_all(pytester.path)

    checked = gate("--nsight-against=HEAD", "-k", "slow_import or waiting")

    assert checked.identical == {"test_slow_import", "test_waiting"}, checked.said
    assert "audit: 2 identical cases timed all the same" in checked.notes
    assert cases.read_text().splitlines()[:4] == ["pass: not imported"] * 2 + ["timed: imported"] * 2

    cases.unlink()
    imports.unlink()
    monkeypatch.setenv("SIX_PROCESSES", "1")
    path.write_text(
        path.read_text().replace("slow_module\n    nsight(launch)", "slow_module\n    nsight(launch, 101)")
    )
    touched = gate("--nsight-against=HEAD", "--nsight-runs=3", "-k", "slow_import or waiting")

    assert touched.identical == {"test_waiting"}, touched.said
    ran = cases.read_text().splitlines()
    assert ran[:2] == ["pass: not imported"] * 2
    assert ran[2:8] == ["timed: imported"] * 6


def test_of_two_trees_processes_take_parts_when_they_are_done_and_pairs_do_the_same(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = pytester.path / "order"
    monkeypatch.setenv("ORDER", str(order))
    monkeypatch.setenv("SHARES", "1")
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + ORDERED_CASES)
    commit_all(pytester.path)

    checked = gate("--nsight-against=HEAD", "-k", "ordered")

    assert checked.identical == {f"test_ordered[{n}]" for n in range(12)}, checked.said
    ran: dict[str, dict[str, list[int]]] = {}
    for line in order.read_text().splitlines():
        folder, pid, number = line.split()
        ran.setdefault(folder, {}).setdefault(pid, []).append(int(number))
    this, other = (sorted(processes.values()) for processes in ran.values())
    assert this == other
    assert sorted(n for own in this for n in own) == list(range(12))
    assert this[0][:2] == [0, 1]
    assert len(this) == 2
    assert len(this[0]) <= 4


def test_of_two_trees_a_case_whose_memory_lies_elsewhere_is_identified_again(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = pytester.path / "moves"
    monkeypatch.setenv("MOVES", str(moves))
    monkeypatch.setenv("SHARES", "1")
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + MOVED_CASES)
    commit_all(pytester.path)

    checked = gate("--nsight-against=HEAD", "-k", "same or moving or touched or dying")

    assert checked.identical == {*SAME, "test_touched", "test_dying", "test_moving[0]"}, checked.said
    assert "; argument 1: alignment " in checked.sentences["test_moving[1]"], checked.sentences
    assert [len(Path(f"{moves}-{n}").read_text().split()) for n in range(2)] == [4, 4]
    assert "not identified" not in checked.notes


def test_of_two_trees_a_change_that_shows_behind_another_case_only_is_timed(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + BEHIND_CASES)
    commit_all(pytester.path)
    path.write_text(path.read_text().replace("SHIFTED = False", "SHIFTED = True"))

    checked = gate("--nsight-against=HEAD", "-k", "behind")

    assert checked.identical == {"test_behind[0]"}, checked.said
    assert "; argument 1: alignment 256 -> 16" in checked.sentences["test_behind[1]"], checked.sentences


@pytest.mark.parametrize("trees", [1, 2])
def test_the_failed_end_of_a_shared_fixture_is_an_error_where_all_is_identical(
    gate: Gate, pytester: pytest.Pytester, trees: int
) -> None:
    path = pytester.path / "test_case.py"
    sound = path.read_text() + SHARED_CASES.replace("raise", "RuntimeError or")
    path.write_text(sound)
    if trees == 1:
        gate("--nsight-save", "--nsight-runs=3", "-k", "server or beside")
    else:
        commit_all(pytester.path)
    path.write_text(sound.replace("RuntimeError or", "raise"))

    checked = gate(*["--nsight-against=HEAD"][: trees - 1], "-k", "server or beside")

    assert checked.code == 1
    assert "server leaked 3 buffers" in checked.said


@pytest.mark.parametrize("trees", [1, pytest.param(2, marks=long)])
def test_a_part_that_launches_the_same_is_identical_where_another_has_changed(
    gate: Gate, pytester: pytest.Pytester, trees: int
) -> None:
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + PART_CASES)
    commit_all(pytester.path)
    if trees == 1:
        gate("--nsight-save", "-k", "step")
    path.write_text(path.read_text().replace('SPOILED == "argument"', "True"))

    checked = gate(*(["--nsight-against=HEAD"] if trees == 2 else []), "-k", "step")

    assert checked.identical == {"test_step/optimizer"}, checked.said
    same = "test_step/optimizer: the same machine code, launch shapes and arguments as "
    assert checked.sentences["test_step/optimizer"].startswith(same), checked.sentences
    for changed in ("test_step", "test_step/forward"):
        assert "argument 2: 100 -> 101" in checked.sentences[changed], checked.sentences
    assert "argument 2" not in checked.sentences["test_step/optimizer"]


@pytest.mark.parametrize("trees", [1, 2])
def test_a_case_that_found_no_memory_beside_others_is_identified_again(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, trees: int
) -> None:
    monkeypatch.setenv("CROWDED", "1")
    monkeypatch.setenv("SHARES", "1")
    path = pytester.path / "test_case.py"
    path.write_text(path.read_text() + CROWDED_CASES)
    commit_all(pytester.path)
    chosen = ("-k", "same or touched or crowded")
    if trees == 1:
        gate("--nsight-save", "--nsight-runs=5", *chosen)
        (pytester.path / "crowded").unlink()

    checked = gate(*(("--nsight-against=HEAD",) if trees == 2 else ()), *chosen)

    assert checked.identical == {*SAME, "test_touched", "test_crowded"}, checked.said
    assert "without an identity" not in checked.notes
    assert len((pytester.path / "crowded").read_text().split()) == 2
    folders = {path.name for path in (pytester.path / ".nsight").glob("*/identity-*")}
    assert folders == {f"identity-{number:03}" for number in range(1, 2 * trees + 1)}


@long
def test_a_case_that_kills_its_processes_costs_no_other_case_of_two_trees_its_identity(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARES", "1")
    monkeypatch.setenv("POISON", "1")
    commit_all(pytester.path)

    poisoned = gate("--nsight-against=HEAD")

    assert poisoned.identical == {*SAME, "test_touched", "test_counting"}, poisoned.said
    assert "launches of test_dying were not identified" in poisoned.notes


@long
def test_of_two_trees_what_is_identical_is_not_timed(gate: Gate, pytester: pytest.Pytester) -> None:
    commit_all(pytester.path)

    checked = gate("--nsight-against=HEAD")

    assert checked.identical == {*SAME, "test_touched", "test_dying", "test_counting"}, checked.said

    path = pytester.path / "test_case.py"
    path.write_text(path.read_text().replace("else 100)", "else 102)"))
    touched = gate("--nsight-against=HEAD")

    assert touched.identical == {*SAME, "test_dying", "test_counting"}, touched.said
    assert "; argument 2: 100 -> 102" in touched.sentences["test_touched"]
