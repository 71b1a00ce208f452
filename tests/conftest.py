"""What all tests share."""

from __future__ import annotations

import signal

# What a shell starts in the background ignores SIGINT, and so would every process that these tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
