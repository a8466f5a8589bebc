"""The asyncio channel inside a process (``local``), the promises of all channels (``interface``), and the ``gate``."""
