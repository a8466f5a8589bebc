"""What a server logs on standard error."""

import logging
from enum import Enum

__all__ = ["LogLevel"]


class LogLevel(Enum):
    """The least that is logged."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"

    def apply(self) -> None:
        """Log from this level on, each line with its time."""
        logging.basicConfig(level=self.name, format="%(asctime)s %(levelname)s %(message)s")
