"""The whole way under the real nsys. Without a GPU it records ranges and no kernels, and says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.collectors.real import require_nsys

Gate = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_nsys"), pytest.mark.xdist_group("nsys")]

BODY = """
@pytest.mark.nsight
def test_ranges(nsight):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight
def test_wrong(nsight):
    assert nsight(square, torch.ones(3)).sum() == 4, "wrong result"
"""


@pytest.fixture
def real_nsys() -> None:
    require_nsys()


def test_a_kept_report_is_the_owners_only_and_the_session_warns_of_it(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    result = gate("--nsight-collector=nsys", "--nsight-keep-report", "-k", "ranges", body=BODY)

    (report,) = pytester.path.glob(".nsight/*/run-*/report.nsys-rep")
    assert report.stat().st_size > 1000
    assert report.stat().st_mode & 0o077 == 0
    assert not list(pytester.path.glob(".nsight/*/run-*/nsys")), "the private folder is gone"
    text = " ".join(result.stdout.str().split())
    assert "--nsight-keep-report kept 1 report of the profiler in" in text
    assert "may hold environment variables with their values" in text


def test_without_the_option_no_report_stays(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-collector=nsys", "-k", "ranges", body=BODY)

    assert not list(pytester.path.glob(".nsight/**/*.nsys-rep"))


def test_reports_come_back_and_missing_kernels_are_explained(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--nsight-collector=nsys", "--nsight-keep", "-v", body=BODY)

    result.assert_outcomes(failed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "nsight: collector nsys 20*",
            "*test_ranges FAILED*",
            "*test_wrong FAILED*",
            "*no GPU kernel ran in the measured rounds*",
            "*wrong result*",
            "*no CUDA activity*",
        ]
    )
    (run,) = (pytester.path / ".nsight").glob("2*/run-001")
    assert (run / "trace.sqlite").exists()
    assert not list(run.glob("*.nsys-rep")) + list(run.glob("export*"))
