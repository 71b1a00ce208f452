"""Structure is compared before time, exactly, and shown as a difference."""

from dataclasses import replace

import pytest

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.comparison import SlowerKernel
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import SUBJECT, judge, kernel, make_evidence, make_runs, suspects, uses, wobble

UNFUSED = uses("pow", "mean", "add", "rsqrt", "mul", "mul")
FUSED = uses("_rms_norm_fused_kernel")


def verdict_of(evidence, **how):
    (verdict,) = judge([evidence], **how)
    return verdict


def without_tile(name):
    return name.split("_tile")[0]


def test_a_lost_fusion_fails_with_both_sides_in_the_sentence():
    verdict = verdict_of(make_evidence(ratio=1.5, new=1, shapes=FUSED, new_shapes=UNFUSED))

    assert verdict.kind is VerdictKind.STRUCTURE
    assert verdict.sentence.startswith(
        "test_rms_norm[fused-4096]: launches changed, 1 -> 6 per round, as when a fusion is lost: "
        "- 1 launch: _rms_norm_fused_kernel   + 6 launches: pow, mean, add, rsqrt, mul (x2); "
        "kernel time 200 -> 300 us (+50.0 %)"
    )
    lost = verdict.changes[0]
    assert (lost.shape.name, lost.before, lost.now) == ("_rms_norm_fused_kernel", 1, 0)


def test_a_lost_fusion_fails_though_it_got_faster_and_only_one_run_is_stored():
    evidence = make_evidence(ratio=0.5, stored=1, new=1, shapes=FUSED, new_shapes=UNFUSED)

    assert verdict_of(evidence).kind is VerdictKind.STRUCTURE
    assert suspects([evidence]) == ()


def test_a_copy_gained_is_a_structure_change():
    copy = ShapeUse(Shape("memcpy", "[memcpy DtoH]"), 1, 5)

    verdict = verdict_of(make_evidence(new=1, shapes=FUSED, new_shapes=(*FUSED, copy)))

    assert verdict.kind is VerdictKind.STRUCTURE
    assert "copies changed, launches did not (1 per round): + 1 copy: [memcpy DtoH]" in verdict.sentence


def test_the_order_of_launches_and_their_long_names_do_not_matter():
    renamed = tuple(
        ShapeUse(kernel(use.shape.name, full_name=f"void {use.shape.name}<float>"), use.count, 7)
        for use in reversed(UNFUSED)
    )

    assert verdict_of(make_evidence(shapes=UNFUSED, new_shapes=renamed)).kind is VerdictKind.UNCHANGED


def test_registers_and_shared_memory_are_told_and_do_not_fail():
    more = (ShapeUse(kernel("mm", registers=40, shared_bytes=1024), 1, 7),)
    less = (ShapeUse(kernel("mm", registers=32, shared_bytes=1024), 1, 7),)

    verdict = verdict_of(make_evidence(shapes=less, new_shapes=more))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.sentence.endswith("; registers of mm 32 -> 40")


def test_another_tile_of_the_same_kernels_is_told_apart_from_a_lost_fusion():
    before, now = (ShapeUse(kernel("mm_tile64", 8), 1, 7),), (ShapeUse(kernel("mm_tile128", 4), 1, 7),)

    verdict = verdict_of(make_evidence(shapes=before, new_shapes=now), family=without_tile)

    assert verdict.kind is VerdictKind.STRUCTURE
    assert (
        "same kernels, other launch shapes (another tile, an autotuner's choice or another size): "
        "mm_tile64 grid 8x1x1 block 128x1x1 -> mm_tile128 grid 4x1x1 block 128x1x1" in verdict.sentence
    )


def test_another_tile_in_one_run_only_asks_for_more_runs():
    before, now = (ShapeUse(kernel("mm", 8), 1, 7),), (ShapeUse(kernel("mm", 4), 1, 7),)
    evidence = make_evidence(new=1, shapes=before, new_shapes=now)

    assert suspects([evidence]) == (SUBJECT,)
    assert verdict_of(evidence).kind is VerdictKind.INCONCLUSIVE


def test_an_autotuner_that_chooses_anew_in_each_run_does_not_fail():
    choices = [(ShapeUse(kernel("mm", grid), 1, 7),) for grid in (4, 8)]
    new = tuple(
        run
        for index, middle in enumerate(wobble(200_000, 9))
        for run in make_runs([middle], f"n{index}", shapes=choices[index % 2])
    )
    evidence = SubjectRuns(SUBJECT, Policy(), make_evidence(shapes=choices[0]).baseline, new)

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "launches differ from run to run (mm in 2 launch shapes)" in verdict.sentence


def test_rounds_that_differ_do_not_fail_on_structure_but_are_told():
    stored = make_evidence(shapes=FUSED)
    new = make_runs(wobble(200_000, 9), "new", shapes=UNFUSED, is_stable=False)

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), stored.baseline, new))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "launches differ" in verdict.sentence


def test_rounds_that_always_differed_are_judged_on_time():
    stored, new = (
        make_runs(wobble(200_000, count), name, shapes=UNFUSED, is_stable=False)
        for count, name in ((5, "a"), (9, "b"))
    )

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), stored, new))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.sentence.endswith("; launches differ from round to round")


def test_a_saved_change_of_structure_supersedes_what_was_saved_before():
    old = make_runs(wobble(200_000, 5), "old", shapes=UNFUSED, recorded="2025-12-01T00:00:00Z")
    current = make_evidence(shapes=FUSED)

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), (*old, *current.baseline), current.new))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.comparison.baseline_runs == 5


def test_launches_of_an_incomparable_baseline_do_not_fail():
    evidence = make_evidence(shapes=FUSED, new_shapes=UNFUSED, incomparable="other driver")

    assert verdict_of(evidence).kind is VerdictKind.ENVIRONMENT
    assert verdict_of(evidence).changes == ()


@pytest.mark.parametrize(("count", "text"), [(1, "- 1 launch: mm"), (1000, "- 1,000 launches: mm (x1000)")])
def test_repeated_launches_are_counted_not_listed(count, text):
    before = (ShapeUse(kernel("mm"), count, 7), *FUSED)

    assert text in verdict_of(make_evidence(new=1, shapes=before, new_shapes=FUSED)).sentence


def test_the_kernels_that_grew_are_named_worst_first_and_trifles_left_out():
    before = (*uses("a", median_ns=10_000), *uses("b", median_ns=10_000), *uses("c", median_ns=10_000))
    now = (*uses("a", median_ns=12_000), *uses("b", median_ns=15_000), *uses("c", median_ns=10_100))

    verdict = verdict_of(make_evidence(30_000, 1.24, shapes=before, new_shapes=now))

    assert verdict.comparison.slower_kernels == (
        SlowerKernel("b", 10_000, 15_000),
        SlowerKernel("a", 10_000, 12_000),
    )
    assert verdict.sentence.endswith("; slower kernels: b, a")


def test_a_case_that_another_test_changes_in_some_runs():
    plain, other = make_evidence(shapes=uses("square")), make_evidence(new_shapes=uses("log", "exp"))
    evidence = replace(plain, new=(*plain.new[:4], *other.new[4:]))

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "launches differ from run to run" in verdict.sentence
    assert (
        "let no other test change what it launches, for runs take them in other orders, or fix" in verdict.sentence
    )
