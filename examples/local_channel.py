"""Two tasks in one process: a slow reader stops a fast writer, which is never more than eight rows ahead."""

import asyncio

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel


async def main() -> None:
    """Send 300 rows in chunks of three."""
    sender: LocalSender[list[int]]
    receiver: LocalReceiver[list[int]]
    sender, receiver = open_channel(ChannelParameters(row_permits=8))

    async def produce() -> None:
        for number in range(100):
            await sender.send([number] * 3)  # three rows take three permits; without them, send waits
        await sender.end()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        rows = [row async for message in receiver for row in message.payload]  # receiving returns the permits
    print(f"{len(rows)} rows, never more than {sender.statistics().peak_rows_held} of 8 at once")


asyncio.run(main())
