"""The options that ends of a stream have in common, for those that pass them on."""

from collections.abc import Sequence
from typing import TypedDict

from permitflow.carriers.same_host import SameHost
from permitflow.carriers.security import Security
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow.stream.compression import Compression
from permitflow.stream.frames import JobTotal, Staging, TaskAttempt


class EndOptions(TypedDict, total=False):
    """Options of both ends; see ``aio.get``."""

    wanted: Parameters | None
    silence_seconds: float
    record: RecorderFactory | None
    same_host: SameHost
    compression: Compression
    resume_seconds: float | None
    security: Security | None
    byte_window: int | None


class GetOptions(EndOptions, total=False):
    """Options of a source; see ``aio.get``."""

    consumer: str
    from_row: int | None
    to_row: int | None
    log_id: str
    columns: Sequence[str]
    with_time: bool
    target_latency_seconds: float | None


class PutOptions(EndOptions, total=False):
    """Options of a sink; see ``aio.put``."""

    producer: str
    staging: Staging | None
    attempt: TaskAttempt | None
    total: JobTotal | None
    failed_job: str
    spread_over: int
    job_channels: Sequence[str]
    job_since_row: int | None
    job_log_id: str


def counts_its_end(options: PutOptions) -> bool:
    """Does the end of such a stream say that a task of a job is done?"""
    return any(options.get(name) is not None for name in ("staging", "attempt", "total"))
