"""The command line.  Each command loads what it needs when it runs, so help comes at once and without extras."""

from permitflow.cli.application import main

__all__ = ["main"]
