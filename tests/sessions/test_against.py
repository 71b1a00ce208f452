"""`--nsight-against` on real repositories: two trees, alternating processes, CPU operators."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]

OPS = """
import torch

torch.set_num_threads(1)

def work(x):
    return x * x
"""

SUITE = """
import json, os
import pytest, torch
import ops

def note(**facts):
    with open(os.environ["FACTS"], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "ops": ops.__file__, **facts}) + "\\n")

@pytest.mark.nsight
def test_same(nsight):
    note(caches=[os.environ[name] for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
                                               "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH")])
    nsight(ops.work, torch.ones(256, 256))
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One commit; what its tests see goes to `facts`, outside of it."""
    folder = pytester.mkdir("repository")
    monkeypatch.setenv("FACTS", str(pytester.path / "facts"))
    (folder / "src").mkdir()
    (folder / "src/ops.py").write_text(OPS)
    (folder / "test_case.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    git(folder, "init", "-b", "main")
    commit(folder)
    monkeypatch.chdir(folder)
    return folder


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "a commit")
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def against(pytester: pytest.Pytester, repository: Path) -> Gate:
    def run(*arguments: str, ref: str = "HEAD") -> pytest.RunResult:
        options = ("--nsight", f"--nsight-against={ref}", "--nsight-rounds=10", "-v", "-p", "no:randomly")
        return pytester.runpytest_subprocess(*options, *arguments)

    return run


def facts(repository: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (repository.parent / "facts").read_text().splitlines()]


def assert_clean(repository: Path) -> None:
    assert git(repository, "worktree", "list", "--porcelain").count("worktree ") == 1
    left = {path.name for path in (repository / ".nsight").glob("2*/*")}
    assert not left & {"against", "against-target", "caches"}
    assert ".nsight" not in git(repository, "status", "--porcelain")


def test_unchanged_code_new_tests_removed_tests_and_a_replay(
    against: Gate, repository: Path, pytester: pytest.Pytester
) -> None:
    test_case = repository / "test_case.py"
    more = "\n@pytest.mark.nsight\ndef test_{}(nsight):\n    nsight(ops.work, torch.ones(8))\n"
    test_case.write_text(SUITE + more.format("removed") + more.format("breaks"))
    (repository / "src/ops.py").write_text(OPS + "\ndef fail(x):\n    raise RuntimeError('old bug')\n")
    work, fail = ("test_breaks(nsight):\n    nsight(ops." + name for name in ("work", "fail"))
    test_case.write_text(test_case.read_text().replace(work, fail))
    head = commit(repository)
    pytester.runpytest_subprocess("--nsight", "--nsight-save", "--nsight-runs=1", "--nsight-rounds=3")
    assert list(repository.glob("baselines/*/test_case.json")), "neither session may ask for what they hold"
    (repository.parent / "facts").unlink(missing_ok=True)
    (repository / "src/ops.py").write_text(OPS + "\ndef fail(x):\n    return x + 1\n")
    test_case.write_text(test_case.read_text().replace("test_removed", "test_added"))
    (repository / "test_extra.py").write_text(SUITE)

    result = against("--nsight-keep")
    session = max((repository / ".nsight").glob("2*"))
    replayed = pytester.runpytest_subprocess("--nsight", "-v", f"--nsight-replay={session}")

    for outcome in (result, replayed):
        assert outcome.ret == pytest.ExitCode.OK
        outcome.assert_outcomes(passed=4)
        text = " ".join(outcome.stdout.str().split())
        assert f"test_same: kernel time against {head[:7]} " in text
        assert f"test_breaks: fails in {head[:7]}: RuntimeError: old bug; nothing to compare with" in text
        assert f"2 cases (test_added, test_extra.py::test_same): not in {head[:7]}; nothing to compare with" in text
        assert f"1 test of {head[:7]} not here any more: test_case.py::test_removed" in text
        assert "save" not in text
        assert "no test any more" not in text
    said = " ".join(result.stdout.str().split())
    assert f"nsight: collector torch (CPU operators through torch.profiler), against {head[:7]} (HEAD)" in said
    assert_clean(repository)
    seen = facts(repository)
    trees = ["other" if "against" in str(fact["ops"]) else "this" for fact in seen]
    # Noise may have made it a suspect; test_extra, new here, is measured once.
    assert trees.count("other") in {3, 5, 9}
    assert trees.count("this") == trees.count("other") + 1
    caches: dict[str, set[str]] = {"other": set(), "this": set()}
    for fact, side in zip(seen, trees, strict=True):
        caches[side].add(json.dumps(fact["caches"]))
    assert len(caches["other"]) == len(caches["this"]) == 1
    assert not caches["other"] & caches["this"]


def test_a_slowed_kernel_fails_and_is_named(against: Gate, repository: Path) -> None:
    (repository / "src/ops.py").write_text(
        "import torch\ntorch.set_num_threads(1)\nBIG = torch.ones(1024, 1024)\ndef work(x):\n    return BIG * BIG\n"
    )

    result = against()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(result.stdout.str().split())
    assert "test_same: kernel time against " in text
    # Of the runs that the sentence names some may be missing: those on a disturbed CPU are set aside.
    trees = Counter("against" in str(fact["ops"]) for fact in facts(repository))
    assert trees == {True: 5, False: 5}, "it is beyond doubt"
    assert "slower kernel: mul" in text
    assert_clean(repository)


def test_an_editable_install_and_untracked_files_do_not_reach_the_other_side(
    against: Gate, repository: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = pytester.mkdir("hook")
    (hook / "sitecustomize.py").write_text(
        f"""
import sys
from importlib.util import spec_from_file_location
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("ops", "extra"):
            return spec_from_file_location(name, {str(repository / "src")!r} + f"/{{name}}.py")
sys.meta_path.insert(0, Editable)
"""
    )
    monkeypatch.setenv("PYTHONPATH", f"{hook}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (repository / "pytest.ini").write_text("[pytest]\n")
    extra = (
        "\n@pytest.mark.nsight\ndef test_extra(nsight):\n    import extra\n    nsight(ops.work, torch.ones(8))\n"
    )
    (repository / "test_case.py").write_text(SUITE + extra)
    (repository / ".gitignore").write_text("src/extra.py\n")
    head = commit(repository)
    (repository / "src/extra.py").write_text("")

    result = against()

    result.assert_outcomes(passed=2)
    text = " ".join(result.stdout.str().split())
    assert f"test_extra: fails in {head[:7]}: ModuleNotFoundError: extra is in " in text
    assert "an untracked file or a build product, for which nsight_against_build can name a command" in text
    files = {str(fact["ops"]) for fact in facts(repository)}
    assert len(files) == 2
    assert str(repository / "src/ops.py") in files


def test_what_leaks_all_the_same_is_refused_by_name(against: Gate, repository: Path) -> None:
    (repository / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(repository / 'src')!r})\nsys.meta_path[:] = "
        "[finder for finder in sys.meta_path if type(finder).__name__ != 'RedirectingFinder']\n"
    )
    (repository / "pytest.ini").write_text("[pytest]\n")
    head = commit(repository)

    result = against()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    refusal = (
        f"ERROR: the runs of {head[:7]} imported ops from {repository}/src/ops.py, which belongs to this tree*"
    )
    result.stderr.fnmatch_lines([refusal])
    # Known before minutes of measuring.
    assert not (repository.parent / "facts").exists()
    assert_clean(repository)

    late = SUITE.replace("import ops\n", "").replace("    note(", "    global ops\n    import ops\n    note(")
    (repository / "test_case.py").write_text(late)
    commit(repository)
    result = against()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the runs of * imported ops from *, which belongs to this tree*"])


def test_a_copy_on_the_path_of_what_differs_is_refused(
    against: Gate, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an image has one that holds the code of some revision."""
    (repository / "pytest.ini").write_text("[pytest]\n")
    site = repository.parent / "site"
    site.mkdir()
    (site / "ops.py").write_text(OPS)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    commit(repository)
    (repository / "src/ops.py").write_text(OPS.replace("x * x", "x * x + x"))

    result = against()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: the runs of * imported ops from {site}/ops.py, which belongs to *"])
    assert_clean(repository)


def test_the_instrument_is_the_same_on_both_sides_and_the_build_runs_once_in_the_revision(
    against: Gate, repository: Path
) -> None:
    (repository / "vendor/pytest_nsight").mkdir(parents=True)
    (repository / "vendor/pytest_nsight/__init__.py").write_text("raise ImportError('the wrong instrument')\n")
    (repository / "conftest.py").write_text("import sys\nsys.path.insert(0, __file__[:-11] + 'vendor')\n")
    (repository / "test_case.py").write_text(SUITE.replace("import ops", "import built, ops"))
    (repository / ".gitignore").write_text("built.py\n")
    commit(repository)
    (repository / "src/built.py").write_text("")

    without = against("--nsight-runs=3")
    with_build = against("--nsight-against-build=echo > src/built.py; pwd >> $FACTS.build")

    text = " ".join(without.stdout.str().split())
    assert "its file cannot be imported in " in text
    assert "No module named 'built' (untracked files and build products are absent there" in text
    with_build.assert_outcomes(passed=1)
    assert "NO_BASELINE" not in with_build.stdout.str()
    (built,) = Path(f"{os.environ['FACTS']}.build").read_text().split()
    assert Path(built).name == "against"
    assert_clean(repository)


@pytest.mark.parametrize(
    ("ref", "options", "sentence"),
    [
        ("nowhere", (), "*--nsight-against nowhere: git knows no such commit; fetch it*"),
        ("--all", (), "*--nsight-against --all: git knows no such commit*"),
        ("", (), "*--nsight-against is empty; give it a value*"),
        ("HEAD", ("--nsight-affected-by=",), "*--nsight-affected-by is empty; give it a value*"),
        ("HEAD", ("--nsight-save",), "*run it without --nsight-save*"),
        ("HEAD", ("--nsight-replay=src",), "*run it without --nsight-replay*"),
        ("HEAD", ("--nsight-runs=1",), "*--nsight-runs is 1; --nsight-against needs at least 2 of each tree*"),
        ("HEAD", ("-o", "nsight_runs=1"), "*nsight_runs in pytest.ini is 1; *; give --nsight-runs=2*"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    against: Gate, ref: str, options: tuple[str, ...], sentence: str
) -> None:
    result = against(*options, ref=ref)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_a_conftest_above_the_root_folder_counts_in_both_trees(against: Gate, repository: Path) -> None:
    (repository / "suite").mkdir()
    (repository / "test_case.py").unlink()
    (repository / "suite/test_inner.py").write_text(SUITE.replace("(nsight)", "(nsight, above)"))
    (repository / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef above(): pass\n")
    commit(repository)

    result = against("--rootdir=suite", "suite")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*NO_BASELINE*")
    assert "1 without baseline" not in result.stdout.str()


def test_a_tree_that_is_the_revision_itself_is_named(against: Gate, repository: Path) -> None:
    same = against("--collect-only")
    (repository / "src/ops.py").write_text(OPS + "# changed\n")
    changed = against("--collect-only")

    said = " ".join(same.stdout.str().split())
    assert "nsight: this tree is HEAD (" in said
    assert "to compare the last commit with the one before, give --nsight-against HEAD~1" in said
    assert "this tree is" not in changed.stdout.str()


def test_a_conftest_that_ignores_the_revisions_folder_is_named(against: Gate, repository: Path) -> None:
    (repository / "conftest.py").write_text(
        "def pytest_ignore_collect(collection_path):\n"
        "    return True if any(part.startswith('.') for part in collection_path.parts) else None\n"
    )
    commit(repository)

    said = " ".join(against().stdout.str().split())

    assert "not collected in" in said
    assert "though test_case.py is there: pytest ignores it (a conftest.py" in said


def test_submodules_ask_for_a_build_command(against: Gate, repository: Path, pytester: pytest.Pytester) -> None:
    inner = pytester.mkdir("inner")
    (inner / "file").write_text("")
    git(inner, "init", "-b", "main")
    commit(inner)
    git(repository, "submodule", "add", str(inner), "vendored")
    commit(repository)

    result = against()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *it has submodules (vendored)*git submodule update --init*"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_leaves_no_worktree_behind(repository: Path, number: signal.Signals) -> None:
    test_case = repository / "test_case.py"
    test_case.write_text(SUITE + "    import time\n    time.sleep(600)\n")
    commit(repository)
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-against=HEAD"]
    started = subprocess.Popen(command, cwd=repository, stdout=subprocess.DEVNULL)
    for _ in range(600):
        if (repository.parent / "facts").exists():
            break
        time.sleep(0.05)
    assert git(repository, "worktree", "list", "--porcelain").count("worktree ") == 2

    started.send_signal(number)

    assert started.wait(60) == pytest.ExitCode.INTERRUPTED
    assert_clean(repository)
