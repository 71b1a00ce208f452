"""The signatures of FlashInfer 0.6.18."""


def bench_gpu_time(
    fn,
    dry_run_iters=None,
    repeat_iters=None,
    dry_run_time_ms=25,
    repeat_time_ms=100,
    l2_flush=None,
    l2_flush_size_mb=None,
    l2_flush_device=None,
    sleep_after_run=False,
    enable_cupti=False,
    use_cuda_graph=False,
    num_iters_within_graph=10,
    input_args=(),
    input_kwargs=None,
    cold_l2_cache=True,
    aggregate_op=max,
):
    if use_cuda_graph:
        return bench_gpu_time_with_cudagraph(fn, input_args=input_args, input_kwargs=input_kwargs)
    raise RuntimeError("no GPU")


def bench_gpu_time_with_cudagraph(
    fn,
    dry_run_iters=None,
    repeat_iters=None,
    dry_run_time_ms=25,
    repeat_time_ms=100,
    num_iters_within_graph=10,
    l2_flush=None,
    l2_flush_size_mb=None,
    l2_flush_device=None,
    sleep_after_run=False,
    input_args=(),
    input_kwargs=None,
    cold_l2_cache=True,
    aggregate_op=max,
):
    raise RuntimeError("no GPU")
