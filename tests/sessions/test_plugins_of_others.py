"""Other plugins and unusual ways to start pytest, in whole sessions of CPU operators."""

from __future__ import annotations

import sys
from collections.abc import Callable

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
def test_a_property_that_json_changes_keeps_the_properties(pytester: pytest.Pytester, gate: Gate) -> None:
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if report.when == "teardown":
                print("properties", report.user_properties)
        """
    )
    body = CASE.replace("(nsight):", "(nsight, record_property):").rstrip()

    result = gate(*COMMON, "-s", body=f'{body}\n    record_property("sizes", {{1: 2}})\n')

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


def test_trace_reaches_no_worker(gate: Gate) -> None:
    result = gate(*COMMON, "--trace", body=CASE)

    result.assert_outcomes(passed=1)
    assert "nsight and never calls it" not in result.stdout.str()


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
