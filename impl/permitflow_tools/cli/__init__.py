"""The command line: a file for each command, named as it is; ``application`` lists them.

Each command loads what it needs when it runs, so help comes at once and without extras.
"""

import errno
import os
import sys
from io import TextIOWrapper

from permitflow_tools.cli.interrupts import Interrupts

# Without this, gRPC prints messages of its own beside ours; it reads the variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_UNUSABLE = 2  # as in ``permitflow_tools.cli.outcomes``, which is not loaded yet


def main() -> None:
    """Run the command line with the arguments of this process."""
    open_what_was_closed()
    escape_what_it_cannot_show()
    interrupts = Interrupts()
    try:
        interrupts.watch()
        _run_and_report_full_disks()
    except BaseException as error:
        # The error may be another one by now: some libraries replace KeyboardInterrupt by an error of their own.
        if interrupts.number:
            interrupts.end_with(error)
        raise
    finally:
        interrupts.let_go()


def _run_and_report_full_disks() -> None:
    try:
        _run()
    except OSError as error:
        if error.errno not in _FULL and error.errno != errno.EPIPE:
            raise
        # At exit Python would try to write the rest of the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE:
            sys.exit(1)  # the reader has closed its end
        print(f"Error: cannot write: {error.strerror}", file=sys.stderr)
        sys.exit(_UNUSABLE)


def _run() -> None:
    from permitflow_tools.cli.application import app

    try:
        app(prog_name="permitflow")
    finally:
        sys.stdout.flush()


def open_what_was_closed() -> None:
    """Give streams to a process that was started without them, as by ``>&-`` or some services."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def escape_what_it_cannot_show() -> None:
    """Write characters that standard output lacks, as in a pipe of Windows, as standard error does: no error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
