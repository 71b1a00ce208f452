from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.model.kernel_names import family, is_generic, normalise, own_name

NATIVE = "at::native::"
MUL = f"{NATIVE}binary_internal::MulFunctor<float>"
SGEMM = "cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
CUDNN = "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::"
SQRT = (
    f"{NATIVE}sqrt_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::"
    "[lambda(float) (instance 1)]"
)


@pytest.mark.parametrize(
    ("full_name", "name"),
    [
        ("_rms_norm_fused", "_rms_norm_fused"),
        ("_rms_norm_fused_0d1d2d34de5c", "_rms_norm_fused"),
        ("triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul"),
        ("triton_red_fused__softmax_12", "triton_red_fused__softmax"),
        ("my_kernel_6a3f2b1c9d8e7f60", "my_kernel"),
        ("stage_2", "stage_2"),
        ("softmax_2d", "softmax_2d"),
        ("void f<int>(int)", "f"),
        ("void a::b::(anonymous namespace)::f<int, (int)2>(T1 *)", "f"),
        ("void <unnamed>::softmax_warp_forward<float, (bool)0>(T2 *, bool)", "softmax_warp_forward"),
        ("std::enable_if<!(false), void>::type ns::gemv<int>(int)", "gemv"),
        ("std::enable_if<(((8)>(0)))&&std::is_same<T, U>::v, void>::type a::fused_add_rms_norm_kernel<T, 8>(T*)",
         "fused_add_rms_norm_kernel"),
        ("std::enable_if<((8)<(9)), void>::type a::f<(1>>2)>(int)", "f"),
        (f"void cutlass::Kernel2<{SGEMM}>(T1::Params)", SGEMM),
        ("void cutlass::device_kernel<cutlass::gemm::GemmUniversal<int> >(X)", "device_kernel(GemmUniversal)"),
        ("device_kernel<cutlass::fmha::kernel::Sm90FmhaFwd<int>>", "device_kernel(Sm90FmhaFwd)"),
        ("void cutlass::Kernel2<cutlass::gemm::kernel::detail::Foo<int>>(int)", "Kernel2"),
        (f"void cutlass__5x_cudnn::Kernel<{SGEMM}>(T1::Params)", SGEMM),
        (f"{CUDNN}conv::kernel::ImplicitGemmConvolution<gemm::GemmShape>>", "Kernel(ImplicitGemmConvolution)"),
        (f"{CUDNN}reduction::kernel::ReduceSplitK<cutlass__5x_cudnn::MatrixShape>>", "Kernel(ReduceSplitK)"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_differs_between_builds_goes_and_the_own_name_stays(full_name, name):
    assert normalise(full_name) == name


@pytest.mark.parametrize(
    ("full_name", "name"),
    [
        (
            f"void {NATIVE}elementwise_kernel<4, {NATIVE}BinaryFunctor<float, {MUL}>>(int)",
            "elementwise_kernel(MulFunctor)",
        ),
        (
            f"void {NATIVE}elementwise_kernel<8, {SQRT}, std::array<char *, 2>>(int)",
            "elementwise_kernel(sqrt_kernel_cuda)",
        ),
        (
            f"void {NATIVE}reduce_kernel<1, {NATIVE}ReduceOp<float, {NATIVE}MeanOps<float>>>(T3)",
            "reduce_kernel(MeanOps)",
        ),
        (
            f"void multi_tensor_apply_kernel<Metadata<2>, {NATIVE}BinaryOpListAlphaFunctor<2>, std::plus<int>>(X)",
            "multi_tensor_apply_kernel(BinaryOpListAlphaFunctor, std::plus)",
        ),
    ],
)
def test_a_generic_kernel_keeps_what_it_applies(full_name, name):
    assert normalise(full_name) == name


def test_two_demanglers_give_one_name():
    """nsys and Kineto spell the same kernel differently."""
    nsys = (
        "void at::native::vectorized_elementwise_kernel<(int)4, void at::native::<unnamed>::pow_impl<float>"
        "(at::TensorIteratorBase &, T2)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int)"
    )
    kineto = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::pow_impl<float>"
        "(at::TensorIteratorBase&, float)::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
    )
    assert normalise(nsys) == normalise(kineto) == "vectorized_elementwise_kernel(pow_impl)"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEEvPT0_", "add_rmsnorm_quant_kernel"),
        ("_ZN2ck12_GLOBAL__N_111kernel_gemmINS_4GridEEEvT_", "kernel_gemm"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdEEEvT_", "kentry"),
        ("_Z5saxpyifPf", "saxpy"),
        ("_Zzz", "_Zzz"),
        ("_Z9999x", "_Z9999x"),
        ("reduce_kernel(MeanOps)", "reduce_kernel(MeanOps)"),
    ],
)
def test_a_mangled_name_has_an_own_name(name, own):
    assert own_name(name) == own


def test_a_generic_kernel_is_known_by_its_own_name_not_by_what_it_applies():
    assert is_generic("reduce_kernel(MeanOps)")
    assert is_generic("kentry")
    assert not is_generic("finalize(elementwise)")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn",
         "ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_32x3_tn"),
        ("cutlass_80_simt_sgemm_256x128_8x4_nn_align1", "cutlass_80_simt_sgemm_128x64_8x5_nn_align1"),
    ],
)  # fmt: skip
def test_another_tile_is_the_same_family(one, other):
    assert one != other
    assert family(one) == family(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT", "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NNT"),
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT", "nvjet_sm90_hsh_128x128_64x6_2x1_v_bz_TNT"),
        ("cutlass_80_simt_sgemm_256x128_8x4_nn_align1", "cutlass_80_tensorop_sgemm_256x128_8x4_nn_align1"),
        ("stage_1", "stage_2"),
        ("vectorized_elementwise_kernel(MulFunctor)", "vectorized_elementwise_kernel(AddFunctor)"),
    ],
)
def test_another_operation_type_or_layout_is_another_family(one, other):
    assert family(one) != family(other)


@pytest.mark.slow
@given(st.text(alphabet="<>()[]{}:_ ,&*~-.0123456789abcdefgoprtx", max_size=200))
def test_only_a_blank_name_normalises_to_a_blank_one(full_name):
    assert bool(normalise(full_name)) == bool(full_name.strip())
    assert bool(family(normalise(full_name))) == bool(full_name.strip())


@pytest.mark.slow
@given(st.from_regex(r"_?[a-z]{2,9}(_[a-z]{2,9}){0,4}", fullmatch=True))
def test_a_plain_name_stays_as_it_is(full_name):
    assert normalise(full_name) == full_name


@pytest.mark.parametrize("hostile", ["elementwise_kernel<" + "a<" * 500_000, "_0" * 500_000, "x" * 1_000_000])
def test_a_million_characters_are_cut_before_they_are_searched(hostile):
    assert len(normalise(hostile)) <= 8192
