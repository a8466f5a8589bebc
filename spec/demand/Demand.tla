------------------------------- MODULE Demand -------------------------------
(***************************************************************************)
(* The receiver asks for messages, and the sender sends what was asked for.*)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting ----Send----> wire ---Deliver---> inbox ---Consume--> (done) *)
(*    credit <----Request----- requests <-------------- unrequested        *)
(*                                     `-- RequestWithheld -- withheld     *)
(*                                                                         *)
(* Size messages may be out at once.  The receiver counts what it has      *)
(* consumed and requests Batch more at a time.  One rule, many schedules:  *)
(*                                                                         *)
(*    Size = 1                 stop-and-wait                               *)
(*    Batch = Size             full batches                                *)
(*    Batch = Size / 2         overlapping half batches, as Akka Streams   *)
(*    Initial = Size           push: the sender begins                     *)
(*    Initial = 0              pull: the sender waits until it is asked    *)
(*                                                                         *)
(* Messages wait in the order in which they were offered: chunks, barriers *)
(* and watermarks alike.                                                   *)
(*                                                                         *)
(* Source: Akka Streams and Pekko, BatchingActorInputBoundary: a request   *)
(* for half of the buffer at a time; Reactive Streams' request(n).         *)
(* Not modelled: rows (a message costs one), cancellation, the end of a    *)
(* stream.                                                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Size,         \* messages that may be out at once
    Batch,        \* the receiver requests more once it has consumed this many
    Initial,      \* messages that may be sent before any request; the receiver withholds the others
    Waiters,      \* messages that may wait at once
    Withdrawals,  \* may the sender give up waiting (a cancelled send)?
    Tags,         \* numbers of messages are taken modulo Tags; 1: they are anonymous
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ Size \in Nat \ {0} /\ Batch \in Nat \ {0} /\ Initial \in 0 .. Size
    /\ Waiters \in Nat \ {0} /\ Withdrawals \in BOOLEAN
    \* So many messages are in the line and in the channel at most.
    /\ Tags = 1 \/ (Tags \in Nat /\ Tags > Waiters + Size)
    /\ Fair \subseteq {"Send", "Deliver", "Consume", "RequestWithheld", "Request"}

VARIABLES
    offered,      \* number of the next message to be offered, modulo Tags
    consumed,     \* number of the next message to be consumed, modulo Tags
    waiting,      \* messages that wait, by their numbers, oldest first
    credit,       \* messages that may leave at once
    wire,         \* messages in flight
    inbox,        \* messages received, not yet consumed
    unrequested,  \* consumed messages for which no more were requested yet
    withheld,     \* messages that the receiver requests once its application asks
    requests      \* requested messages, the requests still in flight

vars == <<offered, consumed, waiting, credit, wire, inbox, unrequested, withheld, requests>>

Successor(id) == (id + 1) % Tags

Init ==
    /\ offered = 0 /\ consumed = 0
    /\ waiting = <<>> /\ credit = Initial
    /\ wire = <<>> /\ inbox = <<>>
    /\ unrequested = 0 /\ withheld = Size - Initial /\ requests = 0

-----------------------------------------------------------------------------

\* The application wants to send a message.
Offer ==
    /\ Len(waiting) < Waiters
    /\ waiting' = Append(waiting, offered)
    /\ offered' = Successor(offered)
    /\ UNCHANGED <<consumed, credit, wire, inbox, unrequested, withheld, requests>>

\* The application gives up waiting with its newest message.
Withdraw ==
    /\ Withdrawals /\ waiting # <<>>
    /\ offered' = waiting[Len(waiting)]
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ UNCHANGED <<consumed, credit, wire, inbox, unrequested, withheld, requests>>

\* A message was asked for: the oldest one leaves.
Send ==
    /\ waiting # <<>> /\ credit > 0
    /\ credit' = credit - 1
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ UNCHANGED <<offered, consumed, inbox, unrequested, withheld, requests>>

\* A message arrives at the receiver.
Deliver ==
    /\ wire # <<>>
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ UNCHANGED <<offered, consumed, waiting, credit, unrequested, withheld, requests>>

\* The application has consumed a message: a whole batch of them is requested again.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ consumed' = Successor(consumed)
    /\ IF unrequested + 1 >= Batch
       THEN requests' = requests + unrequested + 1 /\ unrequested' = 0
       ELSE unrequested' = unrequested + 1 /\ UNCHANGED requests
    /\ UNCHANGED <<offered, waiting, credit, wire, withheld>>

\* The application asks for a message for the first time: what was withheld is requested.
RequestWithheld ==
    /\ withheld > 0
    /\ requests' = requests + withheld
    /\ withheld' = 0
    /\ UNCHANGED <<offered, consumed, waiting, credit, wire, inbox, unrequested>>

\* A request for so many messages arrives at the sender; requests may be put together, or come in parts.
Request(count) ==
    /\ count <= requests
    /\ requests' = requests - count
    /\ credit' = credit + count
    /\ UNCHANGED <<offered, consumed, waiting, wire, inbox, unrequested, withheld>>

Sizes == 1 .. Size

Environment == Offer \/ Withdraw

Protocol == Send \/ Deliver \/ Consume \/ RequestWithheld \/ \E count \in Sizes : Request(count)

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "RequestWithheld" \in Fair => WF_vars(RequestWithheld)
    /\ "Request" \in Fair => WF_vars(\E count \in Sizes : Request(count))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Numbers(messages) == \A i \in DOMAIN messages : messages[i] \in 0 .. Tags - 1

TypeOK ==
    /\ {offered, consumed} \subseteq 0 .. Tags - 1
    /\ Len(waiting) <= Waiters
    /\ {credit, unrequested, withheld, requests} \subseteq Nat
    /\ Numbers(waiting) /\ Numbers(wire) /\ Numbers(inbox)

\* Size messages may be out: each may leave at once, is in the channel, was consumed, or is being asked for.
Conservation ==
    credit + Len(wire) + Len(inbox) + unrequested + requests + withheld = Size

\* The receiver never holds more messages than it has room for, and these include what its application holds.
Bounded == Len(wire) + Len(inbox) <= Size

\* Fewer than a batch of consumed messages wait for their request.
RequestsBatched == unrequested < Batch

\* A message that waits can still be served.  Needs Batch <= Size.
NeverStuck == waiting # <<>> => ENABLED Protocol

\* Messages are consumed in the order in which they were offered, each once.
ExactlyOnceInOrder ==
    LET pipe == inbox \o wire \o waiting IN
    /\ \A i \in DOMAIN pipe : pipe[i] = (consumed + i - 1) % Tags
    /\ offered = (consumed + Len(pipe)) % Tags

\* Needs Tags > 1 and Withdrawals = FALSE.
EveryMessageDelivered ==
    \A id \in 0 .. Tags - 1 : (\E i \in DOMAIN waiting : waiting[i] = id) ~> (consumed = Successor(id))

\* False: back-pressure happens.
MessageNeverWaitsProbe == waiting # <<>> => credit > 0

\* False with full batches: a message waits although nothing is left to consume, and nothing on its way.
ChannelNeverIdleProbe == (waiting # <<>> /\ requests > 0) => credit + Len(wire) + Len(inbox) > 0

\* False with pull: a message waits in an empty channel, because nobody has asked yet.
NobodyHasToAskProbe == waiting # <<>> => credit + Len(wire) + Len(inbox) + unrequested + requests > 0
=============================================================================
