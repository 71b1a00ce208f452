"""The signature of tilelang 0.1.13."""


def do_bench(
    fn,
    warmup=25,
    rep=100,
    _n_warmup=0,
    _n_repeat=0,
    quantiles=None,
    fast_flush=True,
    backend="event",
    return_mode="mean",
    device=None,
    cache_size=256,
    early_stop_baseline=None,
):
    raise RuntimeError("no GPU")
