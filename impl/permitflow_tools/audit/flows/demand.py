"""The laws of demand: size messages may be out, and whole batches of them are requested again.

Spec: the updates of credit, inbox, unrequested and withheld; Bounded, RequestsBatched.
"""

from permitflow.flows.demand.core import DEMAND, Demand
from permitflow_tools.audit.columns import Events, Integers, Marks
from permitflow_tools.audit.findings import Clause
from permitflow_tools.audit.laws import Before, Counter, Laws, Line, Order, Rule

BATCHED = "RequestsBatched"
"""The receiver requests a batch when that many messages were consumed, and the withheld messages a single time.

Spec: RequestsBatched, Consume, Ask.
"""


def _unrequested(events: Events, collected: Integers) -> Integers:
    """A complete batch is requested at once."""
    kept: Integers = collected * (collected < events.limit("batch"))
    return kept


def _withheld(events: Events, before: Integers) -> Integers:
    """Nothing, once the application has asked."""
    kept: Integers = before * ~events.is_any(["Ask"])
    return kept


def _asks_in_vain(events: Events, before: Before) -> Marks:
    _, _, withheld = before.counters
    in_vain: Marks = events.is_any(["Ask"]) & before.known & (withheld == 0)
    return in_vain


LAWS = Laws(
    table=DEMAND.table,
    parameters=Demand,
    counters={
        "sender": [Counter(start="initial", most="size", steps={"Send": -1, "Request": "messages"})],
        "receiver": [
            Counter(most="size", steps={"Deliver": 1, "Consume": -1}),
            Counter(most="size", steps={"Consume": 1}, settled=_unrequested, clause=BATCHED),
            Counter(start=lambda of: of.size - of.initial, most="size", steps={}, settled=_withheld, clause=BATCHED),
        ],
    },
    rules=[Rule(BATCHED, _asks_in_vain, "receiver")],
    lines=[Line("message", {"Offer": 1, "Withdraw": -1, "Send": -1})],
    order=Order(sent=["Send"], delivered=["Deliver"], consumed=["Consume"]),
    words={
        BATCHED: "consumed messages are requested again in batches",
        Clause.BOUNDED: "never more messages are out, or requested, than may be",
    },
)
