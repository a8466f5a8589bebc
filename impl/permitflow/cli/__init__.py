"""The command line.  Each command loads what it needs when it runs, so help comes at once and without extras."""

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process."""
    from permitflow.cli.application import app

    app(prog_name="permitflow")
