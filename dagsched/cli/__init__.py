"""The command line: one module per command, all errors turned into one line here.

Command modules import only light things at the top, so that ``dagsched --help`` answers at once; what a
command needs is imported when it runs. Start with :func:`main`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Annotated, Any

import typer

from dagsched.cli import compare, explain, generate, inspect, options, policies, report, schedule, train, warmup
from dagsched.cli import eval as evaluation
from dagsched.cli.command import Command
from dagsched.cli.console import Interrupted, be_quiet, complain, examples

app = typer.Typer(
    name="dagsched",
    help="Which ready task of a workflow graph should run next? Simulate and compare schedulers on real workflows.",
    epilog=examples(
        "dagsched policies",
        "dagsched inspect workloads/wfcommons",
        "dagsched compare workloads/wfcommons --out runs/first",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from dagsched import __version__

        typer.echo(f"dagsched {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 - its callback prints
        bool,
        typer.Option(
            "--version", metavar=options.FLAG, callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar=options.FLAG, help="No remarks, no progress: results and errors.")
    ] = False,
) -> None:
    """Which ready task of a workflow graph should run next? Simulate and compare schedulers on real workflows."""
    be_quiet(quiet)


app.command("inspect", cls=Command, epilog=inspect.EXAMPLES)(inspect.inspect)
app.command("schedule", cls=Command, epilog=schedule.EXAMPLES)(schedule.schedule)
app.command("compare", cls=Command, epilog=compare.EXAMPLES)(compare.compare)
app.command("compare-baselines", hidden=True, cls=Command, epilog=compare.EXAMPLES)(compare.compare)
app.command("report", cls=Command, epilog=report.EXAMPLES)(report.report)
app.command("explain", cls=Command, epilog=explain.EXAMPLES)(explain.explain)
app.command("train", cls=Command, epilog=train.EXAMPLES)(train.train)
app.command("eval", cls=Command, epilog=evaluation.EXAMPLES)(evaluation.evaluate)
app.command("policies", cls=Command, epilog=policies.EXAMPLES)(policies.policies)
app.command("generate", cls=Command, epilog=generate.EXAMPLES)(generate.generate)
app.command("warmup", cls=Command, epilog=warmup.EXAMPLES)(warmup.warmup)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for what the user can mend, 130 after Ctrl-C.

    ``arguments`` are those after the program name; by default the process's own.
    """
    from dagsched.errors import DagschedError

    try:
        code: Any = app(arguments, prog_name="dagsched", standalone_mode=False)
        sys.stdout.flush()
    except DagschedError as error:
        return complain(str(error))
    except Interrupted as error:
        return complain(str(error), code=130)
    except KeyboardInterrupt:
        return complain("interrupted", code=130)
    except BrokenPipeError:
        return _quiet_pipe()
    except OSError as error:
        return complain(_os_error(error))
    except MemoryError:
        return complain("out of memory; try fewer --jobs, --replays or a smaller input")
    except Exception as error:
        if not hasattr(error, "format_message"):  # not a usage error of the command line parser
            raise
        return _usage_error(error)
    if code == 130:
        complain("interrupted", code=130)
    return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dagsched"
    text = " ".join(error.format_message().split())
    if not text:  # no arguments at all: the help text has been printed
        return 2
    return complain(f"{text.rstrip('.')}; see {command} --help")


def _os_error(error: OSError) -> str:
    """What went wrong, with the file if the system names it."""
    from dagsched.files import no_room

    number = error.errno or next((n for n in error.args[:1] if isinstance(n, int)), None)  # OSError(28) has no errno
    reason = error.strerror or (os.strerror(number) if number else str(error)) or type(error).__name__
    full = no_room(number)
    advice = f"; {'free some space and ' if full else ''}run the same command again"
    if error.filename:
        return f"{error.filename}: {reason}{advice if full else ''}"
    return f"{reason} while {'writing' if full else 'reading or writing'}{advice}"


def _quiet_pipe() -> int:
    """The reader of our output has gone (``| head``): stop without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def main() -> None:
    """Entry point of the console script."""
    from dagsched.interrupts import take_signals

    take_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no Unicode shows question marks
    code = run()
    if code == 130:
        # At once: what an interrupt left half-imported can hang as Python shuts down, or turn the exit code into the
        # signal. Worker processes end by themselves.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if "multiprocessing.util" in sys.modules:  # else the semaphores of a pool are complained of as lost
            with contextlib.suppress(Exception):
                sys.modules["multiprocessing.util"]._run_finalizers(0)
        os._exit(code)
    sys.exit(code)
