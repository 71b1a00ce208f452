"""Reports are found by name, those of other packages too, and each is written for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report.registry import (
    REPORTS,
    Report,
    ReportFile,
    find_report,
    publish,
    read_requests,
    workflow_commands,
)
from tests.report import canned

PACKAGE = Path(__file__).parents[1] / "examples" / "slowest_case_report"


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example package, as pip would install it."""
    monkeypatch.syspath_prepend(str(PACKAGE))


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_every_report_renders_every_session(name: str, tmp_path: Path) -> None:
    for result in (canned.full(), canned.worked(), canned.quiet(), canned.saved_only(), canned.session(())):
        assert publish(result, [ReportFile(name, tmp_path / "out")]) == {}
        text = (tmp_path / "out").read_text(encoding="utf-8")
        assert text.endswith("\n") or (name == "pytorch-benchmark" and not result.verdicts)


def test_a_request_names_a_report_and_a_file(tmp_path: Path) -> None:
    texts = ["markdown=a=b.md", "markdown=.", "json=.", "html=new/"]

    files = read_requests(texts, tmp_path)

    assert files[0] == ReportFile("markdown", tmp_path / "a=b.md")
    assert [file.path for file in files[1:]] == [
        tmp_path / "nsight.md",
        tmp_path / "nsight.json",
        tmp_path / "new/nsight.html",
    ]


@pytest.mark.parametrize("text", ["", "markdown", "markdown=", "=x.md", "nosuch=x.md"])
def test_a_wrong_request_is_refused_with_the_names_there_are(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"json, markdown"):
        read_requests(["json=x.json", text], tmp_path)


def test_a_test_file_is_not_taken_for_the_path_that_was_forgotten(tmp_path: Path) -> None:
    test_file = tmp_path / "test_softmax.py"
    test_file.write_text("def test_softmax(): ...\n", encoding="utf-8")

    with pytest.raises(
        UsageError, match=r"the report html would replace .*test_softmax\.py.* such as nsight\.html"
    ):
        read_requests(["html=test_softmax.py"], tmp_path)
    with pytest.raises(UsageError, match=r"html would be written to .*\.py::test_softmax, .* such as nsight\.html"):
        read_requests(["html=test_softmax.py::test_softmax"], tmp_path)

    assert read_requests(["html=new.py"], tmp_path) == (ReportFile("html", tmp_path / "new.py"),)


@pytest.mark.parametrize("texts", [["json=.", "session=."], ["json=a", "markdown=a"], ["json=a", "html=b/../a"]])
def test_two_reports_of_one_file_are_refused(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"json and (session|markdown|html) would both be written to .*of its own"):
        read_requests(texts, tmp_path)


def test_a_request_that_is_made_twice_is_no_conflict(tmp_path: Path) -> None:
    assert len(read_requests(["json=a", "json=a"], tmp_path)) == 2


@pytest.mark.usefixtures("_installed")
def test_the_report_of_an_installed_package_is_written(tmp_path: Path) -> None:
    (request,) = read_requests(["slowest=."], tmp_path)

    assert publish(canned.worked(), [request]) == {}
    assert request.path.name == "nsight.txt"
    assert request.path.read_text() == "test_linear[fused-b32x2048] takes 3051220 ns\n"


@pytest.mark.usefixtures("_installed")
def test_a_broken_package_is_named_with_its_fault() -> None:
    with pytest.raises(UsageError, match=r"slowest_case_report_of_yesterday of slowest-case-report .*No module"):
        find_report("broken")


@pytest.mark.usefixtures("_installed")
def test_a_report_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    files = [
        ReportFile("slowest", tmp_path / "out.txt"),
        ReportFile("json", blocked / "out.json"),
        ReportFile("markdown", tmp_path / "deep" / "out.md"),
    ]

    troubles = tuple(publish(canned.session(()), files).values())

    assert len(troubles) == 2
    assert "slowest was not written: its package raised ValueError" in troubles[0]
    assert "choose another place" in troubles[1]
    assert "nothing was measured" in files[2].path.read_text()


def test_a_report_of_our_own_that_fails_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_result: SessionResult) -> str:
        raise KeyError("kernel")

    monkeypatch.setitem(REPORTS, "html", Report(fail, ".html"))
    files = [ReportFile("html", tmp_path / "out.html"), ReportFile("markdown", tmp_path / "out.md")]

    troubles = publish(canned.quiet(), files)

    assert troubles == {
        files[0]: "the report html was not written: KeyError: 'kernel'; report this with the session's folder"
    }
    assert not files[0].path.exists()
    assert files[1].path.exists()


def test_text_that_is_not_utf8_is_written_all_the_same(tmp_path: Path) -> None:
    result = canned.quiet(environment={"gpu": "H\udc80"}, notes=("\udcff",))

    assert publish(result, [ReportFile(name, tmp_path / name) for name in REPORTS]) == {}


def test_the_summary_of_a_job_is_added_to_what_stands_there(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")

    publish(canned.quiet(), [], step_summary=summary)

    assert summary.read_text().startswith("before\n<!-- pytest-nsight")


def test_annotations_are_for_github_and_start_at_its_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert workflow_commands(canned.full(), Path("/w/repo/python")) == ""

    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", "/w/repo")
    assert "file=python/perf_tests/" in workflow_commands(canned.full(), Path("/w/repo/python"))
    assert "file=perf_tests/" in workflow_commands(canned.full(), Path("/elsewhere"))
