"""The command ``permitflow`` from its first moment: whoever presses Ctrl-C while it still loads is rid of it at once.

Nothing has been begun by then that would have to be ended in good order.  A module by itself, because ``permitflow``
and what the commands need take a good part of a second to load, and an interrupt in there would show where it was.
"""

import os
import signal
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process."""
    # Who was started to ignore it, as in the background, goes on to do so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from permitflow.cli import main as run

    run()


def _leave(number: int, frame: object) -> NoReturn:
    os._exit(128 + number)
