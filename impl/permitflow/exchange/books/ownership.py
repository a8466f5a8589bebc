"""Does an exchange own its store, and was a commit made whose answer was lost?  Decisions only; no I/O.

A shared store has an epoch, one more for each owner, and the number of its commits.  Each transaction requires both as
its owner knows them.  docs/protocols/store.md says what follows.
"""

from permitflow.errors import StoreTakenOverError, StoreWriteError


class StoreOwnership:
    """What one owner knows of its store.

    Spec: BeginTransaction, SendCommit, ConfirmCommit, Undo, ReconnectStore, FailWrites of StoreOwner.
    """

    def __init__(self, path: str, epoch: int, commit: int) -> None:
        """The store was taken.

        Args:
            path: of the store, for messages.
            epoch: of this owner.
            commit: the number of the last commit.
        """
        self._path = path
        self.epoch = epoch
        """The epoch of this owner: a transaction requires it."""
        self.commit = commit
        """The number of the last commit that is known to be made: a transaction requires it, too."""
        self.is_uncertain = False
        """Was a commit sent that was not answered?"""
        self.is_refused = False
        """Were its jobs refused all the same?"""

    def send_commit(self) -> None:
        """The next commit is sent: from now on it may be made."""
        self.is_uncertain = True

    def confirm_commit(self) -> None:
        """The database has made it."""
        self.is_uncertain = False
        self.commit += 1

    def undo(self) -> None:
        """The database has undone the transaction, and said so."""
        self.is_uncertain = False

    def fail_writes(self) -> None:
        """The connection does not come back, and the jobs are refused."""
        self.is_refused = self.is_uncertain

    def was_made(self, epoch: int, commits: int, owner: str) -> bool:
        """Was the commit that was under way made?  Asked in a new connection; changes nothing.

        Args:
            epoch: of the store.
            commits: its number of commits.
            owner: whose epoch that is, for messages.

        Raises:
            StoreTakenOverError: the store belongs to another exchange.
            StoreWriteError: the store has another history.
        """
        was_made = self.is_uncertain and commits == self.commit + 1
        self.require_own(epoch, self.commit if was_made else commits, owner)
        return was_made

    def reconnect(self, *, was_made: bool) -> None:
        """Go on in a new connection, whose session has the lock.

        Args:
            was_made: what ``was_made`` has said, after the lock was there.

        Raises:
            StoreWriteError: a commit was made of rows that had to be refused.
        """
        if was_made and self.is_refused:
            raise self._lost("it has kept rows of an uncertain commit that this exchange refused; start it again")
        self.is_refused = False
        if was_made:
            self.confirm_commit()
        else:
            self.undo()

    def require_own(self, epoch: int, commits: int, owner: str) -> None:
        """Require this owner's epoch, and its number of commits; see ``was_made``.

        Raises:
            StoreTakenOverError: the store belongs to another exchange.
            StoreWriteError: the store has another history.
        """
        if epoch != self.epoch:
            raise StoreTakenOverError(path=self._path, by=f"the exchange {owner}")
        if commits < self.commit:
            lacks = f"it lacks {self.commit - commits} of the {self.commit} commits that were confirmed"
            raise self._lost(
                f"{lacks}: was a standby made the primary that had not received them, or a backup restored?"
            )
        if commits > self.commit:
            raise self._lost(f"it has {commits - self.commit} commits that are not of this exchange; start it again")

    def _lost(self, reason: str) -> StoreWriteError:
        return StoreWriteError(path=self._path, reason=reason)
