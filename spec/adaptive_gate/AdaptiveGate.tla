---------------------------- MODULE AdaptiveGate ----------------------------
(***************************************************************************)
(* A gate that changes how many floating buffers it lends while it runs.   *)
(*                                                                         *)
(*                 lent: at most the target           the pool             *)
(*    channels  <--------------Borrow-------------  target  | withheld     *)
(*              ----ConsumeData, ConsumeEnd, ...->                         *)
(*                                                                         *)
(* The pool lends while less than the target is lent.  So a target that    *)
(* falls takes nothing back: floating buffers go home as data is consumed, *)
(* as ever, and are not lent again.  No buffer is made or lost, and all    *)
(* else is as in InputGate: senders, wires and barriers know nothing of a  *)
(* target.                                                                 *)
(*                                                                         *)
(* Source: Flink's buffer debloating.  It makes the buffers of a gate      *)
(* smaller; here a buffer is a row, and there are fewer of them.           *)
(* Not modelled: how the target is measured; it may be anything from Floor *)
(* on at any time.  Exclusive buffers, which are never withheld.           *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Inputs,       \* these are those of InputGate
    Exclusive,    \* buffers that each channel has of its own
    Floating,     \* buffers of the pool: the largest target
    Backlog,      \* data and barriers of a channel that may be offered and not yet consumed
    Epochs,       \* as in InputGate, like the others up to Losses
    Revoke,       \* does a barrier take back all credit?
    Skip,         \* so many barriers may an input leave out at once
    Ends,         \* inputs may end
    Losses,       \* inputs may be lost
    Floor,        \* a target is at least this
    Fair          \* names of the actions that are weakly fair; "BorrowInTurn": strongly, for each channel

VARIABLES
    channels,     \* the inputs
    pool,         \* floating buffers that no channel has
    epoch,        \* the number of the barrier that is pending, or may be next
    failed,       \* an input was lost
    target        \* so many floating buffers may be lent

Gate == INSTANCE InputGate

ASSUME Assumption == Floor \in 0 .. Floating

vars == <<channels, pool, epoch, failed, target>>

Names == 1 .. Inputs

-----------------------------------------------------------------------------

Init == Gate!Init /\ target = Floating

Lent == Floating - pool

\* The gate has measured its consumer: so many floating buffers may be lent.
Resize(goal) ==
    /\ goal # target /\ Floor <= goal /\ goal <= Floating
    /\ target' = goal
    /\ UNCHANGED <<channels, pool, epoch, failed>>

\* The pool lends one more, but none beyond the target.
Borrow(c) == Lent < target /\ Gate!Borrow(c) /\ UNCHANGED target

\* All else is as in InputGate.

OfferData(c) == Gate!OfferData(c) /\ UNCHANGED target

OfferBarrier(c) == Gate!OfferBarrier(c) /\ UNCHANGED target

OfferNewerBarrier(c) == Gate!OfferNewerBarrier(c) /\ UNCHANGED target

OfferEnd(c) == Gate!OfferEnd(c) /\ UNCHANGED target

LoseInput(c) == Gate!LoseInput(c) /\ UNCHANGED target

Done == Gate!Done /\ UNCHANGED target

SendData(c) == Gate!SendData(c) /\ UNCHANGED target

SendBarrier(c) == Gate!SendBarrier(c) /\ UNCHANGED target

AnnounceBacklog(c) == Gate!AnnounceBacklog(c) /\ UNCHANGED target

AddCredit(c) == Gate!AddCredit(c) /\ UNCHANGED target

ResumeConsumption(c) == Gate!ResumeConsumption(c) /\ UNCHANGED target

Deliver(c) == Gate!Deliver(c) /\ UNCHANGED target

ConsumeData(c) == Gate!ConsumeData(c) /\ UNCHANGED target

ConsumeBarrier(c) == Gate!ConsumeBarrier(c) /\ UNCHANGED target

ConsumeNewerBarrier(c) == Gate!ConsumeNewerBarrier(c) /\ UNCHANGED target

ConsumeOlderBarrier(c) == Gate!ConsumeOlderBarrier(c) /\ UNCHANGED target

ConsumeEnd(c) == Gate!ConsumeEnd(c) /\ UNCHANGED target

Grant(c) == Gate!Grant(c) /\ UNCHANGED target

Align == Gate!Align /\ UNCHANGED target

Environment ==
    \/ \E c \in Names : OfferData(c)
    \/ \E c \in Names : OfferBarrier(c)
    \/ \E c \in Names : OfferNewerBarrier(c)
    \/ \E c \in Names : OfferEnd(c)
    \/ \E c \in Names : LoseInput(c)
    \/ Done
    \/ \E goal \in 0 .. Floating : Resize(goal)

Protocol ==
    \/ \E c \in Names : SendData(c)
    \/ \E c \in Names : SendBarrier(c)
    \/ \E c \in Names : AnnounceBacklog(c)
    \/ \E c \in Names : AddCredit(c)
    \/ \E c \in Names : ResumeConsumption(c)
    \/ \E c \in Names : Deliver(c)
    \/ \E c \in Names : ConsumeData(c)
    \/ \E c \in Names : ConsumeBarrier(c)
    \/ \E c \in Names : ConsumeNewerBarrier(c)
    \/ \E c \in Names : ConsumeOlderBarrier(c)
    \/ \E c \in Names : ConsumeEnd(c)
    \/ \E c \in Names : Borrow(c)
    \/ \E c \in Names : Grant(c)
    \/ Align

Next == Environment \/ Protocol

Fairness ==
    /\ \A c \in Names :
        /\ "SendData" \in Fair => WF_vars(SendData(c))
        /\ "SendBarrier" \in Fair => WF_vars(SendBarrier(c))
        /\ "AnnounceBacklog" \in Fair => WF_vars(AnnounceBacklog(c))
        /\ "AddCredit" \in Fair => WF_vars(AddCredit(c))
        /\ "ResumeConsumption" \in Fair => WF_vars(ResumeConsumption(c))
        /\ "Deliver" \in Fair => WF_vars(Deliver(c))
        /\ "ConsumeData" \in Fair => WF_vars(ConsumeData(c))
        /\ "ConsumeBarrier" \in Fair => WF_vars(ConsumeBarrier(c))
        /\ "BorrowInTurn" \in Fair => SF_vars(Borrow(c))
        /\ "Grant" \in Fair => WF_vars(Grant(c))
    /\ "Align" \in Fair => WF_vars(Align)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

\* Each run is one of InputGate: so its invariants hold, whatever the targets.
IsGate == Gate!Init /\ [][Gate!Next]_<<channels, pool, epoch, failed>>

TypeOK == Gate!TypeOK

\* No buffer is made and none is lost.
Conservation == Gate!Conservation

\* The gate never stores more than it has buffers for.
Bounded == Gate!Bounded

\* Whatever is measured, the target is within its bounds.
TargetOK == target \in Floor .. Floating

\* Data here for which the channels' own buffers are not enough.
FloatingHere ==
    Gate!Sum([c \in Names |-> LET data == Gate!DataHere(channels[c]) IN IF data < Exclusive THEN 0 ELSE data - Exclusive])

\* Once no more is lent than the target, the target is the bound.
TargetBounds == Lent <= target => FloatingHere <= target

\* Where something waits and is not blocked, or nothing is waited for, the protocol can move.  Without exclusive buffers,
\* Floor must be at least 1.
NeverStuck ==
    ~failed /\ (Gate!Joined \/ \E c \in Names : Gate!Waits(channels[c])) => ENABLED Protocol

\* Nothing is lent beyond the target: while more is lent, only what comes home changes that.
ShrinksFirst == [][pool' < pool => Floating - pool' <= target']_vars

\* An alignment that all inputs have joined is completed, whatever is measured meanwhile.
AlignmentCompletes == Gate!AlignmentCompletes

\* Where no barrier stands in the way, each channel that has data is served, again and again.
DataIsSent ==
    \A c \in Names :
        <>[](channels[c].waiting # <<>> /\ \A d \in Names : ~Gate!HasBarrier(channels[d]))
            => []<><<SendData(c)>>_vars

\* False: what is lent when the target falls is lent.
WithinTargetProbe == Lent <= target

\* False: a target of less than the pool is reached, and holds something back that a channel needs.
NothingWithheldProbe == \A c \in Names : ~(Lent = target /\ ENABLED Gate!Borrow(c))
=============================================================================
