from functools import partial

from tilelang.profiler.bench import do_bench


class Profiler:
    def __init__(self, adapter, tensors):
        self.adapter = adapter
        self.tensors = tensors

    def do_bench(
        self,
        func=None,
        warmup=25,
        rep=100,
        n_warmup=0,
        n_repeat=0,
        input_tensors=None,
        backend="event",
        quantiles=None,
        return_mode="mean",
        dynamic_symbolic_constraints=None,
        device=None,
        early_stop_baseline=None,
    ):
        inputs = self.tensors if input_tensors is None else input_tensors
        target = partial(self.adapter if func is None else func, *inputs)
        return do_bench(target, warmup=warmup, rep=rep, quantiles=quantiles, return_mode=return_mode)
