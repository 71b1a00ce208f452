"""Stands in for FlashInfer: the signatures of its benchmarking functions, which work on a GPU only."""
