----------------------------- MODULE StoreJournal -----------------------------
(***************************************************************************)
(* One exchange writes its store on a disk.  All that waits is one commit  *)
(* of the database's log; each commit is counted in a journal beside it.   *)
(*                                                                         *)
(*   Submit -> waiting -WriteCommit-> log -FlushCommit-> kept              *)
(*          <- confirmed <-ConfirmWrites- slotsKept <-FlushNote- slots     *)
(*                                                    <-NoteCommit-        *)
(*                                                                         *)
(* A disk keeps what was flushed.  Of what was written since, a power      *)
(* failure keeps any beginning of the log, and of a slot of the journal    *)
(* the old record, the new one, or none that can be read.  A process that  *)
(* is killed loses nothing that it has written.  Besides, somebody may cut *)
(* off the log, put back an older copy, or damage a slot; SQLite says      *)
(* nothing, and takes the newest commits for never made.  Opening the      *)
(* store must notice if a confirmed commit is missing.                     *)
(*                                                                         *)
(* A flush of the log may fail.  SQLite then goes on as if the commit had  *)
(* never been, and the next one is written over it; but until then it is   *)
(* in the log for a process that opens it again.                           *)
(*                                                                         *)
(* Source: the write-ahead log of SQLite, flushed at each commit.          *)
(* Not modelled: what is written, what makes room on a full disk, a flush  *)
(* that lies, several copies of one moment put back together, which are an *)
(* older store, and a removed log that a power failure brings back.        *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Commits,      \* commits at most
    Faults,       \* kills, power failures, and disks that cannot be written or flushed, at most
    Losses        \* times that somebody takes something away that was flushed, at most

ASSUME Assumption == {Commits, Faults, Losses} \subseteq Nat

VARIABLES
    phase,        \* of the writer: what it has done of a commit, or "down", "opening", "stopped", "refused";
                  \* "failed" is idle, and the log may have a commit whose flush failed
    waits,        \* does something wait to be written?
    log,          \* commits in the database and its log, as a program sees them that opens it
    kept,         \* ... that a power failure leaves
    slots,        \* of the journal: in each the number of a commit, as programs see it
    slotsKept,    \* ... that was flushed
    confirmed,    \* the newest commit of which somebody was told
    faults,       \* so far
    losses        \* so far

disk == <<log, kept, slots, slotsKept>>

vars == <<phase, waits, disk, confirmed, faults, losses>>

Damaged == -1

Init ==
    /\ phase = "idle" /\ waits = FALSE
    /\ log = 0 /\ kept = 0
    /\ slots = [even |-> 0, odd |-> 0] /\ slotsKept = [even |-> 0, odd |-> 0]
    /\ confirmed = 0 /\ faults = 0 /\ losses = 0

\* They are written in turn.
Noted(pair, number) == IF number % 2 = 0 THEN [pair EXCEPT !.even = number] ELSE [pair EXCEPT !.odd = number]

\* The newest record that can be read.
Last(pair) == IF pair.even > pair.odd THEN pair.even ELSE pair.odd

\* Is the other one what was written before it?
IsWhole(pair) ==
    /\ pair.even # Damaged /\ pair.odd # Damaged
    /\ pair.even - pair.odd \in {-1, 0, 1}

\* Are all commits there that may have been confirmed?
Opens == Last(slots) # Damaged /\ (log = Last(slots) + 1 \/ (log = Last(slots) /\ IsWhole(slots)))

IsUp == phase \notin {"down", "refused"}

IsIdle == phase \in {"idle", "failed"}

Fails == faults < Faults /\ faults' = faults + 1

Loses == losses < Losses /\ losses' = losses + 1

-----------------------------------------------------------------------------

\* A write waits; the next commit has it.
Submit ==
    /\ phase \in {"idle", "failed", "written", "flushed", "noted", "sure"} /\ ~waits /\ log < Commits
    /\ waits' = TRUE
    /\ UNCHANGED <<phase, disk, confirmed, faults, losses>>

\* The disk fails to flush the log: the senders are told so, and only opening the store tells whether it has the commit.
FailFlush ==
    /\ phase = "written" /\ Fails
    /\ phase' = "failed"
    /\ UNCHANGED <<waits, disk, confirmed, losses>>

\* The journal cannot be written: nothing is confirmed any more, whatever the database has.
FailJournal ==
    /\ phase \in {"flushed", "noted"} /\ Fails
    /\ phase' = "stopped" /\ waits' = FALSE
    /\ UNCHANGED <<disk, confirmed, losses>>

\* The exchange ends when nothing waits, or because of the journal; a commit whose flush failed is not there any more.
StopStore ==
    /\ phase = "stopped" \/ (IsIdle /\ ~waits)
    /\ phase' = "down"
    /\ log' = IF IsIdle THEN Last(slots) ELSE log
    /\ UNCHANGED <<waits, kept, slots, slotsKept, confirmed, faults, losses>>

\* Its process is killed: the kernel still has what it has written.
KillStore ==
    /\ IsUp /\ Fails
    /\ phase' = "down" /\ waits' = FALSE
    /\ UNCHANGED <<disk, confirmed, losses>>

\* The disk is full: nothing of what waits is there, and perhaps no commit any more whose flush failed before.
RefuseWrites(commit) ==
    /\ IsIdle /\ waits /\ Fails
    /\ commit \in Last(slots) .. log
    /\ phase' = IF commit = Last(slots) THEN "idle" ELSE phase
    /\ waits' = FALSE
    /\ log' = commit
    /\ UNCHANGED <<kept, slots, slotsKept, confirmed, losses>>

\* The machine dies: the log has some of what was not flushed; of a slot, 0: the old record, 1: the new one, 2: neither.
FailPower(commit, slot) ==
    LET written == IF slots.even # slotsKept.even THEN "even" ELSE "odd" IN
    /\ phase # "refused" /\ Fails
    /\ commit \in kept .. log
    /\ slots = slotsKept => slot = 0
    /\ phase' = "down" /\ waits' = FALSE
    /\ log' = commit /\ kept' = commit
    /\ slots' = IF slot = 0 THEN slotsKept ELSE IF slot = 1 THEN slots ELSE [slotsKept EXCEPT ![written] = Damaged]
    /\ slotsKept' = slots'
    /\ UNCHANGED <<confirmed, losses>>

\* Somebody cuts off the log, or puts back an older copy.
LoseLog(commit) ==
    /\ phase = "down" /\ Loses
    /\ commit < log
    /\ log' = commit /\ kept' = commit
    /\ UNCHANGED <<phase, waits, slots, slotsKept, confirmed, faults>>

\* The newest record of the journal is damaged.
DamageJournal ==
    /\ phase = "down" /\ Loses /\ Last(slots) # Damaged
    /\ slots' = IF slots.even > slots.odd THEN [slots EXCEPT !.even = Damaged] ELSE [slots EXCEPT !.odd = Damaged]
    /\ slotsKept' = slots'
    /\ UNCHANGED <<phase, waits, log, kept, confirmed, faults>>

\* The store is refused, or all is written.
Done ==
    /\ phase = "refused" \/ (IsIdle /\ ~waits /\ log = Commits)
    /\ UNCHANGED vars

\* All that waits is one commit, which counts itself: behind the last one that was flushed.
WriteCommit ==
    /\ IsIdle /\ waits
    /\ phase' = "written" /\ waits' = FALSE
    /\ log' = Last(slots) + 1
    /\ UNCHANGED <<kept, slots, slotsKept, confirmed, faults, losses>>

\* It survives a power failure now.
FlushCommit ==
    /\ phase = "written"
    /\ phase' = "flushed"
    /\ kept' = log
    /\ UNCHANGED <<waits, log, slots, slotsKept, confirmed, faults, losses>>

\* The journal has its number, in the slot that is not the one of the commit before.
NoteCommit ==
    /\ phase = "flushed"
    /\ phase' = "noted"
    /\ slots' = Noted(slots, log)
    /\ UNCHANGED <<waits, log, kept, slotsKept, confirmed, faults, losses>>

\* That survives a power failure, too.
FlushNote ==
    /\ phase = "noted"
    /\ phase' = "sure"
    /\ slotsKept' = slots
    /\ UNCHANGED <<waits, log, kept, slots, confirmed, faults, losses>>

\* Its senders are told, or those who ask what is there.
ConfirmWrites ==
    /\ phase = "sure"
    /\ phase' = "idle"
    /\ confirmed' = log
    /\ UNCHANGED <<waits, disk, faults, losses>>

\* The store is opened again: all that was confirmed is there.
OpenStore ==
    /\ phase = "down" /\ Opens
    /\ phase' = "opening"
    /\ UNCHANGED <<waits, disk, confirmed, faults, losses>>

\* What is there may be in the kernel's memory only: it is written once more and flushed before anybody hears of it.
SettleStore ==
    /\ phase = "opening"
    /\ phase' = "flushed"
    /\ kept' = log
    /\ UNCHANGED <<waits, log, slots, slotsKept, confirmed, faults, losses>>

\* Something may be missing.
RefuseStore ==
    /\ phase = "down" /\ ~Opens
    /\ phase' = "refused"
    /\ UNCHANGED <<waits, disk, confirmed, faults, losses>>

Environment ==
    \/ Done \/ Submit \/ FailFlush \/ FailJournal \/ StopStore \/ KillStore \/ DamageJournal
    \/ \E commit \in 0 .. Commits : RefuseWrites(commit)
    \/ \E commit \in 0 .. Commits : LoseLog(commit) \/ \E slot \in 0 .. 2 : FailPower(commit, slot)

Protocol ==
    \/ WriteCommit \/ FlushCommit \/ NoteCommit \/ FlushNote \/ ConfirmWrites
    \/ OpenStore \/ SettleStore \/ RefuseStore

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ phase \in {"idle", "failed", "written", "flushed", "noted", "sure", "stopped", "down", "opening", "refused"}
    /\ waits \in BOOLEAN
    /\ {log, confirmed} \subseteq 0 .. Commits /\ kept \in 0 .. log
    /\ {slots.even, slots.odd, slotsKept.even, slotsKept.odd} \subseteq Damaged .. Commits
    /\ {faults, losses} \subseteq Nat

\* What was confirmed survives a power failure, if nobody takes it away.
Durable == losses = 0 => confirmed <= kept

\* Also if something was taken away, a store that is open has all that was confirmed.
LossNoticed == IsUp => confirmed <= log

\* If nobody takes anything away, the store opens.
NeverRefused == losses = 0 => phase # "refused"

\* What was refused is not there, but for a commit whose flush failed, or its note in the journal: only opening tells.
RefusedIsGone == phase = "idle" => log = Last(slots)

\* The journal knows of no commit that a power failure may take.
NotedIsKept == losses = 0 => Last(slots) <= kept

\* False: a store that opens has nothing but what was confirmed.
NothingMoreProbe == phase = "opening" => log = confirmed

\* False: only a lost log makes a store refuse.
LostLogProbe == phase = "refused" => log < confirmed
=============================================================================
