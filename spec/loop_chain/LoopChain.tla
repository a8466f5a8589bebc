------------------------------ MODULE LoopChain ------------------------------
(***************************************************************************)
(* A chain of control loops, each with demand (Demand.tla): what a stage   *)
(* consumes of one loop, it sends into the next one, and it consumes only  *)
(* what it can send on.                                                    *)
(*                                                                         *)
(*   source --Send--> [loop 1] --HandOn--> [loop 2] ... --Consume--> sink  *)
(*                                                                         *)
(* So a slow sink holds up the stage before it, and that one the stage     *)
(* before, up to the source.  Messages are counted, and not told apart:    *)
(* that each loop keeps them all and in order is shown in Demand.          *)
(*                                                                         *)
(* Source: demand at each asynchronous boundary, as in Akka Streams.       *)
(* Not modelled: stages that filter or expand, branches, the order of      *)
(* messages.                                                               *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Loops,        \* loops of the chain
    Size,         \* messages that may be out at once in each loop but the last
    Batch,        \* ... the receiver requests more once it has consumed this many
    LastSize,     \* the same of the last loop
    LastBatch,    \* likewise
    Waiters,      \* messages that may wait at the source
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Loops, Size, Batch, LastSize, LastBatch, Waiters} \subseteq Nat \ {0}
    /\ Fair \subseteq {"Send", "Deliver", "HandOn", "Consume", "Request"}

VARIABLES
    waiting,      \* messages that wait at the source
    loops         \* the loops, from the source on: Opened says what one consists of

vars == <<waiting, loops>>

Names == 1 .. Loops

Opened(size, batch) ==
    [size        |-> size,
     batch       |-> batch,
     credit      |-> size,   \* messages that may leave at once
     wire        |-> 0,      \* messages in flight
     inbox       |-> 0,      \* messages received, not yet consumed
     unrequested |-> 0,      \* consumed messages for which no more were requested yet
     requests    |-> 0]      \* requested messages, the requests still in flight

Init ==
    /\ waiting = 0
    /\ loops = [i \in Names |-> IF i = Loops THEN Opened(LastSize, LastBatch) ELSE Opened(Size, Batch)]

-----------------------------------------------------------------------------

\* A message leaves.
Sent(loop) == [loop EXCEPT !.credit = @ - 1, !.wire = @ + 1]

\* A message is consumed: a whole batch of them is requested again.
Consumed(loop) ==
    LET unrequested == loop.unrequested + 1 IN
    [loop EXCEPT
        !.inbox = @ - 1,
        !.unrequested = IF unrequested >= loop.batch THEN 0 ELSE unrequested,
        !.requests = IF unrequested >= loop.batch THEN @ + unrequested ELSE @]

\* The source has a message.
Offer ==
    /\ waiting < Waiters
    /\ waiting' = waiting + 1
    /\ UNCHANGED loops

\* The source sends it into the first loop.
Send ==
    /\ waiting > 0 /\ loops[1].credit > 0
    /\ waiting' = waiting - 1
    /\ loops' = [loops EXCEPT ![1] = Sent(@)]

\* A message arrives at the receiver of a loop.
Deliver(i) ==
    /\ loops[i].wire > 0
    /\ loops' = [loops EXCEPT ![i].wire = @ - 1, ![i].inbox = @ + 1]
    /\ UNCHANGED waiting

\* A stage consumes a message, because it can send it into the next loop.
HandOn(i) ==
    /\ i < Loops /\ loops[i].inbox > 0 /\ loops[i + 1].credit > 0
    /\ loops' = [loops EXCEPT ![i] = Consumed(@), ![i + 1] = Sent(@)]
    /\ UNCHANGED waiting

\* The sink consumes a message.
Consume ==
    /\ loops[Loops].inbox > 0
    /\ loops' = [loops EXCEPT ![Loops] = Consumed(@)]
    /\ UNCHANGED waiting

\* A request for one message arrives at the sender of a loop.
Request(i) ==
    /\ loops[i].requests > 0
    /\ loops' = [loops EXCEPT ![i].requests = @ - 1, ![i].credit = @ + 1]
    /\ UNCHANGED waiting

Environment == Offer

Protocol ==
    \/ Send \/ (\E i \in Names : Deliver(i)) \/ (\E i \in Names : HandOn(i))
    \/ Consume \/ (\E i \in Names : Request(i))

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ \A i \in Names :
        /\ "Deliver" \in Fair => WF_vars(Deliver(i))
        /\ "HandOn" \in Fair => WF_vars(HandOn(i))
        /\ "Request" \in Fair => WF_vars(Request(i))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

TypeOK ==
    /\ waiting \in 0 .. Waiters
    /\ DOMAIN loops = Names
    /\ \A i \in Names :
        /\ {loops[i].credit, loops[i].wire, loops[i].inbox, loops[i].unrequested, loops[i].requests} \subseteq Nat
        /\ loops[i].unrequested < loops[i].batch

\* In each loop the messages that may be out are conserved.
Conservation ==
    \A i \in Names :
        loops[i].credit + loops[i].wire + loops[i].inbox + loops[i].unrequested + loops[i].requests = loops[i].size

\* The chain holds no more than its loops together may.
Bounded ==
    Sum([i \in Names |-> loops[i].wire + loops[i].inbox]) <= Sum([i \in Names |-> loops[i].size])

\* As long as a message waits or is in the chain, something moves.  Needs batches of at most the sizes.
NeverStuck == (waiting > 0 \/ \E i \in Names : loops[i].wire + loops[i].inbox > 0) => ENABLED Protocol

\* What waits at the source leaves, again and again.
SourceGoesOn == (waiting > 0) ~> (waiting < Waiters)

\* False: a slow sink holds up the source.
SourceNeverWaitsProbe == waiting > 0 => loops[1].credit > 0

\* False: a chain whose sink consumes nothing is full in all its loops.
ChainNeverFullProbe == \E i \in Names : loops[i].inbox < loops[i].size
=============================================================================
