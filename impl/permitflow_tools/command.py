"""The command ``permitflow``: Ctrl-C ends it at once while it still loads.

Nothing has begun by then that would have to be ended in good order.  This is a module by itself, because ``permitflow``
and what the commands need take a good part of a second to load, and an interrupt there would show a traceback.
"""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Run the command line with the arguments of this process."""
    # A process that was started to ignore it, as in the background, goes on to do so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from permitflow_tools.cli import main as run

    run()


def _leave(number: int, frame: object) -> NoReturn:
    os._exit(128 + number)
