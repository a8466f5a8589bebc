"""The command line.  Each command loads what it needs when it runs, so help comes at once and without extras."""

import os

__all__ = ["main"]

# When an address cannot be had, gRPC would add its own words to ours; it looks here when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def main() -> None:
    """Run the command line with the arguments of this process."""
    from permitflow.cli.application import app

    app(prog_name="permitflow")
