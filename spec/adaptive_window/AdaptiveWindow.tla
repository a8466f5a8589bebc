--------------------------- MODULE AdaptiveWindow ---------------------------
(***************************************************************************)
(* A permit channel whose receiver changes the window while it runs.       *)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting ----Send----> wire ---Deliver---> inbox ---Consume--> (done) *)
(*    permits <--AddPermits--- returned <----------- unreturned            *)
(*                                 ^---------------- withheld              *)
(*                                                                         *)
(* The window that both ends agreed upon is the most there ever is.  The   *)
(* receiver has a target below it.  Where more circulates than the target, *)
(* it withholds the permits of consumed chunks until the target is         *)
(* reached; where less does, it returns what it withholds.  So no permit   *)
(* is created and none is lost, and the sender knows nothing of a target:  *)
(* its permits return later.                                               *)
(*                                                                         *)
(* The batch, which is collected before anything returns, follows the      *)
(* target, because a target of less than a batch would stop the sender.    *)
(* The receiver may make it smaller than the agreed one, and not larger.   *)
(*                                                                         *)
(* An idle receiver returns all that it keeps.  So the sender learns that  *)
(* everything was consumed, and a chunk larger than the target passes.     *)
(*                                                                         *)
(* Source: Flink's buffer debloating, and RisingWave's wish to adjust its  *)
(* permits to the measured throughput.                                     *)
(* Not modelled: how the target is measured; it may be anything at any     *)
(* time.  Barriers and watermarks, whose permits are never withheld, and   *)
(* what is withheld at the start: PermitChannel.                           *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    RowPermits,   \* row permits of the channel: the agreed window, and the largest target
    PermitBatch,  \* the agreed batch, and the largest
    Room,         \* a target leaves room for a chunk of this cost beside what is collected
    RowCosts,     \* how many row permits a chunk may cost
    FlushIdle,    \* does an idle receiver return what it keeps?
    Waiters,      \* chunks that may wait at once
    Withdrawals,  \* may the sender give up waiting (a cancelled send)?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ RowPermits \in Nat \ {0} /\ PermitBatch \in Nat \ {0}
    /\ Room \in 1 .. RowPermits - PermitBatch + 1
    /\ RowCosts \subseteq Nat \ {0} /\ RowCosts # {}
    /\ Waiters \in Nat \ {0} /\ {FlushIdle, Withdrawals} \subseteq BOOLEAN
    /\ Fair \subseteq {"Send", "Deliver", "Consume", "Flush", "AddPermits"}

VARIABLES
    waiting,     \* what the chunks that wait cost, oldest first
    permits,     \* row permits at the sender
    wire,        \* chunks in flight
    inbox,       \* chunks received, not yet consumed
    unreturned,  \* row permits of consumed chunks, collected: less than a batch
    withheld,    \* row permits that the receiver keeps, because the target is smaller than the window
    returned,    \* row permits on their way back
    target,      \* how many row permits shall circulate
    batch        \* the receiver returns row permits once it has collected this many

senderVars == <<waiting, permits>>

receiverVars == <<unreturned, withheld, returned>>

aim == <<target, batch>>

vars == <<senderVars, wire, inbox, receiverVars, aim>>

-----------------------------------------------------------------------------

Least(a, b) == IF a < b THEN a ELSE b

Init ==
    /\ waiting = <<>> /\ permits = RowPermits
    /\ wire = <<>> /\ inbox = <<>>
    /\ unreturned = 0 /\ withheld = 0 /\ returned = 0
    /\ target = RowPermits /\ batch = PermitBatch

\* So much is collected, and these are the aims: what is more than the target is withheld, the rest returns.
Settle(collected, goal, size) ==
    LET complete == IF collected >= size THEN collected ELSE 0
        kept == Least(withheld + complete, RowPermits - goal)
    IN /\ unreturned' = collected - complete
       /\ withheld' = kept
       /\ returned' = returned + withheld + complete - kept

-----------------------------------------------------------------------------

\* The application wants to send a chunk.
Offer(rows) ==
    /\ Len(waiting) < Waiters
    /\ waiting' = Append(waiting, rows)
    /\ UNCHANGED <<permits, wire, inbox, receiverVars, aim>>

\* The application gives up waiting with its newest chunk.
Withdraw ==
    /\ Withdrawals /\ waiting # <<>>
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ UNCHANGED <<permits, wire, inbox, receiverVars, aim>>

\* The receiver has measured: so much shall circulate, and return in batches of this size.
Resize(goal, size) ==
    /\ <<goal, size>> # aim
    /\ size <= PermitBatch /\ goal <= RowPermits /\ Room <= goal - size + 1
    /\ target' = goal /\ batch' = size
    /\ Settle(unreturned, goal, size)
    /\ UNCHANGED <<senderVars, wire, inbox>>

\* The oldest chunk has its permits: it leaves.
Send ==
    /\ waiting # <<>> /\ Head(waiting) <= permits
    /\ permits' = permits - Head(waiting)
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ UNCHANGED <<inbox, receiverVars, aim>>

\* A chunk arrives at the receiver.
Deliver ==
    /\ wire # <<>>
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ UNCHANGED <<senderVars, receiverVars, aim>>

\* The application has consumed a chunk: a batch that is complete returns, but for what is withheld.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ Settle(unreturned + Head(inbox), target, batch)
    /\ UNCHANGED <<senderVars, wire, aim>>

\* An idle receiver returns what it has collected and what it withholds.
Flush ==
    /\ FlushIdle /\ inbox = <<>> /\ unreturned + withheld > 0
    /\ returned' = returned + unreturned + withheld
    /\ unreturned' = 0 /\ withheld' = 0
    /\ UNCHANGED <<senderVars, wire, inbox, aim>>

\* So many returned permits arrive at the sender.
AddPermits(rows) ==
    /\ rows <= returned
    /\ permits' = permits + rows /\ returned' = returned - rows
    /\ UNCHANGED <<waiting, wire, inbox, unreturned, withheld, aim>>

Environment ==
    \/ \E rows \in RowCosts : Offer(rows)
    \/ Withdraw
    \/ \E goal \in 1 .. RowPermits : \E size \in 1 .. PermitBatch : Resize(goal, size)

Protocol ==
    \/ Send \/ Deliver \/ Consume \/ Flush
    \/ \E rows \in 1 .. RowPermits : AddPermits(rows)

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "Flush" \in Fair => WF_vars(Flush)
    /\ "AddPermits" \in Fair => WF_vars(\E rows \in 1 .. RowPermits : AddPermits(rows))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Chunks(chunks) == \A i \in DOMAIN chunks : chunks[i] \in RowCosts

TypeOK ==
    /\ Len(waiting) <= Waiters
    /\ Chunks(waiting) /\ Chunks(wire) /\ Chunks(inbox)
    /\ {permits, unreturned, withheld, returned} \subseteq Nat

\* Whatever is measured, a chunk of Room fits beside what is collected.
AimOK ==
    /\ target <= RowPermits /\ batch \in 1 .. PermitBatch
    /\ Room <= target - batch + 1

RECURSIVE RowsIn(_)
RowsIn(chunks) == IF chunks = <<>> THEN 0 ELSE Head(chunks) + RowsIn(Tail(chunks))

\* Row permits are at the sender, held by a chunk, collected, withheld, or on their way back.
Conservation ==
    permits + RowsIn(wire) + RowsIn(inbox) + unreturned + withheld + returned = RowPermits

\* No target lets more into the channel than was agreed.
Bounded == RowsIn(wire) + RowsIn(inbox) <= RowPermits

\* Less than a batch is collected, however the batch changes.
Batched == unreturned < batch

\* At least the target circulates: what is withheld is at most the window less the target.
TargetKept == RowPermits - withheld >= target

\* Once as much is withheld as shall be, the target is the bound.
TargetBounds == withheld = RowPermits - target => RowsIn(wire) + RowsIn(inbox) <= target

\* A chunk that waits can still be served.  Needs RowCosts to be at most Room, or FlushIdle and at most RowPermits.
NeverStuck == waiting # <<>> => ENABLED Protocol

\* With the idle flush, a channel in which nothing can move has the whole window again, whatever the target.
WholeWhenIdle == (FlushIdle /\ ~ ENABLED Protocol) => permits = RowPermits

\* What returns is what exceeds the aim, but for a flush: a window that shrinks returns nothing.
ShrinksFirst == [][returned' > returned => withheld' = RowPermits - target' \/ Flush]_vars

\* Needs Waiters = 1.
EveryChunkLeaves == (waiting # <<>>) ~> (waiting = <<>>)

\* False: what is out when the target falls is out.
WithinTargetProbe == RowsIn(wire) + RowsIn(inbox) <= target

\* False: the target is reached, with permits that the receiver keeps.
TargetNotReachedProbe == target < RowPermits => withheld < RowPermits - target

\* False: with the flush, what was withheld comes back, and more than the target circulates again.
StaysShrunkProbe == target < RowPermits /\ waiting # <<>> /\ permits = RowPermits => returned > 0
=============================================================================
