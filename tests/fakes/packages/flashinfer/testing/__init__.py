from .utils import bench_gpu_time, bench_gpu_time_with_cudagraph

__all__ = ["bench_gpu_time", "bench_gpu_time_with_cudagraph"]
