"""A minute of the monitor in simulated time: an overload, and a worker that is killed."""

from random import Random

from examples.jobs.collecting import SAMPLE_NS, Collector, MonitorState
from examples.jobs.metrics_core import SECOND_NS, Reporter, packet_period_ns

LIMIT, SENDERS = 60, 3
SLOT_NS = SECOND_NS // 100
CAPACITY, RESEND_SECONDS = 40, 2.0


def monitored(seconds: int = 60, *, lose: float = 0.2) -> MonitorState:
    """What the monitor knows at the end of so many seconds."""
    period_ns = packet_period_ns(LIMIT, SENDERS)
    collector, chance, lost = Collector(LIMIT, 0), Random(1), 0
    reporters = [Reporter(name, 1, period_ns, 0) for name in ("master", "w1", "w2")]
    queue = 0
    for slot in range(100 * seconds):
        now_ns = slot * SLOT_NS
        master, *workers = reporters
        overload = 3 if seconds / 3 < slot / 100 < 2 * seconds / 3 else 1
        for _ in range(overload if slot % 2 == 0 else 0):
            master.count("submitted")
            queue += 1
            if queue > CAPACITY:
                queue -= 1
                master.count("dropped")
                master.count("resent")
        if slot == 50 * seconds:
            reporters[2] = Reporter("w2", 2, period_ns, now_ns)
        for place, worker in enumerate(workers, start=1):
            if queue and slot % 4 == place:
                queue -= 1
                worker.count("pulled")
                worker.count("finished")
                master.count("finished")
                master.took_result(worker.source, worker.incarnation)
        master.gauge("queue", queue)
        master.gauge("oldest_seconds", queue / CAPACITY)
        master.gauge("clients", 2)
        master.gauge("workers", 2)
        for reporter in reporters:
            if reporter.due_ns() <= now_ns:
                collector.arrive(now_ns)
                content = reporter.packet(now_ns)
                if is_lost := chance.random() < lose:
                    lost += 1
                for _ in range(0 if is_lost else 1 + (chance.random() < 0.05)):  # some come twice
                    collector.take(content, now_ns)
                reporter.has_left(now_ns)
        if now_ns % SAMPLE_NS == 0:
            collector.sample(now_ns, now_ns)
    bounds = {"queue_capacity": CAPACITY, "resend_seconds": RESEND_SECONDS}
    return MonitorState(**collector.state(seconds * SECOND_NS), lost_on_purpose=lost, bounds=bounds)
