"""The files of a release: built at a tag, checked, and the wheel used in an environment without the repository."""

from __future__ import annotations

import email
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parents[1]
VERSION = "7.6.5"


def run(command: Sequence[str | Path], folder: Path, **environ: str) -> str:
    """What a command prints; its failure fails the test, with all that it said."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checkout(folder: Path) -> Path:
    """A repository of one commit with the files that git knows here, changed ones as they are, and the tag."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).split("\0")
    tree = folder / "tree"
    for name in listed:
        # What the wheel must not hold is there all the same, but for the large data.
        if not name or PurePosixPath(name).parts[0] in ("baselines", "docs") or "/data/" in name:
            continue
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", f"v{VERSION}"]):
        run([*git, *arguments], tree)
    return tree


def build(tree: Path, *arguments: str) -> Path:
    """The folder with what was built, by the tools of this environment."""
    out = tree.parent / f"dist{len(list(tree.parent.iterdir()))}"
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, *arguments, tree], tree.parent)
    return out


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and the wheel that was built from it and not from git."""
    return build(checkout(tmp_path_factory.mktemp("release")))


@pytest.fixture(scope="module")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, and with the libraries of this one but not the repository."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/*/site-packages")
    ours = Path(importlib.util.find_spec("pytest").origin or "").parents[1]
    # A path that a .pth file adds has its own .pth files ignored, the one of the editable install among them.
    (packages / "libraries.pth").write_text(f"{ours}\n")
    found = folder / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", found, "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, "--ignore-installed", wheel], folder)
    return found


def names(dist: Path) -> list[str]:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_version_is_the_tags_in_the_wheel_that_was_built_without_git(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {
        f"pytest_nsight-{VERSION}-py3-none-any.whl",
        f"pytest_nsight-{VERSION}.tar.gz",
    }


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    files = {f"pytest_nsight/{path.relative_to(ROOT / 'pytest_nsight').as_posix()}"
             for path in (ROOT / "pytest_nsight").rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}  # fmt: skip
    packed = {name for name in names(dist) if not name.startswith(f"pytest_nsight-{VERSION}.dist-info/")}

    assert packed == files
    assert [name for name in names(dist) if "licenses/LICENSE" in name]


def test_the_source_distribution_holds_no_test_no_baseline_and_no_recording(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {PurePosixPath(name).parts[1] for name in archive.getnames() if "/" in name}

    assert inside & {"tests", "benchmarks", "perf_tests", "kernels", "docs", "baselines", ".github"} == set()
    assert {"pytest_nsight", "pyproject.toml", "README.md", "LICENSE"} <= inside


def test_the_checks_of_the_index_pass(dist: Path) -> None:
    tools = Path(sys.executable).parent
    run([tools / "twine", "check", "--strict", *dist.iterdir()], dist)
    run([tools / "check-wheel-contents", *dist.glob("*.whl")], dist)


def test_without_git_the_version_is_the_declared_fallback(tmp_path: Path) -> None:
    tree = checkout(tmp_path)
    (tree / ".git").rename(tmp_path / "elsewhere")

    (wheel,) = build(tree, "--wheel").iterdir()

    assert wheel.name.startswith("pytest_nsight-0.0.0.dev0-")


def test_a_shallow_clone_without_tags_builds_a_version_below_every_release(tmp_path: Path) -> None:
    tree = checkout(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    run([*git, "commit", "-q", "--allow-empty", "-m", "later"], tree)
    run([*git, "clone", "-q", "--depth=1", "--no-tags", tree.as_uri(), "shallow"], tmp_path)

    (wheel,) = build(tmp_path / "shallow", "--wheel").iterdir()

    assert re.match(r"pytest_nsight-0\.0\.0\.dev\d+\+g", wheel.name)


def test_the_installed_package_says_its_version_and_has_its_commands(python: Path, tmp_path: Path) -> None:
    assert run([python.parent / "pytest-nsight", "--version"], tmp_path) == f"pytest-nsight {VERSION}\n"
    program = "import pytest_nsight as p; print(p.__version__, p.__file__)"
    version, place = run([python, "-c", program], tmp_path).split()

    assert version == VERSION
    assert not Path(place).is_relative_to(ROOT / "pytest_nsight")


def test_the_readme_of_the_index_is_the_repositorys(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"pytest_nsight-{VERSION}.dist-info/METADATA"))
    payload = metadata.get_payload(decode=True)

    assert isinstance(payload, bytes)
    assert payload.decode().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_the_example_of_the_readme_runs_without_the_repository_and_without_a_warning(
    python: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("the example needs torch")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def test_" in code)
    (tmp_path / "perf_tests").mkdir()
    (tmp_path / "perf_tests" / "test_softmax.py").write_text(example, encoding="utf-8")
    pytest_ = [python, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "perf_tests"]
    nsight = ["--nsight", "--nsight-collector=torch", "--nsight-rounds=10"]

    plain = run(pytest_, tmp_path)
    saved = run([*pytest_, *nsight, "--nsight-save", "--nsight-runs=1"], tmp_path)
    judged = run([*pytest_, *nsight], tmp_path)

    assert "1 passed" in plain
    assert "1 verdict: 1 saved" in saved
    assert "1 verdict:" in judged
    assert "1 passed" in judged
