"""No option of the plugin moves pytest's root folder, and with it the baselines that count."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.controller.rootdir import find_baselines, find_configured_root, find_separate_values
from pytest_nsight.model.errors import UsageError

Collect = Callable[..., pytest.RunResult]


@pytest.fixture
def collect(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Collect:
    """Collects a project's tests from inside of it; a report lies beside the project, and one inside."""
    project = pytester.mkdir("project")
    (project / "tests").mkdir()
    (project / "tests" / "test_case.py").write_text("def test_plain(): pass\n")
    for folder in (pytester.mkdir("reports"), project):
        (folder / "out.json").touch()
    monkeypatch.chdir(project)

    def run(*arguments: str, has_ini: bool = True) -> pytest.RunResult:
        if has_ini:
            (project / "pytest.ini").write_text("[pytest]\n")
        return pytester.runpytest_subprocess("--nsight", "--collect-only", *arguments)

    return run


def test_a_report_beside_the_project_is_no_test(collect: Collect, pytester: pytest.Pytester) -> None:
    report = str(pytester.path / "reports" / "out.json")

    result = collect("--nsight-json", report)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = " ".join(result.stderr.str().split())
    assert f"pytest took {report}, the value of --nsight-json, for a test" in said
    assert f"it is {pytester.path}/project with {pytester.path}/project/pytest.ini" in said
    assert f"write --nsight-json={report}" in said


def test_baselines_beside_the_project_are_no_tests_without_an_ini_file_either(collect: Collect) -> None:
    result = collect("--nsight-baselines", "../reports", "tests", has_ini=False)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "write --nsight-baselines=../reports" in " ".join(result.stderr.str().split())


@pytest.fixture
def has_baselines(collect: Collect, pytester: pytest.Pytester) -> Path:
    """The project has baselines, and an ini file lies beside it."""
    (pytester.path / "other.ini").write_text("[pytest]\n")
    folder = pytester.path / "project" / "baselines"
    (folder / "nvidia-h200").mkdir(parents=True)
    (folder / "nvidia-h200" / "test_case.json").write_text("{}")
    return folder


def test_an_ini_file_elsewhere_does_not_take_the_baselines_away(collect: Collect, has_baselines: Path) -> None:
    result = collect("-c", "../other.ini", "tests")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = " ".join(result.stderr.str().split())
    assert f"it makes {has_baselines.parents[1]}/baselines their folder" in said
    assert f"those in {has_baselines} would not count; add --rootdir={has_baselines.parent}" in said


def test_what_is_to_be_typed_is_quoted(collect: Collect, pytester: pytest.Pytester, has_baselines: Path) -> None:
    project = has_baselines.parent.rename(pytester.path / "the project")
    (project / "pytest.ini").write_text("[pytest]\n")
    pytester.chdir()

    result = pytester.runpytest_subprocess(
        "--nsight", "--collect-only", "-c", str(pytester.path / "other.ini"), str(project / "tests")
    )

    assert f"add --rootdir='{project}'" in " ".join(result.stderr.str().split())


def test_an_ini_file_beside_the_projects_does_not_take_its_baselines_away(
    collect: Collect, has_baselines: Path
) -> None:
    has_baselines.rename(has_baselines.parent / "stored")
    (has_baselines.parent / "pytest.ini").write_text("[pytest]\nnsight_baselines = stored\n")
    (has_baselines.parent / "ci.ini").write_text("[pytest]\n")

    result = collect("-c", "ci.ini", "tests", has_ini=False)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"add --nsight-baselines={has_baselines.parent}/stored" in " ".join(result.stderr.str().split())


def test_an_ini_file_may_be_given_because_the_projects_cannot_be_read(
    collect: Collect, has_baselines: Path
) -> None:
    (has_baselines.parent / "setup.cfg").write_text("[pytest]\n")

    assert collect("-c", "../other.ini", "tests", has_ini=False).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("option", ["--rootdir=.", "--nsight-baselines=baselines"])
def test_an_ini_file_elsewhere_is_fine_with_the_root_folder_or_the_baselines_named(
    collect: Collect, has_baselines: Path, option: str
) -> None:
    assert has_baselines.exists()
    assert collect("-c", "../other.ini", option, "tests").ret == pytest.ExitCode.OK


def test_an_ini_file_in_the_project_may_be_named(collect: Collect, has_baselines: Path) -> None:
    (has_baselines.parent / "ci.ini").write_text("[pytest]\n")

    assert collect("-c", "ci.ini", "tests").ret == pytest.ExitCode.OK


def test_a_given_root_folder_does_not_find_the_ini_file(collect: Collect) -> None:
    result = collect("--rootdir=.", "--nsight-json", "../reports/out.json")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "/project without an ini file; it is" in " ".join(result.stderr.str().split())


def test_options_of_the_environment_count_too(
    collect: Collect, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = pytester.path / "reports" / "out.json"
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--nsight-json {shlex.quote(str(report))}")

    assert collect().ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nsight-json=../reports/out.json",),
        ("--nsight-json", "../reports/new.json"),
        # Its tests have an ini file, which pytest finds.
        ("--nsight-json", "../reports/out.json", "tests"),
        ("--nsight-json", "out.json"),
        ("--nsight-json", "out.json", "tests"),
        ("-c", "pytest.ini", "--nsight-json", "../reports/out.json"),
        ("tests", "--nsight-runs", "2"),
        ("tests", "--nsight-save", "--nsight-reason", "because " * 40),
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_what_moves_nothing_is_accepted(arguments: tuple[str, ...], collect: Collect) -> None:
    result = collect(*arguments)

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["rootdir: */project"])


def test_values_are_found_behind_options_only() -> None:
    given = shlex.split("--nsight tests --nsight-json a.json --nsight-json=b.json -k x --nsight-save -v")

    assert list(find_separate_values(given)) == [("--nsight", "tests"), ("--nsight-json", "a.json")]
    assert list(find_separate_values([])) == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("pyproject.toml", b"[tool.pytest.ini_options\n", "pyproject.toml: "),
        ("pytest.ini", b"addopts = -q\n", "no section header"),
        ("pytest.ini", b"[pytest]\n# \xff\n", "can't decode byte 0xff"),
        ("setup.cfg", b"[pytest]\n", "setup.cfg"),
    ],
)
def test_settings_that_cannot_be_read_are_one_sentence(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "below").mkdir()

    with pytest.raises(UsageError, match="cannot be read") as raised:
        find_configured_root(tmp_path / "below")

    said = str(raised.value)
    assert said.startswith(f"the settings of the project around {tmp_path / 'below'} cannot be read (")
    assert reason in said
    assert said.endswith("correct that file, or name the folder with --rootdir")
    assert "\n" not in said


def test_the_folder_of_the_project_is_where_pytest_starts(collect: Collect) -> None:
    """What the tests above rest on."""
    assert Path.cwd().name == "project"


def test_a_test_whose_id_does_not_lead_to_its_file_is_refused(
    collect: Collect, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytester.path / "installed" / "ext"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    marked = "import pytest\n\n@pytest.mark.nsight\ndef test_case(nsight): nsight(lambda: None)\n"
    (package / "test_ext.py").write_text(marked)
    collect()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))

    result = pytester.runpytest_subprocess("--nsight", "--nsight-collector=torch", "--pyargs", "ext.test_ext")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = " ".join(result.stderr.str().split())
    assert f"is in {package / 'test_ext.py'}, outside of pytest's root folder" in said
    assert "give a root folder above both with --rootdir" in said


def test_baselines_that_are_still_to_be_made_are_where_the_settings_name_them(tmp_path: Path) -> None:
    inside = tmp_path / "perf"
    inside.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    assert find_baselines(inside) == Path("baselines")

    (tmp_path / "pytest.ini").write_text("[pytest]\nnsight_baselines = stored runs\n")
    assert find_baselines(tmp_path) == Path("stored runs")
    assert find_baselines(inside) == Path("../stored runs")
