"""The limits of an exchange as options."""

import inspect
from typing import Annotated, Any, get_type_hints

from permitflow.exchange.limits import OPTIONS, Limit, Limits
from permitflow_tools.cli.options import option, size_in_bytes, whole_number
from permitflow_tools.parameters.quantities import size_text


def limits_of(**given: Any) -> Limits:
    """A group of options: one for each limit that can be chosen."""
    return Limits(**given)


def _option(limit: Limit) -> inspect.Parameter:
    chosen = option(whole_number(least=1), "N", f"At most this many {limit.what}.")
    if limit.unit == "bytes":
        default = "no limit" if limit.most is None else size_text(limit.most)
        text = f"At most this many bytes of {limit.what}, as in 16MiB. Default: {default}."
        chosen = option(size_in_bytes, "SIZE", text)
    return inspect.Parameter(
        limit.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=limit.most,
        annotation=Annotated[get_type_hints(Limits)[limit.name], chosen],
    )


limits_of.__signature__ = inspect.Signature([*map(_option, OPTIONS)])  # type: ignore[attr-defined]  # what Typer reads
