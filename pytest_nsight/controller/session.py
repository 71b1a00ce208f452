"""One `pytest --nsight`: picks the source of runs, drives the gate, stores and publishes what came of it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from pytest_nsight.baselines import store
from pytest_nsight.calibrate.command import fill_pool
from pytest_nsight.collectors.base import Collector
from pytest_nsight.collectors.choose import choose
from pytest_nsight.collectors.machine import gpus, measured_product
from pytest_nsight.controller.git_revision import Revision, resolve, tell_commit
from pytest_nsight.controller.gpu_assignment import choose_gpus
from pytest_nsight.controller.outcomes import CaseOutcome
from pytest_nsight.controller.parallel_runs import ParallelSource
from pytest_nsight.controller.progress import Progress
from pytest_nsight.controller.recorded_session import ReplaySource
from pytest_nsight.controller.revision_tree import Tree, Workspace
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.worker_run import Identity, LiveSource
from pytest_nsight.gate.loop import Gate, Source, Stored
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.roofline import find_datasheet
from pytest_nsight.model.values import Case
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report.registry import publish, step_summary_path

SESSIONS_FOLDER = ".nsight"
RESULT_FILE = "result.json"


class NsightSession:
    """Everything between the selected cases and their outcomes."""

    def __init__(self, settings: Settings, arguments: Sequence[str], where: Path) -> None:
        """Chooses the collector.

        Args:
            settings: what the user asked for.
            arguments: what the worker's pytest is called with.
            where: folder that pytest was started in.

        Raises:
            NsightError: nothing here can measure, or not as asked.
        """
        self._settings = settings
        self._arguments = arguments
        self._where = where
        now = datetime.now(timezone.utc)
        self._recorded = now.isoformat(timespec="seconds")
        self._id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self._collector: Collector | None = None
        self._notes: tuple[str, ...] = ()
        if settings.replay is None:
            self._collector, self._notes = choose(settings.collector, strict=settings.strict)
        self._gpus = () if settings.replay else gpus()
        self._worker_gpus = (
            () if settings.replay else choose_gpus(settings.workers, self._gpus, settings.most_workers)
        )
        self._revision: Revision | None = None
        if settings.against:
            self._revision = resolve(settings.root, settings.against, may_build=bool(settings.against_build))
        self._known: Collection[str] = ()
        self._gate: Gate | None = None
        self._stored: dict[str, Stored] = {}
        self._cases: tuple[str, ...] = ()
        self.result: SessionResult | None = None
        self.troubles: list[str] = []

    @property
    def folder(self) -> Path:
        """Where the session's files go."""
        return self._settings.root / SESSIONS_FOLDER / self._id

    @property
    def folder_name(self) -> str:
        """The folder as people read it."""
        return f"{SESSIONS_FOLDER}/{self._id}"

    def header(self) -> list[str]:
        """Lines for the head of pytest's output."""
        if self._collector is None:
            return [f"nsight: replaying {self._settings.replay}, baselines {self._settings.baselines}"]
        compared = f"baselines {self._settings.baselines}"
        if self._revision is not None:
            compared = f"against {self._revision.short} ({self._revision.name})"
        lines = [f"nsight: collector {self._collector.title}, {compared}"]
        if self._worker_gpus:
            lines.append(
                f"nsight: {len(self._worker_gpus)} workers, each on a GPU of its own; tests without the mark run here, "
                "one after the other"
            )
        return lines + [f"nsight: {note}" for note in self._notes]

    def measure(
        self,
        cases: Sequence[Case],
        watch: Callable[[Progress], None],
        *,
        shuffle: bool,
        known: Collection[str] = (),
    ) -> dict[str, CaseOutcome]:
        """Measures and judges, or saves.

        Args:
            cases: what to measure, in the order of collection.
            watch: told of progress.
            shuffle: whether each run may take the cases in an order of its own.
            known: node ids of every test of this tree, selected or not.

        Raises:
            NsightError: the session as a whole cannot go on.
        """
        self._cases, self._known = tuple(case.id for case in cases), known
        # A file that cannot be read or written is better known before minutes of measuring than after.
        if self._settings.pool is None:
            self._load(measured_product())
        if self._settings.save:
            store.check_writable(self._settings.baselines)
        if self._settings.replay:
            recording = ReplaySource(self._settings.replay)
            self._gate = Gate(recording, cases, None)
            self._gate.measure(recording.processes)
            return self.conclude(is_whole=True)
        with self._trees() as trees:
            source = self._live_source(cases, watch, trees)
            order = random.Random(self._id) if shuffle else None
            self._gate = Gate(source, cases, order, is_paired=self._revision is not None)
            try:
                self._drive(self._gate, cases)
            finally:
                source.close()
        return self.conclude(is_whole=True)

    def _drive(self, gate: Gate, cases: Sequence[Case]) -> None:
        if self._settings.pool is not None:
            fill_pool(
                partial(gate.measure, goes_on=True),
                lambda: (*gate.harvest.accepted(), *gate.harvest.canaries.summaries),
                {case.id: case.policy for case in cases},
                self._settings.pool,
                runs=self._settings.runs,
                minutes=self._settings.pool_minutes,
            )
            return
        gate.measure(self._settings.runs, is_judged=not self._settings.save)
        if not self._settings.save:
            gate.confirm(self._load, settle=self._settings.strict)

    @contextmanager
    def _trees(self) -> Iterator[tuple[Tree, ...]]:
        """The trees to measure where there are two; nothing of the other one stays."""
        if self._revision is None:
            yield ()
            return
        workspace = Workspace(self._revision, self.folder)
        given = self._settings
        try:
            yield workspace.prepare(given.root, given.ini, self._where, self._arguments, given.against_build)
        finally:
            workspace.remove()

    def conclude(self, *, is_whole: bool) -> dict[str, CaseOutcome]:
        """Judges or saves what has been measured; an interrupted session saves nothing."""
        gate = self._gate
        if gate is None:
            return {}
        gate.harvest.note(gate.harvest.other.removed(self._known))
        saved: tuple[str, ...] = ()
        if self._settings.pool is not None:
            verdicts = gate.saved()
        elif self._settings.save:
            verdicts = gate.saved()
            if is_whole and verdicts:
                saved = self._save(gate)
            elif not is_whole:
                self._trouble(f"not finished: no baseline was changed; {self._how_to_save_later()}")
        else:
            verdicts = gate.judge(self._load(gate.harvest.device))
        self.result = self._result(gate, verdicts, saved)
        self._publish()
        return self._outcomes(gate, verdicts)

    def _live_source(
        self, cases: Sequence[Case], watch: Callable[[Progress], None], trees: Sequence[Tree]
    ) -> Source:
        assert self._collector is not None
        live: dict[str, Any] = {
            "collector": self._collector,
            "identity": Identity(self._id, self._recorded, tell_commit(self._settings.root)),
            "folder": self.folder,
            "arguments": self._arguments,
            "where": self._where,
            "rounds": self._settings.rounds,
            # A save that fails must be repeatable without measuring again.
            "keep": self._settings.keep or self._settings.save,
            "canaries": self._settings.canaries,
            "environment": {"collector": self._collector.name},
            "watch": watch,
            "trees": trees,
        }
        if self._worker_gpus or any(case.ranks > 1 for case in cases):
            return ParallelSource(cases, self._worker_gpus, [gpu.uuid for gpu in self._gpus], **live)
        return LiveSource(**live)

    def _load(self, device: str) -> Stored:
        if not device or self._revision is not None:
            return {}
        if device not in self._stored:
            slug = store.model_slug(device)
            self._stored[device] = store.load(self._settings.baselines, slug, self._cases).runs
        return self._stored[device]

    def _save(self, gate: Gate) -> tuple[str, ...]:
        kept = [run for evidence in gate.evidence({}) for run in evidence.new] + gate.harvest.canaries.summaries
        slug = store.model_slug(gate.harvest.device)
        try:
            paths = store.save(self._settings.baselines, slug, kept)
        except NsightError as error:
            self._trouble(f"{error}; {self._how_to_save_later()}")
            return ()
        if self._collector is not None and not self._settings.keep:
            for folder in (*self.folder.glob("run-*/*/"), *self.folder.glob("run-*")):
                self._collector.tidy(folder, keep=False)
        return tuple(str(_relative(path, self._settings.root)) for path in paths)

    def _how_to_save_later(self) -> str:
        recording = self._settings.replay or self.folder
        return f"what was measured is kept: save it with --nsight --nsight-save --nsight-replay {recording}"

    def _trouble(self, sentence: str) -> None:
        self.troubles.append(sentence)

    def _result(self, gate: Gate, verdicts: Sequence[Verdict], saved: tuple[str, ...]) -> SessionResult:
        harvest = gate.harvest
        replayed = f"replay of {self._settings.replay}"
        return SessionResult(
            session=self._id,
            recorded=self._recorded,
            collector=self._collector.title if self._collector else replayed,
            environment={"device": harvest.device, **harvest.environment} if harvest.device else {},
            verdicts=tuple(verdicts),
            runs=tuple(harvest.summaries),
            strict=self._settings.strict,
            saved=saved,
            notes=(*self._notes, *harvest.notes, *self.troubles),
            canaries=tuple(harvest.canaries.summaries),
            seeds=harvest.seeds,
            limits=gate.limits,
            datasheet=find_datasheet(harvest.device, harvest.bytes_per_s),
            partners=gate.partners,
        )

    def _publish(self) -> None:
        assert self.result is not None
        self.troubles += publish(
            self.result,
            result_file=self.folder / RESULT_FILE if self._collector is not None else None,
            json=self._settings.json,
            markdown_file=self._settings.markdown,
            step_summary=step_summary_path(),
        )

    def _outcomes(self, gate: Gate, verdicts: Sequence[Verdict]) -> dict[str, CaseOutcome]:
        harvest = gate.harvest
        outcomes = {}
        for case in (*harvest.reports, *harvest.problems):
            outcomes[case] = CaseOutcome(
                serialised=tuple(harvest.reports.get(case, ())),
                verdicts=tuple(verdict for verdict in verdicts if verdict.subject.case == case),
                problem=harvest.problems.get(case, ""),
            )
        if self._settings.replay:
            for case in gate.cases:
                outcomes.setdefault(case, CaseOutcome(is_unrecorded=True))
        return outcomes


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
