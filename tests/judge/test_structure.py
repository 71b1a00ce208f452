"""Structure is compared before time, exactly, and shown as a difference."""

from dataclasses import replace

import pytest

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.comparison import SlowerKernel
from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.model.values import Policy, Shape, ShapeUse
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


def tuned(evidence, *, before="BLOCK: 64", now="BLOCK: 128", problem="p1", new_problem="p1", name="mm", launches=1):
    """The evidence with what an autotuner chose for a kernel of that name."""
    return choose(evidence, [[(name, problem, before)]], [[(name, new_problem, now, launches)]])


def choose(evidence, before, now):
    """The evidence with what autotuners chose, run by run; the first choices again where there are more runs."""
    sides = (
        tuple(
            replace(run, tuned=tuple(TunedKernel(*one) for one in choices[number % len(choices)]))
            for number, run in enumerate(runs)
        )
        for runs, choices in ((evidence.baseline, before), (evidence.new, now))
    )
    return replace(evidence, **dict(zip(("baseline", "new"), sides, strict=True)))


def make_retiled(ratio=1.0, *, others=(100, 100), grid=4, more=(), **how):
    """A tuned kernel in another shape and one that nothing tunes, with their times in us."""
    sides = [
        (ShapeUse(kernel("mm", size), 1, mm * 1000), ShapeUse(kernel("norm"), 1, other * 1000))
        for size, mm, other in ((8, 100, others[0]), (grid, round(200 * ratio) - others[1], others[1]))
    ]
    return make_evidence(ratio=ratio, shapes=sides[0], new_shapes=(*sides[1], *more), **how)


CHOICE = "an autotuner chose another configuration for the same source and arguments (mm BLOCK: 64 -> BLOCK: 128)"
ADVICE = (
    ", so the time does not show whether the code is slower: keep its choices from session to session "
    "(TRITON_CACHE_AUTOTUNING=1 with TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, at the same paths), or give "
    "the kernel one configuration, or save this choice with --nsight-save"
)


@pytest.mark.parametrize("grid", [4, 8], ids=["another grid", "the same grid"])
@pytest.mark.parametrize(("ratio", "kind"), [(1.0, VerdictKind.UNCHANGED), (0.9, VerdictKind.IMPROVEMENT)])
def test_what_an_autotuner_chose_for_the_same_work_is_judged_on_time(ratio, kind, grid):
    verdict = verdict_of(tuned(make_retiled(ratio, grid=grid)))

    assert verdict.kind is kind
    assert CHOICE in verdict.sentence
    assert not verdict.changes


@pytest.mark.parametrize("grid", [4, 8], ids=["another grid", "the same grid"])
def test_an_autotuners_slower_choice_fails_nothing(grid):
    verdict = verdict_of(tuned(make_retiled(1.1, grid=grid)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.sentence == (
        f"test_rms_norm[fused-4096]: kernel time 200 -> 220 us (+10.0 %), but {CHOICE}{ADVICE}"
    )


def test_a_slower_kernel_beside_an_autotuners_choice_fails():
    verdict = verdict_of(tuned(make_retiled(1.1, others=(100, 115))))

    assert verdict.kind is VerdictKind.REGRESSION
    assert CHOICE in verdict.sentence


def test_a_faster_choice_hides_no_slower_kernel():
    verdict = verdict_of(tuned(make_retiled(1.0, others=(100, 130))))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert f"; other kernels take longer, by 15 % of it, and {CHOICE}{ADVICE}" in verdict.sentence


def test_a_slower_copy_beside_an_autotuners_choice_fails_where_copies_count():
    sides = [
        (ShapeUse(kernel("mm", grid), 1, 100_000), ShapeUse(Shape("memcpy", "memcpy HtoD"), 1, copy))
        for grid, copy in ((8, 100_000), (4, 120_000))
    ]
    evidence = tuned(
        make_evidence(ratio=1.1, shapes=sides[0], new_shapes=sides[1], policy=Policy(band=0.02, metric="busy"))
    )

    assert verdict_of(as_metric(evidence, "busy")).kind is VerdictKind.REGRESSION


def as_metric(evidence, metric):
    sides = {
        side: tuple(replace(run, rounds={metric: run.rounds["kernel"]}) for run in getattr(evidence, side))
        for side in ("baseline", "new")
    }
    return replace(evidence, **sides)


def test_an_autotuners_choice_explains_no_time_of_the_host():
    evidence = tuned(make_retiled(1.1, policy=Policy(band=0.02, metric="wall")))

    assert verdict_of(as_metric(evidence, "wall")).kind is VerdictKind.REGRESSION


@pytest.mark.parametrize(
    "how",
    [{"new_problem": "p2"}, {"now": "BLOCK: 64"}, {"name": "another"}, {"launches": 2}],
    ids=["other work", "same configuration", "another kernel", "more often"],
)
def test_launch_shapes_that_no_choice_explains_fail(how):
    assert verdict_of(tuned(make_retiled(), **how)).kind is VerdictKind.STRUCTURE


def test_work_that_moves_from_one_size_to_another_fails():
    small, big = ("mm", "small"), ("mm", "big")
    before = [(*small, "BLOCK: 64", 3), (*big, "BLOCK: 64", 1)]
    now = [(*small, "BLOCK: 32", 1), (*big, "BLOCK: 64", 3)]
    evidence = choose(make_retiled(), [before], [now])

    assert verdict_of(evidence).kind is VerdictKind.STRUCTURE


def test_an_autotuner_is_no_excuse_for_another_kernel():
    evidence = tuned(make_evidence(shapes=uses("mm"), new_shapes=uses("mm", "mm")))

    assert verdict_of(evidence).kind is VerdictKind.STRUCTURE


def test_a_choice_for_one_of_several_sizes_is_a_choice():
    """The configurations are the same as before, in other places."""
    before = [("mm", "p1", "A"), ("mm", "p2", "B"), ("mm", "p3", "A")]
    now = [("mm", "p1", "A"), ("mm", "p2", "B"), ("mm", "p3", "B")]

    verdict = verdict_of(choose(make_retiled(), [before], [now]))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert "for the same source and arguments (mm of several sizes)" in verdict.sentence


CONVOLUTION = "void cutlass__5x_cudnn::Kernel<{}>(T1::Params)"


def convolve(*names, times=100, norms=1):
    """What cuDNN launches for a convolution, and norms after it, with their times in us."""
    chosen = [
        ShapeUse(replace(kernel(name), full_name=CONVOLUTION.format(name)), 1, times * 1000 // len(names))
        for name in names
    ]
    clearing = [ShapeUse(Shape("memset", "memset"), len(names), 1000)]
    return (*chosen, *clearing, ShapeUse(kernel("norm"), norms, 100_000))


def chosen_by_cudnn(ratio=1.0, *, settings="allow_tf32: True", now=("wgrad_b", "split_k"), norms=1):
    evidence = make_evidence(
        ratio=ratio,
        shapes=convolve("wgrad_a"),
        new_shapes=convolve(*now, times=round(200 * ratio) - 100, norms=norms),
    )
    return choose(evidence, [[("cuDNN", "allow_tf32: True", "")]], [[("cuDNN", settings, "")]])


ALGORITHMS = (
    "cuDNN, which chooses by time, launched other kernels for convolutions (1 kernel gone, 2 new; "
    "torch.backends.cudnn.benchmark = False keeps it from doing so)"
)


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.0, VerdictKind.UNCHANGED), (0.9, VerdictKind.IMPROVEMENT), (1.1, VerdictKind.REGRESSION)],
)
def test_what_cudnn_chose_by_time_is_judged_on_time(ratio, kind):
    verdict = verdict_of(chosen_by_cudnn(ratio))

    assert verdict.kind is kind
    assert ALGORITHMS in verdict.sentence


@pytest.mark.parametrize(
    "how",
    [{"settings": "allow_tf32: False"}, {"norms": 2}, {"now": ("wgrad_a",), "norms": 2}],
    ids=["other settings", "another launch beside it", "the same choice"],
)
def test_cudnn_is_no_excuse_for_other_work(how):
    assert verdict_of(chosen_by_cudnn(**how)).kind is VerdictKind.STRUCTURE


@pytest.mark.parametrize(
    ("full_name", "kind"),
    [
        ("void fft2d_r2c_32x32<float, (bool)0, (unsigned int)1, (bool)0>(float2 *)", VerdictKind.UNCHANGED),
        ("ampere_gcgemm_64x32_nt", VerdictKind.UNCHANGED),
        ("void explicit_convolve_sgemm<float, int, (int)128>(int)", VerdictKind.UNCHANGED),
        ("void wgrad_alg0_engine<float, (int)128>(int)", VerdictKind.UNCHANGED),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize32x32x8", VerdictKind.STRUCTURE),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(T1::Params)", VerdictKind.STRUCTURE),
        ("my_dgrad_kernel", VerdictKind.STRUCTURE),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", VerdictKind.STRUCTURE),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)", VerdictKind.STRUCTURE),
    ],
)
def test_a_kernel_counts_as_cudnns_by_its_full_name(full_name, kind):
    evidence = chosen_by_cudnn()
    chosen, *others = evidence.new[0].shapes
    shapes = (replace(chosen, shape=replace(chosen.shape, full_name=full_name)), *others)
    evidence = replace(evidence, new=tuple(replace(run, shapes=shapes) for run in evidence.new))

    assert verdict_of(evidence).kind is kind


def launch_too(evidence, *more):
    """The evidence with more launches in its new runs."""
    return replace(evidence, new=tuple(replace(run, shapes=(*run.shapes, *more)) for run in evidence.new))


def test_a_kernel_of_the_program_with_the_short_name_of_one_of_cudnn_is_compared():
    own = ShapeUse(replace(kernel("split_k", 2), full_name="void mine::split_k<float>(int)"), 1, 1000)

    assert verdict_of(launch_too(chosen_by_cudnn(), own)).kind is VerdictKind.STRUCTURE


def test_more_memory_sets_than_cudnn_may_want_fail():
    sets = ShapeUse(Shape("memset", "memset"), 50, 1000)

    assert verdict_of(launch_too(chosen_by_cudnn(), sets)).kind is VerdictKind.STRUCTURE


def test_cudnns_choice_of_the_same_kernels_in_other_numbers_says_so():
    evidence = chosen_by_cudnn(now=("wgrad_a",))
    twice = tuple(replace(use, count=2) if use.shape.name == "wgrad_a" else use for use in evidence.new[0].shapes)
    evidence = replace(evidence, new=tuple(replace(run, shapes=twice) for run in evidence.new))

    assert "for convolutions (the same kernels, in other numbers or shapes; " in verdict_of(evidence).sentence


ONE_OF_TWO = [[("mm", "p1", "BLOCK: 64")], [("mm", "p1", "BLOCK: 128")]]


def vary(runs, shapes):
    return tuple(replace(run, shapes=shapes[number % len(shapes)]) for number, run in enumerate(runs))


def grids(*sizes):
    return [(ShapeUse(kernel("mm", size), 1, 7),) for size in sizes]


@pytest.mark.parametrize(
    ("stored", "new"),
    [((8,), (8, 4)), ((8, 4), (8,)), ((8, 4), (4, 8))],
    ids=["new runs", "stored runs", "both"],
)
def test_a_known_autotuner_that_chooses_anew_in_each_run_is_judged_on_time(stored, new):
    evidence = make_evidence(shapes=grids(8)[0])
    evidence = replace(
        evidence, baseline=vary(evidence.baseline, grids(*stored)), new=vary(evidence.new, grids(*new))
    )
    configs = {8: ONE_OF_TWO[0], 4: ONE_OF_TWO[1]}
    evidence = choose(evidence, [configs[size] for size in stored], [configs[size] for size in new])

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert "an autotuner chose another configuration for the same source and arguments (mm " in verdict.sentence
    assert "launches differ" not in verdict.sentence


@pytest.mark.parametrize("extra", [uses("extra"), uses("mm", "mm")], ids=["another", "more of it"])
def test_a_launch_gained_beside_choices_that_differ_from_run_to_run_is_named(extra):
    evidence = make_evidence(shapes=grids(8)[0])
    new = vary(evidence.new, [(*shapes, *extra) for shapes in grids(8, 4)])
    evidence = choose(replace(evidence, new=new), [ONE_OF_TWO[0]], ONE_OF_TWO)

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "launches differ from run to run" in verdict.sentence
    assert "for the same source" not in verdict.sentence


@pytest.mark.parametrize(
    ("before", "now"), [(ONE_OF_TWO, ONE_OF_TWO), (ONE_OF_TWO, ONE_OF_TWO[:1])], ids=["the same", "one of them"]
)
def test_a_choice_that_stored_runs_have_made_explains_no_time(before, now):
    verdict = verdict_of(choose(make_retiled(1.1, grid=8), before, now))

    assert verdict.kind is VerdictKind.REGRESSION


def test_no_choice_doubles_a_time():
    assert verdict_of(tuned(make_retiled(2.5))).kind is VerdictKind.REGRESSION


def test_older_sessions_with_other_work_do_not_count_for_the_choice():
    """The function had moved in its file, and was saved again."""
    evidence = tuned(make_retiled(1.1))
    older = tuple(
        replace(run, session="older", recorded="2025-12-01T00:00:00Z", tuned=work)
        for run, work in zip(evidence.baseline, [(), (TunedKernel("mm", "p0", "BLOCK: 64"),)] * 2, strict=False)
    )

    verdict = verdict_of(replace(evidence, baseline=(*older, *evidence.baseline)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert CHOICE in verdict.sentence


def test_settings_that_hold_lists_are_shown_whole():
    before, now = "TILE: [64, 32], num_warps: 4", "TILE: [128, 32], num_warps: 4, num_stages: 2"

    sentence = verdict_of(tuned(make_retiled(), before=before, now=now)).sentence

    assert "(mm TILE: [64, 32] -> TILE: [128, 32], num_stages: 2)" in sentence
