"""The asyncio channel inside a process, and the interface of all channels."""
