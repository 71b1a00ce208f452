"""Options and ini settings become one frozen Settings, which all that measures and judges reads.

Precedence: mark > command line > ini > default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.lookup import AUTO, collector_names
from pytest_nsight.controller.collection.shards import parse_shard, refuse_other_divider
from pytest_nsight.controller.option_values import (
    GivenValues,
    parse_confirming,
    parse_minutes,
    parse_reason,
    positive,
    refuse_empty,
    refuse_unknown,
)
from pytest_nsight.controller.options import DEFAULT_BASELINES
from pytest_nsight.controller.pytest_input import taken_workers
from pytest_nsight.controller.refused_options import refuse_combinations
from pytest_nsight.gate.measured_shard import Shard, ShardBy
from pytest_nsight.judge.subject_runs import FIRST_PAIRS, SAVED_AT_ONCE
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import DEFAULT_BAND
from pytest_nsight.protocol.mark_values import parse_band, parse_timeout
from pytest_nsight.protocol.script import Script
from pytest_nsight.report.registry import ReportFile, read_requests

DEFAULT_TIMEOUT_S = 1800.0
RUNS_TO_CHECK = 1
RUNS_OF_EACH_TREE = FIRST_PAIRS

# Reports with an option of their own.
_REPORT_OPTIONS = ("json", "markdown", "html")

SCRIPT = pytest.StashKey[Script]()
"""Where the plugin of `pytest-nsight run` puts what it measures."""


@dataclass(frozen=True, slots=True)
class PoolToFill:
    """A file in which all runs are stored instead of being judged.

    Attributes:
        path: the file.
        minutes: filling it stops before these are over, None for no limit.
        confirming: processes that measure few cases each, after the runs of all.
    """

    path: Path
    minutes: float | None = None
    confirming: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, resolved.

    Attributes:
        root: pytest's root folder; node ids and relative paths start there.
        root_from_start: path to `root` from the folder where pytest was started, "" if they are the same.
        collector: "auto", or the name of a collector.
        baselines: folder of the baselines.
        baselines_option: the same as a command in the root folder names it, "" where no option gives it.
        runs: fresh processes in which every case is measured before the first look at the result.
        rounds: rounds of a case in a run; None lets the measurement choose.
        band: relative change that counts as material (0.02 is 2 %).
        strict: whether verdicts that settle nothing fail, and fallbacks are refused.
        recording: what is recorded beside the rounds.
        cpu_threads: threads of an operator where the CPU is measured; None for $OMP_NUM_THREADS, else 1.
        drill: whether Nsight Compute reads counters of slower kernels, or, with a save, of all saved cases.
        keep: whether the scrubbed traces stay in the session's folder.
        save: whether the runs become baselines instead of being judged.
        reason: why they do, in one line; "" for no reason.
        replay: folder of a recorded session to judge again, None for a live one.
        pool: where all runs are stored instead of being judged, None to judge them.
        against: git revision to measure beside this tree, "" for none.
        against_build: shell command that builds its worktree, "" for none.
        ini: file that pytest took its settings from, None for none.
        reports: the reports to write beside the session's own.
        timeout_s: longest that a case may take in one process.
        affected: measure only the cases affected by what has changed since this git revision, "" for all.
        affected_by: globs, relative to the root, of files whose change affects all cases.
        shard: the part of the session that is measured here, None for all of it.
        durations: session whose durations divide the tests among shards, None for the baselines.
        canaries: whether the plugin's own cases are measured beside the user's.
        identity: whether launches are identified first, so that what is identical is not timed.
        workers: processes that measure at once, each on a GPU of its own; ALL_GPUS for one on every GPU.
        most_workers: where that is ALL_GPUS, no more than this many; None for no limit.
        script: what `pytest-nsight run` measures in place of tests, None for tests.
    """

    root: Path
    root_from_start: str = ""
    collector: str = AUTO
    baselines: Path = Path(DEFAULT_BASELINES)
    baselines_option: str = ""
    runs: int = RUNS_TO_CHECK
    rounds: int | None = None
    band: float = DEFAULT_BAND
    strict: bool = False
    recording: RecordingOptions = field(default_factory=RecordingOptions)
    cpu_threads: int | None = None
    drill: bool = False
    keep: bool = False
    save: bool = False
    reason: str = ""
    replay: Path | None = None
    pool: PoolToFill | None = None
    against: str = ""
    against_build: str = ""
    ini: Path | None = None
    reports: tuple[ReportFile, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S
    affected: str = ""
    affected_by: tuple[str, ...] = ()
    shard: Shard | None = None
    durations: Path | None = None
    canaries: bool = True
    identity: bool = True
    workers: int = 1
    most_workers: int | None = None
    script: Script | None = None


def read_settings(config: pytest.Config) -> Settings:
    """Resolves command line, ini and defaults.

    Raises:
        UsageError: a value that makes no sense, with what is allowed.
    """
    given = GivenValues(config)
    refuse_empty(config)
    refuse_unknown(config)
    refuse_combinations(config)
    save = bool(config.getoption("nsight_save"))
    against = config.getoption("nsight_against") or ""
    timeout, durations, here = given("timeout"), given("durations"), config.invocation_params.dir
    collector, replay, shard = _choose_collector(given), _find_recording(config), _read_shard(config, given)
    workers, most_workers = taken_workers(config)
    return Settings(
        root=config.rootpath,
        root_from_start=os.path.relpath(config.rootpath, here) if config.rootpath != here else "",
        collector=collector,
        baselines=given.baselines(),
        baselines_option=_name_baselines(config, given),
        runs=_count_runs(given, against, save=save),
        rounds=given.number("rounds"),
        band=parse_band(given.source("band"), given("band") or DEFAULT_BAND),
        strict=given.flag("strict"),
        recording=_read_recording(given),
        cpu_threads=given.number("cpu_threads"),
        # Counters are read of what runs now; a setting of the ini file is for the sessions that measure.
        drill=given.flag("drill") and not replay and not config.getoption("nsight_pool"),
        keep=given.flag("keep"),
        save=save,
        reason=parse_reason(config.getoption("nsight_reason"), save=save),
        replay=replay,
        pool=_read_pool(config),
        against=against,
        against_build=given.text("against_build"),
        ini=config.inipath,
        reports=read_requests(
            [*_list_reports(given), *given("report")],
            given.start("report"),
            given.source("report"),
        ),
        timeout_s=parse_timeout(given.source("timeout"), timeout) if timeout else DEFAULT_TIMEOUT_S,
        affected=config.getoption("nsight_affected") or "",
        affected_by=tuple(given("affected_by")),
        shard=shard,
        durations=given.start("durations") / durations if durations else None,
        canaries=given.flag("canaries"),
        identity=given.flag("identity"),
        workers=workers,
        most_workers=most_workers,
        script=config.stash.get(SCRIPT, None),
    )


def _choose_collector(given: GivenValues) -> str:
    name = given.text("collector") or AUTO
    if name not in collector_names():
        raise UsageError(f"{given.source('collector')} is {name!r}; choose one of {', '.join(collector_names())}")
    return name


def _read_recording(given: GivenValues) -> RecordingOptions:
    return RecordingOptions(
        user_ranges=given.flag("user_ranges"),
        visible_variables=tuple(given.text("visible_variables").replace(",", " ").split()),
        keep_report=given.flag("keep_report"),
        gpu_metrics=given.flag("gpu_metrics"),
    )


def _read_pool(config: pytest.Config) -> PoolToFill | None:
    path = config.getoption("nsight_pool")
    minutes = parse_minutes(config.getoption("nsight_pool_minutes"), path)
    confirming = parse_confirming(config.getoption("nsight_pool_confirming"), path)
    return PoolToFill(config.invocation_params.dir / path, minutes, confirming) if path else None


def _find_recording(config: pytest.Config) -> Path | None:
    """The folder of the session to judge again, None for a session that measures."""
    given = config.getoption("nsight_replay")
    if not given:
        return None
    folder: Path = config.invocation_params.dir / given
    if not folder.is_dir():
        raise UsageError(f"--nsight-replay {given}: no such folder; give the folder of a recorded session")
    return folder


def _read_shard(config: pytest.Config, given: GivenValues) -> Shard | None:
    """The part of the session that is measured here, None for all of it."""
    shard = parse_shard(config.getoption("nsight_shard"), given.text("shard_by") or ShardBy.DURATION.value)
    if shard is not None and shard.by is ShardBy.DURATION:
        refuse_other_divider(config)
    return shard


def _list_reports(given: GivenValues) -> Iterator[str]:
    """The reports with an option of their own, each as --nsight-report takes it."""
    for name in _REPORT_OPTIONS:
        if path := given(name):
            # A slash at the end names a folder, and a Path drops it.
            yield f"{name}={given.start(name) / path}{'/' if path.endswith('/') else ''}"


def _name_baselines(config: pytest.Config, given: GivenValues) -> str:
    """The folder that the command line gives, as a command in the root folder names it; "" where it gives none."""
    if not given.is_option("baselines"):
        return ""
    given_folder = Path(given("baselines"))
    folder = given.baselines()
    is_near = folder.is_relative_to(config.rootpath) or not given_folder.is_absolute()
    return os.path.relpath(folder, config.rootpath) if is_near else str(folder)


def _count_runs(given: GivenValues, against: str, *, save: bool) -> int:
    """Runs before the first look; fewer runs of each tree than a verdict needs are refused."""
    default = RUNS_OF_EACH_TREE if against else SAVED_AT_ONCE if save else RUNS_TO_CHECK
    source = given.source("runs")
    runs = positive(source, given("runs") or default)
    if against and runs < RUNS_OF_EACH_TREE:
        raise UsageError(
            f"{source} is {runs}; --nsight-against needs at least {RUNS_OF_EACH_TREE} of each tree, "
            f"because fewer runs can neither fail nor clear a case; give --nsight-runs={RUNS_OF_EACH_TREE}"
        )
    return runs
