"""Which tests a tree has, as pytest collects them in a process of its own.

`list_tests` starts this module as a program; the program writes what it found as JSON.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from pytest_nsight.controller.collection.collection_record import Collected
from pytest_nsight.controller.option_values import GivenValues
from pytest_nsight.controller.options import DEFAULT_BASELINES
from pytest_nsight.model.decoding import read
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.json_text import parse

_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class ProjectTests:
    """The tests of a tree.

    Attributes:
        root: pytest's root folder.
        ids: node ids of the collected tests.
        baselines: folder of its baselines, as a session that is started here has it without options.
    """

    root: str
    ids: tuple[str, ...] = ()
    baselines: str = ""

    def find_removed(self, cases: Collection[str]) -> tuple[str, ...]:
        """The cases that are no longer in this tree, sorted; a file without collected tests keeps its cases."""
        return Collected(known=frozenset(self.ids)).find_removed(cases, Path(self.root))


def list_tests(files: Collection[str]) -> ProjectTests:
    """Collects the tests of the project around the current folder.

    Args:
        files: paths of test modules relative to pytest's root folder; those that exist are collected.

    Raises:
        UsageError: pytest cannot collect them; the message has the end of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "tests.json")
        command = [
            sys.executable,
            "-m",
            "pytest_nsight.controller.collection.collected_tests",
            str(answer),
            *sorted(files),
        ]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            check=False,
        )
        if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or not answer.exists():
            output = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-_LAST_LINES:])
            raise UsageError(
                f"pytest cannot collect the tests (exit code {done.returncode}), so it is unknown which ones are "
                f"gone; mend them first:\n{output}"
            )
        return read(ProjectTests, parse(answer.read_text(encoding="utf-8")))


class _Listener:
    """A plugin of the collecting process: says what to collect, and writes down what was."""

    def __init__(self, answer: Path, files: Sequence[str]) -> None:
        self._answer = answer
        self._files = files
        self._ids: dict[str, None] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Collects the given files, even if pytest was started in a subfolder of the root."""
        config.args[:] = [str(config.rootpath / name) for name in self._files if _is_test_module(config, name)]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Counts tests that the ini file deselects or a conftest removes, such as GPU tests: they exist."""
        self._ids |= dict.fromkeys(item.nodeid for item in items)
        yield

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Writes what was collected, with the names that a conftest has given or added."""
        ids = tuple(self._ids | dict.fromkeys(item.nodeid for item in session.items))
        root = session.config.rootpath
        tests = ProjectTests(str(root), ids, str(_own_baselines(session.config)))
        self._answer.write_text(json.dumps(asdict(tests)), encoding="utf-8")


def _own_baselines(config: pytest.Config) -> Path:
    """What the ini file says; pytest knows no such setting where plugins are not loaded by themselves."""
    try:
        return GivenValues(config).baselines()
    except (ValueError, UsageError):
        return config.rootpath / DEFAULT_BASELINES


def _is_test_module(config: pytest.Config, name: str) -> bool:
    """Whether a file is in the project and named like a test: a baseline must not import any other."""
    path = (config.rootpath / name).resolve()
    is_inside = path.is_file() and path.is_relative_to(config.rootpath.resolve())
    return is_inside and any(fnmatch.fnmatch(path.name, pattern) for pattern in config.getini("python_files"))


if __name__ == "__main__":
    listener = _Listener(Path(sys.argv[1]), sys.argv[2:])
    # With an empty cache, what --lf in the ini file selects is everything.
    own_cache = f"cache_dir={Path(sys.argv[1]).parent}"
    sys.exit(pytest.main(["--collect-only", "--quiet", "-o", own_cache], plugins=[listener]))
