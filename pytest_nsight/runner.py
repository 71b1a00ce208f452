"""Live runs: one worker process after the other, each under the chosen collector, in the session's folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.canaries import died_in_canary
from pytest_nsight.collect.collector import LOG_FILE, Collector
from pytest_nsight.collect.process import Process
from pytest_nsight.demise import describe_death, describe_refusal, describe_silence
from pytest_nsight.errors import CollectorError
from pytest_nsight.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.model import Subject
from pytest_nsight.records import INTERRUPTED, ProcessRecord
from pytest_nsight.worker import Job

POLL_S = 0.05
NEEDED_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands.

    Attributes:
        run: id of the run.
        case: node id of the case that runs, "" before the first and after the last.
        done: cases of this process that are over.
        total: cases of this process.
        beside: node ids of the cases that other processes of the run are at.
    """

    run: str
    case: str
    done: int
    total: int
    beside: tuple[str, ...] = ()


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

    def execute(self, cases: Sequence[str], seed: int | None = None) -> tuple[ProcessRecord, ...]:
        """Measures the cases in one fresh process.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        folder, run = self._next_run()
        prepare(folder)
        write_job(folder, self._job(run, cases, seed))
        log = folder / LOG_FILE
        process = self._start("pytest_nsight.worker", folder)
        journal = folder / FILE_NAME
        try:
            with process:
                code = self._follow(process, journal, Progress(run, "", 0, len(cases)))
            if code is None:
                return (self._record(read_manifest(journal), folder, INTERRUPTED),)
            manifest = self._manifest(journal, code, log)
            death = describe_death(manifest, code, log) if manifest.exit_code is None else ""
            # The next process must not die the same way, whose cases have done nothing wrong.
            self._canaries = self._canaries and not died_in_canary(manifest, death)
            return (self._record(manifest, folder, death),)
        finally:
            # Whatever happens, the raw record must not stay: it holds the environment's secrets.
            self._collector.tidy(folder, keep=self._keep)

    def _next_run(self) -> tuple[Path, str]:
        """Folder and id of the run that begins."""
        self._started += 1
        return self._folder / f"run-{self._started:03}", f"{self._identity.session}/{self._started:03}"

    def _job(self, run: str, cases: Sequence[str], seed: int | None) -> Job:
        return Job(
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

    def _start(self, module: str, folder: Path) -> Process:
        """Starts one of our programs on a run's folder, recorded."""
        command = (sys.executable, "-m", module, str(folder))
        return self._collector.start(command, folder, self._where, {**os.environ, "PYTHONUNBUFFERED": "1"})

    def _follow(self, process: Process, journal: Path, progress: Progress) -> int | None:
        """Waits for the worker's end and reports its progress; None if the user's interrupt ended it."""
        tail = Tail(journal)
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
            raise CollectorError(describe_silence(code, log))
        manifest = read_manifest(path)
        refusal = describe_refusal(manifest, log)
        if refusal:
            raise CollectorError(refusal)
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


def prepare(folder: Path) -> None:
    """Makes a run's folder, if there is room for what a run leaves.

    Raises:
        CollectorError: there is none, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        (folder.parents[1] / ".gitignore").write_text("*\n", encoding="utf-8")
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise _unwritable(folder, error) from None
    if free_bytes < NEEDED_BYTES:
        raise CollectorError(
            f"{folder.parent} has {free_bytes / 1e6:.1f} MB free and a run may need "
            f"{NEEDED_BYTES / 1e6:.0f} MB: make room there"
        )


def write_job(folder: Path, job: Job) -> None:
    """Writes the job where its worker looks for it.

    Raises:
        CollectorError: it cannot be written.
    """
    try:
        job.write(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> CollectorError:
    return CollectorError(
        f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
        "so make that writable, or choose another with --rootdir"
    )


class Tail:
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
