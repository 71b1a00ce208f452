"""Live runs: one worker process after the other, each under the chosen collector, in the session's folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.canaries import died_in_canary
from pytest_nsight.collect.collector import LOG_FILE, Collector
from pytest_nsight.collect.process import Process, last_lines
from pytest_nsight.errors import CollectorError
from pytest_nsight.gate import INTERRUPTED, ProcessRecord
from pytest_nsight.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.model import Subject
from pytest_nsight.worker import Job

POLL_S = 0.05
NEEDED_BYTES = 16_000_000
FULL_BYTES = 100_000
_LOG_TAIL_LINES = 8

# Exit codes with which pytest says that it could not run the tests it was given.
_PYTEST_REFUSALS = {
    2: "was interrupted",
    3: "hit an internal error",
    4: "refused its arguments",
    5: "found no test",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands.

    Attributes:
        run: id of the run.
        case: node id of the case that runs, "" before the first and after the last.
        done: cases of this process that are over.
        total: cases of this process.
    """

    run: str
    case: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a session from all others.

    Attributes:
        session: its id.
        recorded: UTC time of its start, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
    """

    session: str
    recorded: str
    commit: str


class LiveSource:
    """Starts a worker for every run and reads what it and the profiler leave behind."""

    def __init__(  # noqa: PLR0913 - each is a fact of the session that every worker needs
        self,
        collector: Collector,
        identity: Identity,
        folder: Path,
        arguments: Sequence[str],
        where: Path,
        *,
        rounds: int | None,
        keep: bool,
        canaries: bool,
        environment: Mapping[str, str],
        watch: Callable[[Progress], None],
    ) -> None:
        """Prepares a source.

        Args:
            collector: what records the workers.
            identity: of the session.
            folder: the session's folder.
            arguments: the user's pytest arguments.
            where: folder that pytest was started in.
            rounds: rounds of a case, None to let the measurement choose.
            keep: whether scrubbed traces stay.
            canaries: whether workers measure the plugin's own cases, too.
            environment: what the controller knows of the environment.
            watch: told whenever a worker has moved on.
        """
        self._collector = collector
        self._identity = identity
        self._started = 0
        self._folder = folder
        self._arguments = tuple(arguments)
        self._where = where
        self._rounds = rounds
        self._keep = keep
        self._canaries = canaries
        self._environment = {**environment, **collector.environment}
        self._watch = watch

    def execute(self, cases: Sequence[str], seed: int | None = None) -> ProcessRecord:
        """Measures the cases in one fresh process.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        self._started += 1
        folder = self._folder / f"run-{self._started:03}"
        run = f"{self._identity.session}/{self._started:03}"
        job = Job(
            run=run,
            session=self._identity.session,
            recorded=self._identity.recorded,
            commit=self._identity.commit,
            recorder=self._collector.recorder,
            cases=tuple(cases),
            rounds=self._rounds,
            arguments=self._arguments,
            path=tuple(sys.path),
            environment=self._environment,
            seed=seed,
            canaries=self._canaries,
            root_pid=os.getpid(),
        )
        _prepare(folder, job)
        log = folder / LOG_FILE
        worker = (sys.executable, "-m", "pytest_nsight.worker", str(folder))
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = self._collector.start(worker, folder, self._where, environ)
        journal = folder / FILE_NAME
        try:
            with process:
                code = self._follow(process, journal, Progress(run, "", 0, len(cases)))
            if code is None:
                return self._record(read_manifest(journal), folder, INTERRUPTED)
            manifest = self._manifest(journal, code, log)
            death = _describe_death(manifest, code, log) if manifest.exit_code is None else ""
            # The next process must not die the same way, whose cases have done nothing wrong.
            self._canaries = self._canaries and not died_in_canary(manifest, death)
            return self._record(manifest, folder, death)
        finally:
            # Whatever happens, the raw record must not stay: it holds the environment's secrets.
            self._collector.tidy(folder, keep=self._keep)

    def _follow(self, process: Process, journal: Path, progress: Progress) -> int | None:
        """Waits for the worker's end and reports its progress; None if the user's interrupt ended it."""
        tail = _Tail(journal)
        try:
            while process.poll() is None:
                progress = tail.advance(progress)
                self._watch(progress)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            tail.advance(progress)
            process.interrupt(tail.pid)
            if not journal.exists():
                raise
            return None
        return process.poll()

    def _manifest(self, path: Path, code: int, log: Path) -> Manifest:
        if not path.exists():
            raise CollectorError(
                f"the worker process ended with exit code {code} before it began; its output ({log}) ends with:\n"
                + (last_lines(log, _LOG_TAIL_LINES) or "(nothing)")
            )
        manifest = read_manifest(path)
        if manifest.exit_code in _PYTEST_REFUSALS:
            reason = _PYTEST_REFUSALS[manifest.exit_code]
            detail = "\n".join(manifest.faults) or (last_lines(log, _LOG_TAIL_LINES) or "(nothing)")
            raise CollectorError(f"pytest in the worker process {reason}; its output ({log}):\n{detail}")
        return manifest

    def _record(self, manifest: Manifest, folder: Path, death: str) -> ProcessRecord:
        if not manifest.rounds:
            return ProcessRecord(manifest, None, death)
        try:
            trace = self._collector.collect(folder)
        except CollectorError as error:
            if not death:
                raise
            return ProcessRecord(manifest, None, death, str(error))
        return ProcessRecord(manifest, trace, death)


def _prepare(folder: Path, job: Job) -> None:
    """Makes a run's folder, if there is room for what a run leaves."""
    try:
        folder.mkdir(parents=True)
        (folder.parents[1] / ".gitignore").write_text("*\n", encoding="utf-8")
        free_bytes = shutil.disk_usage(folder).free
        if free_bytes < NEEDED_BYTES:
            raise CollectorError(
                f"{folder.parent} has {free_bytes / 1e6:.1f} MB free and a run may need "
                f"{NEEDED_BYTES / 1e6:.0f} MB: make room there"
            )
        job.write(folder)
    except OSError as error:
        raise CollectorError(
            f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
            "so make that writable, or choose another with --rootdir"
        ) from None


class _Tail:
    """Reads what a growing manifest has gained."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.pid: int | None = None

    def advance(self, progress: Progress) -> Progress:
        """Reads on to the last whole line."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return progress
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        case, done = progress.case, progress.done
        for line in whole.splitlines():
            event = json.loads(line)
            if event["event"] == "run":
                self.pid = event["pid"]
            elif Subject(event.get("case", "")).is_canary:
                continue
            elif event["event"] == "case":
                case = event["case"]
            elif event["event"] == "case_end":
                case, done = "", done + 1
        return Progress(progress.run, case, done, progress.total)


def _describe_death(manifest: Manifest, code: int, log: Path) -> str:
    try:
        cause = f"died with {signal.Signals(-code).name}"
    except ValueError:
        cause = f"ended with exit code {code} before its time"
    running = [case for case in manifest.started if case not in manifest.ended]
    where = f" while {running[-1]} ran" if running else ""
    is_full = shutil.disk_usage(log.parent).free < FULL_BYTES
    full = "; the disk is full" if is_full else ""
    return f"the worker process {cause}{where}{full}; its output is in {log}"
