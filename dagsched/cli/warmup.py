"""``dagsched warmup``: compile the simulator once."""

from __future__ import annotations

from dagsched.cli.console import examples

EXAMPLES = examples(
    "dagsched warmup",
)


def warmup() -> None:
    """Compile the simulator and the rules and keep the result on disk, so that no later command has to."""
    import time

    from dagsched.cli.console import say
    from dagsched.processes import cores
    from dagsched.run_policy import warmup as compile_all

    say("compiling the simulator (one to three minutes the first time, seconds after that)")
    began = time.perf_counter()
    compile_all(min(2, cores()))
    say(f"ready after {time.perf_counter() - began:.0f} s")
