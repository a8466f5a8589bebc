"""The model leads the owners of a shared store through its state graph: what each commits, confirms, and must not."""

from dataclasses import dataclass, replace

import pytest

from permitflow.errors import StoreTakenOverError, StoreWriteError
from permitflow.exchange.books.ownership import StoreOwnership
from permitflow_model.kernel.family import Members
from permitflow_model.store_owner import BEFORE, SYSTEM, Exchange, Parameters, Phase, Session, State
from permitflow_testing.moves import Divergence, require, walk

TWO_OWNERS = Parameters(exchanges=2, jobs=1, faults=2)
GROUPS = Parameters(exchanges=1, jobs=2, faults=2)


@dataclass
class Peer:
    """An exchange: its ownership decides; the rest is what its shell and its database would do."""

    phase: Phase = "standby"
    ownership: StoreOwnership | None = None
    seen: int = 0
    waiting: int = 0
    running: int = 0
    session: Session = "none"
    has_lock: bool = False
    late: int = 0

    @property
    def owned(self) -> StoreOwnership:
        assert self.ownership is not None
        return self.ownership

    def lose_session(self) -> None:
        if self.session == "sent":
            self.late = self.running
        self.session = "none"

    def stop(self) -> None:
        self.lose_session()
        self.phase, self.waiting, self.running = "stopped", 0, 0

    def observe(self) -> Exchange:
        if self.ownership is None:
            return BEFORE
        is_over = self.phase == "stopped"
        return Exchange(
            phase=self.phase,
            epoch=self.ownership.epoch,
            commit=self.ownership.commit,
            seen=self.seen,
            waiting=self.waiting,
            running=self.running,
            is_uncertain=self.ownership.is_uncertain and not is_over,
            is_refused=self.ownership.is_refused and not is_over,
            session=self.session,
            has_lock=self.has_lock,
            late=self.late,
        )


class DrivenStore:
    """A database in memory, with its lock and its row, and the exchanges that share it."""

    ownership: type[StoreOwnership] = StoreOwnership

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.epoch = self.commits = self.kept = self.jobs = self.confirmed = self.faults = 0
        self.peers = [Peer() for _ in range(parameters.exchanges)]

    def require_lock(self) -> None:
        require(not any(peer.has_lock for peer in self.peers))

    def require_row(self) -> None:
        require(not any(peer.session in ("begun", "sent") or peer.late for peer in self.peers))

    def fail(self) -> None:
        require(self.faults < self.parameters.faults)
        self.faults += 1

    def done(self) -> None:
        for peer in self.peers:
            require(not peer.late and not peer.running + peer.waiting and peer.phase != "taking")
            require(peer.phase != "open" or peer.session == "idle")

    def take_store(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.phase == "standby")
        self.require_lock()
        self.require_row()
        self.epoch += 1
        peer.phase, peer.session, peer.has_lock = "taking", "idle", True
        peer.ownership = self.ownership("store", self.epoch, self.commits)

    def load_store(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.phase == "taking")
        peer.phase, peer.seen = "open", self.kept

    def submit(self, name: int) -> None:
        require(self.peers[name].phase == "open" and self.jobs < self.parameters.jobs)
        self.peers[name].waiting += 1
        self.jobs += 1

    def begin_transaction(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.phase == "open" and peer.session == "idle" and peer.running + peer.waiting > 0)
        self.require_row()
        try:
            peer.owned.require_own(self.epoch, self.commits, "other")
        except (StoreTakenOverError, StoreWriteError):
            peer.stop()
            return
        peer.session = "begun"
        if not peer.running:
            peer.running, peer.waiting = peer.waiting, 0

    def send_commit(self, name: int) -> None:
        require(self.peers[name].session == "begun")
        self.peers[name].owned.send_commit()
        self.peers[name].session = "sent"

    def make_commit(self, name: int) -> None:
        require(self.peers[name].session == "sent")
        self.peers[name].session = "made"
        self.commits += 1
        self.kept += self.peers[name].running

    def confirm(self, peer: Peer) -> None:
        self.confirmed += peer.running
        peer.seen += peer.running
        peer.running = 0

    def confirm_commit(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.session == "made")
        peer.session = "idle"
        peer.owned.confirm_commit()
        self.confirm(peer)

    def undo(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.session in ("begun", "sent"))
        peer.session, peer.running = "idle", 0
        peer.owned.undo()

    def lose_session(self, name: int) -> None:
        require(self.peers[name].phase == "open" and self.peers[name].session != "none")
        self.fail()
        self.peers[name].lose_session()

    def make_late_commit(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.late > 0)
        self.commits += 1
        self.kept += peer.late
        peer.late = 0

    def end_session(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.late > 0 or (peer.session == "none" and peer.has_lock))
        peer.late, peer.has_lock = 0, peer.has_lock and peer.session != "none"

    def lose_lock(self, name: int) -> None:
        require(self.peers[name].has_lock and self.peers[name].session != "none")
        self.fail()
        self.peers[name].has_lock = False

    def reconnect_store(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.phase == "open" and peer.session == "none")
        try:
            was_made = peer.owned.was_made(self.epoch, self.commits, "other")
            self.require_lock()
            peer.owned.reconnect(was_made=was_made)
        except (StoreTakenOverError, StoreWriteError):
            peer.stop()
            return
        peer.session, peer.has_lock = "idle", True
        if was_made:
            self.confirm(peer)

    def fail_writes(self, name: int) -> None:
        peer = self.peers[name]
        require(peer.phase == "open" and peer.session == "none" and peer.running + peer.waiting > 0)
        if peer.running:
            peer.running = 0
        else:
            peer.waiting = 0
        peer.owned.fail_writes()

    def die(self, name: int) -> None:
        require(self.peers[name].phase in ("taking", "open"))
        self.fail()
        self.peers[name].stop()

    def observe(self) -> State:
        return State(
            epoch=self.epoch,
            commits=self.commits,
            kept=self.kept,
            jobs=self.jobs,
            confirmed=self.confirmed,
            faults=self.faults,
            exchanges=Members([peer.observe() for peer in self.peers]),
        )


@pytest.mark.parametrize("parameters", [TWO_OWNERS, GROUPS], ids=["two owners", "groups"])
def test_the_owners_take_every_edge_of_the_model(parameters: Parameters) -> None:
    done = walk(SYSTEM, DrivenStore(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 300


class Forgetful(StoreOwnership):
    """It forgets that a commit was sent."""

    def send_commit(self) -> None:
        """Nothing is noted."""


class Hopeful(StoreOwnership):
    """It goes on though the store has what was refused."""

    def fail_writes(self) -> None:
        """Nothing is noted."""


@pytest.mark.parametrize("wrong", [Forgetful, Hopeful])
def test_the_walk_notices_an_owner_that_is_wrong(wrong: type[StoreOwnership]) -> None:
    few = replace(GROUPS, faults=1)
    driven = DrivenStore(few)
    driven.ownership = wrong
    with pytest.raises(Divergence, match=r"is_uncertain|is_refused"):
        walk(SYSTEM, driven, few)
