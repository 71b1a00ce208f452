"""`pytest-nsight init`: a user's repository gets what it lacks, and keeps what it has."""

from __future__ import annotations

import configparser
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.setup_repository.initialise import ATTRIBUTES, Outcome, SetUp, Step, render, set_up

pytestmark = pytest.mark.slow

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the worked test needs torch")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-git-config"))
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "trunk")
    return root


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(root).parts[:1]
    }


def outcomes(done: SetUp) -> dict[str, Outcome]:
    return {step.name: step.outcome for step in done.steps}


def test_an_empty_repository_gets_a_test_settings_attributes_and_workflows(repository):
    done = set_up(repository)

    assert set(contents(repository)) == {
        "perf_tests/test_example.py",
        "pytest.ini",
        ".gitattributes",
        *(
            f".github/workflows/{name}.yml"
            for name in (
                "gpu-gate",
                "gpu-comment",
                "gpu-compare",
                "gpu-runner-check",
                "gpu-shards",
                "update-baselines",
            )
        ),
    }
    assert set(outcomes(done).values()) == {Outcome.CREATED}
    assert git(repository, "config", "merge.pytest-nsight.driver") == "pytest-nsight merge-baselines %O %A %B %P"
    assert git(repository, "check-attr", "merge", "baselines/nvidia-h200/test_x.json").endswith("pytest-nsight")
    assert 'branches: ["trunk"]' in (repository / ".github/workflows/gpu-gate.yml").read_text()


def test_a_second_time_everything_is_kept(repository):
    set_up(repository)
    before = contents(repository)

    again = set_up(repository)

    assert set(outcomes(again).values()) == {Outcome.KEPT}
    assert contents(repository) == before
    assert "git add perf_tests pytest.ini .gitattributes .github baselines && git commit" in render(again)

    git(repository, "add", ".")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "Perf tests")

    assert "git add baselines && git commit" in render(set_up(repository))


def test_what_exists_is_never_overwritten(repository):
    mine = {
        "perf_tests/test_mine.py": b"def test_mine(): ...\n",
        ".github/workflows/gpu-gate.yml": b"mine",
        ".gitattributes": b"*.bin binary",
        "pytest.ini": b"[pytest]\naddopts = -q\n",
    }
    for name, text in mine.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(text)
    git(repository, "config", "merge.pytest-nsight.driver", "mine")

    steps = outcomes(set_up(repository))

    after = contents(repository)
    assert all(after[name].startswith(text) for name, text in mine.items())
    assert after[".gitattributes"] == f"*.bin binary\n{ATTRIBUTES}\n".encode()
    assert "perf_tests/test_example.py" not in after
    assert steps["pytest.ini"] is steps[".github/workflows/gpu-gate.yml"] is Outcome.KEPT
    assert git(repository, "config", "merge.pytest-nsight.driver") == "mine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = ['-q']\n"),
        ("pyproject.toml", "[tool]\npytest.ini_options.addopts = ['-q']\n"),
        ("pyproject.toml", "[tool.'pytest'.ini_options]\naddopts = ['-q']\n"),
        ("tox.ini", "[pytest]\naddopts = -q\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -q\n"),
        (".pytest.ini", "[pytest]\n"),
    ],
)
def test_settings_that_a_project_has_are_not_edited_but_named(repository, name, text):
    (repository / name).write_text(text)

    (step,) = [step for step in set_up(repository).steps if step.name == name]

    assert step.outcome is Outcome.KEPT
    # Only TOML puts texts in quotes; pytest takes those of an ini file for a part of the value.
    band, baselines = ('"1%"', '"baselines"') if name.endswith(".toml") else ("1%", "baselines")
    assert step.remark.endswith(f": nsight_band = {band}; nsight_baselines = {baselines}")
    assert (repository / name).read_text() == text
    assert not (repository / "pytest.ini").exists()


def test_a_project_without_pytest_settings_gets_them_in_pyproject(repository):
    (repository / "pyproject.toml").write_text("[project]\nname = 'x'")

    set_up(repository)

    assert (repository / "pyproject.toml").read_text() == (
        '[project]\nname = \'x\'\n\n[tool.pytest.ini_options]\nnsight_band = "1%"\nnsight_baselines = "baselines"\n'
    )


def test_settings_of_a_plugin_of_pytest_are_not_those_of_pytest(repository):
    (repository / "pyproject.toml").write_text("[tool.pytest_env]\nHOME = '/tmp'\n")

    set_up(repository)

    assert "[tool.pytest.ini_options]\nnsight_band" in (repository / "pyproject.toml").read_text()


def test_a_file_that_takes_no_further_table_stays_as_it_is(repository: Path) -> None:
    inline = "tool = {ruff = {line-length = 100}}\n"
    (repository / "pyproject.toml").write_text(inline)

    set_up(repository)

    assert (repository / "pyproject.toml").read_text() == inline
    assert (repository / "pytest.ini").read_text().startswith("[pytest]\nnsight_band")


def test_everything_is_written_at_the_root_of_the_repository(repository):
    inside = repository / "src" / "package"
    inside.mkdir(parents=True)

    set_up(inside)

    assert (repository / "perf_tests/test_example.py").exists()
    assert not (inside / "perf_tests").exists()


def test_the_settings_can_be_read_by_pytest(repository):
    set_up(repository)
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(repository / "pytest.ini")

    assert dict(settings["pytest"]) == {"nsight_band": "1%", "nsight_baselines": "baselines"}


def test_a_repository_elsewhere_gets_no_github_workflows(repository):
    git(repository, "remote", "add", "origin", "https://gitlab.example/group/project.git")

    done = set_up(repository)

    assert not (repository / ".github").exists()
    assert "gitlab.example" in done.steps[-1].remark


def test_a_folder_that_leads_out_of_the_repository_is_not_written_into(repository, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / "perf_tests").symlink_to(outside)

    steps = outcomes(set_up(repository))

    assert list(outside.iterdir()) == []
    assert steps["perf_tests/test_example.py"] is Outcome.KEPT


def test_a_folder_without_git_is_an_error_with_a_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)

    assert main(["init"]) == 2
    assert f"{tmp_path} is in no git repository; run `git init`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_repository_of_another_owner_is_an_error_with_gits_reason(repository, monkeypatch, capsys):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.chdir(repository)

    assert main(["init"]) == 2
    said = capsys.readouterr().err
    assert f"git refuses the repository of {repository}: detected dubious ownership in repository at " in said
    assert f"; type: git config --global --add safe.directory {repository}\n" in said
    assert "git init" not in said


def test_a_bare_repository_is_an_error_with_a_remedy(repository, monkeypatch, capsys):
    bare = repository / "bare.git"
    git(repository, "init", "--quiet", "--bare", str(bare))
    monkeypatch.chdir(bare)

    assert main(["init"]) == 2
    assert "is in a bare git repository, which has no files; clone it and go there" in capsys.readouterr().err


def test_a_file_in_the_way_is_named(repository, monkeypatch, capsys):
    (repository / "perf_tests").write_text("a file where a folder must be")
    monkeypatch.chdir(repository)

    assert main(["init"]) == 2
    said = capsys.readouterr().err
    assert f"cannot write {repository}/perf_tests: " in said
    assert "it is a file, and has to be a folder: rename it, then run `pytest-nsight init` again" in said
    assert (repository / "perf_tests").read_text() == "a file where a folder must be"


def test_the_output_says_what_to_type_next(repository, monkeypatch, capsys):
    monkeypatch.chdir(repository)

    assert main(["init"]) == 0

    said = capsys.readouterr().out
    assert "created   perf_tests/test_example.py" in said
    assert "git add perf_tests pytest.ini .gitattributes .github baselines && git commit" in said
    assert render(SetUp((Step("a", Outcome.KEPT),))).startswith("kept      a\n")


def test_the_commands_that_are_printed_work_from_the_folder_of_the_call(repository, monkeypatch, capsys):
    inside = repository / "src" / "package"
    inside.mkdir(parents=True)
    (repository / "baselines").mkdir()
    (repository / "baselines/kept").touch()
    monkeypatch.chdir(inside)

    assert main(["init"]) == 0

    said = capsys.readouterr().out
    assert said.startswith("In ../.., the top folder of the repository:\n")
    commands = [line.strip() for line in said.splitlines() if line.startswith(("  cd ", "  git add "))]
    assert len(commands) == 2
    script = "\n".join(["set -e", *(line.partition(" && ")[0] for line in commands)])
    subprocess.run(["sh", "-c", script], check=True, cwd=inside)
    assert "perf_tests/test_example.py" in git(repository, "ls-files")


@needs_torch
@pytest.mark.slow
def test_the_worked_test_passes_is_saved_and_judged(repository):
    set_up(repository)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments, "perf_tests/"],
            cwd=repository,
            capture_output=True,
            text=True,
            check=False,
        )

    plain, saved = (
        run("--strict-markers"),
        run("--nsight", "--nsight-save", "--nsight-runs=3", "--nsight-rounds=10"),
    )
    judged = run("--nsight", "--nsight-rounds=10", "--nsight-collector=torch")

    assert plain.returncode == 0, plain.stdout
    assert saved.returncode == 0, saved.stdout
    assert list((repository / "baselines").glob("*/*.json"))
    assert judged.returncode == 0, judged.stdout
    assert "2 verdicts" in judged.stdout


def test_a_setting_that_git_refuses_is_left_out_with_the_command_to_type(repository):
    (repository / ".git/config.lock").touch()

    done = set_up(repository)

    (step,) = (step for step in done.steps if step.name == "git config merge.pytest-nsight.name")
    assert step.outcome is Outcome.LEFT_OUT
    assert "could not lock config file" in step.remark
    assert step.remark.endswith("git config merge.pytest-nsight.name 'unite the runs of both baselines'")
