------------------------ MODULE PermitChannelHistory ------------------------
(***************************************************************************)
(* How many messages the return of permits costs.  PermitChannel, with     *)
(* counters of what happened so far and with an end of the stream, at      *)
(* which the receiver returns its residue.                                 *)
(*                                                                         *)
(* Counters grow for ever; the guard of OfferCounted bounds them.  (A      *)
(* CONSTRAINT would cut behaviours short, and hide what happens there.)    *)
(***************************************************************************)
EXTENDS PermitChannel

CONSTANT
    Horizon            \* permits of all chunks that are offered before the stream ends

VARIABLES
    offeredPermits,    \* permits of all chunks offered so far
    consumedPermits,   \* permits of all chunks consumed so far
    grantMessages,     \* messages that returned row permits so far
    ended              \* has the stream ended?

counters == <<offeredPermits, consumedPermits, grantMessages>>

historyVars == <<vars, counters, ended>>

InitHistory ==
    /\ Init
    /\ offeredPermits = 0 /\ consumedPermits = 0 /\ grantMessages = 0
    /\ ended = FALSE

-----------------------------------------------------------------------------

\* Counts what it sees on the wire back, whatever the action says of itself.
Count(offer, consume) ==
    /\ offeredPermits' = offeredPermits + offer
    /\ consumedPermits' = consumedPermits + consume
    /\ grantMessages' =
           IF Len(grants') > Len(grants) /\ grants'[Len(grants')].rows > 0
           THEN grantMessages + 1
           ELSE grantMessages

OfferCounted(rows) == offeredPermits + Cost(rows) <= Horizon /\ OfferChunk(rows) /\ Count(Cost(rows), 0)

WithdrawCounted == WithdrawChunk /\ Count(- waiting[Len(waiting)].cost, 0)

ConsumeCounted == Consume /\ Count(0, Held(Head(inbox)).rows)

Other ==
    /\ \/ OfferBarrier \/ OfferWatermark \/ WithdrawBarrier
       \/ SendChunk \/ SendBarrier \/ SendWatermark \/ Deliver \/ Flush \/ AddPermits
    /\ Count(0, 0)

Idle == waiting = <<>> /\ watermarkPending = -1 /\ wire = <<>> /\ inbox = <<>>

\* Everything is consumed: the receiver returns what it still holds.
EndWithResidue ==
    /\ ~ended /\ Idle
    /\ ended' = TRUE
    /\ IF unreturned > 0
       THEN grants' = Append(grants, Permits(unreturned, 0, 0)) /\ unreturned' = 0
       ELSE UNCHANGED <<grants, unreturned>>
    /\ Count(0, 0)
    /\ UNCHANGED <<senderVars, newestWatermark, wire, consumed, inbox>>

\* The last permits are on their way home.
Settle == ended /\ AddPermits /\ Count(0, 0) /\ UNCHANGED ended

Done == ended /\ grants = <<>> /\ UNCHANGED historyVars

NextHistory ==
    \/ /\ ~ended
       /\ \/ \E rows \in Sizes : OfferCounted(rows)
          \/ WithdrawCounted \/ ConsumeCounted \/ Other
       /\ UNCHANGED ended
    \/ EndWithResidue \/ Settle \/ Done

SpecHistory == InitHistory /\ [][NextHistory]_historyVars

-----------------------------------------------------------------------------

\* Permits, not rows: an empty chunk costs one.  The 1 is the return at the end.
GrantBound == grantMessages <= consumedPermits \div PermitBatch + 1

GrantBoundBeforeEnd == ~ended => grantMessages <= consumedPermits \div PermitBatch

\* Both ends can check the ledger when the stream is closed.
WholeAtEnd == (ended /\ grants = <<>>) => permits = Total

\* The 1 in GrantBound is needed (TLC must violate this).
NoFinalGrantProbe == grantMessages <= consumedPermits \div PermitBatch

\* GrantBoundBeforeEnd is attained, and with more than one message (TLC must violate this).
GrantBoundNotReachedProbe ==
    (~ended /\ grantMessages > 1) => grantMessages < consumedPermits \div PermitBatch

\* Were GrantBound about rows, it would read so for empty chunks (TLC must violate this).
GrantBoundInRowsProbe == Sizes = {0} => grantMessages <= 0 + 1
=============================================================================
