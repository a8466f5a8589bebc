------------------------------- MODULE Bridge -------------------------------
(***************************************************************************)
(* A channel of an exchange that is read once: a producer's stream, the    *)
(* channel, and the stream of one consumer at a time.  Each has a window   *)
(* of its own; two bridges chain them.                                     *)
(*                                                                         *)
(*   producer -Offer-> incoming -TakeIn-> held -PassOn-> wire -Deliver->   *)
(*      inbox -Consume-> consumed                                          *)
(*                                                                         *)
(* A bridge takes a message when there is room for it behind, and gives    *)
(* its permit back then: so it holds nothing itself.  End goes through     *)
(* both bridges behind all messages.  What is the producer told, if the    *)
(* consumer reads to the end, needs no more (Cancel), dies, comes back or  *)
(* never comes?  And what is the consumer told, if the producer gives up   *)
(* (Abort) or dies?                                                        *)
(*                                                                         *)
(* Source: docs/guides/serving.md, "What the end of a producer means".     *)
(* Not modelled: frames, half-closes and time-outs of a stream             *)
(* (StreamLife), batches of permits and sizes of chunks (PermitChannel),   *)
(* the connection of a producer, several producers of one channel (FanIn). *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    ProducerWindow,  \* messages that may be in the producer's stream
    ChannelWindow,   \* ... in the channel
    ConsumerWindow,  \* ... in the consumer's stream
    Total,           \* messages that are offered at most
    Consumers,       \* consumers that come at most, one after the other
    Waits,           \* does the producer's end wait until the consumer has consumed everything?
    Faults,          \* may peers be lost, and may an administrator purge and reset?
    Fair             \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {ProducerWindow, ChannelWindow, ConsumerWindow} \subseteq Nat \ {0}
    /\ {Total, Consumers} \subseteq Nat
    /\ {Waits, Faults} \subseteq BOOLEAN
    /\ Fair \subseteq {"Claim", "Consume", "ReadEnd", "GiveUpConsumer", "Move"}

VARIABLES
    producer,        \* Init says what it consists of
    incoming,        \* messages that the producer has sent, before the first bridge
    channel,         \* ... likewise
    consumer,        \* Nobody says what it consists of
    comers,          \* consumers that may still come
    consumed,        \* messages that consumers have consumed
    lost             \* messages that were dropped

vars == <<producer, incoming, channel, consumer, comers, consumed, lost>>

\* No consumer is there; the last one was told this.
Nobody(seen) ==
    [life     |-> "none",    \* then "reading", "suspended": its connection is lost, "gone": nobody has noticed yet
     handed   |-> 0,         \* messages that the second bridge has passed on to it
     credit   |-> 0,         \* permits at the exchange
     wire     |-> 0,         \* messages on their way to it
     inbox    |-> 0,         \* ... that have arrived
     returned |-> 0,         \* permits on their way back
     hasEnd   |-> FALSE,     \* is End behind them?
     seen     |-> seen]      \* what its application was told, or has said: "end", "abort", "error", "cancelled"

Init ==
    /\ producer =
        [life     |-> "open",            \* then "ended", "aborted", "gone"
         offered  |-> 0,
         credit   |-> ProducerWindow,
         returned |-> 0,                 \* permits on their way back
         told     |-> "none"]            \* then "accepted", "consumed", "cancelled", "error"
    /\ incoming = 0
    /\ channel =
        [phase       |-> "open",  \* then "ended", "spent", "broken"
         held        |-> 0,       \* messages in it
         taken       |-> 0,       \* messages that it has ever taken over
         purged      |-> 0,       \* messages that an administrator has dropped
         isAwaited   |-> FALSE,   \* does the answer to End wait for the consumer that is there?
         isCancelled |-> FALSE,   \* has a consumer said that it needs no more?
         isLost      |-> FALSE,   \* has a consumer left halfway?
         isRetired   |-> FALSE]   \* was it reset?  The name then has another channel, which begins anew
    /\ consumer = Nobody("none")
    /\ comers = Consumers
    /\ consumed = 0
    /\ lost = 0

IsLive == producer.life \in {"open", "ended"} /\ producer.told = "none"

IsThere == consumer.life # "none"

\* May messages still reach a consumer?
Goes == channel.phase \in {"open", "ended"}

\* A producer that has heard no last word hears this one.
Told(word) == IF IsLive THEN [producer EXCEPT !.told = word] ELSE producer

\* The channel breaks: what is in it is incomplete, and is dropped.  Not one that is over.
Breaks(like) ==
    /\ channel' = IF Goes THEN [like EXCEPT !.phase = "broken", !.held = 0] ELSE like
    /\ incoming' = IF Goes THEN 0 ELSE incoming

DroppedByBreak == IF Goes THEN incoming + channel.held ELSE 0

OfConsumer == consumer.wire + consumer.inbox

\* A consumer leaves with this as its last word, unless it had one.
Leaves(word) == consumer' = Nobody(IF consumer.seen = "none" THEN word ELSE consumer.seen)

-----------------------------------------------------------------------------

\* The applications, and what happens to them.

\* Nothing can be done any more, or nobody comes.
Done ==
    /\ ~IsThere
    /\ ~IsLive \/ comers = 0
    /\ UNCHANGED vars

\* A message leaves the producer.
Offer ==
    /\ producer.life = "open" /\ producer.told = "none" /\ producer.credit > 0 /\ producer.offered < Total
    /\ producer' = [producer EXCEPT !.offered = @ + 1, !.credit = @ - 1]
    /\ incoming' = incoming + 1
    /\ UNCHANGED <<channel, consumer, comers, consumed, lost>>

\* End is behind its messages.
EndStream ==
    /\ producer.life = "open" /\ producer.told = "none"
    /\ producer' = [producer EXCEPT !.life = "ended"]
    /\ UNCHANGED <<incoming, channel, consumer, comers, consumed, lost>>

\* It gives up, and the exchange learns of it at once, whatever waits.
Abort ==
    /\ producer.life = "open" /\ producer.told = "none"
    /\ producer' = [producer EXCEPT !.life = "aborted"]
    /\ Breaks(channel)
    /\ lost' = lost + DroppedByBreak
    /\ UNCHANGED <<consumer, comers, consumed>>

\* It is gone, and the exchange has noticed.  If its End has come, it leaves nothing behind.
LoseProducer ==
    /\ Faults /\ IsLive
    /\ producer' = [producer EXCEPT !.life = "gone"]
    /\ IF channel.phase = "open"
       THEN Breaks(channel) /\ lost' = lost + DroppedByBreak
       ELSE UNCHANGED <<channel, incoming, lost>>
    /\ UNCHANGED <<consumer, comers, consumed>>

\* A consumer comes.
Claim ==
    /\ comers > 0 /\ ~IsThere
    /\ channel.phase # "spent" /\ ~channel.isLost /\ ~channel.isRetired
    /\ comers' = comers - 1
    /\ consumer' = [Nobody("none") EXCEPT !.life = "reading", !.credit = ConsumerWindow]
    /\ UNCHANGED <<producer, incoming, channel, consumed, lost>>

\* Its application has consumed a message: the permit goes back.
Consume ==
    /\ consumer.life \in {"reading", "suspended"} /\ consumer.inbox > 0 /\ consumer.seen = "none"
    /\ consumer' = [consumer EXCEPT !.inbox = @ - 1, !.returned = @ + 1]
    /\ consumed' = consumed + 1
    /\ UNCHANGED <<producer, incoming, channel, comers, lost>>

\* Its application needs no more.
Cancel ==
    /\ consumer.life = "reading" /\ consumer.seen = "none"
    /\ consumer' = [consumer EXCEPT !.seen = "cancelled"]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* Its connection is lost, and what was under way is kept.
SuspendConsumer ==
    /\ Faults /\ consumer.life = "reading"
    /\ consumer' = [consumer EXCEPT !.life = "suspended"]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* It comes back.
ResumeConsumer ==
    /\ consumer.life = "suspended"
    /\ consumer' = [consumer EXCEPT !.life = "reading"]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* It is gone.  Nobody has noticed yet, and permits that it has returned may still arrive.
LoseReader ==
    /\ Faults /\ consumer.life = "reading"
    /\ consumer' = [consumer EXCEPT !.life = "gone"]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* An administrator drops what is in the channel.
Purge ==
    /\ Faults /\ Goes /\ channel.held > 0
    /\ channel' = [channel EXCEPT !.held = 0, !.purged = @ + channel.held]
    /\ lost' = lost + channel.held
    /\ UNCHANGED <<producer, incoming, consumer, comers, consumed>>

\* ... ends it for all; the name gets another channel.
Reset ==
    /\ Faults /\ ~channel.isRetired
    /\ Breaks([channel EXCEPT !.isRetired = TRUE])
    /\ producer' = IF Goes THEN Told("error") ELSE producer
    /\ Leaves(IF IsThere THEN "error" ELSE "none")
    /\ lost' = lost + DroppedByBreak + OfConsumer
    /\ UNCHANGED <<comers, consumed>>

-----------------------------------------------------------------------------

\* The first bridge: a message goes into the channel if there is room, and its permit back.
TakeIn ==
    /\ channel.phase = "open" /\ incoming > 0 /\ channel.held < ChannelWindow
    /\ incoming' = incoming - 1
    /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
    /\ producer' = [producer EXCEPT !.returned = @ + 1]
    /\ UNCHANGED <<consumer, comers, consumed, lost>>

\* The permit arrives.
HearPermit ==
    /\ producer.returned > 0
    /\ producer' = [producer EXCEPT !.returned = @ - 1, !.credit = @ + 1]
    /\ UNCHANGED <<incoming, channel, consumer, comers, consumed, lost>>

\* The second bridge: a message leaves for the consumer if that has a permit for it; its room is free again.
PassOn ==
    /\ Goes /\ IsThere /\ channel.held > 0 /\ consumer.credit > 0
    /\ channel' = [channel EXCEPT !.held = @ - 1]
    /\ consumer' = [consumer EXCEPT !.handed = @ + 1, !.credit = @ - 1, !.wire = @ + 1]
    /\ UNCHANGED <<producer, incoming, comers, consumed, lost>>

\* It arrives.
Deliver ==
    /\ consumer.life = "reading" /\ consumer.wire > 0 /\ consumer.seen = "none"
    /\ consumer' = [consumer EXCEPT !.wire = @ - 1, !.inbox = @ + 1]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* The exchange hears that a message is consumed.
HearConsumed ==
    /\ consumer.life \in {"reading", "gone"} /\ consumer.returned > 0
    /\ consumer' = [consumer EXCEPT !.returned = @ - 1, !.credit = @ + 1]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* End has come behind all messages.  Its answer waits for the consumer that is there, if it has to.
EndChannel ==
    /\ producer.life = "ended" /\ channel.phase = "open" /\ incoming = 0
    /\ channel' = [channel EXCEPT !.phase = "ended", !.isAwaited = Waits /\ IsThere]
    /\ UNCHANGED <<producer, incoming, consumer, comers, consumed, lost>>

HasHeardAll == IsThere /\ channel.held = 0 /\ consumer.credit = ConsumerWindow

\* The producer is told what became of its messages.
AnswerEnd ==
    LET wasRead == (channel.isAwaited /\ HasHeardAll) \/ channel.phase = "spent"
    IN /\ producer.life = "ended" /\ producer.told = "none" /\ channel.phase \in {"ended", "spent"}
       /\ ~channel.isAwaited \/ wasRead
       /\ producer' = [producer EXCEPT !.told = IF wasRead /\ channel.purged = 0 THEN "consumed" ELSE "accepted"]
       /\ UNCHANGED <<incoming, channel, consumer, comers, consumed, lost>>

\* End leaves for the consumer.
PassEnd ==
    /\ channel.phase = "ended" /\ channel.held = 0 /\ IsThere /\ ~consumer.hasEnd
    /\ consumer' = [consumer EXCEPT !.hasEnd = TRUE]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* The consumer's application reads the end.
ReadEnd ==
    /\ consumer.life = "reading" /\ consumer.hasEnd /\ OfConsumer = 0 /\ consumer.seen = "none"
    /\ consumer' = [consumer EXCEPT !.seen = "end"]
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed, lost>>

\* The exchange learns of it: the channel is spent.
Spend ==
    /\ consumer.life \in {"reading", "gone"} /\ consumer.seen = "end" /\ consumer.returned = 0
    /\ channel' = [channel EXCEPT !.phase = "spent"]
    /\ Leaves("end")
    /\ UNCHANGED <<producer, incoming, comers, consumed, lost>>

\* The consumer of a broken channel is told so, behind no end.
PassAbort ==
    /\ channel.phase = "broken" /\ IsThere
    /\ Leaves("abort")
    /\ lost' = lost + OfConsumer
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed>>

\* The exchange hears that no more is needed.
HearCancel ==
    /\ Goes /\ consumer.life \in {"reading", "gone"} /\ consumer.seen = "cancelled"
    /\ channel' = [channel EXCEPT !.phase = "spent", !.held = 0, !.isCancelled = TRUE]
    /\ incoming' = 0
    /\ lost' = lost + DroppedByBreak + OfConsumer
    /\ producer' = Told("cancelled")
    /\ Leaves("cancelled")
    /\ UNCHANGED <<comers, consumed>>

\* The exchange gives the consumer up: it is noticed that it is gone, it has not come back in time, or another one comes
\* in its place.  If it was handed messages, they are lost, and the channel breaks; else another one may come.
GiveUpConsumer ==
    LET breaks == consumer.handed > 0 /\ Goes
    IN /\ consumer.life \in {"suspended", "gone"}
       /\ IF breaks
          THEN /\ Breaks([channel EXCEPT !.isLost = TRUE])
               /\ producer' = Told("error")
          ELSE /\ channel' = [channel EXCEPT !.isAwaited = FALSE]
               /\ UNCHANGED <<producer, incoming>>
       /\ lost' = lost + (IF breaks THEN DroppedByBreak ELSE 0) + OfConsumer
       /\ Leaves("error")
       /\ UNCHANGED <<comers, consumed>>

Environment ==
    \/ Done \/ Offer \/ EndStream \/ Abort \/ LoseProducer \/ Claim \/ Consume \/ Cancel
    \/ SuspendConsumer \/ ResumeConsumer \/ LoseReader \/ Purge \/ Reset

Protocol ==
    \/ TakeIn \/ HearPermit \/ PassOn \/ Deliver \/ HearConsumed \/ EndChannel \/ AnswerEnd
    \/ PassEnd \/ ReadEnd \/ Spend \/ PassAbort \/ HearCancel \/ GiveUpConsumer

Next == Environment \/ Protocol

Move ==
    \/ TakeIn \/ HearPermit \/ PassOn \/ EndChannel \/ AnswerEnd \/ PassEnd \/ Spend \/ PassAbort \/ HearCancel
    \/ Deliver \/ HearConsumed

\* However often the consumer's connection is lost, it reads on in between, sooner or later.
Fairness ==
    /\ "Claim" \in Fair => SF_vars(Claim)
    /\ "Consume" \in Fair => SF_vars(Consume)
    /\ "ReadEnd" \in Fair => SF_vars(ReadEnd)
    /\ "GiveUpConsumer" \in Fair => WF_vars(GiveUpConsumer)
    /\ "Move" \in Fair => SF_vars(Move)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ producer.life \in {"open", "ended", "aborted", "gone"}
    /\ producer.told \in {"none", "accepted", "consumed", "cancelled", "error"}
    /\ {producer.offered, producer.credit, producer.returned, incoming, consumed, lost, comers} \subseteq Nat
    /\ channel.phase \in {"open", "ended", "spent", "broken"}
    /\ channel.held \in 0 .. ChannelWindow /\ {channel.taken, channel.purged} \subseteq Nat
    /\ consumer.life \in {"none", "reading", "suspended", "gone"}
    /\ {consumer.handed, consumer.credit, consumer.wire, consumer.inbox, consumer.returned} \subseteq Nat
    /\ consumer.seen \in {"none", "end", "abort", "error", "cancelled"}
    /\ ~IsThere => consumer = Nobody(consumer.seen)

\* No permit of the producer is lost or doubled.
ProducerPermits == Goes => producer.credit + incoming + producer.returned = ProducerWindow

\* ... of the consumer.
ReaderPermits == IsThere => consumer.credit + OfConsumer + consumer.returned = ConsumerWindow

\* Each message is somewhere, once.
MessagesConserved == producer.offered = incoming + channel.held + OfConsumer + consumed + lost

\* The channel has taken over each message but the incoming ones, and lost none by itself.  One that is over is empty.
TakenConserved ==
    IF Goes
    THEN channel.taken = producer.offered - incoming /\ lost = channel.purged
    ELSE incoming = 0 /\ channel.held = 0

\* All messages that any consumer has got belong to the one that is there: nothing is handed out twice.
HandedOutOnce == Goes => consumed + OfConsumer = consumer.handed

\* The end is behind all messages, in the channel and in the consumer's stream.
EndIsLast ==
    /\ channel.phase = "ended" => incoming = 0 /\ producer.life \in {"ended", "gone"}
    /\ consumer.hasEnd => channel.phase = "ended" /\ channel.held = 0
    /\ (IsThere /\ consumer.seen = "end") => consumer.hasEnd /\ OfConsumer = 0
    /\ IsThere => channel.phase # "spent" /\ ~channel.isLost /\ ~channel.isRetired
    /\ channel.isAwaited => channel.phase # "open"

\* A channel that was not cancelled is spent by who has read it to its end.
SpentIsRead ==
    (channel.phase = "spent" /\ ~channel.isCancelled) =>
        /\ consumed + channel.purged = producer.offered /\ channel.taken = producer.offered
        /\ producer.life \in {"ended", "gone"}

\* What a producer is told is true.  An error says that the channel broke, and nothing of what was consumed.
AnswerIsTrue ==
    CASE producer.told = "consumed" -> consumed = producer.offered
      [] producer.told = "accepted" -> channel.taken = producer.offered
      [] producer.told = "cancelled" -> channel.isCancelled
      [] producer.told = "error" -> channel.phase = "broken"
      [] producer.told = "none" -> TRUE

\* A consumer that reads the end has consumed all that was offered, and not purged.
EndIsWhole ==
    consumer.seen = "end" =>
        /\ consumed + channel.purged = producer.offered
        /\ producer.life \in {"ended", "gone"}

\* When the channel is over, its producer learns of it.
BreakIsTold ==
    /\ channel.phase = "broken" => ~IsLive
    /\ channel.isCancelled => channel.phase = "spent" /\ ~IsLive
    /\ channel.phase = "open" => IsLive
    /\ (channel.phase = "spent" /\ IsLive) => producer.life = "ended"

\* No more than three windows are on their way: the bridges hold nothing.
BridgeBounded == incoming + channel.held + OfConsumer <= ProducerWindow + ChannelWindow + ConsumerWindow

\* While both live, something moves, or an application is waited for: one that offers or ends, or one that consumes.
BridgeMoves ==
    (IsLive /\ consumer.life = "reading" /\ consumer.seen = "none") =>
        \/ ENABLED Protocol
        \/ consumer.inbox > 0
        \/ producer.life = "open" /\ producer.credit > 0

\* A producer that has ended is answered, if a consumer comes where one is needed.
EndIsAnswered == producer.life = "ended" ~> (~IsLive \/ (~IsThere /\ comers = 0))

\* The exchange does not wait for ever for one that is gone.
LossIsNoticed == consumer.life = "gone" ~> consumer.life # "gone"

\* A consumer hears that the channel is broken.
BreakIsHeard == (channel.phase = "broken" /\ IsThere) ~> ~IsThere

\* A consumer to which the end was sent reads it, or is given up.
EndIsRead == consumer.hasEnd ~> ~IsThere

\* False: what was accepted is consumed.
AcceptedIsKeptProbe == producer.told = "accepted" => ~channel.isLost

\* False: a permit that is back was of a message that is consumed.
ReturnedIsConsumedProbe == producer.credit = ProducerWindow => consumed = producer.offered

\* False: where a producer is told that its consumer is lost, something that it has sent was not consumed.
ErrorIsLossProbe == (producer.told = "error" /\ channel.isLost) => consumed < producer.offered

\* False: a channel that a consumer has left is read no more.
SecondReaderProbe == comers < Consumers - 1 => consumed = 0

\* False: the windows are never full all at once.
WindowsFullProbe == incoming + channel.held + OfConsumer < ProducerWindow + ChannelWindow + ConsumerWindow
=============================================================================
