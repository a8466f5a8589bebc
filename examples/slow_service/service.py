"""The slow part: an HTTP service of another team, which scores one order after the other, some 400 in a second."""

import json
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Scoring(BaseHTTPRequestHandler):
    """Takes a list of amounts, and answers with a list of scores."""

    def do_POST(self) -> None:  # so http.server calls it
        """Answer when all orders were scored."""
        amounts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(len(amounts) / 400)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([amount * 0.5 for amount in amounts]).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Log nothing."""


with HTTPServer(("127.0.0.1", 8080), Scoring) as server:
    print(f"listening at 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
