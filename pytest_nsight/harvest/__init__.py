"""What the runs of a session have yielded so far."""
