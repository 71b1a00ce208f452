"""While one process measures, the next one gets ready; only one measures at a time, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_nsight.collectors.torch.torch_collector import TorchCollector
from pytest_nsight.controller.trees.revision_tree import Tree
from pytest_nsight.controller.workers.prewarmed import count_prewarmed
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.gate.absorbing import MOST_FAILURES_ALONE
from pytest_nsight.protocol.job import THIS_TREE, Assignment
from tests.collectors.real import require_nsys

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("nsys")]

SUITE = """
import os, time
import pytest, torch

def say(what):
    with open("events", "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

say("import")

@pytest.mark.nsight(rounds=3)
@pytest.mark.parametrize("n", [0, 1])
def test_op(nsight, n):
    say("begin")
    nsight(torch.exp, torch.ones(8))
    if n == 0 and os.path.exists("die"):
        os.remove("die")
        say("end")
        os.kill(os.getpid(), 9)
    time.sleep(float(os.environ.get("SLEEP", "1.5")))
    say("end")
"""

CASES = ("test_case.py::test_op[0]", "test_case.py::test_op[1]")


@pytest.fixture
def make_source(pytester: pytest.Pytester) -> Iterator[Callable[..., LiveSource]]:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_case=SUITE)
    made: list[LiveSource] = []

    def make(*, times_cpu: bool = False) -> LiveSource:
        arguments = ("--nsight", "test_case.py", "-p", "no:cacheprovider")
        session = LiveSession(
            id="session",
            recorded="",
            commit="",
            folder=pytester.path / ".nsight/session",
            collector=TorchCollector("torch", times_cpu=times_cpu),
            trees={THIS_TREE: Tree(pytester.path, arguments, tuple(sys.path))},
            rounds=3,
            keep=False,
            canaries=False,
            environment={},
            limits=TimeLimits(600.0),
        )
        source = LiveSource(session, lambda _: None)
        made.append(source)
        return source

    yield make
    for source in made:
        source.close()


def make_two_wait(make_source: Callable[..., LiveSource], monkeypatch: pytest.MonkeyPatch) -> LiveSource:
    """A source that has measured once, slowly enough for two processes to get ready beside it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("SLEEP", "4")
    source = make_source()
    source.execute(Assignment(CASES), [Assignment(()), Assignment(())])
    return source


def events(folder: Path) -> list[tuple[str, str]]:
    return [(line.split()[0], line.split()[1]) for line in (folder / "events").read_text().splitlines()]


def assert_one_at_a_time(seen: Sequence[tuple[str, str]]) -> None:
    assignments = [(what, pid) for what, pid in seen if what != "import"]
    assert assignments[0][0] == "begin"
    for before, after in pairwise(assignments):
        assert (before[0], after[0]) in {("begin", "end"), ("end", "begin")}
        assert before[0] == "end" or before[1] == after[1]


def test_the_next_process_imports_while_one_measures_and_measures_after_it(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester
) -> None:
    source = make_source()

    (first,) = source.execute(Assignment(CASES), [Assignment(CASES[::-1])])
    (second,) = source.execute(Assignment(CASES[::-1]))

    assert first.manifest.ended == CASES
    assert second.manifest.ended == CASES[::-1]
    assert second.has_trace
    seen = events(pytester.path)
    assert_one_at_a_time(seen)
    pids = list(dict.fromkeys(pid for _, pid in seen))
    assert len(pids) == 2
    assert seen.index(("import", pids[1])) < len(seen) - 1 - seen[::-1].index(("end", pids[0]))
    assert not list(pytester.path.rglob("parent.pipe"))


def test_what_waits_is_told_its_cases_when_they_are_known(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_two_wait(make_source, monkeypatch)
    waiting = [pid for what, pid in events(pytester.path) if what == "import"][1:]
    monkeypatch.setenv("SLEEP", "0")
    (doubtful,) = source.execute(Assignment(CASES[1:], 7))
    (again,) = source.execute(Assignment(CASES[::-1]))

    assert len(waiting) == 2
    assert [str(one.manifest.pid) for one in (doubtful, again)] == waiting
    assert (doubtful.manifest.ended, doubtful.manifest.seed) == (CASES[1:], 7)
    assert (again.manifest.ended, again.manifest.seed) == (CASES[::-1], None)
    assert_one_at_a_time(events(pytester.path))


def test_nothing_gets_ready_on_the_measured_cpu_that_may_not_be_needed(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester
) -> None:
    source = make_source(times_cpu=True)

    source.execute(Assignment(CASES), [Assignment(())])

    assert left(pytester.path) == []


def test_nothing_runs_beside_a_measurement_of_the_cpu(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester
) -> None:
    source = make_source(times_cpu=True)

    source.execute(Assignment(CASES), [Assignment(CASES)])
    source.execute(Assignment(CASES))

    order = [what for what, _ in events(pytester.path)]
    assert order == ["import", *["begin", "end"] * 2] * 2


def test_what_a_dead_process_left_undone_is_measured_before_the_next_has_its_turn(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester
) -> None:
    (pytester.path / "die").touch()
    source = make_source()

    (dead,) = source.execute(Assignment(CASES), [Assignment(CASES)])
    (rescue,) = source.execute(Assignment(CASES[1:]), [Assignment(CASES)])
    (last,) = source.execute(Assignment(CASES))

    assert "SIGKILL" in dead.failure
    assert rescue.manifest.ended == CASES[1:]
    assert last.manifest.ended == CASES
    assert_one_at_a_time(events(pytester.path))


@pytest.mark.parametrize("upcoming", [Assignment(CASES[:1]), Assignment(())], ids=["told", "waiting"])
def test_a_process_whose_turn_never_comes_is_gone_without_a_trace(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester, upcoming: Assignment
) -> None:
    source = make_source()
    source.execute(Assignment(CASES), [upcoming])
    assert left(pytester.path)

    source.close()

    assert sorted(path.name for path in (pytester.path / ".nsight/session").iterdir()) == ["run-001"]
    assert left(pytester.path) == []


@pytest.mark.parametrize("holds_a_lock", [False, True])
def test_a_process_that_nobody_waits_for_ends_while_it_imports_unless_it_may_hold_a_lock(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester, holds_a_lock: bool
) -> None:
    """As torch is imported, part by part; what compiles an extension locks its folder with a file."""
    source = make_source()
    parts = pytester.mkdir("parts")
    for number in range(40):
        (parts / f"part_{number}.py").write_text("import time; time.sleep(0.05)")
    (parts / "__init__.py").write_text("".join(f"from parts import part_{number}\n" for number in range(40)))
    locked = """
        def build():
            open("lock", "x").close()
            import parts
            os.remove("lock")
        build()
        """
    pytester.makeconftest(f"""
        import os
        open("begun", "x").close()
        {locked if holds_a_lock else "import parts"}
        open("done", "x").close()
        """)

    source.get_ready([Assignment(())], ())
    wait_for((pytester.path / "begun").exists)
    source.close()

    assert left(pytester.path) == []
    assert not (pytester.path / "lock").exists()
    assert (pytester.path / "done").exists() is holds_a_lock


def test_a_turn_that_could_not_be_told_is_told_again(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = Assignment.write, [OSError(28, "No space left on device")]

    def fail_once(assignment: Assignment, folder: Path) -> None:
        if "run-002" in str(folder) and failures:
            raise failures.pop()
        write(assignment, folder)

    monkeypatch.setattr(Assignment, "write", fail_once)
    source = make_source()

    source.execute(Assignment(CASES), [Assignment(CASES[:1])])
    (told,) = source.execute(Assignment(CASES[:1]))

    assert not failures
    assert told.manifest.ended == CASES[:1]


def test_a_process_that_died_waiting_is_replaced(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester
) -> None:
    source = make_source()
    source.execute(Assignment(CASES), [Assignment(())])
    (waiting,) = left(pytester.path)
    os.kill(int(waiting), signal.SIGKILL)
    wait_for(lambda: left(pytester.path) == [])
    time.sleep(0.5)

    (record,) = source.execute(Assignment(CASES))

    assert record.failure == ""
    assert record.manifest.ended == CASES
    assert sorted(path.name for path in (pytester.path / ".nsight/session").iterdir()) == ["run-001", "run-003"]


def test_all_that_wait_are_tidied_away_even_if_one_cannot_be(
    make_source: Callable[..., LiveSource], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_two_wait(make_source, monkeypatch)
    assert len(left(pytester.path)) == 2
    tidied: list[str] = []

    def fail(_: TorchCollector, folder: Path, *, keep: bool) -> None:
        tidied.append(folder.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(TorchCollector, "tidy", fail)
    with pytest.raises(KeyboardInterrupt):
        source.close()
    monkeypatch.undo()

    assert sorted(tidied) == ["run-002", "run-003"]
    assert left(pytester.path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_session(pytester: pytest.Pytester, number: signal.Signals) -> None:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_case=SUITE)
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-runs=2", "--nsight-collector=torch"]
    started = subprocess.Popen(
        command, cwd=pytester.path, env={**os.environ, "SLEEP": "600"}, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: (pytester.path / "events").exists() and ("begin" in dict(events(pytester.path))))
    assert left(pytester.path)

    started.send_signal(number)
    code = started.wait(60)

    assert code == (-number if number == signal.SIGKILL else pytest.ExitCode.INTERRUPTED)
    wait_for(lambda: left(pytester.path) == [])


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("did not come true")


def left(folder: Path) -> list[str]:
    """Pids of the workers of sessions in the folder."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"pytest_nsight.worker.worker_process" in command and str(folder).encode() in command:
            pids.append(process.name)
    return pids


def test_a_process_that_got_ready_for_nothing_leaves_nothing(pytester: pytest.Pytester) -> None:
    require_nsys()
    pytester.makepyfile(
        test_case="""
        import time, pytest
        with open("imports", "a") as file:
            print("once", file=file)
        @pytest.mark.nsight(rounds=3)
        @pytest.mark.parametrize("number", range(6))
        def test_many(nsight, number):
            nsight(time.sleep, 0.3)
        """
    )
    temporary = pytester.mkdir("temporary")
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-collector=nsys"]
    environ = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=pytester.path, env=environ, capture_output=True, text=True, check=False)

    assert "no GPU kernel ran" in done.stdout, done.stdout
    (session,) = (pytester.path / ".nsight").glob("2*")
    runs = sorted(session.glob("run-*"))
    # Cases without a kernel are measured again alone, until it is plain that the machine is at fault.
    assert 1 < len(runs) <= 2 * MOST_FAILURES_ALONE + 1
    # The controller, the runs, and the processes that nothing asked for, which leave no folder.
    imports = (pytester.path / "imports").read_text().count("once")
    assert len(runs) + 1 < imports <= len(runs) + 1 + 2 * count_prewarmed()
    assert all((run / "manifest.jsonl").exists() for run in runs)
    assert not [*pytester.path.rglob("*.nsys-rep"), *pytester.path.rglob("*.qdstrm")]
    assert not [process for process in Path("/proc").glob("[0-9]*") if _mentions(process, str(pytester.path))]


def _mentions(process: Path, text: str) -> bool:
    try:
        return text.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid()
    except OSError:
        return False
