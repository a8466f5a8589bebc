"""Without back-pressure: takes orders at once, keeps them in a queue, and scores them as fast as the service can.

Run as ``python -m benchmarks.slow_service.queue_gateway '<JSON of Settings>'``.
"""

import sys
from http.server import ThreadingHTTPServer
from queue import Empty, SimpleQueue
from threading import Thread

from benchmarks.slow_service.arrow_http import Answer, ArrowHandler, listen, post
from benchmarks.slow_service.settings import Settings
from permitflow.demo.settings import report

__all__ = ["listening", "main"]

LONGEST_POLL_SECONDS = 1.0
END = b""


def main(settings: Settings) -> None:
    """Serve until it is killed."""
    server, url = listening(settings)
    report("listening", text=f"the gateway listens at {url}", url=url)
    server.serve_forever()


def listening(settings: Settings) -> tuple[ThreadingHTTPServer, str]:
    """The gateway, and where it is."""
    orders: SimpleQueue[bytes] = SimpleQueue()
    scores: SimpleQueue[bytes] = SimpleQueue()

    class Gateway(ArrowHandler):
        def respond(self, path: str, body: bytes) -> Answer:
            if path == "/scores":
                return next_scores(scores)
            orders.put(body)
            return Answer(202)

    Thread(target=work_off, args=(settings.service, orders, scores), daemon=True).start()
    return listen(Gateway)


def work_off(service: str, orders: "SimpleQueue[bytes]", scores: "SimpleQueue[bytes]") -> None:
    """Score what is in the queue, to its end."""
    while (order := orders.get()) != END:
        scores.put(post(f"{service}/score", order))
    scores.put(END)


def next_scores(scores: "SimpleQueue[bytes]") -> Answer:
    """Scores (200), none yet (204), or no more (205)."""
    try:
        body = scores.get(timeout=LONGEST_POLL_SECONDS)
    except Empty:
        return Answer(204)
    return Answer(200, body) if body != END else Answer(205)


if __name__ == "__main__":
    main(Settings.from_json(sys.argv[1]))
