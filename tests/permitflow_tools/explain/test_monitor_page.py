"""The page of the example system's monitor in a real browser: live, kept as a file, in the dark, on a telephone."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from examples.jobs.metrics_core import Packet
from examples.jobs.page import page_of, parts_of
from tests.support.axe import violations
from tests.support.browser import Scheme, Visit
from tests.support.monitored import CAPACITY, LIMIT, monitored

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()


def test_the_parts_say_each_figure_with_its_bound() -> None:
    state = monitored(12)
    parts = parts_of(state)
    assert f"of at most {CAPACITY}" in parts["queue"]
    assert "sent again after 2.0 s" in parts["oldest"]
    assert f"of at most {LIMIT}" in parts["packets"]
    assert "within all bounds" in parts["verdict"]
    assert parts["workers"].count("<tr>") == 2
    assert {name: parts[name].count("<polyline") for name in ("queue", "losses", "pulls")} == {
        "queue": 1,
        "losses": 2,
        "pulls": 2,
    }


def test_a_bound_that_is_exceeded_is_said_in_words() -> None:
    state = monitored(12)
    state["packets_per_second"] = state["peak_packets_per_second"] - 1
    state["bounds"] = {"queue_capacity": 3, "resend_seconds": 0.0}
    parts = parts_of(state)
    assert "the queue and the packets exceeded the bound" in parts["verdict"]
    assert all("exceeded" in parts[name] for name in ("queue", "packets"))


def test_a_page_before_the_first_packet_shows_nothing_wrong() -> None:
    parts = parts_of(monitored(0))
    assert "none was heard of" in parts["workers"]
    assert "<polyline" in parts["queue"]


def test_what_a_packet_says_is_no_markup() -> None:
    state = monitored(1)
    state["last_malformed"] = "<script>"
    assert "<script>" not in parts_of(state)["fates"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390), ("light", 320)])
def test_everybody_can_read_the_page(visit: Callable[..., Visit], scheme: Scheme, width: int) -> None:
    opened = visit(page_of(monitored()), scheme=scheme, width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(opened.page) == []
    low = [found for found in opened.page.evaluate(CONTRASTS) if found[1] < 4.5]
    assert low == []


@contextmanager
def monitor_process() -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    command = [sys.executable, "-m", "examples.jobs.monitor", json.dumps({"queue_capacity": 40})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # it is a pipe
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def tell(ready: dict[str, Any], sequence: int, queue: int) -> None:
    host, _, port = ready["udp"].rpartition(":")
    packet = Packet(source="master", incarnation=1, sequence=sequence, totals={"dropped": 7}, gauges={"queue": queue})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(packet.to_bytes(), (host, int(port)))


def test_the_live_page_follows_the_packets_until_the_monitor_ends(browser: "Browser") -> None:
    with monitor_process() as (process, ready):
        opened = Visit(browser, ready["page"])
        queue, news = opened.page.locator("#queue b"), opened.page.locator("#news")
        expect(queue).to_have_text("0")
        opened.page.locator(".sweep-table").focus()
        for sequence, waiting in ((1, 17), (2, 23)):
            tell(ready, sequence, waiting)
            expect(queue).to_have_text(str(waiting))
        assert opened.page.evaluate("document.activeElement.className") == "sweep-table"
        expect(opened.page.locator("#losses b")).to_have_text("7")
        assert violations(opened.page) == []
        assert (news.inner_text(), opened.complaints) == ("", [])
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None  # it is a pipe
        final = json.loads(process.stdout.readline())
        expect(news).to_contain_text("The monitor does not answer since")
        expect(queue).to_have_text("23")
        opened.close()
    assert final["sources"] == {"master#1": {"dropped": 7}}


def test_the_process_says_all_that_it_knows_when_it_ends() -> None:
    with monitor_process() as (process, ready):
        tell(ready, 1, 5)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None  # it is a pipe
        final = json.loads(process.stdout.readline())
        assert process.wait() == 0
    assert (final["event"], final["gauges"]) == ("final", {"master": {"queue": 5}})
