"""A folder of perf tests at the root does not break the installation of a project, or `init` says what to add."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.model.errors import UsageError
from pytest_nsight.setup_repository.initialise import render, set_up
from pytest_nsight.setup_repository.project_files import explain_discovery

PROJECT = '[project]\nname = "x"\nversion = "1"\n'
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' + PROJECT


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """What pip has setuptools do first; its last line is what it would install."""
    code = (
        "import setuptools.build_meta as backend, pathlib\n"
        "name = backend.prepare_metadata_for_build_wheel('.')\n"
        "print((pathlib.Path(name) / 'top_level.txt').read_text().split())"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)


CODE: dict[str, tuple[dict[str, str], str, str]] = {
    "package": ({"shapes3/__init__.py": ""}, '[tool.setuptools]\n  packages = ["shapes3"]', "['shapes3']"),
    "subpackage": (
        {"shapes3/__init__.py": "", "shapes3/ops/__init__.py": ""},
        '[tool.setuptools.packages.find]\n  include = ["shapes3", "shapes3.*"]',
        "['shapes3']",
    ),
    "module": ({"shapes3.py": ""}, '[tool.setuptools]\n  py-modules = ["shapes3"]', "['shapes3']"),
    "beside tests": (
        {
            "shapes3/a.py": "",
            "tests/test_a.py": "",
            "docs/conf.py": "",
            "setup.py": "import setuptools; setuptools.setup()",
        },
        '[tool.setuptools]\n  packages = ["shapes3"]',
        "['shapes3']",
    ),
    "nothing": ({}, "[tool.setuptools]\n  packages = []", "[]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_what_is_to_be_added_makes_setuptools_find_the_projects_code_again(name, tmp_path):
    pytest.importorskip("setuptools")
    files, lines, installed = CODE[name]
    write(tmp_path, {"pyproject.toml": SETUPTOOLS, **files})
    write(tmp_path, {"perf_tests/test_x.py": "", "baselines/h200/x.json": "{}"})

    said = explain_discovery(tmp_path)
    broken = build(tmp_path)
    write(tmp_path, {"pyproject.toml": SETUPTOOLS + said.partition(":\n")[2].replace("\n  ", "\n").strip() + "\n"})
    mended = build(tmp_path)

    assert said.endswith(lines)
    assert broken.returncode != 0
    assert "Multiple top-level packages discovered in a flat-layout" in broken.stderr
    assert mended.returncode == 0, mended.stderr
    assert mended.stdout.splitlines()[-1] == installed


UNBROKEN = {
    "no project": {},
    "settings of tools alone": {"pyproject.toml": "[tool.ruff]\n"},
    "another backend": {"pyproject.toml": '[build-system]\nbuild-backend = "hatchling.build"\n' + PROJECT},
    "packages": {"pyproject.toml": PROJECT + '[tool.setuptools]\npackages = ["shapes3"]\n'},
    "packages.find": {"pyproject.toml": PROJECT + '[tool.setuptools.packages.find]\ninclude = ["shapes3*"]\n'},
    "modules": {"pyproject.toml": PROJECT + '[tool.setuptools]\npy-modules = ["a"]\n'},
    "setup.cfg": {"pyproject.toml": PROJECT, "setup.cfg": "[options]\npackages = find:\n"},
    "setup.py": {"pyproject.toml": PROJECT, "setup.py": "setup(packages=find_packages())"},
    "src": {"pyproject.toml": PROJECT, "src/shapes3/__init__.py": ""},
    "two packages, an error before": {"pyproject.toml": PROJECT, "other/__init__.py": ""},
}


@pytest.mark.parametrize("name", UNBROKEN)
def test_nothing_is_to_be_added_where_nothing_is_discovered(name, tmp_path):
    write(tmp_path, {"shapes3/__init__.py": "", **UNBROKEN[name]})

    assert explain_discovery(tmp_path) == ""


@pytest.mark.slow
def test_init_says_it_among_the_next_steps_and_commits_the_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    write(tmp_path, {"pyproject.toml": PROJECT + "[tool.pytest.ini_options]\n", "shapes3/__init__.py": ""})
    monkeypatch.chdir(tmp_path)

    assert main(["init"]) == 0

    said = capsys.readouterr().out
    assert said.index('packages = ["shapes3"]') > said.index("created   perf_tests/test_example.py")
    assert "git add perf_tests pyproject.toml .gitattributes .github baselines && git commit" in said
    assert (tmp_path / "pyproject.toml").read_text() == PROJECT + "[tool.pytest.ini_options]\n", "it is the user's"

    write(tmp_path, {"pyproject.toml": PROJECT + '[tool.setuptools]\npackages = ["shapes3"]\n'})
    assert "[tool.setuptools]" not in render(set_up(tmp_path))


def test_a_file_that_is_no_toml_is_named_before_anything_is_written(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    write(tmp_path, {"pyproject.toml": "[project\n"})

    with pytest.raises(UsageError, match=r"pyproject.toml cannot be read.*mend it"):
        set_up(tmp_path)

    assert not (tmp_path / "perf_tests").exists()
