"""A report as Triton's tutorials write it."""

import torch
import triton.testing
from operators import scale_and_add


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=[32, 64],
        line_arg="provider",
        line_vals=["fused", "plain"],
        line_names=["fused", "plain"],
        ylabel="GB/s",
        plot_name="scale-and-add",
        args={},
    )
)
def benchmark(N, provider):
    x, y = torch.ones(N, N), torch.ones(N, N)
    function = {"fused": lambda: scale_and_add(x, y), "plain": lambda: x * 2.0 + y}[provider]
    ms, low, high = triton.testing.do_bench(function, quantiles=[0.5, 0.2, 0.8])
    return tuple(3 * x.nbytes / 1e6 / value for value in (ms, high, low))


if __name__ == "__main__":
    benchmark.run(print_data=True)
