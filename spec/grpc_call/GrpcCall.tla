------------------------------- MODULE GrpcCall -------------------------------
(***************************************************************************)
(* A gRPC call between two stages of a stream: pull and push at both ends, *)
(* joined to the call's own flow control.                                  *)
(*                                                                         *)
(*   producer ---Push--> hand --OnReady--> local --Transmit--> wire        *)
(*      ^                  |                 |                  |          *)
(*      `------asked-------'      edge <-----'               Deliver       *)
(*                                                              v          *)
(*   consumer <---------------------Emit---------------------- inbox       *)
(*      `--Pull---> wanted       requested <--- unrequested <---'          *)
(*                                                                         *)
(* The sender's stage asks its producer for one element at a time, and     *)
(* gives it to the call if the call is ready: if fewer than Threshold      *)
(* bytes wait in its local queue.  Otherwise it holds the element, and is  *)
(* told when the call becomes ready: once, at that moment, and never       *)
(* again.  The carrier takes Window bytes that the receiver has not taken  *)
(* over.  The receiver's stage requests Prefetch messages, and Batch more  *)
(* whenever it has passed on as many.  The half-close travels behind the   *)
(* messages.                                                               *)
(*                                                                         *)
(* All of a stage's steps run in one thread, one after another.            *)
(* GrpcCallMistakes has those of the article "Back-pressure in             *)
(* Grpc-akkastream".                                                       *)
(*                                                                         *)
(* Source: gRPC's isReady, onReady and request(n), as in grpc-java.        *)
(* Not modelled: HTTP/2's two windows (one stands for both), deadlines,    *)
(* retries.                                                                *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Prefetch,     \* messages that the receiver requests at first
    Batch,        \* messages that the consumer takes before as many more are requested
    Threshold,    \* the call is ready while fewer bytes than this wait in its local queue
    Window,       \* bytes that may be on their way; a larger message goes alone
    MaxSize,      \* bytes of the largest message
    Breaks,       \* may the producer fail, and the consumer cancel?
    Tags,         \* numbers of messages are taken modulo Tags; 1: they are anonymous
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Prefetch, Batch, Threshold, Window, MaxSize} \subseteq Nat \ {0}
    /\ Breaks \in BOOLEAN
    \* So many messages are between the producer and the consumer at most.
    /\ Tags = 1 \/ (Tags \in Nat /\ Tags > 1 + Threshold + Window + Prefetch)
    /\ Fair \subseteq {"Pull", "OnReady", "Transmit", "Deliver", "Emit", "OnComplete", "OnError", "OnCancel"}

VARIABLES
    offered,      \* number of the producer's next message, modulo Tags
    consumed,     \* number of the consumer's next message, modulo Tags
    producer,     \* "open", or what it has done or heard
    asked,        \* messages that the producer is asked for
    hand,         \* the message that the sender's stage holds, if it holds one
    closed,       \* has the stage half-closed the call?
    local,        \* messages that wait in the call's local queue
    edge,         \* has the call become ready, and the stage was not told yet?
    wire,         \* messages in the window
    requested,    \* messages that the call may still hand over to the receiver's stage
    inbox,        \* messages that were handed over
    unrequested,  \* messages that the consumer has taken, and for which no more were requested yet
    wanted,       \* does the consumer ask for a message?
    consumer      \* "open", or what it has done or heard

stageVars == <<offered, producer, asked, hand, closed>>

receiverVars == <<consumed, requested, inbox, unrequested, wanted, consumer>>

vars == <<stageVars, local, edge, wire, receiverVars>>

Successor(number) == (number + 1) % Tags

RECURSIVE Bytes(_)
Bytes(messages) == IF messages = <<>> THEN 0 ELSE Head(messages).size + Bytes(Tail(messages))

IsReady == Bytes(local) < Threshold

Fits(message) == wire = <<>> \/ Bytes(wire) + message.size <= Window

Init ==
    /\ offered = 0 /\ consumed = 0
    /\ producer = "open" /\ asked = 1 /\ hand = <<>> /\ closed = FALSE
    /\ local = <<>> /\ edge = FALSE /\ wire = <<>>
    /\ requested = Prefetch /\ inbox = <<>> /\ unrequested = 0
    /\ wanted = FALSE /\ consumer = "open"

-----------------------------------------------------------------------------
(* The environment: producer and consumer, and what a call may do.         *)

\* The producer answers with a message.  The stage gives it to the call and asks for another one, or holds it.
Push(size) ==
    /\ producer = "open" /\ asked > 0
    /\ offered' = Successor(offered)
    /\ LET message == [number |-> offered, size |-> size] IN
       IF IsReady
       THEN local' = Append(local, message) /\ UNCHANGED <<asked, hand>>
       ELSE /\ asked' = asked - 1
            /\ hand' = <<message>>
            /\ UNCHANGED local
    /\ UNCHANGED <<producer, closed, edge, wire, receiverVars>>

\* The producer has no more.  A message that the stage holds leaves first.
Complete ==
    /\ producer = "open"
    /\ producer' = "completed"
    /\ closed' = (hand = <<>>)
    /\ UNCHANGED <<offered, asked, hand, local, edge, wire, receiverVars>>

\* The producer fails: the call is broken off, and messages that have not left are dropped.
Fail ==
    /\ Breaks /\ producer = "open"
    /\ producer' = "failed"
    /\ hand' = <<>> /\ local' = <<>>
    /\ UNCHANGED <<offered, asked, closed, edge, wire, receiverVars>>

\* The consumer asks for a message.
Pull ==
    /\ consumer = "open" /\ ~wanted
    /\ wanted' = TRUE
    /\ UNCHANGED <<stageVars, local, edge, wire, consumed, requested, inbox, unrequested, consumer>>

\* The consumer wants no more: the call is cancelled, and messages on their way are dropped.
Cancel ==
    /\ Breaks /\ consumer = "open"
    /\ consumer' = "cancelled"
    /\ wire' = <<>> /\ inbox' = <<>> /\ wanted' = FALSE
    /\ UNCHANGED <<stageVars, local, edge, consumed, requested, unrequested>>

\* A call may say that it is ready although it did not become so.
SpuriousReady ==
    /\ ~edge
    /\ edge' = TRUE
    /\ UNCHANGED <<stageVars, local, wire, receiverVars>>

-----------------------------------------------------------------------------
(* The sender's stage and the call.                                        *)

\* The stage is told that the call has become ready.  (Meanwhile it may be full again.)  It gives the message that it
\* holds to the call, and asks for another one, or half-closes the call.
OnReady ==
    /\ edge
    /\ edge' = FALSE
    /\ LET isOver == producer = "completed" IN
       IF hand = <<>> \/ ~IsReady
       THEN UNCHANGED <<asked, hand, closed, local>>
       ELSE /\ local' = Append(local, Head(hand))
            /\ hand' = <<>>
            /\ asked' = IF isOver THEN asked ELSE asked + 1
            /\ closed' = (closed \/ isOver)
    /\ UNCHANGED <<offered, producer, wire, receiverVars>>

\* The oldest message enters the window.  If that makes the call ready, the stage will be told.
Transmit ==
    /\ local # <<>> /\ consumer = "open" /\ Fits(Head(local))
    /\ wire' = Append(wire, Head(local))
    /\ local' = Tail(local)
    /\ edge' = (edge \/ (~IsReady /\ IsReady'))
    /\ UNCHANGED <<stageVars, receiverVars>>

\* The sender hears that the call was cancelled: what waits is dropped.
OnCancel ==
    /\ consumer = "cancelled" /\ producer \in {"open", "completed"}
    /\ producer' = "cancelled"
    /\ hand' = <<>> /\ local' = <<>>
    /\ UNCHANGED <<offered, asked, closed, edge, wire, receiverVars>>

-----------------------------------------------------------------------------
(* The receiver's stage.                                                   *)

\* The call hands a message over that was requested: its bytes leave the window.
Deliver ==
    /\ wire # <<>> /\ requested > 0
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ requested' = requested - 1
    /\ UNCHANGED <<stageVars, local, edge, consumed, unrequested, wanted, consumer>>

\* The consumer gets the message that it has asked for.  A whole batch of them is requested again.
Emit ==
    /\ wanted /\ inbox # <<>>
    /\ wanted' = FALSE
    /\ inbox' = Tail(inbox)
    /\ consumed' = Successor(consumed)
    /\ IF unrequested + 1 >= Batch
       THEN requested' = requested + unrequested + 1 /\ unrequested' = 0
       ELSE unrequested' = unrequested + 1 /\ UNCHANGED requested
    /\ UNCHANGED <<stageVars, local, edge, wire, consumer>>

\* The half-close arrives, behind all messages.
OnComplete ==
    /\ consumer = "open" /\ closed /\ producer = "completed"
    /\ local = <<>> /\ wire = <<>> /\ inbox = <<>>
    /\ consumer' = "completed"
    /\ wanted' = FALSE
    /\ UNCHANGED <<stageVars, local, edge, wire, consumed, requested, inbox, unrequested>>

\* The failure arrives, behind the messages that were handed over; others are dropped.
OnError ==
    /\ consumer = "open" /\ producer = "failed" /\ inbox = <<>>
    /\ consumer' = "failed"
    /\ wire' = <<>> /\ wanted' = FALSE
    /\ UNCHANGED <<stageVars, local, edge, consumed, requested, inbox, unrequested>>

Sizes == 1 .. MaxSize

Environment == (\E size \in Sizes : Push(size)) \/ Complete \/ Fail \/ Pull \/ Cancel \/ SpuriousReady

Protocol == OnReady \/ Transmit \/ OnCancel \/ Deliver \/ Emit \/ OnComplete \/ OnError

Next == Environment \/ Protocol

Fairness ==
    /\ "Pull" \in Fair => WF_vars(Pull)
    /\ "OnReady" \in Fair => WF_vars(OnReady)
    /\ "Transmit" \in Fair => WF_vars(Transmit)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Emit" \in Fair => WF_vars(Emit)
    /\ "OnComplete" \in Fair => WF_vars(OnComplete)
    /\ "OnError" \in Fair => WF_vars(OnError)
    /\ "OnCancel" \in Fair => WF_vars(OnCancel)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Messages(queue) ==
    \A i \in DOMAIN queue : queue[i].number \in 0 .. Tags - 1 /\ queue[i].size \in 1 .. MaxSize

TypeOK ==
    /\ {offered, consumed} \subseteq 0 .. Tags - 1
    /\ {asked, requested, unrequested} \subseteq Nat
    /\ Messages(hand) /\ Messages(local) /\ Messages(wire) /\ Messages(inbox)
    /\ wanted => consumer = "open"

\* The producer is asked for one message, or the stage holds one: it never holds two.
AskedOnce ==
    /\ producer = "open" => asked + Len(hand) = 1
    /\ asked + Len(hand) <= 1

\* The receiver has requested Prefetch messages: each may still come, is here, or was taken and is not requested again.
Conservation == consumer # "cancelled" => requested + Len(inbox) + unrequested = Prefetch

\* Fewer than a batch of messages that were taken wait for their request.
RequestsBatched == unrequested < Batch

Larger == IF Window < MaxSize THEN MaxSize ELSE Window

\* What may be where: the sender gets no further ahead of the consumer.
Bounded ==
    /\ Len(hand) <= 1
    /\ Bytes(local) <= Threshold - 1 + MaxSize
    /\ Bytes(wire) <= Larger
    /\ Len(inbox) <= Prefetch

\* A held message for which the call is ready leaves: the stage will be told.  No wake-up is lost.
Woken == (hand # <<>> /\ IsReady) => edge

IsInOrder(messages) ==
    \A i \in DOMAIN messages : messages[i].number = (consumed + i - 1) % Tags

\* What is on its way to a consumer is in order, each message once.
InOrder == consumer # "cancelled" => IsInOrder(inbox \o wire \o local)

\* Unless the call was broken off, everything that the producer has pushed was consumed, or is on its way.
NothingLost ==
    LET all == inbox \o wire \o local \o hand IN
    producer \in {"open", "completed"} /\ consumer # "cancelled" =>
        IsInOrder(all) /\ offered = (consumed + Len(all)) % Tags

\* A stage that has ended half-closes the call as soon as it holds nothing, and not before.
EndSent ==
    /\ closed => producer \in {"completed", "cancelled"}
    /\ producer = "completed" => closed = (hand = <<>>)

\* Where the stream has completed for the consumer, it has completed for the producer, and everything has come.
AllReceived == consumer = "completed" => producer = "completed" /\ consumed = offered

\* What each end hears, the other one did.  What is dropped stays dropped.
EndsMatch ==
    /\ consumer = "completed" => producer = "completed" /\ closed /\ local = <<>> /\ wire = <<>> /\ inbox = <<>>
    /\ consumer = "failed" => producer = "failed" /\ wire = <<>> /\ inbox = <<>>
    /\ producer = "cancelled" => consumer = "cancelled"
    /\ producer \in {"failed", "cancelled"} => hand = <<>> /\ local = <<>>
    /\ consumer = "cancelled" => wire = <<>> /\ inbox = <<>>

\* A consumer that asks is served, or the producer is asked.  Needs Batch <= Prefetch.
NeverStuck == wanted => (ENABLED Protocol \/ (producer = "open" /\ asked > 0))

\* Needs Tags > 1 and Breaks = FALSE.
EveryMessageConsumed ==
    \A number \in 0 .. Tags - 1 :
        (\E i \in DOMAIN (hand \o local) : (hand \o local)[i].number = number) ~> (consumed = Successor(number))

\* When one end has ended, so has the other.
BothEnd == (producer # "open" \/ consumer # "open") ~> (producer # "open" /\ consumer # "open")

\* False: the bound is reached nowhere.
NeverFullProbe ==
    \/ hand = <<>> \/ Bytes(local) < Threshold - 1 + MaxSize
    \/ Bytes(wire) < Larger \/ Len(inbox) < Prefetch

\* False: a call that is ready has a receiver that wants more.
ReadyMeansRequestedProbe == IsReady => requested > 0

\* False: when the stream completes, the call is half-closed.
ClosedAtOnceProbe == producer = "completed" => closed
=============================================================================
