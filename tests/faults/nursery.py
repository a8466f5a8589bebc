"""Starts the parties cheaply: each is forked off a process that has loaded what takes long.

gRPC must not be loaded before a fork whose child uses it, and is not.  A line of the input starts a party; each line of
the output says that one has started, with its process id, or ended, with its exit status.  With the input everything
ends that is still running.

    python -m tests.faults.nursery
"""

import faulthandler
import json
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

import pyarrow  # noqa: F401
import rich.console  # noqa: F401 - this and what follows is loaded for the children
import typer  # noqa: F401

import permitflow.protocol.session
import permitflow.transports.arrow  # noqa: F401
from tests.faults.parties import take_part
from tests.faults.schedules import Party

LONGEST_LIFE_SECONDS = 400
"""Every party ends with this, also one that its starter has forgotten."""


def be(order: dict[str, Any]) -> NoReturn:
    """The child: plays its part, and never comes back."""
    status = 1
    try:
        for descriptor, path in ((0, os.devnull), (1, order["output"]), (2, order["errors"])):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.alarm(LONGEST_LIFE_SECONDS)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        take_part(Party(order["party"]), order["arguments"])
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def main() -> None:
    assert "grpc" not in sys.modules, "it does not survive a fork"
    children: set[int] = set()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rest = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            children.remove(pid)
            print(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}), flush=True)
        if 0 not in ready:
            continue
        content = os.read(0, 1 << 16)
        if not content:
            break
        *lines, rest = (rest + content).split(b"\n")
        for line in lines:
            pid = os.fork()
            if not pid:
                be(json.loads(line))
            children.add(pid)
            print(json.dumps({"started": pid}), flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
