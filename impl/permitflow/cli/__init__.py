"""The command line.  Each command loads what it needs when it runs, so help comes at once and without extras."""

import errno
import os
import sys

from permitflow.cli.interrupts import Interrupts

__all__ = ["main"]

# When an address cannot be had, gRPC would add its own words to ours; it looks here when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_UNUSABLE = 2  # as in ``permitflow.cli.outcomes``, which is not loaded yet


def main() -> None:
    """Run the command line with the arguments of this process."""
    _open_what_was_closed()
    interrupts = Interrupts()
    try:
        interrupts.watch()
        _tell_what_is_full()
    except BaseException as error:
        # Whatever became of it on its way, as where a library has made an error of its own of it.
        if interrupts.number:
            interrupts.end_with(error)
        raise
    finally:
        interrupts.let_go()


def _tell_what_is_full() -> None:
    try:
        _run()
    except OSError as error:
        if error.errno not in _FULL and error.errno != errno.EPIPE:
            raise
        # What could not be written is still in the stream, and would be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE:
            sys.exit(1)  # whoever reads has had enough
        print(f"Error: cannot write: {error.strerror}", file=sys.stderr)
        sys.exit(_UNUSABLE)


def _run() -> None:
    from permitflow.cli.application import app

    try:
        app(prog_name="permitflow")
    finally:
        sys.stdout.flush()


def _open_what_was_closed() -> None:
    """Give streams to a process that was started without them, as by ``>&-`` or some services."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
