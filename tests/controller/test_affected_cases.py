"""--nsight-affected: which cases a change concerns, asked of a real pytest and a real git; nothing is measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_nsight.controller.collection import affected_cases
from tests.repositories import git

pytestmark = pytest.mark.slow

FILES = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "conftest.py": "",
    "pkg/__init__.py": "",
    "pkg/ops.py": "from .deep import core\ndef f(): pass\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/core.py": "",
    "pkg/other.py": "import importlib\nhelper = importlib.import_module('pkg.late')\n",
    "pkg/late.py": "",
    "pkg/unused.py": "",
    "perf/conftest.py": "import support\n",
    "support.py": "",
    "perf/test_ops.py": ("import pytest\nfrom pkg import ops\n@pytest.mark.nsight\ndef test_ops(nsight): pass\n"),
    "perf/test_other.py": (
        "import pytest\n@pytest.mark.nsight\ndef test_other(nsight):\n    import pkg.other\n"
        "def test_plain(): pass\n"
    ),
    "own/test_alone.py": "import pytest\n@pytest.mark.nsight\ndef test_alone(nsight): pass\n",
    "own/data.bin": "",
    ".gitignore": ".nsight\n__pycache__\nbuilt.py\n",
}
OPS, OTHER = "perf/test_ops.py::test_ops", "perf/test_other.py::test_other"
ALONE = "own/test_alone.py::test_alone"
ALL = {OPS, OTHER, ALONE}

Select = Callable[..., set[str]]


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    # The collector that needs neither torch nor a GPU: choosing one is all that happens here.
    folder = pytester.copy_example("clock_collector")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    root = pytester.path / "project"
    write(root, FILES)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def collect(project: Path, pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess(
            *("-p", "pytest_nsight.plugin", "--nsight", "--nsight-collector=clock"),
            *("--collect-only", "-q", "-p", "no:cacheprovider"),
            *(arguments or ("--nsight-affected=HEAD",)),
        )

    return run


def selected(result: pytest.RunResult) -> set[str]:
    return {line for line in result.outlines if line in ALL}


def test_nothing_changed_leaves_no_case_and_the_tests_without_the_mark(
    collect: Callable[..., pytest.RunResult],
) -> None:
    result = collect()

    assert selected(result) == set()
    result.stdout.fnmatch_lines(["perf/test_other.py::test_plain", "*3 deselected*"])


def test_the_versions_of_libraries_are_read_once_for_all_cases(
    collect: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    monkeypatch.setattr(affected_cases, "_installed", lambda: reads.append(1) or {})

    assert selected(collect()) == set()

    assert len(reads) == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("perf/test_ops.py", {OPS}),
        ("pkg/ops.py", {OPS}),
        ("pkg/deep/core.py", {OPS}),
        ("pkg/deep/__init__.py", {OPS}),
        ("pkg/__init__.py", {OPS, OTHER}),
        ("pkg/other.py", {OTHER}),
        ("pkg/late.py", {OTHER}),
        ("support.py", {OPS, OTHER}),
        ("pkg/unused.py", set()),
        ("own/data.bin", set()),
        ("README.md", set()),
        ("perf/conftest.py", ALL),
        ("conftest.py", ALL),
        ("pytest.ini", ALL),
        ("requirements-dev.txt", ALL),
        ("uv.lock", ALL),
        ("perf/requirements/gpu.txt", ALL),
        ("baselines/nvidia-h200/perf.test_ops.json", {OPS}),
        ("baselines/nvidia-h200/nsight_canaries.json", ALL),
    ],
)
def test_a_changed_file_concerns_who_depends_on_it(
    project: Path, collect: Callable[..., pytest.RunResult], changed: str, expected: set[str]
) -> None:
    path = project / changed
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n" if changed.endswith((".py", ".ini")) else "")

    # Uncommitted, or untracked where it is new.
    assert selected(collect()) == expected


def test_a_module_that_only_a_fixture_makes_importable_concerns_who_imports_it(
    project: Path, collect: Callable[..., pytest.RunResult]
) -> None:
    text = (
        "import pytest\n@pytest.mark.nsight\ndef test_alone(nsight, monkeypatch):\n"
        "    monkeypatch.syspath_prepend('source')\n    import late_kernel\n"
    )
    write(project, {"own/test_alone.py": text, "source/late_kernel.py": ""})
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "late")
    write(project, {"source/late_kernel.py": "x = 1\n"})

    assert selected(collect()) == {ALONE}


def test_a_committed_change_counts_since_the_commit_before_it(
    project: Path, collect: Callable[..., pytest.RunResult]
) -> None:
    write(project, {"pkg/ops.py": "x = 1\n"})
    git(project, "commit", "--quiet", "--all", "--message", "second")

    assert selected(collect("--nsight-affected=HEAD~1")) == {OPS}
    assert selected(collect("--nsight-affected=HEAD")) == set()


def test_renamed_deleted_and_ignored_files(project: Path, collect: Callable[..., pytest.RunResult]) -> None:
    git(project, "mv", "pkg/unused.py", "pkg/used.py")
    assert selected(collect()) == set()
    # Whoever still imports the old name is concerned, though no such file is found.
    write(project, {"pkg/late.py": "try:\n    import pkg.gone\nexcept ImportError:\n    pass\n", "pkg/gone.py": ""})
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "gone")
    git(project, "rm", "--quiet", "pkg/gone.py")
    assert selected(collect()) == {OTHER}
    git(project, "commit", "--quiet", "--message", "really gone")
    write(project, {"built.py": "x = 1\n"})
    assert selected(collect()) == set()


@pytest.mark.parametrize(("declared", "expected"), [("*.bin", ALL), ("own/*", ALL), ("csrc/* *.cu", set())])
def test_a_declared_file_concerns_all(
    project: Path, collect: Callable[..., pytest.RunResult], declared: str, expected: set[str]
) -> None:
    write(project, {"pytest.ini": f"{FILES['pytest.ini']}nsight_affected_by = {declared}\n"})
    git(project, "commit", "--quiet", "--all", "--message", "declare")
    write(project, {"own/data.bin": "x"})

    assert selected(collect()) == expected
    assert selected(collect("--nsight-affected=HEAD", "--nsight-affected-by=own/*.bin")) == ALL


def test_a_case_is_measured_with_the_one_that_a_claim_compares_it_with(
    project: Path, collect: Callable[..., pytest.RunResult]
) -> None:
    text = (
        "import pytest\nclass TestA:\n    @pytest.mark.nsight(faster_than='slow')\n"
        "    @pytest.mark.parametrize('how', ['fast', 'slow'])\n    def test_a(self, nsight, how): pass\n"
    )
    write(project, {"own/test_alone.py": text})

    lines = collect().outlines

    assert "own/test_alone.py::TestA::test_a[fast]" in lines
    assert "own/test_alone.py::TestA::test_a[slow]" in lines


def test_an_affected_selection_is_divided_among_shards(
    project: Path, collect: Callable[..., pytest.RunResult]
) -> None:
    write(project, {"pkg/__init__.py": "x = 1\n"})

    halves = [selected(collect("--nsight-affected=HEAD", f"--nsight-shard={number}/2")) for number in (1, 2)]

    assert sorted(map(len, halves)) == [1, 1]
    assert halves[0] | halves[1] == {OPS, OTHER}


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere", "git knows no such commit; fetch it"), ("", "--nsight-affected is empty")],
)
def test_a_revision_that_git_does_not_know_is_one_sentence(
    collect: Callable[..., pytest.RunResult], name: str, said: str
) -> None:
    result = collect(f"--nsight-affected={name}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert said in line


def test_a_shallow_clone_a_folder_without_git_and_a_machine_without_it_are_one_sentence(
    project: Path,
    collect: Callable[..., pytest.RunResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    git(project, "commit", "--quiet", "--allow-empty", "--message", "second")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    shallow = collect("--nsight-affected=HEAD~1", "--rootdir=.")
    assert "git knows no such commit; fetch it" in shallow.stderr.str()
    (project / ".git").rename(project / "git")
    monkeypatch.chdir(project)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert "is in no git repository" in collect().stderr.str()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is needed and cannot be started" in collect().stderr.str()
