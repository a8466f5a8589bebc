"""The laws of stop-and-wait: one message is out, or its answer, or the sender is free."""

from permitflow.flows.stop_and_wait.core import STOP_AND_WAIT
from permitflow_tools.audit.laws import Counter, Laws, Line, Order, Return

LAWS = Laws(
    table=STOP_AND_WAIT.table,
    counters={
        "sender": [Counter(start=1, most=1, steps={"Send": -1, "Answer": 1})],
        "receiver": [Counter(most=1, steps={"Deliver": 1, "Consume": -1})],
    },
    lines=[Line("message", {"Offer": 1, "Withdraw": -1, "Send": -1})],
    order=Order(sent=["Send"], delivered=["Deliver"], consumed=["Consume"]),
    returns=[Return(name="answers", came={"Answer": -1}, owed={"Consume": 1})],
)
