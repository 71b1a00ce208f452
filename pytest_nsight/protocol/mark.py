"""The arguments of `@pytest.mark.nsight` become a frozen Mark; what is unknown or ill-typed is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.doctest import DoctestItem  # pytest has no public name for it

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import Policy, Work
from pytest_nsight.protocol.mark_values import (
    parse_amount,
    parse_band,
    parse_count,
    parse_factor,
    parse_metric,
    parse_names,
    parse_rest,
    parse_share,
    parse_switch,
    parse_text,
    parse_time,
    parse_timeout,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the marks of one test say; None where they leave it to the settings.

    Attributes:
        rounds: measured rounds in a run.
        warmup: unmeasured rounds before them.
        rest_ns: pause before each round, in ns.
        cold_cache: whether the L2 cache is flushed before each round.
        band: relative change that counts as material.
        metric: gated duration, one of METRICS.
        launches: claimed number of launches in a round.
        kernels: claimed kernel names of a round.
        max_time_ns: claimed longest gated duration, in ns.
        faster_than: id of the variant that this one claims to beat.
        by: the claimed factor.
        bytes_moved: bytes that a round has to read and write.
        flops: floating-point operations that a round has to do.
        min_share_of_limit: claimed share of what the board can do, over 0 to 1.
        ranks: number of processes that run the test together.
        timeout_s: how long the test may take in one process.
    """

    rounds: int | None = None
    warmup: int | None = None
    rest_ns: int | None = None
    cold_cache: bool = True
    band: float | None = None
    metric: str = "kernel"
    launches: int | None = None
    kernels: tuple[str, ...] | None = None
    max_time_ns: int | None = None
    faster_than: str | None = None
    by: float = 1.0
    bytes_moved: int | None = None
    flops: int | None = None
    min_share_of_limit: float | None = None
    ranks: int = 1
    timeout_s: float | None = None

    @property
    def work(self) -> Work | None:
        """What a round has to do, None where the marks do not say."""
        if self.bytes_moved is None and self.flops is None:
            return None
        return Work(self.bytes_moved or 0, self.flops or 0)

    @property
    def claims(self) -> str:
        """What the marks demand of a round by itself, as text: equal claims have equal texts."""
        shown = (self.metric, self.launches, self.kernels, self.max_time_ns, self.faster_than, self.by)
        return repr((*shown, self.min_share_of_limit))

    def policy(self, band: float, partner: str | None) -> Policy:
        """What the verdict must obey, `band` being the settings' and `partner` the case to beat."""
        return Policy(
            band=band if self.band is None else self.band,
            metric=self.metric,
            launches=self.launches,
            kernels=self.kernels,
            max_time_ns=self.max_time_ns,
            faster_than=partner,
            by=self.by,
            min_share_of_limit=self.min_share_of_limit,
        )


# mark argument -> (field of Mark, reader of the value)
_ARGUMENTS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "rounds": ("rounds", parse_count(1)),
    "warmup": ("warmup", parse_count(0)),
    "rest": ("rest_ns", parse_rest),
    "cold_cache": ("cold_cache", parse_switch),
    "band": ("band", parse_band),
    "metric": ("metric", parse_metric),
    "launches": ("launches", parse_count(0)),
    "kernels": ("kernels", parse_names),
    "max_time": ("max_time_ns", parse_time),
    "faster_than": ("faster_than", parse_text),
    "by": ("by", parse_factor),
    "bytes": ("bytes_moved", parse_amount),
    "flops": ("flops", parse_amount),
    "min_share_of_limit": ("min_share_of_limit", parse_share),
    "ranks": ("ranks", parse_count(1)),
    "timeout": ("timeout_s", parse_timeout),
}


MARKABLE = "benchmark"
"""The fixture whose tests the ini setting nsight_mark marks: pytest-benchmark's."""


def mark_by_fixture(fixture: str, items: Iterable[pytest.Item], *, has_benchmark: bool) -> None:
    """Marks every test that uses pytest-benchmark's fixture.

    Args:
        fixture: what the ini setting nsight_mark says.
        items: the collected tests.
        has_benchmark: whether pytest-benchmark is loaded.

    Raises:
        pytest.UsageError: it names another fixture, or the plugin is missing.
    """
    if fixture != MARKABLE:
        raise pytest.UsageError(
            f"nsight_mark in the ini file is {fixture!r}; give {MARKABLE}, the fixture of pytest-benchmark, or "
            "mark single tests with @pytest.mark.nsight"
        )
    if not has_benchmark:
        raise pytest.UsageError(
            "nsight_mark = benchmark marks the tests of pytest-benchmark, which is not loaded here; "
            "pip install pytest-benchmark"
        )
    for item in items:
        if fixture in getattr(item, "fixturenames", ()) and not is_marked(item):
            item.add_marker(pytest.mark.nsight)


def is_marked(item: pytest.Item) -> bool:
    """Whether the test is one to measure.

    The mark of a module is not for its doctests, which cannot drop it.
    """
    if isinstance(item, DoctestItem):
        return any(mark.name == "nsight" for mark in item.own_markers)
    return item.get_closest_marker("nsight") is not None


def read_mark(item: pytest.Item) -> Mark:
    """Merges the test's nsight marks; the one nearest to the test wins, argument by argument.

    Raises:
        UsageError: an argument that is unknown, positional or ill-typed; the sentence names the test.
    """
    values: dict[str, Any] = {}
    for mark in _nearest_first(item):
        if mark.args:
            raise UsageError(
                f"{item.nodeid}: nsight takes keyword arguments only, got {mark.args[0]!r}; "
                f"allowed are {', '.join(_ARGUMENTS)}"
            )
        for name, value in mark.kwargs.items():
            if name not in _ARGUMENTS:
                raise UsageError(
                    f"{item.nodeid}: nsight has no argument {name!r}; allowed are {', '.join(_ARGUMENTS)}"
                )
            field, parse = _ARGUMENTS[name]
            values.setdefault(field, parse(f"{item.nodeid}: nsight({name}=...)", value))
    if "by" in values and "faster_than" not in values:
        raise UsageError(f"{item.nodeid}: nsight(by=...) needs faster_than=..., the variant to beat")
    return Mark(**values)


def _nearest_first(item: pytest.Item) -> list[pytest.Mark]:
    """The test's nsight marks; pytest puts those of a parameter set behind the function's own."""
    by_node: dict[str, list[pytest.Mark]] = {}
    for node, mark in item.iter_markers_with_node("nsight"):
        by_node.setdefault(node.nodeid, []).insert(0, mark)
    return [mark for marks in by_node.values() for mark in marks]


def check_marks(items: Iterable[pytest.Item]) -> None:
    """Reads every mark once, so that a wrong one ends the collection.

    Raises:
        pytest.UsageError: one line for each wrong mark.
    """
    wrong = filter(None, map(_complaint, items))
    sentences = "\n".join(dict.fromkeys(wrong))
    if sentences:
        raise pytest.UsageError(sentences)


def _complaint(item: pytest.Item) -> str:
    try:
        _check_claim(item, read_mark(item))
    except UsageError as error:
        return str(error)
    return ""


def _check_claim(item: pytest.Item, mark: Mark) -> None:
    """Refuses a claim that can never be checked; one of a whole function or class need not fit each case."""
    if mark.faster_than is None:
        return
    where = f"{item.nodeid}: nsight(faster_than={mark.faster_than!r})"
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        if any("faster_than" in own.kwargs for own in item.own_markers if own.name == "nsight"):
            raise UsageError(f"{where} names the id of another parameter, and the test has no parameters")
    elif _has_variant(parameter_ids(item), mark.faster_than) and any(
        "faster_than" in own.kwargs for own in callspec.marks if own.name == "nsight"
    ):
        raise UsageError(f"{where} claims that the case beats itself; name the id of another parameter")


ParameterIds = tuple[tuple[str, ...], ...]
"""Of each parametrization of a case the id, in pieces: one piece where it has one argument. Of several arguments
pytest joins the ids with dashes, which they may hold themselves, so such an id is cut at every dash."""


def parameter_ids(item: pytest.Item) -> ParameterIds:
    """The ids of a test's parametrizations, in the order in which its node id has them."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    ids = callspec._idlist  # noqa: SLF001 - `id` joins them, and then a dash may be part of one or between two
    has_joined = len(callspec.params) > len(ids)
    return tuple(tuple(one.split("-")) if has_joined else (one,) for one in ids)


def _has_variant(ids: ParameterIds, variant: str) -> bool:
    return any("-".join(pieces[run]) == variant for pieces in ids for run in _runs(pieces))


def _runs(pieces: tuple[str, ...]) -> list[slice]:
    """All runs of adjacent pieces, shortest first."""
    count = len(pieces)
    return [slice(start, start + size) for size in range(1, count + 1) for start in range(count - size + 1)]


def find_partner(case: str, ids: ParameterIds, variant: str, cases: Collection[str]) -> str | None:
    """The case that differs from `case` only in having `variant` for one of its parameter ids.

    Of `test_op[fused-4096]` the "unfused" partner is `test_op[unfused-4096]`. A case that is the variant itself has
    no partner, and neither has one without parameters.

    Args:
        case: its node id.
        ids: its parameter ids.
        variant: id to put in place of one of them.
        cases: node ids of all cases.

    Returns:
        The partner's node id. If no case has it, as where the variant is misspelt or not selected, the one that it
        would most likely have: the claim must not vanish, so its sentence names the missing case.
    """
    before, bracket, after = case.rpartition(f"[{'-'.join('-'.join(pieces) for pieces in ids)}]")
    if not ids or not bracket or _has_variant(ids, variant):
        return None

    def name(at: int, run: slice) -> str:
        changed = [*ids[at][: run.start], variant, *ids[at][run.stop :]]
        every = ("-".join(changed if place == at else pieces) for place, pieces in enumerate(ids))
        return f"{before}[{'-'.join(every)}]{after}"

    candidates = [name(at, run) for at, pieces in enumerate(ids) for run in _runs(pieces)]
    return next((one for one in candidates if one in cases), candidates[0])


def find_partners(items: Iterable[pytest.Item], cases: Collection[str] = ()) -> dict[str, str]:
    """Case -> the case that it claims to beat, of tests that are to be measured.

    Args:
        items: tests, marked or not.
        cases: node ids of cases beside them that may be claimed to be slower.
    """
    marked = [item for item in items if is_marked(item)]
    every = {*cases, *(item.nodeid for item in marked)}
    variants = {item.nodeid: (parameter_ids(item), read_mark(item).faster_than) for item in marked}
    found = {case: find_partner(case, ids, variant, every) for case, (ids, variant) in variants.items() if variant}
    return {case: partner for case, partner in found.items() if partner is not None}
