"""The slow service: scores one request after the other, so many rows per second.

Run as ``python -m benchmarks.slow_service.service '<JSON of Settings>'``.
"""

import sys
from http.server import ThreadingHTTPServer
from threading import Lock
from time import sleep

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.slow_service.arrow_http import Answer, ArrowHandler, decode, encode, listen
from benchmarks.slow_service.settings import SCORES, Settings
from permitflow.demo.settings import report

__all__ = ["listening", "main"]


def main(settings: Settings) -> None:
    """Serve until it is killed."""
    server, url = listening(settings)
    report("listening", text=f"the service listens at {url}", url=url)
    server.serve_forever()


def listening(settings: Settings) -> tuple[ThreadingHTTPServer, str]:
    """The service, and where it is."""
    one_at_a_time = Lock()

    class Scoring(ArrowHandler):
        def respond(self, path: str, body: bytes) -> Answer:
            orders = decode(body)
            with one_at_a_time:
                sleep(orders.num_rows / settings.rows_per_second)
            scores = pc.multiply(orders["amount"], 0.5)
            return Answer(200, encode(pa.record_batch([orders["id"], scores], schema=SCORES)))

    return listen(Scoring)


if __name__ == "__main__":
    main(Settings.from_json(sys.argv[1]))
