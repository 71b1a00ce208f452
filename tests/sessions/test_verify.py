"""`pytest-nsight verify` on a session that was measured in one copy of a tree and is checked in another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

OPS = "import torch\n\ndef work(x):\n    return x * 2.0\n"

SUITE = """
import pytest, torch
from ops import work

@pytest.mark.nsight(rounds=5)
@pytest.mark.parametrize("size", [8, 64])
def test_work(nsight, size):
    nsight(work, torch.ones(size, size))

def test_of_no_interest():
    raise AssertionError("verify runs no test")
"""

OTHERS = """
import pytest, torch

@pytest.mark.nsight(rounds=5)
def test_unmeasured(nsight):
    nsight(torch.exp, torch.ones(8))
"""


def pytest_nsight(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "pytest_nsight.cli", *arguments)
    # What python -m adds to sys.path is the checkout that the command is started in.
    environ = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def gate(folder: Path, *arguments: str) -> None:
    command = (sys.executable, "-m", "pytest", "--nsight", "-p", "no:randomly", *arguments)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree that lies in a folder of a larger one, with the kept session of its two cases and their baselines."""
    top = tmp_path_factory.mktemp("measured") / "tree"
    folder = top / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    (folder / "src/ops.py").write_text(OPS)
    (folder / "test_case.py").write_text(SUITE)
    (folder / "test_others.py").write_text(OTHERS)
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    gate(folder, "--nsight-save", "--nsight-runs=3", "--nsight-keep", "-k", "test_work", "test_case.py")
    (saving,) = (path.parent for path in folder.glob(".nsight/*/kept"))
    saving.rename(top.parent / "saving")
    # Beside other tests a time may look slower, and would be measured again.
    gate(folder, "--nsight-keep", "--nsight-runs=1", "-k", "test_work", "test_case.py")
    return top


@pytest.fixture
def copies(measured: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The session and, elsewhere, a tree that has neither sessions nor git."""
    (session,) = (path.parent for path in measured.glob("project/.nsight/*/kept"))
    shutil.copytree(session, tmp_path / "session")
    shutil.copytree(measured, tmp_path / "tree", ignore=shutil.ignore_patterns(".git", ".nsight", "__pycache__"))
    return tmp_path / "session", tmp_path / "tree"


def verify(copies: tuple[Path, Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    session, tree = copies
    return pytest_nsight(tree.parent, "verify", str(session), "--tree", str(tree), *arguments)


def test_an_equal_tree_belongs_and_is_judged_by_its_own_baselines(copies: tuple[Path, Path]) -> None:
    result = verify(copies, "-v")

    assert result.returncode == 0, result.stdout + result.stderr
    # A busy machine needs more than one.
    assert re.search(r"\d+ process(es)?, \d+0 rounds", result.stdout)
    assert "2 passed" in result.stdout
    assert "NO_BASELINE" not in result.stdout
    assert "OF THIS TREE: 3 files that its tests depend on have the hashes of the session" in result.stdout
    # Nothing is written where it is verified.
    assert not list(copies[1].rglob(".nsight"))


def test_a_session_is_not_compared_with_what_it_has_saved_itself(copies: tuple[Path, Path], measured: Path) -> None:
    result = verify((measured.parent / "saving", copies[1]))

    said = " ".join(result.stdout.split())
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 without baseline" in said
    assert "no baseline: the only stored runs are this session's own; judge a later session by them" in said


@pytest.mark.parametrize(
    ("start", "tree"), [("", "tree"), ("tree", "."), ("tree/project", ".."), ("tree/project/src", "../..")]
)
def test_the_tree_may_be_given_from_anywhere(copies: tuple[Path, Path], start: str, tree: str) -> None:
    session, top = copies
    arguments = ("verify", str(session), "--tree", tree)

    result = pytest_nsight(top.parent / start, *arguments)

    assert result.returncode == 0, result.stdout + result.stderr
    assert "OF THIS TREE: 3 files" in result.stdout

    # Evidence that leaves a file out proves nothing, wherever the command is started.
    _forge(lambda fields: fields["files"].pop("project/src/ops.py"))(session)  # type: ignore[attr-defined]
    refused = pytest_nsight(top.parent / start, *arguments)

    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "NOT PROVED: its tests depend on project/src/ops.py here" in refused.stdout


def test_a_folder_in_the_tree_is_not_the_tree_and_the_remedy_is_named(copies: tuple[Path, Path]) -> None:
    session, tree = copies

    result = pytest_nsight(tree / "project", "verify", str(session))

    assert result.returncode == 1
    assert f"{tree / 'project'} has none of the files; give the top folder of the tree with --tree" in result.stdout


def test_a_changed_tree_is_another_whose_code_does_not_run(copies: tuple[Path, Path]) -> None:
    tree = copies[1] / "project"
    (tree / "src/ops.py").write_text(f"{OPS}\nopen('ran', 'w')\n")
    (tree / "test_case.py").unlink()

    result = verify(copies)

    assert result.returncode == 1
    assert "NOT OF THIS TREE: other here than in what it measured: project/src/ops.py" in result.stdout
    assert "NOT OF THIS TREE: missing here: project/test_case.py" in result.stdout
    assert not list(tree.rglob("ran"))
    assert not Path("ran").exists()


def test_the_baselines_of_the_tree_decide(copies: tuple[Path, Path]) -> None:
    """The session claims nothing of its own: the tree's stored runs may be of another structure."""
    stored = next(copies[1].glob("project/baselines/*/test_case.json"))
    text = stored.read_text()
    assert '"mul"' in text
    stored.write_text(text.replace('"mul"', '"fused_mul"'))

    result = verify(copies)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "STRUCTURE" in result.stdout
    assert "OF THIS TREE" in result.stdout


def test_a_session_in_a_tree_whose_json_files_count_is_no_file_that_its_tests_depend_on(
    measured: Path, tmp_path: Path
) -> None:
    """As `nsight_affected_by = *.json` says it, and where CI without a GPU has the session."""
    tree = tmp_path / "tree"
    shutil.copytree(measured / "project", tree, ignore=shutil.ignore_patterns(".nsight"))
    (tree / "pytest.ini").write_text("[pytest]\npythonpath = src\nnsight_affected_by = *.json\n")
    (tree / "tuning.json").write_text("{}")
    gate(tree, "--nsight-keep", "--nsight-runs=1", "-k", "test_work", "test_case.py")
    (session,) = (path.parent for path in tree.glob(".nsight/*/kept"))
    session.rename(tree / "gpu-evidence")

    result = pytest_nsight(tree, "verify", "gpu-evidence")

    assert result.returncode == 0, result.stdout + result.stderr
    assert "OF THIS TREE: 4 files that its tests depend on" in result.stdout
    # The session itself was hidden where it was measured, so that only this tree tells.
    assert re.search(r"not covered by the hashes: .*gpu-evidence \(\d+ files of a recorded session", result.stdout)


def test_paths_of_the_command_line_start_where_it_was_started(copies: tuple[Path, Path], tmp_path: Path) -> None:
    session, tree = copies
    here = tmp_path / "here"
    here.mkdir()
    (tree / "project/baselines").rename(here / "mybase")
    reports = ("--nsight-html=page.html", "--nsight-report=otava=out.csv", "--junitxml", "out.xml")

    result = pytest_nsight(
        here, "verify", str(session), "--tree", "../tree", "--nsight-baselines=mybase", *reports, "test_case.py"
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "NO_BASELINE" not in result.stdout
    assert {path.name for path in here.iterdir()} == {"mybase", "out.csv", "out.xml", "page.html"}


def test_marked_tests_without_a_record_are_named_and_fail_strict(copies: tuple[Path, Path]) -> None:
    others = str(copies[1] / "project/test_others.py")

    result = verify(copies, others)
    strict = verify(copies, "--nsight-strict", others)

    assert result.returncode == 0, result.stdout + result.stderr
    for outcome in (result, strict):
        assert "the session has no record of 1 marked test: test_others.py::test_unmeasured" in outcome.stdout
    assert strict.returncode == 1


def _remove_runs(session: Path) -> None:
    # A busy machine needs more than one.
    for run in session.glob("run-*"):
        shutil.rmtree(run)


def _forge(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def forge(session: Path) -> None:
        fields = json.loads((session / "evidence.json").read_text())
        change(fields)
        (session / "evidence.json").write_text(json.dumps(fields))

    return forge


@pytest.mark.parametrize(
    ("forge", "sentence", "code"),
    [
        (lambda session: (session / "evidence.json").unlink(), "does not say which files it measured", 4),
        (
            _forge(lambda fields: fields["files"].pop("project/src/ops.py")),  # type: ignore[attr-defined]
            "NOT PROVED: its tests depend on project/src/ops.py here, which it has not hashed",
            1,
        ),
        (
            _forge(lambda fields: fields["files"].update({"../session/kept": "0" * 64})),  # type: ignore[attr-defined]
            "NOT OF THIS TREE: missing here: ../session/kept",
            1,
        ),
        (
            _forge(lambda fields: fields["cases"].append("../evil.py::test")),  # type: ignore[attr-defined]
            "names tests in 'project/../evil.py' and holds no hash of it",
            4,
        ),
        (
            _forge(lambda fields: fields["cases"].append("test_case.py::test_gone")),  # type: ignore[attr-defined]
            "NOT JUDGED: the session holds no run of test_case.py::test_gone",
            4,
        ),
        (
            _forge(lambda fields: fields.update(changed=["project/src/ops.py"])),
            "NOT OF ONE TREE: project/src/ops.py changed while it measured",
            1,
        ),
        (
            _remove_runs,
            "NOT JUDGED: the session holds no run of ",
            4,
        ),
        (
            lambda session: (session / "run-001/manifest.jsonl").write_text("[" * 100_000 + "\n"),
            "manifest.jsonl, line 1 is damaged",
            4,
        ),
    ],
    ids=["older", "less", "outside", "evil", "gone", "changed", "no-run", "damaged"],
)
def test_what_proves_too_little_is_one_sentence(
    copies: tuple[Path, Path], forge: Callable[[Path], None], sentence: str, code: int
) -> None:
    forge(copies[0])

    result = verify(copies)

    assert result.returncode == code, result.stdout + result.stderr
    assert sentence in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_the_runs_of_another_session_are_not_judged_in_its_place(copies: tuple[Path, Path]) -> None:
    result = verify(copies, f"--nsight-replay={copies[0]}")

    assert result.returncode == 4
    assert "verify judges the session" in result.stderr
    assert "leave --nsight-replay out" in result.stderr


def test_files_that_change_during_a_session_spoil_its_evidence(measured: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(measured / "project", tree, ignore=shutil.ignore_patterns(".nsight", "baselines"))
    edits = SUITE.replace("    nsight(work,", "    open('src/ops.py', 'a').write('# later')\n    nsight(work,")
    (tree / "test_case.py").write_text(edits)

    command = (sys.executable, "-m", "pytest", "--nsight", "--nsight-keep", "-k", "test_work", "test_case.py")
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    (session,) = (path.parent for path in tree.glob(".nsight/*/kept"))
    verified = verify((session, tree))

    assert "src/ops.py changed while this session measured, so pytest-nsight verify will not accept it" in (
        result.stdout
    )
    assert verified.returncode == 1
    assert "NOT OF ONE TREE: src/ops.py changed" in verified.stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise SystemExit", "SystemExit(None) before it was done, so nothing was judged"),
        ("raise SystemExit(1)", "SystemExit(1) before it was done, so nothing was judged"),
    ],
    ids=["without-a-code", "with-a-code"],
)
def test_a_conftest_that_ends_pytest_leaves_the_session_unjudged(
    copies: tuple[Path, Path], text: str, sentence: str
) -> None:
    # The session has not hashed it, as of a file that stands on one machine only.
    copies[1].joinpath("project/conftest.py").write_text(text, encoding="utf-8")

    result = verify(copies)

    assert result.returncode == 4, result.stdout + result.stderr
    assert sentence in " ".join((result.stdout + result.stderr).split())


def write_plugin(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """A module for -p, found by what starts in this test."""
    folder.mkdir()
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    path = (str(folder), *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


# Not None in sys.modules, where scipy takes whatever stands under this name for the module.
LACKS_TORCH = """
import sys

class LacksTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, LacksTorch())
"""


def test_a_library_that_is_missing_here_leaves_the_session_unjudged(
    copies: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where CI without a GPU has no torch: pytest ends with the code of an interrupt, and nobody interrupted."""
    write_plugin(tmp_path / "plugins", monkeypatch, "lacks_torch", LACKS_TORCH)

    result = verify(copies, "-p", "lacks_torch")

    assert result.returncode == 4, result.stdout + result.stderr
    assert "NOT JUDGED: tests of the session are not collected here: " in result.stdout
    assert "; not importable here: " in result.stdout
    assert "interrupted" not in result.stderr


def test_a_plugin_that_ends_pytest_before_the_verdicts_leaves_the_session_unjudged(
    copies: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtestloop(): pytest.exit('enough', returncode=0)\n"
    )
    write_plugin(tmp_path / "plugins", monkeypatch, "ends_early", text)

    result = verify(copies, "-p", "ends_early")

    assert result.returncode == 4, result.stdout + result.stderr
    assert "NOT JUDGED: pytest was ended with exit code 0" in result.stdout


@pytest.mark.parametrize("place", ["argument", "strict", "ini", "environment"])
def test_a_pytest_that_only_collects_leaves_the_session_unjudged(
    copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    given = {
        "argument": ["--collect-only"],
        "strict": ["--co", "--nsight-strict"],
        "ini": ["-o", "addopts=--collect-only"],
    }.get(place, [])
    if place == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")

    result = verify(copies, *given)

    assert result.returncode == 4, result.stdout + result.stderr
    assert "NOT JUDGED: pytest has only collected; leave --collect-only out" in result.stdout
    assert "OF THIS TREE" not in result.stdout
