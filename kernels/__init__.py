"""LLM operators, each as frameworks run it (`unfused`) and in as few launches as can be (`fused`)."""
