"""Every operator that `kernels_on_gpu.py` knows, by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import model_workloads, norm_workloads
from benchmarks.workload import Source, Workload
from perf_tests.llama import Configuration

MAKERS: dict[str, Callable[[Configuration, Source], Workload]] = {
    "copy": model_workloads.make_copy,
    "rms_norm": norm_workloads.make_rms_norm,
    "rms_norm_backward": norm_workloads.make_rms_norm_backward,
    "add_rms_norm": norm_workloads.make_add_rms_norm,
    "rms_norm_linear": norm_workloads.make_rms_norm_linear,
    "swiglu": model_workloads.make_swiglu,
    "swiglu_backward": model_workloads.make_swiglu_backward,
    "bias_gelu": model_workloads.make_bias_gelu,
    "rotary": model_workloads.make_rotary,
    "softmax": model_workloads.make_softmax,
    "attention": model_workloads.make_attention,
    "cross_entropy": model_workloads.make_cross_entropy,
    "adamw": model_workloads.make_adamw,
}
