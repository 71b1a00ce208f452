"""Everything that knows Nsight Systems."""
