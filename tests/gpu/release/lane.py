"""A lane: one board, with a tree, caches and temporary files of its own, where commands run one after the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.protocol.manifest import FILE_NAME

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".nsight", ".gpu", ".scripts", ".numba", "__pycache__", "*.egg-info"
)


@dataclass
class Lane:
    """A board and what runs on it.

    Attributes:
        number: of the board, from 0.
        folder: of the lane; holds its tree.
        results: where logs and results of all lanes go.
        deadline_s: when the device time ends, on the clock of `time.monotonic`.
        lock: guards the list of what has ended.
    """

    number: int
    folder: Path
    results: Path
    deadline_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tree(self) -> Path:
        """The lane's copy of the project."""
        return self.folder / "tree"

    @property
    def left_s(self) -> float:
        """Seconds of device time that are left."""
        return self.deadline_s - time.monotonic()

    def prepare(self, project: Path) -> None:
        """Copies the project, and makes it a repository with one commit, for comparisons with HEAD."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(project, self.tree, ignore=_LEFT_OUT, symlinks=True)
        (self.folder / "temporary").mkdir()
        author = ["-c", "user.name=lane", "-c", "user.email=lane@localhost"]
        for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "-m", "The tree"]):
            subprocess.run(["git", *command], cwd=self.tree, check=True)

    def forget_caches(self) -> None:
        """Lets the next step compile and tune anew."""
        shutil.rmtree(self.folder / "caches", ignore_errors=True)

    def run(self, name: str, *command: str, packages: str = "", **variables: str) -> None:
        """Runs Python in the lane's tree; a log has its output, and a line of steps.jsonl says how it ended.

        Each line of the log begins with the seconds since the start, since device time is short.

        Args:
            name: of the step.
            command: what follows `python`.
            packages: a folder of RELEASE_PACKAGES whose packages this step alone finds, where there is one.
            variables: of the environment.
        """
        caches = self.folder / "caches"
        places = [str(self.tree)]
        if packages and (folder := os.environ.get("RELEASE_PACKAGES")):
            places.append(str(Path(folder, packages)))
        places += filter(None, [os.environ.get("PYTHONPATH")])
        environ = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": str(self.number),
            # The suite's locks, which keep two tests of sessions from running at once, are there.
            "TMPDIR": str(self.folder / "temporary"),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "CUDA_CACHE_PATH": str(caches / "cuda"),
            "PYTHONPATH": os.pathsep.join(places),
            "PYTEST_NSIGHT_REQUIRE_GPU": "1",
            "PYTEST_NSIGHT_REQUIRE_NCU": "1",
            "PYTEST_NSIGHT_REQUIRE_FOREIGN": "1",
            **variables,
        }
        label, began_s = f"{name}-{self.number}", time.monotonic()
        log = self.results / f"{label}.log"
        last = ""
        with (
            log.open("w") as output,
            subprocess.Popen(
                [sys.executable, *command],
                cwd=self.tree,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            for line in process.stdout or ():
                last = line.rstrip()
                output.write(f"{time.monotonic() - began_s:6.1f} {last}\n")
                output.flush()
        self._say_that_it_ended(name, process.returncode, time.monotonic() - began_s, last)

    def attempt(self, name: str, do: Callable[[Lane], None]) -> None:
        """Runs a step; if it raises, steps.jsonl says so, and the lane goes on."""
        try:
            do(self)
        except Exception as error:
            traceback.print_exc()
            self._say_that_it_ended(name, 1, 0, repr(error))

    def pytest(self, name: str, *arguments: str, packages: str = "") -> None:
        """Runs tests."""
        options = ["-p", "no:cacheprovider", "-n", "0", "-m", "", "-q"]
        self.run(name, "-m", "pytest", *options, *arguments, packages=packages)

    def gate(self, name: str, *arguments: str, **variables: str) -> None:
        """Measures at a band of 1 %; the result is in NAME.json, and NAME-session has what its processes noted."""
        result = self.results / f"{name}-{self.number}"
        options = ["--nsight", "--nsight-band=1%", f"--nsight-json={result}.json"]
        sessions = self.tree / ".nsight"
        earlier = set(sessions.glob("2*"))
        self.run(name, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options, *arguments, **variables)
        # benchmarks/session_time.py shows from them where the time went. A refused session has none.
        for session in set(sessions.glob("2*")) - earlier:
            for manifest in session.glob(f"*/{FILE_NAME}"):
                kept = Path(f"{result}-session", manifest.parent.name)
                kept.mkdir(parents=True)
                shutil.copy2(manifest, kept)

    def _say_that_it_ended(self, name: str, code: int, seconds: float, last: str) -> None:
        """Adds a line to steps.jsonl: the exit code, the last line of output, and how often each verdict came."""
        label = f"{name}-{self.number}"
        step = {"step": label, "code": code, "seconds": round(seconds, 1), "last": last}
        step["verdicts"] = _count_verdicts(self.results / f"{label}.json")
        with self.lock, (self.results / "steps.jsonl").open("a") as file:
            file.write(json.dumps(step) + "\n")


def _count_verdicts(result: Path) -> dict[str, int]:
    """How often each verdict is in a result of --nsight-json, of whole cases; empty where there is none."""
    try:
        content = json.loads(result.read_text())
    except (OSError, ValueError):
        # A session that was killed has left none, or the beginning of one.
        return {}
    subjects = [benchmark["extra_info"]["nsight"] for benchmark in content.get("benchmarks", ())]
    subjects += content.get("nsight", {}).get("unmeasured", ())
    return dict(Counter(subject["verdict"] for subject in subjects if not subject["part"]))
