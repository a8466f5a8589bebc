"""How thoroughly a run measures."""

from dataclasses import dataclass, replace

from benchmarks.payloads import PAYLOADS

__all__ = ["FULL", "SMOKE", "Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of one run."""

    rounds: int = 5
    job_seconds: float = 0.15
    """How long each job should take, roughly."""
    longest_job_seconds: float = 0.8
    """Where more is needed to fill the window twice."""
    latency_seconds: float = 0.4
    stream_ends: int = 1_000
    seed: int = 1
    payloads: tuple[str, ...] = tuple(PAYLOADS)
    ways: tuple[str, ...] = ("",)
    """Only ways with one of these in their name; all by default."""
    is_smoke: bool = False
    """Does it still run?  Nothing is judged."""


FULL = Settings()
SMOKE = replace(
    FULL,
    rounds=1,
    job_seconds=0.01,
    longest_job_seconds=0.01,
    latency_seconds=0.05,
    stream_ends=5,
    payloads=("64",),
    is_smoke=True,
)
