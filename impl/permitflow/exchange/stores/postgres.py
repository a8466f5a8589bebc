"""A store in PostgreSQL: it outlives the machine of its exchange, and another exchange can take it over."""

import asyncio
from collections.abc import Callable

from permitflow.errors import StoreError
from permitflow.exchange.stores.database import Database, Load
from permitflow.exchange.stores.durable import DurableStore, Loaded
from permitflow.exchange.stores.postgres_database import Location, PostgresDatabase, Waits, open_database


class PostgresStore(DurableStore):
    """Keeps channels in a schema of a database as well.  Needs permitflow[postgres]."""

    _opened: PostgresDatabase

    def __init__(
        self, address: str, *, waits: Waits | None = None, on_wait: Callable[[str], object] | None = None
    ) -> None:
        """Open the store at this address, or make one; reads all kept rows, so it may take seconds.

        Args:
            address: ``postgresql://[user@]host[:port]/database[?schema=NAME]``, with all parameters of libpq but
                passwords: those are read from ``PGPASSWORD``, or from the file that ``PGPASSFILE`` names.  The schema
                is ``permitflow`` by default, and made if it is not there.
            waits: how long the exchange waits for its database, and its database for it; None: ``Waits()``.
            on_wait: None: do not wait for an exchange that has the store; else wait until it has ended, and call this
                with the name of each one that is waited for.

        Raises:
            StoreInUseError: another exchange has it open.
            StoreUnusableError: the database cannot be reached or used, or has other contents; or the address is none.
        """
        location = Location.parsed(address)
        self._has_standby = on_wait is not None

        def opened(load: Load[Loaded]) -> tuple[Database, Loaded]:
            self._opened, loaded = open_database(location, load, waits or Waits(), on_wait)
            return self._opened, loaded

        super().__init__(location.name, opened)

    @property
    def is_own(self) -> bool:
        """See ``Store``; standbys, if there are some, take it as soon as the session with the lock is gone."""
        return not self._has_standby or self._opened.is_sure

    async def until_lost(self) -> StoreError:
        """Wait until this exchange may write the store no more; why."""
        return await asyncio.shield(asyncio.wrap_future(self._opened.lost))
