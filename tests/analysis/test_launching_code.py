"""Which code launched the kernels: stacks of programs with and without PyTorch, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.stack_frames import Role, classify
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import VINTAGES, TraceBuilder

# What stands between a program and the device, innermost first; and what stands around a program of Python.
CUDA = (
    "@ /opt/nvidia/lib/libcupti.so.13.0",
    "@ /usr/lib/libcuda.so.580",
    "cudaLaunchKernel @ /usr/lib/libcudart.so.13",
)
PYTHON = ("_PyEval_EvalFrameDefault @ /usr/bin/python3.12", "@ /usr/lib/libc.so.6", "_start @ /usr/bin/python3.12")
ENGINE = (
    "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&) @ /t/libtorch_cpu.so",
    "torch::autograd::python::PythonEngine::thread_init(int) @ /t/libtorch_python.so",
    "@ /opt/nsys/libToolsInjection64.so",
    "@ /usr/lib/libc.so.6",
)


def op(name: str, how: str = "call") -> str:
    return f"at::_ops::{name}::{how}(at::Tensor const&) @ /home/me/torch/lib/libtorch_cpu.so"


def node(name: str) -> str:
    return (
        f"torch::autograd::{name}::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&) @ /t/libtorch.so"
    )


def picture_of(builder: TraceBuilder, folder: Path) -> Picture:
    return analyse(read(builder.write(folder / "trace.sqlite")))


def code_of(folder: Path, *frames: str, kernel: str = "k") -> str:
    """The code of one launch with this stack."""
    (found,) = picture_of(TraceBuilder().launch(kernel, 10, 20, api_at=5).stack(*frames), folder).codes
    return found.code


def test_the_outermost_operator_counts(tmp_path: Path) -> None:
    inner = "at::native::gpu_kernel_impl<int>(at::TensorIteratorBase&) @ /t/libtorch_cuda.so"
    frames = (*CUDA, inner, op("pow_Tensor_Scalar", "redispatch"), op("pow_Tensor_Scalar"), op("square"), *PYTHON)

    assert code_of(tmp_path, *frames) == "aten::square"


def test_in_the_backward_pass_the_node_counts_and_the_operator_inside_it(tmp_path: Path) -> None:
    frames = (*CUDA, op("mm", "redispatch"), op("mm"), node("generated::AddmmBackward0"), *ENGINE)
    assert code_of(tmp_path, *frames) == "AddmmBackward0: aten::mm"

    # A backward pass that an operator calls runs on the thread of its caller.
    assert code_of(tmp_path, *frames, op("_backward"), *PYTHON) == "AddmmBackward0: aten::mm"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((op("sum"), *ENGINE), "backward: aten::sum"),
        ((*ENGINE,), "backward: cudaLaunchKernel"),
        ((node("AccumulateGrad"), *ENGINE), "AccumulateGrad"),
        ((node("CppNode<my::Norm>"), *ENGINE), "my::Norm"),
        ((op("mm"), node("PyNode"), *ENGINE), "autograd.Function: aten::mm"),
        ((op("mm"), node("generated::MmBackward0"), *ENGINE, op("x"), node("PyNode")), "MmBackward0: aten::mm"),
    ],
)
def test_parts_of_the_backward_pass(frames: tuple[str, ...], code: str, tmp_path: Path) -> None:
    assert code_of(tmp_path, *CUDA, *frames) == code


def test_of_a_program_its_function_nearest_to_cuda_counts(tmp_path: Path) -> None:
    """Not main, not the function that nvcc makes of the kernel, not a library of templates."""
    frames = (
        # As nvcc 13 names them in a program that it links with the runtime.
        "libcudart_static_0053c1d33059ebe986009dc8a76c61eb6412a2c3 @ /home/me/app",
        "cudaLaunchKernel @ /home/me/app",
        "__cudaLaunchKernel_helper(CUkern_st*, dim3, dim3, void**, unsigned long, CUstream_st*) @ /home/me/app",
        "__device_stub__ZN3net5scaleIfEEvPT_S1_(float*, float) @ /home/me/app",
        "void net::__wrapper__device_stub_scale<float>(float*&, float&) @ /home/me/app",
        "void net::scale<float>(float*, float) @ /home/me/app",
        "void thrust::cuda_cub::parallel_for<int>(int) @ /home/me/app",
        "Model::step(std::vector<float, std::allocator<float> > const&) @ /home/me/app",
        "main @ /home/me/app",
        "__libc_start_main @ /usr/lib/libc.so.6",
        "_start @ /home/me/app",
    )
    kernel = "void net::scale<float>(T1 *, T1)"

    assert code_of(tmp_path, *frames, kernel=kernel) == "Model::step"
    assert code_of(tmp_path, *frames[:6], *frames[-2:], kernel=kernel) == "net::scale"
    assert code_of(tmp_path, *frames[:5], *frames[-2:], kernel=kernel) == "cudaLaunchKernel"


def test_a_library_counts_where_the_program_has_no_function_of_its_own(tmp_path: Path) -> None:
    library = (
        "@ /l/libcublasLt.so.13",
        "cublasLtMatmul @ /l/libcublasLt.so.13",
        "cublasSgemm_v2 @ /l/libcublas.so.13",
    )
    by_ctypes = ("@ /usr/lib/libffi.so.8", "@ /usr/lib/_ctypes.cpython-312.so", *PYTHON)

    assert code_of(tmp_path, *CUDA, *library, *by_ctypes) == "cublasSgemm_v2"
    assert code_of(tmp_path, *CUDA, *library, "gemm(int) @ /home/me/app") == "gemm"


def test_without_symbols_the_file_counts(tmp_path: Path) -> None:
    assert code_of(tmp_path, *CUDA, "@ /home/me/app", "@ /usr/lib/libc.so.6", "_start @ /home/me/app") == "app"
    assert code_of(tmp_path, *CUDA, "@ /l/libcufft.so.12", *PYTHON) == "libcufft.so.12"
    assert code_of(tmp_path, *CUDA, *PYTHON) == "cudaLaunchKernel"
    assert code_of(tmp_path, "@ [unknown]") == "unknown code"


def test_recursion_changes_nothing(tmp_path: Path) -> None:
    deep = ["walk(Node*) @ /home/me/app"] * 300
    assert code_of(tmp_path, *CUDA, *deep, "main @ /home/me/app") == "walk"
    assert code_of(tmp_path, *CUDA, *[op("linear")] * 300, *PYTHON) == "aten::linear"


def test_launches_are_added_up_and_those_without_a_stack_are_one_row(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 40, api_at=5).stack(*CUDA, op("mm"))
    trace.launch("b", 50, 55, api_at=45).stack(*CUDA, op("mm"), *PYTHON).launch("a", 60, 70, api_at=58)
    trace.launch("c", 80, 85)
    first, second = picture_of(trace, tmp_path).codes

    assert (first.code, first.launches, first.total_ns, first.share) == ("aten::mm", 2, 35, 0.7)
    assert (first.kernels, first.kernel, first.kernel_ns) == (2, "a", 30)
    assert (second.code, second.launches, second.total_ns, second.kernel) == ("", 2, 15, "a")


def test_a_graph_counts_for_the_code_that_launched_it(tmp_path: Path) -> None:
    trace = TraceBuilder().graph_nodes([("a", 10, 20), ("b", 20, 25)], api_at=5).stack("replay(int) @ /home/me/app")
    (found,) = picture_of(trace, tmp_path).codes

    assert (found.code, found.launches, found.total_ns, found.kernels) == ("replay", 2, 15, 2)


def test_processes_with_equal_correlations_keep_their_stacks(tmp_path: Path) -> None:
    """Ids of stacks are those of the whole export, ids of calls those of a process."""
    trace = TraceBuilder()
    for process, name in ((100, "left"), (200, "right")):
        trace.launch("a", 10, 20, api_at=5, process=process, correlation=7).stack(f"{name}() @ /home/me/app")

    assert [one.code for one in picture_of(trace, tmp_path).codes] == ["left", "right"]


@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_call_that_is_recorded_twice_keeps_its_stack(vintage: str, tmp_path: Path) -> None:
    trace = TraceBuilder(vintage).launch("a", 10, 20, api_at=3, api_ns=6, api="cudaLaunchKernel", correlation=7)
    trace.stack("step() @ /home/me/app")
    trace.row(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        **(trace.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][0] | {"start": 4, "end": 8, "callchainId": None}),
    )
    trace.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][1]["nameId"] = trace.string("cudaLaunchKernel_v7000")

    assert [one.code for one in picture_of(trace, tmp_path).codes] == ["step"]


def test_a_stack_whose_frames_are_missing_is_none(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().launch("a", 10, 20, api_at=5).stack("step() @ /home/me/app").launch("b", 30, 40, api_at=25)
    )
    trace.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][1]["callchainId"] = 999

    assert [one.code for one in picture_of(trace, tmp_path).codes] == ["", "step"]


def test_frames_in_any_order_are_one_stack(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 20, api_at=5).stack(*CUDA, op("mm"), op("linear"), *PYTHON)
    trace.rows["CUDA_CALLCHAINS"].reverse()

    assert [one.code for one in picture_of(trace, tmp_path).codes] == ["aten::linear"]


def test_without_stacks_there_is_no_table_and_no_note(tmp_path: Path) -> None:
    picture = picture_of(TraceBuilder().launch("a", 10, 20, api_at=5), tmp_path)

    assert picture.codes == ()
    assert "backtrace" not in " ".join(picture.notes)


def test_stacks_of_other_calls_make_no_table(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 20, api_at=5).call("cudaMalloc", 30, 40).stack("step() @ /home/me/app")

    picture = picture_of(trace, tmp_path)

    assert picture.codes == ()
    assert "1 of 1 launch, with 100 % of the kernel time, has no backtrace: by default" in " ".join(picture.notes)


def test_a_note_says_how_to_record_the_stacks_of_short_calls(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 20, api_at=5).stack("step() @ /home/me/app")
    trace.launch("a", 30, 40, api_at=25).launch("a", 50, 60, api_at=45)
    (note,) = [text for text in picture_of(trace, tmp_path).notes if "backtrace" in text]

    assert note.startswith("2 of 3 launches, with 67 % of the kernel time, have no backtrace: by default")
    assert "--cudabacktrace=kernel:0" in note


def test_a_note_names_the_function_that_nsys_records_no_stacks_of(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 20, api_at=5).stack("step() @ /home/me/app")
    trace.launch("b", 30, 70, api_at=25, api="cudaLaunchKernelExC_v11060")
    (note,) = [text for text in picture_of(trace, tmp_path).notes if "backtrace" in text]

    assert note == (
        "1 of 2 launches, with 80 % of the kernel time, has no backtrace: nsys recorded none of cudaLaunchKernelExC"
    )


def test_the_page_has_the_table(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 40, api_at=5).stack(*CUDA, op("mm")).launch("b", 50, 55, api_at=45)
    text = render(read(trace.write(tmp_path / "trace.sqlite")), 120, View(top=1))

    assert "Kernel time by the code that launched it" in text
    assert "aten::mm" in text
    assert "1 other" in text


@pytest.mark.parametrize(
    ("symbol", "module", "role", "label"),
    [
        ("cublasSgemm_v2", "libcublas.so.13", Role.LIBRARY, "cublasSgemm_v2"),
        ("cudaLaunchAll(int)", "app", Role.OWN, "cudaLaunchAll"),
        ("cublasSgemm(int)", "app", Role.OWN, "cublasSgemm"),
        ("cuLaunchKernel", "libcuda.so.580.1", Role.CUDA, "cuLaunchKernel"),
        ("cudaError cudaLaunchKernel<char>(char*)", "app", Role.CUDA, "cudaLaunchKernel"),
        ("Py_RunMain", "libpython3.12.so.1.0", Role.SKIPPED, "libpython3.12.so.1.0"),
        ("f(int)::{lambda()#1}::operator()() const", "app", Role.OWN, "f"),
        ("(anonymous namespace)::f<float>(float*)", "app", Role.OWN, "f"),
        ("libcurve::fit(int)", "libcurve.so", Role.OWN, "libcurve::fit"),
        ("", "pythonic_app", Role.NAMELESS, "pythonic_app"),
        ("", "", Role.SKIPPED, ""),
        ("<", "app", Role.OWN, "<"),
    ],
)
def test_what_a_frame_is(symbol: str, module: str, role: Role, label: str) -> None:
    assert classify(symbol, module, frozenset()) == (role, label)
