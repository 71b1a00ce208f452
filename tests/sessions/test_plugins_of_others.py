"""Other plugins and unusual ways to start pytest, in whole sessions of CPU operators."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

CASE = """
@pytest.mark.nsight(rounds=4, warmup=1, band="99%")
def test_square(nsight):
    nsight(square, torch.ones(8))
"""
COMMON = ("--nsight-save", "--nsight-runs=1")


@pytest.mark.long
@pytest.mark.parametrize("folder", [".", "tests"])
def test_files_that_are_called_like_modules_of_python_are_none(pytester: pytest.Pytester, folder: str) -> None:
    names = ("calendar", "json", "logging", "platform", "random", "secrets", "signal", "statistics", "string")
    for name in names:
        file = pytester.path / folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("raise RuntimeError('a script of the project')")
    head = "import pytest, torch\n\ndef square(x): return x * x\n"
    (pytester.path / folder / "test_own.py").write_text(head + CASE)

    # Unlike `python -m pytest` and pytester, the program does not put the current folder before all others.
    program = ("env", "-u", "PYTHONPATH", Path(sys.executable).with_name("pytest"))
    result = pytester.run(*program, "--import-mode=append", "--nsight", *COMMON, folder)

    result.assert_outcomes(passed=1)


@pytest.mark.long
def test_what_needs_a_terminal_is_named_and_a_failing_test_shows_what_it_printed(gate: Gate) -> None:
    body = CASE.replace("nsight(square", 'print("printed"); assert False; nsight(square')

    result = gate("-s", "--pdb", "--nsight-collector=torch", body=body)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured stdout call*", "printed"])
    assert "-s and --pdb do nothing for measured tests, whose processes have no terminal" in " ".join(
        result.stdout.str().split()
    )


@pytest.mark.long
def test_plugin_objects_of_the_users_own_pytest_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_case="import pytest, torch\n" + CASE.replace("square, ", "torch.sin, "),
        run="""
        import sys, pytest
        class Values:
            pass
        sys.exit(pytest.main(["--nsight", "--nsight-rounds=4", "-p", "no:randomly"], plugins=[Values()]))
        """,
    )

    result = pytester.runpython("run.py")

    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert "the plugins that pytest.main was given as objects (Values) are not in the processes" in said


@pytest.mark.long
def test_deselected_objects_that_are_no_tests_are_only_counted(pytester: pytest.Pytester, gate: Gate) -> None:
    """As pytest-testmon passes them."""
    pytester.makeconftest(
        """
        class Fake:
            pass

        def pytest_collection_modifyitems(config):
            config.hook.pytest_deselected(items=[Fake()])
        """
    )

    result = gate(*COMMON, body=CASE)

    result.assert_outcomes(passed=1, deselected=1)


@pytest.mark.long
def test_attributes_of_reports_that_json_would_change_stay_in_the_worker(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    """As pytest-testmon sets them, which then reads text where it wrote numbers."""
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport():
            report = yield
            report.lines, report.names, report.plain = {1: [2]}, {"a"}, {"a": [1]}
            return report

        def pytest_runtest_logreport(report):
            assert getattr(report, "lines", {1: [2]}) == {1: [2]}
            assert getattr(report, "names", {"a"}) == {"a"}
            assert getattr(report, "plain", {"a": [1]}) == {"a": [1]}
        """
    )

    result = gate(*COMMON, body=CASE)

    result.assert_outcomes(passed=1)


@pytest.mark.long
@pytest.mark.parametrize("value", ["{1: 2}", 'float("nan")', "{1: 2, '1': 3}", r"'caf\udce9'"])
def test_a_property_that_json_changes_keeps_the_properties(
    pytester: pytest.Pytester, gate: Gate, value: str
) -> None:
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if report.when == "teardown":
                print("properties", report.user_properties)
        """
    )
    body = CASE.replace("(nsight):", "(nsight, record_property):").rstrip()

    warning = r"import warnings; warnings.warn('cannot read caf\udce9.txt')"
    result = gate(*COMMON, "-s", body=f'{body}\n    record_property("sizes", {value})\n    {warning}\n')

    result.assert_outcomes(passed=1)
    assert "sizes" in result.stdout.str()


def test_a_standard_output_without_an_encoding_gets_the_table(pytester: pytest.Pytester, gate: Gate) -> None:
    gate("--version", body=CASE)
    script = pytester.makepyfile(
        tee="""
        import sys
        import pytest

        class Tee:
            def __init__(self, stream):
                self.stream = stream
            def write(self, text):
                return self.stream.write(text)
            def flush(self):
                self.stream.flush()
            def isatty(self):
                return False

        sys.stdout = Tee(sys.stdout)
        sys.exit(pytest.main(["--nsight", "--nsight-save", "--nsight-runs=1", "test_case.py"]))
        """
    )

    result = pytester.run(sys.executable, str(script))

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 verdict: 1 saved*"])


@pytest.mark.parametrize("in_environment", [False, True])
def test_the_file_of_debug_is_written_by_the_users_own_pytest_alone(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, in_environment: bool
) -> None:
    option = "--debug=debug.log"
    if in_environment:
        monkeypatch.setenv("PYTEST_ADDOPTS", option)

    given = () if in_environment else (option,)
    result = gate(*given, "--nsight-collector=torch", *COMMON, body=CASE)

    result.assert_outcomes(passed=1)
    written = (pytester.path / "debug.log").read_bytes()
    assert b"\0" not in written
    assert written.startswith(b"versions pytest-")
    assert written.count(b"versions pytest-") == 1
    assert b"finish pytest_unconfigure" in written
    logs = list(pytester.path.glob(".nsight/2*/run-*/worker.log"))
    assert logs
    assert not any("debug information" in log.read_text() for log in logs)


def test_trace_reaches_no_worker(gate: Gate) -> None:
    result = gate(*COMMON, "--trace", body=CASE)

    result.assert_outcomes(passed=1)
    assert "nsight and never calls it" not in result.stdout.str()


@pytest.mark.long
def test_each_worker_has_its_own_folder_in_the_base_of_temporary_files(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    body = CASE.replace("(nsight):", "(nsight, tmp_path):").rstrip()
    wanted = pytester.path / "temporary" / "files"

    result = gate(
        "--nsight-save",
        "--nsight-runs=2",
        f"--basetemp={wanted}",
        body=f'{body}\n    print(tmp_path, file=open("{pytester.path}/paths", "a"))\n',
    )

    result.assert_outcomes(passed=1)
    paths = [Path(path) for path in (pytester.path / "paths").read_text().split()]
    assert len({path.parent for path in paths}) == len(paths) == 2
    assert {path.parents[1] for path in paths} == {wanted}
    # What a worker left goes when the next one begins.
    assert len(list(wanted.iterdir())) < 3


TESTMON = """
def pytest_addoption(parser):
    parser.addoption("--testmon", action="store_true", dest="testmon")
    parser.addoption("--testmon-nocollect", action="store_true", dest="testmon_nocollect")
    parser.addoption("--no-testmon", action="store_true", dest="no-testmon")
    parser.addoption("--codspeed", action="store_true")
    parser.addoption("--parallel-threads", dest="parallel_threads", default="8")

def pytest_configure(config):
    print(config.getoption("no-testmon"), config.getoption("parallel_threads"), file=open("given", "a"))
"""


@pytest.mark.long
def test_workers_are_without_testmon_and_threads_and_testmon_records_nothing_that_it_cannot_see(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    pytester.makeconftest(TESTMON)

    refused = gate(*COMMON, "--testmon", body=CASE)
    allowed = gate(*COMMON, "--testmon", "--testmon-nocollect")

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*add --testmon-nocollect, or choose tests with --nsight-affected*"])
    allowed.assert_outcomes(passed=1)
    assert {"False 8", "True 1"} == set((pytester.path / "given").read_text().splitlines())


def test_codspeed_is_refused_as_it_measures_the_tests_itself(pytester: pytest.Pytester, gate: Gate) -> None:
    pytester.makeconftest(TESTMON)

    result = gate("--codspeed", body=CASE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--codspeed measures the tests itself; run it without --nsight*"])


SYRUPY = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--snapshot-update", dest="update_snapshots", action="store_true")
    parser.addoption("--snapshot-warn-unused", dest="warn_unused_snapshots", action="store_true")

used = []

@pytest.fixture
def snapshot(request):
    used.append(request.node.nodeid)

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    if not used and not session.config.option.warn_unused_snapshots:
        session.exitstatus = 1
"""
"""Fails a session in whose own process a test has not used its snapshot, as syrupy does."""


def test_a_snapshot_of_a_measured_test_does_not_fail_as_unused_and_is_not_removed(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    pytester.makeconftest(SYRUPY)

    measured = gate(*COMMON, body=CASE.replace("(nsight)", "(nsight, snapshot)"))
    updated = gate("--snapshot-update")
    without = gate(*COMMON, body=CASE)

    assert measured.ret == pytest.ExitCode.OK
    measured.assert_outcomes(passed=1)
    assert updated.ret == pytest.ExitCode.USAGE_ERROR
    updated.stderr.fnmatch_lines(["*--snapshot-update would remove the snapshots of measured tests*"])
    # No measured test has one: what is unused is another test's, and fails as without the plugin.
    without.assert_outcomes(passed=1)
    assert without.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.long
def test_the_commands_after_a_failure_work_where_pytest_was_started(
    pytester: pytest.Pytester, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pytester.mkdir("deep") / "tests"
    folder.mkdir()
    gate(*COMMON, body=CASE)
    (pytester.path / "test_case.py").rename(folder / "test_inner.py")
    monkeypatch.chdir(folder)
    assert gate(*COMMON).ret == 0
    changed = folder / "test_inner.py"
    changed.write_text(changed.read_text().replace("return x * x", "return torch.exp(x)"))

    failed = gate("--nsight-runs=1")

    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    lines = failed.stdout.lines
    start = lines.index("to accept the change, and then commit the baselines with it:") + 1
    command = "\n".join(lines[start : lines.index("to check it again:", start)])
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert command.startswith("(cd ../.. && ")
    assert pytester.run("sh", "-c", command).ret == 0
    assert gate("--nsight-runs=1").ret == 0


OPTIMIZED = """
def work(x):
    if not __debug__:
        torch.exp(x)
    return x * x

@pytest.mark.nsight(rounds=4, warmup=1, band="99%")
def test_work(nsight):
    nsight(work, torch.ones(8))
"""


@pytest.mark.long
def test_what_python_leaves_out_by_an_option_it_leaves_out_in_workers(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    assert gate(*COMMON, body=OPTIMIZED).ret == 0

    result = pytester.run(sys.executable, "-O", "-m", "pytest", "--nsight", "--nsight-runs=1", "-p", "no:randomly")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "launches gained, 1 -> 2 per round" in result.stdout.str()


UNTRACED = """
@pytest.mark.nsight(rounds=4, warmup=1, band="99%")
def test_untraced(nsight):
    nsight(square, torch.ones(8))
    assert not [name for name in os.environ if name.startswith(("COVERAGE_PROCESS_", "COV_CORE_"))]
"""


def test_coverage_traces_no_worker_and_a_note_says_so(
    pytester: pytest.Pytester, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What coverage.py and pytest-cov set for subprocesses; the option stands in for pytest-cov's."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COV_CORE_SOURCE"):
        monkeypatch.setenv(name, "here")
    pytester.makeconftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--cov", action="append", dest="cov_source")
            parser.addoption("--no-cov", action="store_true")
        """
    )

    result = gate(*COMMON, "--cov=here", body=UNTRACED)

    result.assert_outcomes(passed=1)
    assert "nsight: pytest-cov counts nothing that measured tests run" in " ".join(result.stdout.str().split())


BLIND = """
import pathlib

@pytest.mark.nsight(rounds=4, warmup=1, band="99%")
@pytest.mark.xfail(reason="nothing can be recorded either")
def test_blind(nsight, monkeypatch):
    def gone(path, *args, **kwargs):
        raise FileNotFoundError(path)

    monkeypatch.setattr(pathlib.Path, "read_text", gone)
    nsight(square, torch.ones(8))
"""


def test_a_test_that_replaces_what_reads_files_does_not_rename_the_machine(gate: Gate) -> None:
    gate(*COMMON, body=CASE)

    result = gate("--maxfail=9", body=BLIND + CASE)

    result.stdout.no_fnmatch_line("*NO_BASELINE*test_square*")
    result.stdout.no_fnmatch_line("*test_square*NO_BASELINE*")
    result.stdout.fnmatch_lines(["*1 verdict: *"])


SILENT_RERUNS = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""
"""Runs a failed test once more and reports the last attempt alone, as the plugin flaky does."""

FLAKY = """
calls = []

@pytest.mark.nsight(warmup=1, band="99%")
def test_flaky(nsight):
    calls.append(1)
    nsight(chain if len(calls) == 1 else square, torch.ones(8))
    assert len(calls) > 1
"""


def test_what_an_attempt_that_nobody_reports_has_measured_counts_for_nothing(
    pytester: pytest.Pytester, gate: Gate
) -> None:
    pytester.makeconftest(SILENT_RERUNS)

    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-no-canaries", body=FLAKY)

    result.assert_outcomes(passed=1)
    text = " ".join(result.stdout.str().split())
    assert "1 run of 10 rounds" in text
    result.stdout.fnmatch_lines(["test_flaky *SAVED"])
