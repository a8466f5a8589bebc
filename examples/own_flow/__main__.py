"""Send rows with XON/XOFF from one end to another: ``python -m examples.own_flow [ADDRESS]``.

Without an address the channel is inside this process; else an exchange listens there, as at ``127.0.0.1:0`` (gRPC) or
``tcp://127.0.0.1:0``.
"""

import asyncio
import sys

from .run import carried


async def main() -> None:
    """Print what has come."""
    rows, agreed = await carried(sys.argv[1] if sys.argv[1:] else None)
    print(f"{len(rows):,} rows came in order: {rows == [*range(len(rows))]}; agreed: {agreed}")


asyncio.run(main())
