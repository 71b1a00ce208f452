"""The shards of one session, joined and judged once: what `pytest-nsight report SHARD...` shows and exits with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nsight.controller.collection.affected_cases import describe_affected
from pytest_nsight.controller.collection.completeness import describe_expected, find_unchecked
from pytest_nsight.controller.session_result import add_measured, list_compared, name_environment
from pytest_nsight.gate.joining import join_states, join_stored
from pytest_nsight.gate.judging import judge_state, list_notes
from pytest_nsight.gate.measured_shard import MeasuredShard, ShardBy, ShardIdentity
from pytest_nsight.gate.own_failures import expects_failure, find_own_failures
from pytest_nsight.gate.shard_file import FILE_NAME, read_shard
from pytest_nsight.gate.state import GateState
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, name_some
from pytest_nsight.model.verdicts import AffectedCases, SessionResult, Verdict

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class JoinedSession:
    """The union of all shards.

    Attributes:
        result: with the verdicts on all cases.
        failures: case -> why it fails; a gate that had measured all of them would fail the same cases.
        gaps: sentences on what a strict session must not leave out.
    """

    result: SessionResult
    failures: dict[str, str]
    gaps: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the gate fails."""
        return bool(self.failures) or (self.result.strict and bool(self.gaps))


def is_shard(path: Path) -> bool:
    """Whether a session's folder, or a file, is that of a shard."""
    return path.name == FILE_NAME or (path / FILE_NAME).is_file()


def join_shards(paths: Sequence[Path]) -> JoinedSession:
    """Judges the cases of all shards together.

    Args:
        paths: folders of the shards' sessions, in any order.

    Raises:
        UsageError: they are not all the shards of one session, each once; the sentence says what to do.
        RecordingError: one cannot be read.
    """
    others = [path for path in paths if not is_shard(path)]
    if others:
        raise UsageError(
            f"{others[0]} holds no {FILE_NAME}, and stands beside shards; a shard that was interrupted has none: "
            "measure it again, or give shards alone"
        )
    shards = sorted((read_shard(path) for path in paths), key=lambda one: one.identity.shard.number)
    identities = [shard.identity for shard in shards]
    _check_numbers(identities)
    _check_agreement(shards)
    _check_cases(shards)
    state = join_states([shard.state for shard in shards])
    stored = join_stored(shard.stored for shard in shards)
    own_failures = find_own_failures(state)
    gaps = tuple(dict.fromkeys(gap for shard in shards for gap in shard.gaps))
    state = state.with_notes(
        f"joined from {count(len(shards), 'shard')} and judged together", _describe_failures(own_failures)
    )
    state = state.with_notes(*list_notes(state, stored))
    verdicts = judge_state(state, stored)
    gaps += find_unchecked(state, stored)
    affected = _join_affected(shards)
    strict = identities[0].options.get("--nsight-strict") == "on"
    failing, expected = _find_failing(state, verdicts, strict=strict)
    state = state.with_notes(describe_expected(expected))
    folders = {one.baselines_option for one in identities}
    result = SessionResult(
        session=" + ".join(one.session for one in identities),
        recorded=min(one.recorded for one in identities),
        collector="; ".join(dict.fromkeys(one.collector for one in identities)),
        environment=name_environment(state),
        verdicts=verdicts,
        runs=state.summaries,
        baseline_runs=list_compared(state, stored),
        strict=strict,
        notes=(*describe_affected(affected), *state.notes, *gaps),
        affected=affected,
        baselines_option=folders.pop() if len(folders) == 1 else "",
    )
    return JoinedSession(add_measured(result, state), failing | own_failures, gaps)


def _check_numbers(shards: Sequence[ShardIdentity]) -> None:
    """Every shard once."""
    counts = sorted({one.shard.count for one in shards})
    if len(counts) > 1:
        raise UsageError(
            f"these are shards of different divisions, into {' and '.join(map(str, counts))}; give all of one"
        )
    numbers = [one.shard.number for one in shards]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        sessions = " and ".join(one.session for one in shards if one.shard.number == twice)
        raise UsageError(f"shard {twice}/{counts[0]} is there twice, in {sessions}; give each shard once")
    missing = [f"{number}/{counts[0]}" for number in range(1, counts[0] + 1) if number not in numbers]
    if missing:
        option = f"--nsight-shard {missing[0]}"
        remedy = (
            f"measure it with {option} on the same commit"
            if len(missing) == 1
            else f"measure each on the same commit, such as with {option}"
        )
        raise UsageError(
            f"{len(shards)} of {count(counts[0], 'shard')} given, {', '.join(missing)} missing; {remedy}, and give "
            "all sessions"
        )


def _check_agreement(shards: Sequence[MeasuredShard]) -> None:
    """Refuses shards that differ in what one session has only once."""
    measured = [one for one in shards if one.state.summaries]
    identities = [one.identity for one in shards]
    for what, remedy, values in (
        ("commits", "check out one commit on all machines", {one.name: one.commit for one in measured}),
        ("GPU models", "shards need machines of one model", {one.name: one.state.device for one in measured}),
        ("baselines", "check out one commit on all machines", {one.name: one.baselines for one in identities}),
        (
            "divisions of the tests",
            "all need the same tests, selection and durations (--nsight-shard-by selection where you divide)",
            {one.name: f"{one.shard.by.value} {one.fingerprint}" for one in identities},
        ),
    ):
        if named := _name_different(values):
            raise UsageError(f"the shards have different {what} ({named}); {remedy}, and measure again")
    for option in sorted({name for one in identities for name in one.options}):
        if named := _name_different({one.name: one.options.get(option, "") for one in identities}):
            raise UsageError(f"the shards have different values of {option} ({named}); give all of them the same")


def _name_different(values: Mapping[str, str]) -> str:
    """The values by the names of shards, as text, where they differ; "" where all are the same."""
    if len(set(values.values())) <= 1:
        return ""
    return ", ".join(f"{name}: {value or 'none'}" for name, value in values.items())


def _check_cases(shards: Sequence[MeasuredShard]) -> None:
    """Refuses a case in two shards: it would be judged with more runs than the others, or twice."""
    first: dict[str, MeasuredShard] = {}
    for shard in shards:
        for case in shard.state.plan.cases:
            other = first.setdefault(case.id, shard)
            if other is not shard:
                remedy = "let the selections of the shards not overlap"
                if shard.identity.shard.by is ShardBy.DURATION:
                    remedy = "measure all shards again"
                raise UsageError(f"shards {other.name} and {shard.name} both hold {case.id}; {remedy}")


def _join_affected(shards: Sequence[MeasuredShard]) -> AffectedCases | None:
    """Every shard of one division has found the same; of a selection each has found its own."""
    found = [shard.affected for shard in shards if shard.affected is not None]
    if not found:
        return None
    causes = {case: cause for one in found for case, cause in one.causes.items()}
    left_out = dict.fromkeys(case for one in found for case in one.left_out)
    unseen = {file: what for one in found for file, what in one.unseen.items()}
    return replace(found[0], causes=causes, left_out=tuple(left_out), unseen=unseen)


def _find_failing(
    state: GateState, verdicts: Sequence[Verdict], *, strict: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Case -> the sentence of what fails it, and the cases whose failing verdict xfail expects."""
    failing = {
        verdict.subject.case: verdict.sentence for verdict in verdicts if verdict.kind.fails_in(strict=strict)
    }
    expected = tuple(case for case in failing if expects_failure(state, case))
    found = {case: sentence for case, sentence in failing.items() if case not in expected}
    for case, reports in state.reports.items():
        if (
            any(report["outcome"] == "failed" for report in reports)
            and state.has_passed(case)
            and case not in failing
        ):
            found[case] = "it is expected to fail, strictly, and passes"
    return found, expected


def _describe_failures(failures: dict[str, str]) -> str:
    if not failures:
        return ""
    shown = name_some((f"{case}: {why}" for case, why in failures.items()), _MOST_NAMES, "; ")
    verb = "has" if len(failures) == 1 else "have"
    return f"{count(len(failures), 'case')} {verb} failed without a verdict: {shown}"
