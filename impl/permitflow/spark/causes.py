"""Finds the error of this package behind one of Spark's, which has only its text."""

import re

from permitflow import errors
from permitflow.errors import PermitflowError

_LINE = re.compile(r"^.*?\bpermitflow\.errors\.(\w+)(?::|$)", re.MULTILINE)


def cause_of(error: BaseException) -> type[PermitflowError] | None:
    """The kind of error that a job, or a streaming query, has ended with; None: it is none of this package.

    Spark runs sources and sinks in processes of their own, and passes on what they raise as text.  The last of several
    errors in it is meant: those before are its causes.

    Args:
        error: as Spark raises it from an action, ``awaitTermination()`` or ``query.exception()``.
    """
    if isinstance(error, PermitflowError):
        return type(error)
    kinds = (getattr(errors, found[1], None) for found in _LINE.finditer(str(error)))
    known = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, PermitflowError)]
    return known[-1] if known else None
