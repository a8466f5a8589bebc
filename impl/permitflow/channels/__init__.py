"""The asyncio channel inside a process, and what all channels promise."""
