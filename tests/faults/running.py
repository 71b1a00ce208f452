"""Runs a fault for real: a project in a temporary folder, its command as a process of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.collectors.real import ROOT, require_nsys
from tests.faults.fault import HEAD, Fault

MARK = "PYTEST_NSIGHT_FAULT"
"""The variable by which all processes of a fault are found; Nsight Systems may see it, so they keep it under it."""

SECRETS = ("PLANTED_API_TOKEN", "MY_SETTING", "CUDA_API_KEY")
"""The variables whose value is the secret."""

CLOCK = ROOT / "tests/examples/clock_collector"

_PROGRAMS = {
    "pytest": (sys.executable, "-m", "pytest"),
    "pytest-nsight": (sys.executable, "-m", "pytest_nsight.cli"),
}


@dataclass
class Running:
    """A fault's project and the process of its command.

    Attributes:
        root: holds the project, its TMPDIR and its home.
        mark: the value that all of its processes have in their environment.
        secret: what must be in no file.
        outputs: what the commands printed, one after the other.
        codes: their exit codes.
    """

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    secret: str = field(default_factory=lambda: f"planted-{uuid.uuid4().hex}")
    outputs: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    popen: subprocess.Popen[bytes] | None = None
    deadline_s: float = 0.0

    @property
    def folder(self) -> Path:
        """The project's folder."""
        return self.root / "project"

    @property
    def temporary(self) -> Path:
        """Its TMPDIR."""
        return self.root / "temporary"

    @property
    def pid(self) -> int:
        """The process that the user started."""
        assert self.popen is not None
        return self.popen.pid

    def fill(self, text: str) -> str:
        """A text of the table with its folders."""
        return text.replace("{folder}", str(self.folder)).replace("{root}", str(self.root))

    def processes(self) -> list[psutil.Process]:
        """All running processes of this fault, whoever started them."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return (
                process.pid != os.getpid()
                and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
                and process.environ().get(MARK) == self.mark
            )
        except (psutil.Error, OSError):
            return False

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Polls until it holds.

        Raises:
            Failed: the command ends first, or the time is up.
        """
        assert self.popen is not None
        while not condition():
            if self.popen.poll() is not None:
                pytest.fail(
                    f"{what} never happened: it ended first, with {self.popen.returncode}\n{self._printed()}"
                )
            if time.monotonic() > self.deadline_s:
                pytest.fail(f"{what} did not happen\n{self._printed()}")
            time.sleep(0.05)

    def _printed(self) -> str:
        return (self.root / "output").read_text(errors="replace")

    def run(self, fault: Fault, words: Sequence[str], *, is_first: bool) -> None:
        """Runs a command to its end.

        Raises:
            Failed: it takes longer than the fault's limit.
        """
        program, *rest = words
        argv = [*_PROGRAMS.get(program, (program,)), *(os.fsencode(self.fill(word)) for word in rest)]
        self.deadline_s = time.monotonic() + fault.limit_s
        with (self.root / "output").open("wb") as output:
            self.popen = subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self._environment(fault),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o022,
                # Under nohup the tests themselves ignore it, and what ignores it does not end of it.
                preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - takes no lock
            )
            for step in fault.meanwhile if is_first else ():
                step(self)
            try:
                code = self.popen.wait(max(1.0, self.deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                pytest.fail(f"it takes longer than {fault.limit_s:.0f} s\n{self._printed()}")
        self.codes.append(code)
        self.outputs.append((self.root / "output").read_text(encoding="utf-8", errors="backslashreplace"))

    def _environment(self, fault: Fault) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
        folders = (str(ROOT), str(self.folder), str(CLOCK), os.environ.get("PYTHONPATH"))
        path = os.pathsep.join(filter(None, folders))
        environ = {
            **kept,
            "PYTHONPATH": path,
            "TMPDIR": str(self.temporary),
            "HOME": str(self.root / "home"),
            "OMP_NUM_THREADS": "1",
            # Only the plugins that a fault names: they differ from one developer to the next.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "BEGUN": str(self.root / "begun"),
            MARK: self.mark,
            **dict.fromkeys(SECRETS, self.secret),
            **{name: self.fill(value) for name, value in fault.environ.items()},
        }
        return {name: value for name, value in environ.items() if value}

    def end_all(self) -> None:
        """Ends whatever of it still runs."""
        for _ in range(100):
            left = self.processes()
            if not left:
                break
            for process in left:
                _kill(process.pid)
            time.sleep(0.05)
        if self.popen is not None:
            self.popen.wait(10)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def check_needs(fault: Fault) -> None:
    """Skips the test of a fault that cannot be made on this machine."""
    for need in fault.needs:
        if need == "nsys":
            require_nsys()
        elif need == "mount":
            if os.geteuid() != 0:
                pytest.skip("may not mount a tmpfs here")
        elif importlib.util.find_spec(need) is None and shutil.which(need) is None:
            pytest.skip(f"needs {need}")


@contextmanager
def started(fault: Fault, root: Path) -> Iterator[Running]:
    """The fault's project, made; what runs of it when the block is left is ended."""
    running = Running(root)
    for folder in (running.folder, running.temporary, root / "home"):
        folder.mkdir()
    (running.folder / "pytest.ini").write_text("[pytest]\n")
    for name, content in {"test_case.py": HEAD + fault.test, **fault.files}.items():
        path = running.folder / os.fsdecode(os.fsencode(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        is_text = isinstance(content, str)
        path.write_bytes(running.fill(content).encode("utf-8", "surrogateescape") if is_text else content)
    for prepare in fault.prepare:
        prepare(running.folder)
    try:
        yield running
    finally:
        running.end_all()
        for mounted in reversed(_mounted(root)):
            subprocess.run(["umount", mounted], check=True)


def _mounted(root: Path) -> list[str]:
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [place for place in places if Path(place).is_relative_to(root)]
