------------------------------ MODULE StoreOwner ------------------------------
(***************************************************************************)
(* Exchanges that share a store in a database.  One owns it; others stand  *)
(* by, and take it when the owner is gone.  The owner commits the jobs     *)
(* that wait as one transaction, and confirms them when that is durable.   *)
(*                                                                         *)
(*   Submit -> waiting -BeginTransaction-> running -SendCommit-> database  *)
(*          <- confirmed <-ConfirmCommit- made <-MakeCommit-               *)
(*                                                                         *)
(* A connection may be lost at any point, so that nobody knows whether the *)
(* database has made, or will still make, the commit that was under way.   *)
(* Three things decide what is safe: a lock, which a session holds and may *)
(* lose; an epoch, one more for each owner; and the number of commits.     *)
(* Each transaction requires epoch and number, and holds the row that has  *)
(* them until it is made or undone.                                        *)
(*                                                                         *)
(* Jobs are counted.  A group is refused as a whole here; the exchange     *)
(* then tries its jobs one by one, in transactions like these.             *)
(*                                                                         *)
(* Source: fencing tokens; PostgreSQL's advisory locks and row locks.      *)
(* Not modelled: a database that loses what it has flushed (the number of  *)
(* commits shows it), what the jobs write, how long each waits.            *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Exchanges,    \* exchanges that may own the store, one after the other
    Jobs,         \* jobs that are submitted at most
    Faults        \* sessions and locks that are lost, and exchanges that die, at most

ASSUME Assumption == Exchanges \in Nat \ {0} /\ {Jobs, Faults} \subseteq Nat

VARIABLES
    epoch,        \* of the owner, in the database
    commits,      \* the number of commits, in the same row
    kept,         \* jobs in the database
    jobs,         \* jobs that were submitted
    confirmed,    \* jobs whose senders were told that they are durable
    faults,       \* so far
    exchanges     \* Before says what one consists of

database == <<epoch, commits, kept>>

vars == <<database, jobs, confirmed, faults, exchanges>>

Names == 1 .. Exchanges

Before ==
    [phase       |-> "standby",  \* then "taking", "open", "stopped"
     epoch       |-> 0,          \* its own
     commit      |-> 0,          \* the number of the last commit that it knows of
     seen        |-> 0,          \* jobs in its memory: read when it took the store, and confirmed since
     waiting     |-> 0,          \* jobs that wait for a transaction
     running     |-> 0,          \* ... that are in one
     isUncertain |-> FALSE,      \* was a commit sent that was not answered?
     isRefused   |-> FALSE,      \* were its jobs refused all the same?
     session     |-> "none",     \* its transaction: "idle", "begun", "sent", "made", which is not yet heard
     hasLock     |-> FALSE,      \* as the database sees it, also of a session that was lost
     late        |-> 0]          \* jobs of a session that was lost, whose commit may still be made

Init ==
    /\ epoch = 0 /\ commits = 0 /\ kept = 0
    /\ jobs = 0 /\ confirmed = 0 /\ faults = 0
    /\ exchanges = [e \in Names |-> Before]

UnderWay(one) == one.session \in {"begun", "sent"}

\* No session has the lock.
LockFree == \A e \in Names : ~exchanges[e].hasLock

\* No transaction has the row.
RowFree == \A e \in Names : ~UnderWay(exchanges[e]) /\ exchanges[e].late = 0

IsOwn(one) == one.epoch = epoch

\* It does nothing any more; the database may not know yet.
Stopped(one) ==
    [one EXCEPT
        !.phase = "stopped", !.waiting = 0, !.running = 0, !.isUncertain = FALSE, !.isRefused = FALSE,
        !.session = "none", !.late = IF one.session = "sent" THEN one.running ELSE @]

\* It knows that its commit was made.
Confirmed(one) ==
    [one EXCEPT
        !.commit = @ + 1, !.seen = @ + one.running, !.running = 0, !.isUncertain = FALSE, !.session = "idle"]

Fails == faults < Faults /\ faults' = faults + 1

-----------------------------------------------------------------------------

\* A standby takes the store: it has the lock, and increments the epoch before it reads.
TakeStore(e) ==
    /\ exchanges[e].phase = "standby" /\ LockFree /\ RowFree
    /\ epoch' = epoch + 1
    /\ exchanges' = [exchanges EXCEPT
           ![e].phase = "taking", ![e].epoch = epoch + 1, ![e].commit = commits,
           ![e].session = "idle", ![e].hasLock = TRUE]
    /\ UNCHANGED <<commits, kept, jobs, confirmed, faults>>

\* It reads all there is.
LoadStore(e) ==
    /\ exchanges[e].phase = "taking"
    /\ exchanges' = [exchanges EXCEPT ![e].phase = "open", ![e].seen = kept]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* A job is submitted.
Submit(e) ==
    /\ exchanges[e].phase = "open" /\ jobs < Jobs
    /\ jobs' = jobs + 1
    /\ exchanges' = [exchanges EXCEPT ![e].waiting = @ + 1]
    /\ UNCHANGED <<database, confirmed, faults>>

\* A transaction of all that wait, or again of those whose transaction was not made: if epoch and number are its own.
BeginTransaction(e) ==
    LET one == exchanges[e] IN
    /\ one.phase = "open" /\ one.session = "idle" /\ one.running + one.waiting > 0
    /\ RowFree
    /\ exchanges' = [exchanges EXCEPT ![e] =
           IF ~(IsOwn(one) /\ one.commit = commits) THEN Stopped(one)
           ELSE IF one.running > 0 THEN [one EXCEPT !.session = "begun"]
           ELSE [one EXCEPT !.session = "begun", !.running = one.waiting, !.waiting = 0]]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* The commit is sent to the database.
SendCommit(e) ==
    /\ exchanges[e].session = "begun"
    /\ exchanges' = [exchanges EXCEPT ![e].session = "sent", ![e].isUncertain = TRUE]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* The database makes it, durably.
MakeCommit(e) ==
    /\ exchanges[e].session = "sent"
    /\ commits' = commits + 1
    /\ kept' = kept + exchanges[e].running
    /\ exchanges' = [exchanges EXCEPT ![e].session = "made"]
    /\ UNCHANGED <<epoch, jobs, confirmed, faults>>

\* The owner learns of it, and confirms.
ConfirmCommit(e) ==
    /\ exchanges[e].session = "made"
    /\ confirmed' = confirmed + exchanges[e].running
    /\ exchanges' = [exchanges EXCEPT ![e] = Confirmed(@)]
    /\ UNCHANGED <<database, jobs, faults>>

\* The database undoes a transaction, and says so: its jobs are refused.
Undo(e) ==
    /\ UnderWay(exchanges[e])
    /\ exchanges' = [exchanges EXCEPT ![e].session = "idle", ![e].running = 0, ![e].isUncertain = FALSE]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* The connection is lost.
LoseSession(e) ==
    /\ exchanges[e].phase = "open" /\ exchanges[e].session # "none"
    /\ Fails
    /\ exchanges' = [exchanges EXCEPT
           ![e].session = "none",
           ![e].late = IF exchanges[e].session = "sent" THEN exchanges[e].running ELSE @]
    /\ UNCHANGED <<database, jobs, confirmed>>

\* The database makes the commit of a session that was lost.
MakeLateCommit(e) ==
    /\ exchanges[e].late > 0
    /\ commits' = commits + 1
    /\ kept' = kept + exchanges[e].late
    /\ exchanges' = [exchanges EXCEPT ![e].late = 0]
    /\ UNCHANGED <<epoch, jobs, confirmed, faults>>

\* The database ends a session that was lost: it undoes its transaction, and frees its lock.
EndSession(e) ==
    LET one == exchanges[e] IN
    /\ one.late > 0 \/ (one.session = "none" /\ one.hasLock)
    /\ exchanges' = [exchanges EXCEPT ![e].late = 0, ![e].hasLock = @ /\ one.session # "none"]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* A session's lock is lost, and its transactions go on: a pool between exchange and database has changed sessions.
LoseLock(e) ==
    /\ exchanges[e].hasLock /\ exchanges[e].session # "none"
    /\ Fails
    /\ exchanges' = [exchanges EXCEPT ![e].hasLock = FALSE]
    /\ UNCHANGED <<database, jobs, confirmed>>

\* The owner connects again: epoch and number tell whether the commit was made, and whether it still owns the store.
ReconnectStore(e) ==
    LET one == exchanges[e]
        wasMade == one.isUncertain /\ commits = one.commit + 1
        isOwn == IsOwn(one) /\ (wasMade \/ commits = one.commit)
        stops == ~isOwn \/ (LockFree /\ wasMade /\ one.isRefused)
        connected == [one EXCEPT !.isUncertain = FALSE, !.isRefused = FALSE, !.session = "idle", !.hasLock = TRUE]
    IN
    /\ one.phase = "open" /\ one.session = "none"
    /\ stops \/ LockFree
    /\ exchanges' = [exchanges EXCEPT ![e] =
           IF stops THEN Stopped(one) ELSE IF wasMade THEN Confirmed(connected) ELSE connected]
    /\ confirmed' = IF ~stops /\ wasMade THEN confirmed + one.running ELSE confirmed
    /\ UNCHANGED <<database, jobs, faults>>

\* The connection does not come back: the jobs are refused, though perhaps their commit was made.
FailWrites(e) ==
    LET one == exchanges[e] IN
    /\ one.phase = "open" /\ one.session = "none" /\ one.running + one.waiting > 0
    /\ exchanges' = [exchanges EXCEPT
           ![e].running = 0,
           ![e].waiting = IF one.running > 0 THEN @ ELSE 0,
           ![e].isRefused = one.isUncertain]
    /\ UNCHANGED <<database, jobs, confirmed, faults>>

\* An exchange dies.
Die(e) ==
    /\ exchanges[e].phase \in {"taking", "open"}
    /\ Fails
    /\ exchanges' = [exchanges EXCEPT ![e] = Stopped(@)]
    /\ UNCHANGED <<database, jobs, confirmed>>

\* Nothing is under way: each exchange rests, or has stopped.
Done ==
    /\ \A e \in Names :
        /\ exchanges[e].late = 0 /\ exchanges[e].running + exchanges[e].waiting = 0
        /\ exchanges[e].phase # "taking"
        /\ exchanges[e].phase = "open" => exchanges[e].session = "idle"
    /\ UNCHANGED vars

Environment == Done \/ \E e \in Names : Submit(e) \/ Undo(e) \/ LoseSession(e) \/ LoseLock(e) \/ Die(e)

Protocol == \E e \in Names :
    \/ TakeStore(e) \/ LoadStore(e) \/ BeginTransaction(e) \/ SendCommit(e) \/ MakeCommit(e) \/ ConfirmCommit(e)
    \/ MakeLateCommit(e) \/ EndSession(e) \/ ReconnectStore(e) \/ FailWrites(e)

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ {epoch, commits, kept, jobs, confirmed, faults} \subseteq Nat
    /\ \A e \in Names :
        /\ exchanges[e].phase \in {"standby", "taking", "open", "stopped"}
        /\ exchanges[e].session \in {"none", "idle", "begun", "sent", "made"}
        /\ {exchanges[e].waiting, exchanges[e].running, exchanges[e].late} \subseteq Nat
        /\ exchanges[e].epoch <= epoch /\ exchanges[e].commit <= commits /\ exchanges[e].seen <= kept
        /\ (exchanges[e].session # "none") => exchanges[e].phase \in {"taking", "open"}
        /\ exchanges[e].isRefused => exchanges[e].isUncertain

RECURSIVE Waiting(_)
Waiting(e) == IF e = 0 THEN 0 ELSE exchanges[e].waiting + Waiting(e - 1)

\* Nothing that was confirmed is lost.
Durable == confirmed <= kept

\* Nothing is kept twice, and nothing that was not taken from the line.
KeptOnce == kept + Waiting(Exchanges) <= jobs

\* A transaction is under way only of the owner, and on what the owner knows.
Fenced == \A e \in Names : UnderWay(exchanges[e]) => IsOwn(exchanges[e]) /\ exchanges[e].seen = kept

\* An owner whose number of commits is the store's has in memory what the store has.
MemoryIsCurrent == \A e \in Names :
    LET one == exchanges[e] IN
    (one.phase = "open" /\ IsOwn(one) /\ one.commit = commits) => one.seen = kept

\* ... and if a commit of its own was made that it has not heard of, that and nothing else.
Explained == \A e \in Names :
    LET one == exchanges[e] IN
    (one.phase = "open" /\ IsOwn(one) /\ one.commit # commits /\ one.isUncertain /\ ~one.isRefused)
        => commits = one.commit + 1 /\ kept = one.seen + one.running

\* Two exchanges never have the same epoch.
OneOwner ==
    \A e, f \in Names : (e # f /\ exchanges[e].epoch > 0) => exchanges[e].epoch # exchanges[f].epoch

\* Whose session has the lock has the newest epoch: no standby takes the store from an owner that is well.
LockOfNewest == \A e \in Names : exchanges[e].hasLock /\ exchanges[e].session # "none" => IsOwn(exchanges[e])

\* False: a commit is made only while its session is there.
LateCommitProbe ==
    \A e \in Names : exchanges[e].session = "none" /\ exchanges[e].phase = "open" => exchanges[e].commit = commits

\* False: a store is taken only when its owner is gone.
TakenOverProbe == \A e \in Names : exchanges[e].phase = "open" => IsOwn(exchanges[e])
=============================================================================
