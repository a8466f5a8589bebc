"""What the user has told Spark already, wherever it was said: nothing of it may be overridden."""

import os
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["is_remote_server", "master_of", "settings_of"]

_DEFAULTS_FILE = "spark-defaults.conf"
_LINE = re.compile(r"^\s*(spark[\w.$-]*)\s*[=:\s]\s*(.*?)\s*$")


def settings_of(builder: SparkSession.Builder) -> dict[str, str]:
    """The settings that a session of this builder would get: what is said later wins, as in Spark.

    From ``spark-defaults.conf``, from ``PYSPARK_SUBMIT_ARGS``, from a running context, and from the builder itself.
    """
    return {**_from_file(), **_from_submit_arguments(), **_from_running_context(), **_from_builder(builder)}


def master_of(settings: Mapping[str, str]) -> str | None:
    """Where tasks run, as in ``local[4]``; None is Spark's own choice, ``local[*]``."""
    for place in (settings.get("spark.remote"), os.environ.get("SPARK_REMOTE"), settings.get("spark.master")):
        if place:
            return place
    return os.environ.get("MASTER")


def is_remote_server(settings: Mapping[str, str]) -> bool:
    """Is the session one of a Spark Connect server that somebody else has started?"""
    return (master_of(settings) or "").startswith("sc://")


def _from_builder(builder: SparkSession.Builder) -> dict[str, str]:
    # Classic and Connect keep them alike; there is no public way to ask.
    options: Mapping[str, object] = getattr(builder, "_options", {})
    return {key: str(value) for key, value in options.items()}


def _from_running_context() -> dict[str, str]:
    from pyspark import SparkContext

    context: SparkContext | None = getattr(SparkContext, "_active_spark_context", None)
    return {} if context is None else dict(context.getConf().getAll())


def _from_submit_arguments() -> dict[str, str]:
    words, found = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")), {}
    for word, following in pairwise(words):
        if word in ("--conf", "-c") and "=" in following:
            key, _, value = following.partition("=")
            found[key.strip()] = value.strip()
        elif word == "--master":
            found["spark.master"] = following
    return found


def _from_file() -> dict[str, str]:
    folder = os.environ.get("SPARK_CONF_DIR") or (
        os.path.join(os.environ["SPARK_HOME"], "conf") if os.environ.get("SPARK_HOME") else None
    )
    path = Path(folder or "") / _DEFAULTS_FILE
    if folder is None or not path.is_file():
        return {}
    lines = (_LINE.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {line[1]: line[2] for line in lines if line}
