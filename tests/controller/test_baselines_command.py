"""`pytest-nsight baselines list|show|prune` over a small project."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.baselines.failed_saves import FailedSave, store_failed_saves
from pytest_nsight.baselines.store import load, save
from pytest_nsight.baselines.stored_counters import load_counters, store_counters
from pytest_nsight.cli import main
from pytest_nsight.controller.commands import baselines_command
from pytest_nsight.model.kernel_counters import CaseCounters
from tests.baselines.examples import run

pytestmark = pytest.mark.slow

MODEL = "nvidia-h200"
KEPT, GONE = "perf/test_a.py::test_kept[1]", "perf/test_a.py::test_gone"
GONE_FILE, SKIPPED = "perf/test_old.py::test_x", "perf/test_skipped.py::test_y"
DESELECTED, HIDDEN = "perf/test_a.py::test_other", "perf/test_a.py::test_hidden"
CANARY = "nsight_canaries::copy"

MODULE = """
import pytest

@pytest.mark.parametrize("n", [1])
def test_kept(n): pass

def test_other(): pass

def test_hidden(): pass
"""
CONFTEST = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "hidden" not in item.name]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its tests in perf/, and baselines of them and of tests that it no longer has.

    The folder around it holds nothing else: pytest started there would read the conftest.py files of other tests.
    """
    folder = tmp_path / "project"
    (folder / "perf").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -v --lf -k 'not other'\ntestpaths = elsewhere\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "perf/test_a.py").write_text(MODULE)
    (folder / "perf/test_skipped.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    (folder / "perf/setup.py").write_text("open('imported', 'w')\n")
    cases = (KEPT, GONE, GONE_FILE, SKIPPED, DESELECTED, HIDDEN, CANARY)
    save(folder / "baselines", MODEL, [run(number, case) for number, case in enumerate(cases)])
    monkeypatch.chdir(folder)
    return folder


def stored(folder: Path) -> set[str]:
    return {subject.case for subject in load(folder / "baselines", MODEL).runs}


@pytest.mark.slow
def test_prune_names_the_cases_without_a_test_and_removes_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stored(project)

    assert main(["baselines", "prune"]) == 1

    out = capsys.readouterr().out
    assert out.splitlines() == [
        f"{MODEL}: 2 of 6 stored cases to remove",
        f"  {GONE}",
        f"  {GONE_FILE}",
        "nothing was removed; to remove them, add --delete",
    ]
    assert stored(project) == before


@pytest.mark.slow
def test_prune_keeps_what_may_have_these_parameters_on_another_machine(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = KEPT.replace("[1]", "[cuda]")
    save(project / "baselines", MODEL, [run(9, other)])

    assert main(["baselines", "prune", "--delete"]) == 0

    assert f"1 case kept, as the test has other parameters on this machine: {other}" in capsys.readouterr().out
    assert other in stored(project)

    monkeypatch.setattr(baselines_command, "measured_product", lambda: "NVIDIA H200")
    assert main(["baselines", "prune", "--delete"]) == 0
    assert other not in stored(project)


@pytest.mark.slow
def test_prune_with_delete_removes_them_and_then_finds_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stored(project)

    assert main(["baselines", "prune", "--delete"]) == 0
    assert (
        "removed from 2 files; commit baselines:\n  baselines/nvidia-h200/perf.test_a.json"
        in capsys.readouterr().out
    )
    assert stored(project) == before - {GONE, GONE_FILE}
    assert main(["baselines", "prune"]) == 0
    assert capsys.readouterr().out == f"{MODEL}: 0 of 4 stored cases to remove\n"


@pytest.mark.slow
def test_prune_works_below_the_root(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project / "perf")

    assert main(["baselines", "prune", "--baselines", "../baselines"]) == 1
    assert "2 of 6 stored cases to remove" in capsys.readouterr().out


@pytest.mark.parametrize("inside", [".", "perf"])
def test_the_folder_is_the_one_that_the_projects_settings_name(
    project: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    (project / "baselines").rename(project / "stored runs")
    with (project / "pytest.ini").open("a") as file:
        file.write("nsight_baselines = stored runs\n")
    monkeypatch.chdir(project / inside)

    assert main(["baselines", "list"]) == 0
    assert main(["baselines", "prune", "--delete"]) == 0

    assert {subject.case for subject in load(project / "stored runs", MODEL).runs}.isdisjoint({GONE, GONE_FILE})


@pytest.mark.slow
@pytest.mark.parametrize("place", ["above", "beside"])
def test_prune_of_another_projects_baselines_removes_nothing(
    project: Path,
    place: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """pytest would take the folder around it for its root, or another project with a file of the same name."""
    start = project.parent if place == "above" else tmp_path_factory.mktemp("beside")
    if place == "beside":
        (start / "perf").mkdir()
        (start / "pytest.ini").write_text("[pytest]\n")
        (start / "perf/test_a.py").write_text("def test_a(): pass\n")
    monkeypatch.chdir(start)
    before = stored(project)

    assert main(["baselines", "prune", "--delete", "--baselines", str(project / "baselines")]) == 2

    assert f"start it in the project of these baselines, {project}, or name the cases" in capsys.readouterr().err
    assert stored(project) == before


@pytest.mark.slow
def test_prune_says_which_settings_above_the_baselines_are_damaged(
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "pytest.ini").unlink()
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options\n")
    monkeypatch.chdir(tmp_path_factory.mktemp("beside"))
    before = stored(project)

    assert main(["baselines", "prune", "--delete", "--baselines", str(project / "baselines")]) == 2

    error = capsys.readouterr().err
    assert f"cannot be read ({project / 'pyproject.toml'}: " in error
    assert error.count("\n") == 1
    assert stored(project) == before


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["", "nsight_baselines =", "addopts = --nsight"])
def test_prune_of_a_project_that_has_lost_all_its_tests_removes_all(
    project: Path, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is its own by default, or by its ini file."""
    folder = "perf-baselines" if setting else "baselines"
    if setting:
        (project / "baselines").rename(project / folder)
        option = "--nsight-baselines=" if "addopts" in setting else ""
        (project / "pytest.ini").write_text(f"[pytest]\n{setting} {option}{folder}\n")
    for file in (project / "perf").glob("test_*.py"):
        file.unlink()

    assert main(["baselines", "prune", "--baselines", folder]) == 1

    assert "6 of 6 stored cases to remove" in capsys.readouterr().out


@pytest.mark.slow
def test_prune_of_a_project_that_cannot_be_collected_removes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "perf/test_a.py").write_text("import no_such_package\n")
    before = stored(project)

    assert main(["baselines", "prune", "--delete"]) == 2

    error = capsys.readouterr().err
    assert "pytest cannot collect the tests (exit code 2)" in error
    assert "No module named 'no_such_package'" in error
    assert stored(project) == before


@pytest.mark.slow
@pytest.mark.parametrize("case", ["perf/setup.py::x", "../outside/test_evil.py::x", "/tmp/test_evil.py::x"])
def test_a_name_in_a_baseline_imports_no_other_file(project: Path, case: str) -> None:
    outside = project.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "test_evil.py").write_text(f"open({str(project / 'imported')!r}, 'w')\n")
    save(project / "baselines", MODEL, [run(1, case)])

    main(["baselines", "prune"])

    assert not (project / "imported").exists()


def test_prune_of_named_cases_asks_nobody(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "perf/test_a.py").write_text("import no_such_package\n")
    before = stored(project)

    assert main(["baselines", "prune", "--delete", SKIPPED]) == 0
    assert stored(project) == before - {SKIPPED}
    assert main(["baselines", "prune", "--delete", SKIPPED, KEPT]) == 2
    assert f"{SKIPPED} is not stored in baselines" in capsys.readouterr().err
    assert KEPT in stored(project)


def test_list_and_show_select_by_words(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baselines", "list"]) == 0
    assert f"{MODEL}: 7 stored cases, 7 runs" in capsys.readouterr().out
    assert main(["baselines", "show", "test_a.py", "kept"]) == 0
    assert f"{MODEL}: {KEPT}, 1 run" in capsys.readouterr().out


def test_list_names_the_selected_cases_whose_save_failed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = [FailedSave(case, "2026-11-25T10:00:00", "assert 1 == 2") for case in (KEPT, SKIPPED)]
    store_failed_saves(project / "baselines", MODEL, failed, settled=())

    assert main(["baselines", "list", "test_a.py"]) == 0

    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"{KEPT}: its save of 2026-11-25 failed (assert 1 == 2); save it again with --nsight-save"
    assert main(["baselines", "list", "test_old.py"]) == 0
    assert "failed" not in capsys.readouterr().out


def test_what_is_pruned_leaves_no_counters(project: Path) -> None:
    counters = [CaseCounters(case, "counters of an H200", ()) for case in (KEPT, SKIPPED)]
    store_counters(project / "baselines", MODEL, counters, outdated=())

    assert main(["baselines", "prune", SKIPPED, "--delete"]) == 0

    assert load_counters(project / "baselines", MODEL).keys() == {KEPT}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "nothing"], "no case stored in baselines has nothing in its id"),
        (["list", "--model", "h100"], f"baselines has no model h100; it has {MODEL}"),
        (["show", "--baselines", "none"], "cannot read none: no such file or directory"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["baselines", *arguments]) == 2
    assert message in capsys.readouterr().err
