"""With back-pressure: takes orders from the exchange when the service is ready for them, and puts back the scores."""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.slow_service.programs import SCORES, Settings, decode, encode, post
from permitflow.client.blocking import open_sink, open_source

# Spark may take a while to start.
PATIENCE_SECONDS = 300.0


def run(_pipe: object, settings: Settings) -> None:
    with ThreadPoolExecutor(settings.channels) as threads:
        list(threads.map(lambda number: forward(settings, number), range(settings.channels)))


def forward(settings: Settings, number: int) -> None:
    """Orders of one channel go to the service, and its scores into another channel."""
    exchange, service = settings.exchange, settings.service
    with (
        open_source(exchange, f"orders/{number}", timeout_seconds=PATIENCE_SECONDS) as orders,
        open_sink(exchange, f"scores/{number}", SCORES, timeout_seconds=PATIENCE_SECONDS) as scores,
    ):
        for batch in orders:  # asking for the next batch returns the permits of this one
            scores.send(decode(post(f"{service}/score", encode(batch))))
        scores.end(closes_channel=True)
