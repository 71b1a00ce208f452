def tune(profiler):
    """Measures candidates with the functions that users have."""
    try:
        return profiler.do_bench()
    except RuntimeError as error:
        return str(error)
