"""A script as pytest sees it: a file whose tests are the calls that its first pass made."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.controller.settings import SCRIPT
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.units import count
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.protocol.script import FIRST_PASS, FirstPass, Script


class ScriptPlugin:
    """The hooks of `pytest-nsight run`, beside those of the controller."""

    __name__ = "nsight-script"  # pytest registers a plugin object under this name

    def __init__(self, script: Script) -> None:
        self._script = script
        self._found = FirstPass(())

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Names the script as node ids do, and hands it to the settings.

        Raises:
            pytest.UsageError: tests are named beside the script.
        """
        others = [argument for argument in config.args if argument != self._script.path]
        if others:
            raise pytest.UsageError(
                f"run measures one script, and {others[0]} stands before the --; measure tests with pytest --nsight"
            )
        file = Path(os.path.relpath(self._script.path, config.rootpath)).as_posix()
        self._script = replace(self._script, file=file)
        config.stash[SCRIPT] = self._script

    def pytest_report_header(self) -> str:
        """Says what is measured in place of tests."""
        return f"nsight: script {self._script.command}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Runs the first pass.

        Raises:
            pytest.UsageError: the script fails, or measures nothing.
        """
        controller: Any = session.config.pluginmanager.get_plugin("nsight-controller")
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        try:
            self._found = controller.list_calls(session.config.invocation_params.dir)
        except NsightError as error:
            raise pytest.UsageError(str(error)) from None
        if reporter is None or reporter.verbosity < 0:
            return
        calls = count(len(self._found.calls), "call")
        log = f"{controller.folder_name}/{FIRST_PASS}/{WORKER_LOG}"
        reporter.write_line(f"nsight: the script made {calls} to measure; its output is in {log}")
        for sentence in self._found.unmeasured:
            reporter.write_line(f"nsight: {sentence}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Collects the script as a script, even if other plugins would collect its .py file as tests."""
        found = yield
        if str(file_path) != self._script.path:
            return found
        file: Any = ScriptFile.from_parent(parent, path=file_path, nodeid=self._script.file)
        file.script, file.found = self._script, self._found
        return [file]


class ScriptFile(pytest.File):
    """The script.

    Attributes:
        script: how it is run.
        found: what its first pass found.
    """

    script: Script
    found: FirstPass

    def collect(self) -> Iterator[ScriptCall]:
        """A test for each call."""
        for call in self.found.calls:
            name = f"{self.script.name}::{call}" if self.script.name else call
            yield ScriptCall.from_parent(self, name=name)


class ScriptCall(pytest.Item):
    """One call of the script; workers measure it, and the controller reports what became of it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.add_marker(pytest.mark.nsight)

    def runtest(self) -> None:
        """Fails: the controller passes on the workers' reports, and calls this only for a case without one."""
        pytest.fail(f"no worker measured {self.nodeid}; run it with pytest-nsight run", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The place of the call, without a line, because many calls share one."""
        return self.path, None, self.name
