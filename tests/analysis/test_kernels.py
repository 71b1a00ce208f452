"""Names, categories, occupancy, sequences of small kernels, the critical path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.categories import CategoryRule, categorise
from pytest_nsight.analysis.critical_path import PathPart
from pytest_nsight.analysis.display_names import distinguish, fold_names
from pytest_nsight.analysis.occupancy import estimate_occupancy
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import MultiprocessorLimits
from pytest_nsight.model.values import Shape
from tests.trace.trace_builder import TraceBuilder

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


def test_a_row_of_equal_kernels_counts_each_of_them_once(tmp_path: Path) -> None:
    """Seven small kernels in a row are three pairs and one more, not six pairs."""
    trace = TraceBuilder()
    for at in range(0, 21_000, 3000):
        trace.launch("gelu", at, at + 1000, api_at=at)
    (found,) = analyse(read(trace.write(tmp_path / "t.sqlite"))).sequences

    assert (found.names, found.count) == (("gelu", "gelu"), 3)
    assert (found.kernel_ns, found.gap_ns) == (7 * 1000, 6 * 2000)


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


def test_names_with_any_character_are_folded_alike() -> None:
    assert fold_names(["a\0b, op_id = 3", "c, op_id = 4"]) == {"a\0b, op_id = 3": "a\0b", "c, op_id = 4": "c"}


@pytest.mark.parametrize("name", ["aten::mm", "aten::mm layer 7", "aten::mm é3", "٣", "00 0"])
def test_ids_of_operators_go_and_other_numbers_stay(name: str) -> None:
    names = [f"{name}, seq = {17 * number}, op_id={number}" for number in (5, 40, 999)]

    assert fold_names([*names, "op_ids"]) == {**dict.fromkeys(names, name), "op_ids": "op_ids"}
