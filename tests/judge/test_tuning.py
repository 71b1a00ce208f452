"""A choice that an autotuner or a library made by time fails nothing by itself, and excuses no other work."""

from dataclasses import replace

import pytest

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import judge, kernel, make_evidence, uses


def verdict_of(evidence):
    (verdict,) = judge([evidence])
    return verdict


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


@pytest.mark.parametrize(("varies", "kind"), [(False, VerdictKind.STRUCTURE), (True, VerdictKind.REGRESSION)])
def test_what_cudnn_chose_is_named_beside_other_changes(varies, kind):
    evidence = chosen_by_cudnn(1.2, norms=2)
    if varies:
        first = replace(evidence.baseline[0], shapes=evidence.new[0].shapes)
        evidence = replace(evidence, baseline=(first, *evidence.baseline[1:]))

    verdict = verdict_of(evidence)

    assert verdict.kind is kind
    assert "cuDNN, which chooses by time, launched other kernels for convolutions (" in verdict.sentence


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


NVJET = "nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_TNT"
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x64_64x4_tn_align8>(T1::Params)"
TEMPLATE = "triton_tem_fused_mm_relu_0"


def launch_named(*full_names, time=100):
    """Launches of these kernels, which together take so many us, beside an elementwise kernel of the program."""
    each_ns = time * 1000 // len(full_names)
    shapes = (replace(kernel(normalise(name)), full_name=name) for name in full_names)
    return (*(ShapeUse(shape, 1, each_ns) for shape in shapes), ShapeUse(kernel("norm"), 1, 100_000))


def chosen_by(library, before, now, ratio=1.0, *, problem="p1", more=()):
    evidence = make_evidence(
        ratio=ratio,
        shapes=launch_named(*before),
        new_shapes=(*launch_named(*now, time=round(200 * ratio) - 100), *more),
    )
    return choose(evidence, [[(library, "p1", "")]], [[(library, problem, "")]])


BY_COMPILERS = [
    pytest.param("Inductor", (TEMPLATE,), (NVJET, "triton_poi_fused_mm_relu_0"), id="template to cuBLAS"),
    pytest.param("Inductor", (CUTLASS, "triton_poi_fused_mm_relu_0"), (TEMPLATE,), id="cuBLAS to template"),
    pytest.param(
        "Inductor", (TEMPLATE,), ("triton_tem_fused_mm_1", "triton_red_fused_native_batch_norm_0"), id="tile"
    ),
    pytest.param("XLA", (NVJET, "loop_convert_fusion_2"), ("gemm_fusion_dot_general_8",), id="XLA's own"),
    pytest.param("XLA", ("gemm_fusion_dot_3",), ("void cublasLt::splitKreduce_kernel<32>(int)", NVJET), id="split"),
    pytest.param("XLA", (CUTLASS, "loop_add_fusion_1"), (NVJET, "loop_add_fusion_3"), id="another of cuBLAS"),
]


@pytest.mark.parametrize(("library", "before", "now"), BY_COMPILERS)
@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.0, VerdictKind.UNCHANGED), (0.9, VerdictKind.IMPROVEMENT), (1.1, VerdictKind.INCONCLUSIVE)],
)
def test_what_a_compiler_chose_for_the_same_program_is_judged_on_time(library, before, now, ratio, kind):
    verdict = verdict_of(chosen_by(library, before, now, ratio))

    assert verdict.kind is kind, verdict.sentence
    assert f"{library}, which chooses by time, made other kernels of the same " in verdict.sentence
    assert not verdict.changes


def one_more(full_name, count=1):
    return (ShapeUse(replace(kernel(normalise(full_name)), full_name=full_name), count, 1000),)


@pytest.mark.parametrize(("library", "before", "now"), BY_COMPILERS)
@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"problem": "p2"}, VerdictKind.STRUCTURE),
        ({"ratio": 2.5}, VerdictKind.REGRESSION),
        ({"more": one_more(NVJET)}, VerdictKind.STRUCTURE),
        ({"more": one_more("void my_layer_fusion<float>(float *)")}, VerdictKind.STRUCTURE),
        ({"more": one_more("diffusion_step_kernel")}, VerdictKind.STRUCTURE),
        ({"more": one_more("triton_swiglu_fused")}, VerdictKind.STRUCTURE),
        ({"more": one_more("void gemm_kernel<128, 64>(float *)")}, VerdictKind.STRUCTURE),
        ({"more": one_more("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16")}, VerdictKind.STRUCTURE),
        (
            {"more": (*one_more("loop_exp_fusion", 4), *one_more("triton_poi_fused_exp_7", 4))},
            VerdictKind.STRUCTURE,
        ),
        ({"more": (ShapeUse(Shape("memset", "memset"), 2, 1000),)}, VerdictKind.STRUCTURE),
    ],
    ids=[
        "another program",
        "twice as long",
        "another product",
        "a kernel of the program called fusion",
        "diffusion",
        "a kernel of the program called fused",
        "a product of the program's own",
        "attention",
        "more generated kernels than the product explains",
        "more memory sets",
    ],
)
def test_a_compiler_is_no_excuse_for_other_work(library, before, now, how, kind):
    assert verdict_of(chosen_by(library, before, now, **how)).kind is kind


def test_a_program_that_is_called_twice_fails():
    """JAX's calls are not counted, as they do not pass through Python."""
    program = (NVJET, "loop_add_fusion_1")
    twice = tuple(replace(use, count=2) if use.shape.name != "norm" else use for use in launch_named(*program))
    evidence = make_evidence(shapes=launch_named(*program), new_shapes=twice)

    assert verdict_of(choose(evidence, [[("XLA", "p1", "")]], [[("XLA", "p1", "")]])).kind is VerdictKind.STRUCTURE


@pytest.mark.parametrize("library", ["Inductor", "XLA"])
def test_generated_kernels_alone_are_no_choice(library):
    evidence = chosen_by(library, (NVJET,), (NVJET, "triton_poi_fused_add_0", "loop_add_fusion"))

    assert verdict_of(evidence).kind is VerdictKind.STRUCTURE


@pytest.mark.parametrize(("library", "product"), [("Inductor", TEMPLATE), ("XLA", "gemm_fusion_dot_3")])
def test_a_template_of_the_same_launch_shape_is_a_choice_by_its_registers(library, product):
    evidence = chosen_by(library, (product,), (product,), 1.1)
    chosen, *others = evidence.new[0].shapes
    shapes = (replace(chosen, shape=replace(chosen.shape, registers=90, shared_bytes=32768)), *others)
    evidence = replace(evidence, new=tuple(replace(run, shapes=shapes) for run in evidence.new))

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert f"but {library}, which chooses by time, made other kernels of the same " in verdict.sentence
    assert " (of the same names), so the time does not show" in verdict.sentence


def test_inductor_without_a_template_is_no_excuse_for_another_kernel_of_cublas():
    generated = "triton_poi_fused_mm_relu_0"

    verdict = verdict_of(chosen_by("Inductor", (CUTLASS, generated), (NVJET, generated)))

    assert verdict.kind is VerdictKind.STRUCTURE


def test_what_a_kernels_own_configuration_explains_is_named_once():
    """A pointwise kernel has another configuration, and its graph is known, too."""
    before, now = (
        launch_named("triton_poi_fused_add_0"),
        tuple(
            replace(use, shape=replace(use.shape, grid=(4, 1, 1))) if use.shape.name != "norm" else use
            for use in launch_named("triton_poi_fused_add_0")
        ),
    )
    evidence = choose(
        make_evidence(shapes=before, new_shapes=now),
        [[("triton_poi_fused_add", "p1", "XBLOCK: 64"), ("Inductor", "g1", "")]],
        [[("triton_poi_fused_add", "p1", "XBLOCK: 128"), ("Inductor", "g1", "")]],
    )

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert "(triton_poi_fused_add XBLOCK: 64 -> XBLOCK: 128)" in verdict.sentence
    assert "Inductor" not in verdict.sentence


def test_the_remedy_names_the_cache_of_the_compiler_that_chose():
    sentence = verdict_of(chosen_by("XLA", (NVJET,), ("gemm_fusion_dot_3",), 1.1)).sentence

    assert sentence.endswith(
        "(+10.0 %), but XLA, which chooses by time, made other kernels of the same program "
        f"({NVJET} -> gemm_fusion_dot_3), "
        "so the time does not show whether the code is slower: keep its choices from session to session "
        "(JAX_COMPILATION_CACHE_DIR with JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0, at the same paths), "
        "or save this choice with --nsight-save"
    )


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
