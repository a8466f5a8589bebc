"""What a page of pictures holds."""

from html.parser import HTMLParser


class PageReader(HTMLParser):
    """Collects scripts, embedded data, and addresses that a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.data: dict[str, str] = {}
        self.scripts = 0
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag == "script":
            self.scripts += 1
            self._inside = values.get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data[self._inside] = self.data.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = ""
