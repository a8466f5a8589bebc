"""Who waits for whom, in words."""

from typing import Any

import pytest

from permitflow.stream.traffic import ChannelTraffic, KeptRows, Rates
from permitflow_tools.dashboard.waits import Waiting, waits_of

LAG = KeptRows(next_row=10, acknowledged={"etl": 9, "audit": 3})


def rates(*, in_: float = 0.0, blocked: float = 0.0, out: float = 0.0, stopped: float = 0.0, **changed: Any) -> Rates:
    """Of an open channel with one producer and one consumer."""
    known: dict[str, Any] = dict.fromkeys(("rows_in", "rows_out", "rows_held", "peak_rows_held"), 0)
    known |= dict.fromkeys(("rows_with_consumers", "waiting_seconds", "consumer_waiting_seconds"), 0)
    known |= {"channel": "s", "state": "open", "reason": "", "window_rows": 8, "producers": 1, "consumers": 1}
    return Rates(
        traffic=ChannelTraffic(**known | changed),
        seconds=1.0,
        rows_in_per_second=in_,
        rows_out_per_second=in_,
        blocked_share=blocked,
        consumer_blocked_share=out,
        consumer_stopped_share=stopped,
    )


@pytest.mark.parametrize(
    ("seen", "who", "words"),
    [
        (rates(state="broken", reason="its producer left"), Waiting.OVER, "its producer left"),
        (rates(state="waiting", consumers=0), Waiting.NOBODY, "no producer has come yet"),
        (rates(state="waiting"), Waiting.CONSUMERS, "the consumer waits for the first producer"),
        (rates(blocked=1.0, consumers=0), Waiting.PRODUCERS, "for a consumer: none is connected"),
        (rates(blocked=1.0, in_=5.0), Waiting.PRODUCERS, "for the consumer, which is slower"),
        (rates(blocked=1.0, kept=LAG), Waiting.PRODUCERS, "for consumer 'audit', which has 7 rows"),
        (rates(blocked=1.0, stopped=1.0), Waiting.GATE, "behind a barrier"),
        (rates(suspended_streams=2), Waiting.CONNECTION, "2 streams have lost their connection"),
        (rates(out=1.0, rows_held=3), Waiting.PRODUCERS, "rows wait for the consumer"),
        (rates(), Waiting.CONSUMERS, "for the producer, which sends nothing"),
        (rates(producers=0, consumers=2), Waiting.CONSUMERS, "2 consumers wait for a producer: none is connected"),
        (rates(in_=5.0, blocked=0.04), Waiting.NOBODY, "rows flow"),
        (rates(producers=0, consumers=0), Waiting.NOBODY, "nothing moves"),
    ],
)
def test_it_is_said_who_waits_and_for_whom(seen: Rates, who: Waiting, words: str) -> None:
    found = waits_of(seen)
    assert found.who is who
    assert words in found.text
