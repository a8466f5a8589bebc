---------------------------- MODULE BoundedQueue ----------------------------
(***************************************************************************)
(* What a user of a channel sees: a queue of chunks.  A chunk goes in when *)
(* there is room for it, and the oldest comes out.  No wires, no permits,  *)
(* no batches.  PermitChannelRefinement: a permit channel is such a queue. *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Bound,        \* the chunks in the queue cost no more than this together
    Costs,        \* what a chunk may cost
    Ids,          \* what chunks may be called
    Line          \* chunks that may wait to go in at once

VARIABLES
    asked,        \* chunks that wait to go in, oldest first
    queue         \* chunks that are in the queue, oldest first

queueVars == <<asked, queue>>

RECURSIVE Total(_)
Total(chunks) == IF chunks = <<>> THEN 0 ELSE Head(chunks).cost + Total(Tail(chunks))

InitQueue == asked = <<>> /\ queue = <<>>

-----------------------------------------------------------------------------

\* Somebody wants to put a chunk in.
Offer ==
    /\ Len(asked) < Line
    /\ \E id \in Ids, cost \in Costs : asked' = Append(asked, [id |-> id, cost |-> cost])
    /\ UNCHANGED queue

\* Somebody gives up: the newest chunk that waits is not put in.
Withdraw == asked # <<>> /\ asked' = SubSeq(asked, 1, Len(asked) - 1) /\ UNCHANGED queue

CanPut == asked # <<>> /\ Total(queue) + Head(asked).cost <= Bound

\* The oldest chunk that waits goes in.
Put == CanPut /\ queue' = Append(queue, Head(asked)) /\ asked' = Tail(asked)

CanGet == queue # <<>>

\* The oldest chunk comes out.
Get == CanGet /\ queue' = Tail(queue) /\ UNCHANGED asked

NextQueue == Offer \/ Withdraw \/ Put \/ Get

SafeQueue == InitQueue /\ [][NextQueue]_queueVars

\* Weak fairness, written out: through a refinement mapping TLC cannot find out when Put is enabled.
PutFairly == []<>(~CanPut) \/ []<><<Put>>_queueVars

GetFairly == []<>(~CanGet) \/ []<><<Get>>_queueVars

SpecQueue == SafeQueue /\ PutFairly /\ GetFairly

-----------------------------------------------------------------------------

NeverAboveBound == Total(queue) <= Bound

\* The formula above is weak fairness, written out.
CanMeansEnabled == (CanPut = ENABLED Put) /\ (CanGet = ENABLED Get)
=============================================================================
