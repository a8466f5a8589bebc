"""A consumer of two inputs takes a snapshot whenever both have come to the same barrier."""

import asyncio

from permitflow import AlignedBarrier, GateChunk, GateParameters, InputGate, LocalSender


async def produce(sender: LocalSender[list[int]], rows: int) -> None:
    """Send two epochs; each ends with its barrier."""
    for epoch in (1, 2):
        for row in range(rows):
            await sender.send([row])
        await sender.send_barrier(epoch)  # the input is blocked behind it until the other one has sent it
    await sender.end()


async def main() -> None:
    """Count the rows of each input, and print the counts at each barrier."""
    gate: InputGate[list[int]] = InputGate(GateParameters(inputs=2))
    counts = {"orders": 0, "payments": 0}
    async with gate, asyncio.TaskGroup() as tasks:
        tasks.create_task(produce(gate.open_channel("orders"), rows=30))
        tasks.create_task(produce(gate.open_channel("payments"), rows=2))
        async for item in gate:
            match item:
                case GateChunk(source, payload):
                    counts[source] += len(payload)
                case AlignedBarrier(number):
                    print(f"snapshot {number}: {counts}")  # asking for the next item lets the inputs go on


asyncio.run(main())
