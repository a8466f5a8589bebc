----------------------------- MODULE StopAndWait -----------------------------
(***************************************************************************)
(* The oldest way to bound a channel: one message is out at a time.        *)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting ----Send----> wire ---Deliver---> inbox ---Consume--> (done) *)
(*    free <-----Answer---------- answers <------------------- |           *)
(*                                                                         *)
(* Messages wait in the order in which they were offered: chunks, barriers *)
(* and watermarks alike.  The oldest leaves if none is out.  To consume it *)
(* is to answer it, and the answer lets the next one leave.                *)
(*                                                                         *)
(* Source: textbook; Demand with Size = 1 is the same protocol.            *)
(* Not modelled: loss and retransmission, which give it its name           *)
(* elsewhere.                                                              *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Waiters,      \* messages that may wait at once
    Withdrawals,  \* may the sender give up waiting (a cancelled send)?
    Tags,         \* numbers of messages are taken modulo Tags; 1: they are anonymous
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ Waiters \in Nat \ {0} /\ Withdrawals \in BOOLEAN
    \* So many messages are in the line and in the channel at most.
    /\ Tags = 1 \/ (Tags \in Nat /\ Tags > Waiters + 1)
    /\ Fair \subseteq {"Send", "Deliver", "Consume", "Answer"}

VARIABLES
    offered,      \* number of the next message to be offered, modulo Tags
    consumed,     \* number of the next message to be consumed, modulo Tags
    waiting,      \* messages that wait, by their numbers, oldest first
    free,         \* messages that may leave at once: 1, or 0 while one is out
    wire,         \* messages in flight
    inbox,        \* messages received, not yet consumed
    answers       \* answers in flight back

vars == <<offered, consumed, waiting, free, wire, inbox, answers>>

Successor(id) == (id + 1) % Tags

Init ==
    /\ offered = 0 /\ consumed = 0
    /\ waiting = <<>> /\ free = 1
    /\ wire = <<>> /\ inbox = <<>> /\ answers = 0

-----------------------------------------------------------------------------

\* The application wants to send a message.
Offer ==
    /\ Len(waiting) < Waiters
    /\ waiting' = Append(waiting, offered)
    /\ offered' = Successor(offered)
    /\ UNCHANGED <<consumed, free, wire, inbox, answers>>

\* The application gives up waiting with its newest message.
Withdraw ==
    /\ Withdrawals /\ waiting # <<>>
    /\ offered' = waiting[Len(waiting)]
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ UNCHANGED <<consumed, free, wire, inbox, answers>>

\* No message is out: the oldest one leaves.
Send ==
    /\ waiting # <<>> /\ free > 0
    /\ free' = free - 1
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ UNCHANGED <<offered, consumed, inbox, answers>>

\* A message arrives at the receiver.
Deliver ==
    /\ wire # <<>>
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ UNCHANGED <<offered, consumed, waiting, free, answers>>

\* The application has consumed a message; it is answered now, and not when it arrives.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ consumed' = Successor(consumed)
    /\ answers' = answers + 1
    /\ UNCHANGED <<offered, waiting, free, wire>>

\* An answer arrives at the sender.
Answer ==
    /\ answers > 0
    /\ answers' = answers - 1
    /\ free' = free + 1
    /\ UNCHANGED <<offered, consumed, waiting, wire, inbox>>

Environment == Offer \/ Withdraw

Protocol == Send \/ Deliver \/ Consume \/ Answer

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "Answer" \in Fair => WF_vars(Answer)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Numbers(messages) == \A i \in DOMAIN messages : messages[i] \in 0 .. Tags - 1

TypeOK ==
    /\ {offered, consumed} \subseteq 0 .. Tags - 1
    /\ Len(waiting) <= Waiters /\ free \in Nat /\ answers \in Nat
    /\ Numbers(waiting) /\ Numbers(wire) /\ Numbers(inbox)

\* One message may be out: it is free to leave, in the channel, or being answered.
Conservation == free + Len(wire) + Len(inbox) + answers = 1

\* The application never holds more than one message.
Bounded == Len(wire) + Len(inbox) <= 1

\* A message that waits can still be served.
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
MessageNeverWaitsProbe == waiting # <<>> => free > 0

\* False: the channel is empty while the answer travels, and a message waits all the same.
ChannelNeverIdleProbe == (waiting # <<>> /\ free = 0) => Len(wire) + Len(inbox) > 0
=============================================================================
