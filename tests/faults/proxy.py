"""A network between those who dial and those who listen, in the run's event loop: it does what the schedule says."""

from asyncio import StreamWriter
from collections.abc import Callable
from random import Random

from tests.faults.schedules import Fault, FaultKind, Party, Schedule, generator
from tests.support.cutting_proxy import Link, Listening, half_close


class FaultyLink(Link[Fault]):
    """All connections of one party."""

    def __init__(self, proxy: "Proxy", party: Party, target: tuple[str, int], dice: Random) -> None:
        super().__init__(target, (fault for fault in proxy.schedule.faults if fault.link is party), dice)
        self.proxy = proxy

    def suffer(self, event: Fault, writer: StreamWriter) -> bool:
        """Let it happen; may this direction go on?"""
        self.proxy.tell(event)
        match event.kind:
            case FaultKind.CUT:
                self.cut(resets=event.resets)
                return False
            case FaultKind.HALF_CLOSE:
                half_close(writer)
                return False
            case FaultKind.BLACK_HOLE:
                self.swallow(event.seconds)
            case FaultKind.DELAY:
                self.delay_seconds = event.seconds
            case FaultKind.THROTTLE:
                self.bytes_per_second = event.bytes_per_second
        return True


class Proxy(Listening):
    def __init__(self, schedule: Schedule, tell: Callable[[int], None]) -> None:
        """``tell`` is called with the number of each fault that comes; it stops or kills a process at once."""
        super().__init__()
        self.schedule = schedule
        self.ports: dict[Party, int] = {}
        """Where each one who dials finds the one who listens."""
        self._tell = tell
        self._dice = generator(schedule, "proxy")

    async def pass_on(self, party: Party, target: str) -> None:
        """Pass on what comes from this party to this address, HOST:PORT."""
        host, _, port = target.rpartition(":")
        self.ports[party] = await self.listen(FaultyLink(self, party, (host, int(port)), Random(self._dice.random())))

    def tell(self, fault: Fault) -> None:
        self._tell(self.schedule.faults.index(fault))
