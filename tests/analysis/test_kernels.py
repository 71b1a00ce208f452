"""Names, categories, occupancy, sequences of small kernels, the critical path."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.analysis.categories import CategoryRule, categorise
from pytest_nsight.analysis.critical_path import PathPart
from pytest_nsight.analysis.display_names import distinguish, fold_names
from pytest_nsight.analysis.occupancy import Occupancy, estimate_occupancy
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice
from pytest_nsight.show.kernel_tables import tabulate_kernels
from pytest_nsight.show.records import list_tables
from tests.trace.trace_builder import TraceBuilder

T4 = MultiprocessorLimits(32, 16, 65536, 65536, (7, 5))
H100 = MultiprocessorLimits(64, 32, 65536, 233472, (9, 0))


@pytest.mark.parametrize(
    ("names", "families"),
    [
        (["step#0", "step#1", "step#2"], {"step#*"}),
        (["layer 7 mlp", "layer 8 mlp", "layer 9 mlp"], {"layer * mlp"}),
        (["mm_1024", "mm_2048", "mm_4096"], {"mm_1024", "mm_2048", "mm_4096"}),
        (["fp16", "fp32"], {"fp16", "fp32"}),
        (["a1", "a2"], {"a1", "a2"}),
        (["a\n1", "a\n2", "a\n3", "plain"], {"a\n*", "plain"}),
        ([f"r{i}/block{j}" for i in range(2) for j in range(3)], {"r0/block*", "r1/block*"}),
        ([f"block.{i}.layer.{j}" for i in range(4) for j in range(2)], {"block.*.layer.0", "block.*.layer.1"}),
        (["aten::mm, op_id = 318126", "aten::mm, op_id = 7"], {"aten::mm"}),
        (["MmBackward0, seq = 12, op_id = 99"], {"MmBackward0"}),
        ([f"item {17 * i}" for i in range(30)], {"item *"}),
        (["id = 3"], {"id = 3"}),
    ],
)
def test_names_that_count_up_share_a_name_and_sizes_do_not(names: list[str], families: set[str]) -> None:
    assert set(fold_names(names).values()) == families


def test_equal_short_names_get_what_distinguishes_them() -> None:
    assert distinguish([("f<int, 4>", "f"), ("f<float, 4>", "f"), ("g", "g")]) == ["f [int]", "f [float]", "g"]
    assert distinguish([("f<()>", "f"), ("f<[]>", "f")]) == ["f", "f #2"]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT", "GEMM"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", "GEMM"),
        ("flash_fwd_kernel", "attention"),
        ("softmax_warp_forward", "softmax"),
        ("void soft_max_f32<true, 0, 0, float>(float const*, float*)", "softmax"),
        ("void cpy_f32_f16<&cpy_1_f32_f16>(char const*, char*)", "memory"),
        ("loop_add_fusion_29", "elementwise"),
        ("loop_multiply_select_fusion", "elementwise"),
        ("loop_add_transpose_fusion_2", "elementwise"),
        ("loop_dynamic_update_slice_fusion", "memory"),
        ("input_transpose_fusion_1", "memory"),
        ("input_add_reduce_fusion", "reduction"),
        ("wrapped_exponential_minus_one_3", "elementwise"),
        ("wrapped_broadcast", "memory"),
        ("wrapped_reduce", "reduction"),
        ("gemm_fusion_dot_12_0", "GEMM"),
        ("void k_bin_bcast<&op_mul, float, float, float>(float const*)", "elementwise"),
        ("vectorized_layer_norm_kernel", "normalisation"),
        ("_rms_norm_fused_kernel", "normalisation"),
        ("vectorized_elementwise_kernel(MulFunctor)", "elementwise"),
        ("reduce_kernel(MeanOps)", "reduction"),
        ("elementwise_kernel(direct_copy_kernel_cuda)", "memory"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        ("multi_tensor_apply_kernel(FusedAdamMathFunctor)", "optimizer"),
        ("implicit_convolve_sgemm", "convolution"),
        ("my_strange_kernel", "other"),
    ],
)
def test_kernels_have_a_category(name: str, category: str) -> None:
    assert categorise([Shape("kernel", name, name)]) == (category,)


@pytest.mark.parametrize(
    ("full_name", "category"),
    [
        # hipBLASLt and Tensile; bias is an argument of the product.
        ("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x128x64_MI16x16x1_SN", "GEMM"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI16x16x16x1_SN_1LDSB0", "GEMM"),
        # cuDNN, with its activation in the name.
        ("cudnn_volta_scudnn_128x64_relu_small_nn_v1", "convolution"),
        ("cudnn_turing_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1", "convolution"),
        ("turing_h1688cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", "convolution"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "convolution"),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x128x32", "convolution"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32", "convolution"),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<float>(float*)", "convolution"),
        ("volta_sgemm_128x64_nn", "GEMM"),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8", "GEMM"),
        # A pooling reduces windows.
        ("sm50_xmma_pooling_coalescedC_NHWC_kMAX_3_False_execute_kernel_trt", "reduction"),
        ("void at::native::max_pool_forward_nchw<float>(int)", "reduction"),
        # MIOpen, CK, aiter; mangled, as the profilers of AMD leave names.
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "convolution"),
        ("igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_gkgs", "convolution"),
        ("miopenSp3AsmConv_v30_3_1_gfx94x_fp16_f2x3_stride1", "convolution"),
        ("gridwise_convolution_implicit_gemm_v4r1", "convolution"),
        ("_ZN2ck6device37kernel_batched_gemm_xdlops_bwd_weightINS_47Gridwise", "convolution"),
        ("_ZN2ck11kernel_gemmINS_13GridwiseGemmXINS_11PassThroughE", "GEMM"),
        ("void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm<ck::element_wise::Add> >(X)", "GEMM"),
        ("_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelINS_4TileE", "attention"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_4TileE", "normalisation"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256E", "normalisation"),
        ("aiter::fmha_fwd_hd128_bf16_rtz", "attention"),
        ("attn_fwd", "attention"),
        ("sage_fwd", "attention"),
        # Of vectors, level 1 of BLAS loads each element once.
        (
            "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, int>>(cublasDotParams)",
            "reduction",
        ),
        ("void nrm2_kernel<float, float, float, 0, 0, 128, 0>(cublasNrm2Params<int, float, float>)", "reduction"),
        ("void asum_kernel<int, float, float, 0>(cublasAsumParams<int, float const, float>)", "reduction"),
        ("void axpy_kernel_val<float, float>(cublasAxpyParamsVal<float*, float const*, float>)", "elementwise"),
        ("void scal_kernel_val<float, float>(cublasScalParamsVal<float, float>)", "elementwise"),
        ("void swap_kernel<float, 0>(cublasSwapParams<float>)", "memory"),
        ("convex_hull(float2 const*, int)", "other"),
        ("causal_conv1d_fwd_kernel(float*)", "convolution"),
        # Inductor: what is fused, and what only is among the sources.
        ("triton_poi_fused_addmm_gelu_view_24", "elementwise"),
        ("triton_poi_fused__scaled_dot_product_flash_attention_cat_mul_view_3", "elementwise"),
        ("triton_poi_fused_clone_transpose_21", "memory"),
        ("triton_poi_fused__to_copy_1", "memory"),
        ("triton_poi_fused_embedding_0", "memory"),
        ("triton_poi_fused_add_all_reduce_native_layer_norm_2", "elementwise"),
        ("triton_per_fused__to_copy_addmm_mean_pow_view_7", "reduction"),
        ("triton_red_fused_add_fmha_v3_fwd_sum_1", "reduction"),
        ("triton_red_fused__softmax_addmm_12", "softmax"),
        ("triton_per_fused_add_addmm_native_layer_norm_4", "normalisation"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "normalisation"),
        ("triton_tem_fused_addmm_relu_3", "GEMM"),
        ("triton_tem_fused_mm_0", "GEMM"),
        ("triton_tem_fused_flex_attention_mul_2", "attention"),
        ("triton_tem_fused_convolution_relu_1", "convolution"),
        # What stands among the arguments is no name of the kernel.
        ("void moe::dev::finalizeKernelVecLoad<KernelParams<cutlass::bfloat16_t, 4> >(X)", "other"),
        ("void trtllm::quantize_with_block_size<2, 32>(int, flashinfer::Params)", "elementwise"),
        ("void my::store<std::is_convertible<int, float>, Kernel<cutlass::gemm::Y> >(softmax*)", "other"),
        ("void my::Kernel<my::Thing<cutlass::bfloat16_t> >(X)", "other"),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FwdSm90<cutlass::half_t> > >(X)", "attention"),
        ("void cutlass::device_kernel<cutlass::gemm::GemmUniversal<int> >(X)", "GEMM"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)", "GEMV"),
        ("void gemvNSP_kernel<float, 1, 32>(cublasGemvParamsEx)", "GEMV"),
        ("void gemv2T_kernel_val<int, int, float>(T1)", "GEMV"),
        ("void mul_mat_vec_q<(ggml_type)2, 1>(void const*)", "GEMV"),
        ("bmat_vectorized_elementwise_kernel", "elementwise"),
        ("matrix_vector_add_elementwise", "elementwise"),
        ("void cutlass::Kernel<cutlass::gemm::kernel::Gemv<float> >(X)", "GEMV"),
        ("void mul_mat_q<(ggml_type)2, 64>(char const*)", "GEMM"),
        ("void format_vectors(float*)", "other"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)", "memory"),
        ("void at::native::reduce_kernel<512, at::native::ReduceOp<at::native::MeanOps<float> > >(X)", "reduction"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<1>(X)", "attention"),
        ("void flashinfer::sampling::TopKSamplingFromProbKernel<1>(X)", "reduction"),
        # A write of the cache of keys and values computes no attention.
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(X)", "memory"),
        ("void vllm::reshape_and_cache_kernel<float>(X)", "memory"),
        ("void vllm::rotary_embedding_kernel<float, true>(long*)", "elementwise"),
        ("void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long)", "normalisation"),
        ("void rocprim::trampoline_kernel<rocprim::transform_config_selector<int> >(X)", "elementwise"),
        (
            "void distribution_elementwise_grid_stride_kernel<float, normal_kernel(X)::{lambda()#1}>(X)",
            "elementwise",
        ),
        ("fused_moe_kernel", "GEMM"),
        ("matrixMulKernel(float *, float *, float *, int)", "GEMM"),
        ("cupy_multiply__float64_float64_float64", "elementwise"),
        ("cupy_subtract__float32_float32_float32", "elementwise"),
        ("add_parallel(int, float *, float *)", "elementwise"),
        ("void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*)", "convolution"),
        ("void fft2d_c2r_32x32<float, false, false, 0u>(float*, float2 const*)", "convolution"),
    ],
)
def test_the_own_name_decides_and_arguments_only_of_generic_kernels(full_name: str, category: str) -> None:
    assert categorise([Shape("kernel", normalise(full_name), full_name)]) == (category,)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("linear", "GEMM"),
        ("mul_", "elementwise"),
        ("sin", "elementwise"),
        ("abs_", "elementwise"),
        ("neg", "elementwise"),
        ("threshold_backward", "elementwise"),
        ("logsumexp", "other"),
        ("clone", "memory"),
        ("zeros_like", "memory"),
        ("topk", "reduction"),
        ("baddbmm", "GEMM"),
        ("select", "other"),
    ],
)
def test_an_operator_is_known_by_its_namespace_too(name: str, category: str) -> None:
    assert categorise([Shape("operator", name, f"aten::{name}")]) == (category,)


def test_a_kernel_called_kernel_keeps_its_namespace(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("void internal::gemvx::kernel<int, 7>(int)", 0, 100, api_at=0)
    trace.launch("kernel", 200, 250, api_at=1).launch("void other::mul<int>(int)", 300, 310, api_at=2)

    names = [one.name for one in analyse(read(trace.write(tmp_path / "t.sqlite"))).kernels]
    assert names == ["internal::gemvx::kernel", "kernel", "mul"]


def test_a_user_s_rule_reads_the_full_name_before_any_built_in_rule() -> None:
    full_name = "void ns::my_gemm<experts::Router>(int)"

    assert categorise([Shape("kernel", "my_gemm", full_name)], [CategoryRule.parse("MoE=experts::")]) == ("MoE",)


def test_a_user_s_rule_comes_first_and_copies_are_memory() -> None:
    shapes = [Shape("kernel", "moe_gemm", "moe_gemm"), Shape("memcpy", "memcpy HtoD")]

    assert categorise(shapes, [CategoryRule.parse("MoE=^moe_")]) == ("MoE", "memory")


@pytest.mark.parametrize("text", ["MoE", "=x", "MoE=", "MoE=(", ""])
def test_a_wrong_rule_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"category rule"):
        CategoryRule.parse(text)


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "ratio", "limited_by"),
    [
        (256, 32, 0, 1.0, "warps"),
        (256, 64, 0, 0.5, "registers"),
        (128, 255, 0, 0.125, "registers"),
        (256, 32, 48 * 1024, 0.5, "shared memory"),
        (32, 16, 0, 0.5, "blocks"),
        (1024, 33, 0, 0.5, "registers"),
        (384, 168, 208 * 1024, 0.1875, "registers"),
    ],
)
def test_occupancy_is_that_of_the_calculator(
    threads: int, registers: int, shared_bytes: int, ratio: float, limited_by: str
) -> None:
    """Worked by hand from the H100's limits: 64 warps, 32 blocks, 65,536 registers, 228 KiB of shared memory."""
    shape = Shape("kernel", "k", "k", (1, 1, 1), (threads, 1, 1), registers, shared_bytes)
    found = estimate_occupancy(shape, H100)

    assert found is not None
    assert (found.ratio, found.limited_by) == (ratio, limited_by)


def test_what_cannot_run_has_no_occupancy() -> None:
    assert estimate_occupancy(Shape("kernel", "k", "k", (1, 1, 1), (1024, 1, 1), 255), H100) is None
    assert estimate_occupancy(Shape("memcpy", "memcpy"), H100) is None


def test_without_the_number_of_registers_the_occupancy_is_unknown() -> None:
    """They may be what limits it: 44 of them allow 256 threads 62.5 %."""
    shape = Shape("kernel", "k", "k", (1, 1, 1), (256, 1, 1), 44)
    assert estimate_occupancy(shape, H100) == Occupancy(0.625, "registers")
    assert estimate_occupancy(replace(shape, registers=0), H100) is None
    assert estimate_occupancy(shape, replace(H100, shared_bytes=0)) is None


@pytest.mark.parametrize(
    ("change", "registers", "shared_bytes"),
    [
        ("ALTER TABLE {} DROP COLUMN registersPerThread", None, 0),
        ("UPDATE {} SET registersPerThread = 0", None, 0),
        ("ALTER TABLE {} DROP COLUMN dynamicSharedMemory", 44, None),
        ("ALTER TABLE {} DROP COLUMN staticSharedMemory", 44, None),
    ],
)
def test_an_export_without_what_limits_a_kernel_has_no_occupancy(
    change: str, registers: int | None, shared_bytes: int | None, tmp_path: Path
) -> None:
    builder = TraceBuilder().launch("k", 0, 9000, api_at=0, block=(256, 1, 1), registers=44)
    path = builder.write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change.format("CUPTI_ACTIVITY_KIND_KERNEL"))
        connection.commit()
    trace = replace(read(path), devices=(TraceDevice(100, 0, "GPU-0", "a", limits=H100),))

    picture = analyse(trace)
    table = tabulate_kernels(picture.kernels, 5, full_names=False)
    assert table is not None
    cells = table.render(120).splitlines()[3].split()
    assert cells[-3:] == [str(registers or "-"), "-", "-"]
    (record,) = list_tables(picture)["shapes"]
    assert (record["registers"], record["shared_bytes"]) == (registers, shared_bytes)
    assert record["occupancy"] is record["occupancy_limited_by"] is None


@pytest.mark.parametrize(
    ("boards", "devices", "shown", "ratio", "limited_by"),
    [
        ([T4, H100], [0, 1], "50 to 100 %", None, None),
        ([T4, H100], [0], "100 %", 1.0, "warps"),
        ([T4, H100], [1], "50 %", 0.5, "registers"),
        ([H100, H100], [0, 1], "50 %", 0.5, "registers"),
        ([T4, None], [0, 1], "-", None, None),
    ],
    ids=["both", "the first", "the second", "two alike", "limits of one unknown"],
)
def test_the_occupancy_is_that_of_the_boards_that_ran_the_kernel(
    boards: list[MultiprocessorLimits | None],
    devices: list[int],
    shown: str,
    ratio: float | None,
    limited_by: str | None,
    tmp_path: Path,
) -> None:
    builder = TraceBuilder()
    for number in devices:
        builder.launch("k", 0, 9000, api_at=number, device=number, block=(128, 1, 1), registers=64)
    known = tuple(TraceDevice(100, place, f"GPU-{place}", "a", limits=one) for place, one in enumerate(boards))
    trace = replace(read(builder.write(tmp_path / "t.sqlite")), devices=known)

    picture = analyse(trace)
    table = tabulate_kernels(picture.kernels, 5, full_names=False)
    assert table is not None
    assert f" {shown}\n" in table.render(120)
    (record,) = list_tables(picture)["shapes"]
    assert (record["occupancy"], record["occupancy_limited_by"]) == (ratio, limited_by)


def test_a_launch_on_an_unidentified_board_has_the_occupancies_of_all(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("k", 0, 9000, api_at=0, block=(128, 1, 1), registers=64)
    boards = TraceDevice(None, 0, "GPU-0", "a", limits=T4), TraceDevice(None, 1, "GPU-1", "b", limits=H100)
    trace = replace(read(builder.write(tmp_path / "t.sqlite")), devices=boards)

    ((shape,),) = [one.shapes for one in analyse(trace).kernels]
    assert [one.ratio for one in shape.occupancies] == [0.5, 1.0]


def test_small_kernels_in_sequence_are_one_row_with_the_gaps_between_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for layer in range(5):
        at = 20_000 * layer
        for number, name in enumerate(("layer_norm", "gelu", "add_kernel")):
            start = at + 3000 * number
            trace.launch(name, start, start + 1000, api_at=start)
        trace.launch("big_gemm", at + 9000, at + 19_900, api_at=at + 9000)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert found.names == ("layer_norm", "gelu", "add_kernel")
    assert (found.count, found.kernel_ns, found.gap_ns) == (5, 15_000, 20_000)


def test_pairs_that_never_meet_are_no_sequence(tmp_path: Path) -> None:
    """`k_a k_b` and `k_b k_c` occur equally often, and `k_a k_b k_c` never."""
    trace, at = TraceBuilder(), 0
    for name in ("k_a", "k_b", "big_x", "k_b", "k_c", "big_y") * 5:
        length_ns = 50_000 if name.startswith("big") else 3000
        trace.launch(name, at, at + length_ns, api_at=at)
        at += length_ns + 1000
    found = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert [(one.names, one.count, one.kernel_ns, one.gap_ns) for one in found] == [
        (("k_a", "k_b"), 5, 30_000, 5000),
        (("k_b", "k_c"), 5, 30_000, 5000),
    ]


def test_a_loop_over_parameters_is_one_row_of_one_period(tmp_path: Path) -> None:
    """An optimizer launches the same eight kernels for each of its parameters, one after the other."""
    names = ("mul", "lerp", "mul", "addcmul", "sqrt", "mul", "add", "addcdiv")
    trace = TraceBuilder()
    for number, name in enumerate(names * 24):
        trace.launch(name, 3000 * number, 3000 * number + 1000, api_at=3000 * number)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert (found.names, found.count) == (names, 24)
    assert (found.kernel_ns, found.gap_ns) == (192 * 1000, 191 * 2000)


def test_equal_kernels_in_a_row_count_in_occurrences_that_do_not_overlap(tmp_path: Path) -> None:
    """Seven small kernels in a row are three pairs; the seventh one belongs to none."""
    trace = TraceBuilder()
    for at in range(0, 21_000, 3000):
        trace.launch("gelu", at, at + 1000, api_at=at)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert (found.names, found.count) == (("gelu", "gelu"), 3)
    assert (found.kernel_ns, found.gap_ns) == (6 * 1000, 5 * 2000)


def test_a_copy_between_two_kernels_parts_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(0, 50_000, 10_000):
        trace.launch("gelu", at, at + 1000, api_at=at).copy(at + 1500, at + 2000, 64, api_at=at + 1)
        trace.launch("add", at + 3000, at + 4000, api_at=at + 2).launch("gemm", at + 4500, at + 9500, api_at=at + 3)
        trace.copy(at + 9600, at + 9700, 64, api_at=at + 4)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert (found.names, found.count) == (("add", "gemm"), 5)


def test_long_kernels_of_the_same_name_are_not_in_the_sequence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(0, 10**7, 2 * 10**6):
        trace.launch("softmax", at, at + 1000, api_at=at).launch("add", at + 2000, at + 3000, api_at=at + 2000)
    trace.launch("softmax", 10**9, 2 * 10**9, api_at=10**9)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert (found.count, found.kernel_ns) == (5, 10_000)


def test_nodes_of_a_graph_are_no_candidates_for_one(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(0, 100, 20):
        trace.graph_nodes([("a", at, at + 2), ("b", at + 5, at + 7)], api_at=at)

    assert analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences == ()


def test_the_critical_path_follows_the_queue_and_then_the_host(tmp_path: Path) -> None:
    """The host works 100 ns, launches a, then b behind it, and waits; later it works 200 ns and launches c."""
    trace = (
        TraceBuilder().range("step", 0, 1000).launch("a", 120, 300, api_at=100).launch("b", 305, 500, api_at=110)
    )
    trace.call("cudaStreamSynchronize_v3020", 150, 510).launch("c", 740, 1000, api_at=710)
    path = analyse(read(trace.write(tmp_path / "t.sqlite"))).path

    assert path is not None
    assert path.wall_ns == 1000
    found = {(one.part, one.name): one.total_ns for one in path.parts}
    assert found == {
        (PathPart.DEVICE, "a"): 180,
        (PathPart.DEVICE, "b"): 195,
        (PathPart.DEVICE, "c"): 260,
        (PathPart.DELAY, ""): 20 + 5 + 30,
        (PathPart.HOST, ""): 100 + 10 + 200,
    }


def test_a_copy_that_blocks_the_host_is_on_the_critical_path(tmp_path: Path) -> None:
    trace = TraceBuilder().range("step", 0, 1000)
    trace.copy(20, 600, 4096, api_at=10, api_ns=600, is_pageable=True).launch("a", 640, 1000, api_at=620)
    path = analyse(read(trace.write(tmp_path / "t.sqlite"))).path

    assert path is not None
    assert {(one.part, one.name): one.total_ns for one in path.parts} == {
        (PathPart.DEVICE, "memcpy HtoD"): 580,
        (PathPart.DEVICE, "a"): 360,
        (PathPart.DELAY, ""): 10 + 20,
        (PathPart.HOST, ""): 10 + 10 + 10,
    }


def test_work_that_was_not_waited_for_is_not_on_the_critical_path(tmp_path: Path) -> None:
    trace = (
        TraceBuilder()
        .range("step", 0, 1000)
        .launch("early", 20, 60, api_at=10)
        .launch("late", 920, 1000, api_at=900)
    )
    path = analyse(read(trace.write(tmp_path / "t.sqlite"))).path

    assert path is not None
    assert {one.name for one in path.parts} == {"", "late"}


@pytest.mark.parametrize(("stream", "part"), [(7, PathPart.OTHER), (8, PathPart.DELAY)])
def test_a_step_behind_earlier_steps_in_its_stream_waits_for_them(
    tmp_path: Path, stream: int, part: PathPart
) -> None:
    """The host is a step ahead; work of another stream delays nothing that is known."""
    trace = TraceBuilder().range("epoch", 0, 20).launch("earlier", 12, 510, api_at=10, stream=stream)
    trace.range("step", 100, 130).launch("a", 515, 1000, api_at=120)
    path = analyse(read(trace.write(tmp_path / "t.sqlite")), name="step").path

    assert path is not None
    assert path.wall_ns == 900
    found = {(one.part, one.name): one.total_ns for one in path.parts}
    expected = {(PathPart.DEVICE, "a"): 485, (PathPart.OTHER, ""): 410, (PathPart.DELAY, ""): 5}
    if part is PathPart.DELAY:
        expected = {(PathPart.DEVICE, "a"): 485, (PathPart.DELAY, ""): 395, (PathPart.HOST, ""): 20}
    assert found == expected


def test_names_with_any_character_are_folded_alike() -> None:
    assert fold_names(["a\0b, op_id = 3", "c, op_id = 4"]) == {"a\0b, op_id = 3": "a\0b", "c, op_id = 4": "c"}


@pytest.mark.parametrize("name", ["aten::mm", "aten::mm layer 7", "aten::mm é3", "٣", "00 0"])
def test_ids_of_operators_go_and_other_numbers_stay(name: str) -> None:
    names = [f"{name}, seq = {17 * number}, op_id={number}" for number in (5, 40, 999)]

    assert fold_names([*names, "op_ids"]) == {**dict.fromkeys(names, name), "op_ids": "op_ids"}


@pytest.mark.parametrize(
    ("full_name", "category"),
    [
        ("void deep_ep::intranode::dispatch<8, 768>(int4*, float*)", "communication"),
        ("layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float>>(layer_norm::FwdParams)", "normalisation"),
        ("flash::prepare_varlen_num_blocks_kernel(int)", "attention"),
        ("void cub::detail::for_each::static_kernel<x, unary_transform_f<a>>(int)", "elementwise"),
        ("_ZN5aiterL13reduce_staticEPf", "reduction"),
        ("void vllm::cross_device_reduce_1stage<c10::BFloat16, 2>(x)", "communication"),
        ("rccl_main_kernel", "communication"),
        ("void marlin::Marlin<half>(int4)", "GEMM"),
        ("void flashinfer::AppendPagedKVCacheKernel<x>(y)", "memory"),
        ("RotaryEmbeddingBSNH", "elementwise"),
        ("triton_spl_fused_cumsum_0", "reduction"),
        ("triton_poi_fused_t_view_1", "memory"),
    ],
)
def test_namespaces_count_where_the_own_name_says_nothing(full_name: str, category: str) -> None:
    assert categorise([Shape("kernel", normalise(full_name), full_name)]) == (category,)


def test_gaps_of_a_sequence_hold_nothing_but_idle_time_and_no_instant_twice(tmp_path: Path) -> None:
    """A copy of a third stream fills a part of each gap of one, and the gaps of the other lie within them."""
    trace = TraceBuilder()
    for at in range(0, 40_000, 10_000):
        for stream in (8, 9):
            trace.launch("a", at + stream, at + 1000 + stream, api_at=at, stream=stream)
            trace.launch("b", at + 4000 + stream, at + 5000 + stream, api_at=at + 2, stream=stream)
        trace.copy(at + 2000, at + 3000, 100, api_at=at + 4)

    picture = analyse(read(trace.write(tmp_path / "trace.sqlite")))

    idle_ns = picture.devices[0].idle_ns
    assert sum(one.gap_ns for one in picture.sequences) == idle_ns < 40_000
