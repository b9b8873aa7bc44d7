"""What holds for all tests."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
    # A shell starts what runs in the background with Ctrl-C ignored, and every program below would inherit that:
    # tests of Ctrl-C then wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
