"""A store on disk: one SQLite file in a folder."""

from pathlib import Path

from permitflow.exchange.stores.durable import DurableStore
from permitflow.exchange.stores.sqlite_database import open_database
from permitflow.exchange.stores.system import System


class SqliteStore(DurableStore):
    """Keeps channels in a folder as well."""

    def __init__(self, folder: Path, system: System | None = None) -> None:
        """Open the store in this folder, or make one; reads all kept rows, so it may take seconds.

        Args:
            folder: made if it is not there.
            system: has the folder; None: this machine.

        Raises:
            StoreInUseError: another exchange has it open.
            StoreUnusableError: the folder has other contents, a newer store or a damaged one, or is not writable.
        """
        super().__init__(str(folder), lambda load: open_database(folder, load, system or System()))
