"""What a server logs on standard error."""

import logging
import sys
from enum import Enum
from typing import TextIO


class LogLevel(Enum):
    """The least that is logged."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"

    def apply(self) -> None:
        """Log from this level on, each line with its time."""
        form = "%(asctime)s %(levelname)s %(message)s"
        logging.basicConfig(level=self.name, format=form, handlers=[_ToStandardError()])


class _ToStandardError(logging.StreamHandler[TextIO]):
    """To what is standard error at that moment: a live table takes its place, and writes lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
