-------------------------------- MODULE FanIn --------------------------------
(***************************************************************************)
(* A channel of an exchange that is read once, and its producers: any      *)
(* number of them, which come and go.                                      *)
(*                                                                         *)
(*   each producer -Offer-> incoming -TakeIn-> held -PassOn-> consumer     *)
(*                                                                         *)
(* Bridge says what one producer and its consumer hear of each other.      *)
(* Here: what does a producer hear of the others?  Each has a stream with  *)
(* a window; they share the channel and its line.  Where the channel is    *)
(* full, one message of each producer may stand in the line.  The channel  *)
(* ends when a producer says that it closes it, behind its last message.   *)
(*                                                                         *)
(* The channel is a queue, and what is in it has no names: its messages    *)
(* are numbered as they are taken in, and the number of the last one is    *)
(* noted when a producer's End comes.                                      *)
(*                                                                         *)
(* Source: docs/guides/serving.md, "What the end of a producer means".     *)
(* Not modelled: what Bridge has, such as permits on their way, the        *)
(* consumer's connection, what a consumer hears of a broken channel.       *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Producers,       \* that may come
    ProducerWindow,  \* messages that may be in the stream of each
    ChannelWindow,   \* ... in the channel
    ConsumerWindow,  \* ... in the consumer's stream
    Total,           \* messages that each producer offers at most
    Consumers,       \* consumers that come at most, one after the other
    Waits,           \* does a producer's end wait until the consumer has consumed everything before it?
    Faults,          \* connections that are cut, peers that are lost, purges and resets, at most
    Fair             \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Producers, ProducerWindow, ChannelWindow, ConsumerWindow} \subseteq Nat \ {0}
    /\ {Total, Consumers, Faults} \subseteq Nat
    /\ Waits \in BOOLEAN
    /\ Fair \subseteq {"Claim", "Consume", "Move"}

VARIABLES
    producers,       \* Before says what each consists of
    channel,         \* Init says what it consists of
    line,            \* ... likewise
    consumer,        \* ... likewise
    faults           \* so far

vars == <<producers, channel, line, consumer, faults>>

Names == 1 .. Producers

Before ==
    [life     |-> "away",   \* then "open", "gone": it has given up, or is lost
     isCut    |-> FALSE,    \* is its connection lost, and may it come back?
     offered  |-> 0,        \* messages that have come to the exchange
     incoming |-> 0,        \* messages among them that the channel has not taken in
     ticket   |-> 0,        \* its place in the line; 0: none of its messages waits there
     since    |-> 0,        \* how many messages the channel had taken in when it lined up
     end      |-> "none",   \* then "sent", "here": End has come behind its messages, "left": so has all before it
     closes   |-> FALSE,    \* does its End say that no other producer follows?
     mark     |-> 0,        \* the number of the channel's last message when its End came
     awaits   |-> 0,        \* the number of the consumer for which its answer waits; 0: for none
     due      |-> 0,        \* messages that this consumer has to have consumed
     told     |-> "none"]   \* then "accepted", "consumed", "cancelled", "error"

Init ==
    /\ producers = [p \in Names |-> Before]
    /\ channel =
        [phase       |-> "open",  \* then "ended", "spent", "broken"
         held        |-> 0,       \* messages in it
         taken       |-> 0,       \* messages that it has ever taken in
         purged      |-> 0,       \* messages that an administrator has dropped
         gap         |-> 0,       \* the number of the first one among them; 0: there is none
         isCancelled |-> FALSE,   \* has a consumer said that it needs no more?
         isRetired   |-> FALSE]   \* was it reset?
    /\ line =
        [given  |-> 0,            \* tickets so far
         served |-> 0]            \* ... of those whose message was taken in
    /\ consumer =
        [came     |-> 0,          \* consumers so far
         isThere  |-> FALSE,
         handed   |-> 0,          \* messages that were passed on
         consumed |-> 0]
    /\ faults = 0

-----------------------------------------------------------------------------

\* May messages still reach a consumer?
Goes == channel.phase \in {"open", "ended"}

\* Was it read to its end?
IsRead == channel.phase = "spent" /\ ~channel.isCancelled

\* Does everybody hear that it is over?
IsOver == channel.phase = "broken" \/ channel.isCancelled \/ channel.isRetired

\* Has this producer heard no last word?
IsLive(one) == one.life = "open" /\ one.told = "none"

\* May it send?  What comes behind the end of all is nobody's.
Sends(one) == IsLive(one) /\ ~IsOver /\ ~one.isCut /\ one.end = "none"

\* Has its End come?
HasEnded(one) == one.end \in {"here", "left"}

\* Messages that were passed on or dropped: the number of the last one.
Left == consumer.handed + channel.purged

\* Its answer waits for the consumer that is there.
IsWaiting(one) == one.awaits > 0 /\ one.awaits = consumer.came /\ consumer.isThere

\* The channel breaks, if it is not over, and its consumer learns of it.
Breaks(like) ==
    /\ channel' = IF Goes THEN [like EXCEPT !.phase = "broken"] ELSE like
    /\ consumer' = [consumer EXCEPT !.isThere = FALSE]

Fails == faults < Faults /\ faults' = faults + 1

-----------------------------------------------------------------------------

\* The applications, and what happens to them.

\* Nobody comes any more to read it.
Done ==
    /\ ~consumer.isThere /\ (consumer.came = Consumers \/ ~Goes)
    /\ UNCHANGED vars

\* A producer comes, first or late.
DialIn(p) ==
    /\ producers[p].life = "away" /\ channel.phase = "open"
    /\ producers' = [producers EXCEPT ![p].life = "open"]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* A message of it comes to the exchange.
Offer(p) ==
    /\ Sends(producers[p]) /\ producers[p].offered < Total /\ producers[p].incoming < ProducerWindow
    /\ producers' = [producers EXCEPT ![p].offered = @ + 1, ![p].incoming = @ + 1]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* End is behind its messages; others may follow.
EndStream(p) ==
    /\ Sends(producers[p])
    /\ producers' = [producers EXCEPT ![p].end = "sent"]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* ... and says that no other producer follows.
CloseStream(p) ==
    /\ Sends(producers[p])
    /\ producers' = [producers EXCEPT ![p].end = "sent", ![p].closes = TRUE]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* It gives up.
Abort(p) ==
    /\ Sends(producers[p])
    /\ producers' = [producers EXCEPT ![p].life = "gone"]
    /\ Breaks(channel)
    /\ UNCHANGED <<line, faults>>

\* It is gone, and the exchange has noticed, or waits for it no longer.  If its End has come, it leaves nothing behind.
LoseProducer(p) ==
    /\ Fails /\ IsLive(producers[p]) /\ ~IsOver
    /\ producers' = [producers EXCEPT ![p].life = "gone"]
    /\ IF HasEnded(producers[p]) THEN UNCHANGED <<channel, consumer>> ELSE Breaks(channel)
    /\ UNCHANGED line

\* Its connection is lost; what has come to the exchange goes on.
CutProducer(p) ==
    /\ Fails /\ IsLive(producers[p]) /\ ~IsOver /\ ~producers[p].isCut
    /\ producers' = [producers EXCEPT ![p].isCut = TRUE]
    /\ UNCHANGED <<channel, line, consumer>>

\* It comes back.
ResumeProducer(p) ==
    /\ producers[p].life = "open" /\ producers[p].isCut
    /\ producers' = [producers EXCEPT ![p].isCut = FALSE]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* A consumer comes.
Claim ==
    /\ ~consumer.isThere /\ consumer.came < Consumers /\ Goes
    /\ consumer' = [consumer EXCEPT !.isThere = TRUE, !.came = @ + 1]
    /\ UNCHANGED <<producers, channel, line, faults>>

\* It has consumed a message, and the exchange learns of it.
Consume ==
    /\ consumer.isThere /\ consumer.consumed < consumer.handed
    /\ consumer' = [consumer EXCEPT !.consumed = @ + 1]
    /\ UNCHANGED <<producers, channel, line, faults>>

\* It needs no more.
Cancel ==
    /\ consumer.isThere
    /\ channel' = [channel EXCEPT !.phase = "spent", !.isCancelled = TRUE]
    /\ consumer' = [consumer EXCEPT !.isThere = FALSE]
    /\ UNCHANGED <<producers, line, faults>>

\* It is lost.  If it was handed messages, the channel breaks; else another one may come.
GiveUpConsumer ==
    /\ Fails /\ consumer.isThere
    /\ IF consumer.handed > 0 THEN Breaks(channel)
       ELSE consumer' = [consumer EXCEPT !.isThere = FALSE] /\ UNCHANGED channel
    /\ UNCHANGED <<producers, line>>

\* An administrator drops what is in the channel.
Purge ==
    /\ Fails /\ Goes /\ channel.held > 0
    /\ channel' = [channel EXCEPT !.held = 0, !.purged = @ + channel.held, !.gap = IF @ = 0 THEN Left + 1 ELSE @]
    /\ UNCHANGED <<producers, line, consumer>>

\* ... ends it for all.
Reset ==
    /\ Fails /\ ~channel.isRetired
    /\ Breaks([channel EXCEPT !.isRetired = TRUE])
    /\ UNCHANGED <<producers, line>>

-----------------------------------------------------------------------------

\* Its next message waits for room in the channel, behind those that wait already.
LineUp(p) ==
    /\ IsLive(producers[p]) /\ channel.phase = "open" /\ producers[p].incoming > 0 /\ producers[p].ticket = 0
    /\ channel.held = ChannelWindow \/ line.given > line.served
    /\ producers' = [producers EXCEPT ![p].ticket = line.given + 1, ![p].since = channel.taken]
    /\ line' = [line EXCEPT !.given = @ + 1]
    /\ UNCHANGED <<channel, consumer, faults>>

\* A message goes into the channel: the first one of the line; any one, if nobody waits there.
TakeIn(p) ==
    LET one == producers[p]
        isLinedUp == one.ticket > 0
    IN /\ Goes /\ one.incoming > 0 /\ channel.held < ChannelWindow
       /\ IF isLinedUp THEN one.ticket = line.served + 1 ELSE channel.phase = "open" /\ line.given = line.served
       /\ producers' = [producers EXCEPT ![p] = [one EXCEPT
              !.incoming = @ - 1, !.ticket = 0, !.since = 0]]
       /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
       /\ line' = IF isLinedUp THEN [line EXCEPT !.served = @ + 1] ELSE line
       /\ UNCHANGED <<consumer, faults>>

\* A message leaves for the consumer; its room is free again.
PassOn ==
    /\ consumer.isThere /\ channel.held > 0 /\ consumer.handed - consumer.consumed < ConsumerWindow
    /\ channel' = [channel EXCEPT !.held = @ - 1]
    /\ consumer' = [consumer EXCEPT !.handed = @ + 1]
    /\ UNCHANGED <<producers, line, faults>>

\* A producer's End has come behind its messages.  It ends the channel if it says so, and nobody has before.
NoteEnd(p) ==
    LET one == producers[p]
    IN /\ IsLive(one) /\ one.end = "sent" /\ one.incoming = 0 /\ ~IsOver
       /\ producers' = [producers EXCEPT ![p] = [one EXCEPT
              !.end = "here", !.mark = channel.taken,
              !.awaits = IF Waits /\ consumer.isThere THEN consumer.came ELSE 0]]
       /\ channel' = IF one.closes /\ channel.phase = "open" THEN [channel EXCEPT !.phase = "ended"] ELSE channel
       /\ UNCHANGED <<line, consumer, faults>>

\* All that was in the channel then has left: the answer waits until this is consumed.
NoteLeft(p) ==
    /\ IsLive(producers[p]) /\ producers[p].end = "here" /\ IsWaiting(producers[p]) /\ Left >= producers[p].mark
    /\ producers' = [producers EXCEPT ![p].end = "left", ![p].due = consumer.handed]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* A producer is told what became of its messages, and of all before its End.
AnswerEnd(p) ==
    LET one == producers[p]
        hasConsumed == IsWaiting(one) /\ one.end = "left" /\ consumer.consumed >= one.due
        wasRead == hasConsumed \/ channel.phase = "spent"
    IN /\ IsLive(one) /\ HasEnded(one) /\ ~IsOver
       /\ ~IsWaiting(one) \/ wasRead
       /\ producers' = [producers EXCEPT ![p].told = IF wasRead /\ channel.purged = 0 THEN "consumed" ELSE "accepted"]
       /\ UNCHANGED <<channel, line, consumer, faults>>

\* A message comes to a channel that another producer has closed: its sender is told, and where the end is not yet read,
\* nobody reads it.
RefuseClosed(p) ==
    LET one == producers[p]
    IN /\ IsLive(one) /\ one.incoming > 0 /\ one.ticket = 0 /\ ~IsOver /\ channel.phase # "open"
       /\ producers' = [producers EXCEPT ![p].told = "error"]
       /\ Breaks(channel)
       /\ UNCHANGED <<line, faults>>

\* A producer hears that the channel is over, also one that has nothing to send.
TellOver(p) ==
    /\ IsLive(producers[p]) /\ IsOver
    /\ producers' = [producers EXCEPT ![p].told = IF channel.isCancelled THEN "cancelled" ELSE "error"]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* The consumer has consumed all that is there, and reads the end: the channel is spent.
ReadEnd ==
    /\ channel.phase = "ended" /\ channel.held = 0 /\ line.given = line.served
    /\ consumer.isThere /\ consumer.consumed = consumer.handed
    /\ channel' = [channel EXCEPT !.phase = "spent"]
    /\ consumer' = [consumer EXCEPT !.isThere = FALSE]
    /\ UNCHANGED <<producers, line, faults>>

Environment ==
    \/ Done
    \/ \E p \in Names : DialIn(p)
    \/ \E p \in Names : Offer(p)
    \/ \E p \in Names : EndStream(p)
    \/ \E p \in Names : CloseStream(p)
    \/ \E p \in Names : Abort(p)
    \/ \E p \in Names : LoseProducer(p)
    \/ \E p \in Names : CutProducer(p)
    \/ \E p \in Names : ResumeProducer(p)
    \/ Claim \/ Consume \/ Cancel \/ GiveUpConsumer \/ Purge \/ Reset

Protocol ==
    \/ \E p \in Names : TellOver(p)
    \/ \E p \in Names : AnswerEnd(p)
    \/ \E p \in Names : NoteLeft(p)
    \/ \E p \in Names : NoteEnd(p)
    \/ \E p \in Names : RefuseClosed(p)
    \/ \E p \in Names : LineUp(p)
    \/ \E p \in Names : TakeIn(p)
    \/ PassOn \/ ReadEnd

Next == Environment \/ Protocol

Fairness ==
    /\ "Claim" \in Fair => WF_vars(Claim)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "Move" \in Fair => WF_vars(Protocol)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

TypeOK ==
    /\ \A p \in Names :
        /\ producers[p].life \in {"away", "open", "gone"}
        /\ producers[p].end \in {"none", "sent", "here", "left"}
        /\ producers[p].told \in {"none", "accepted", "consumed", "cancelled", "error"}
        /\ {producers[p].isCut, producers[p].closes} \subseteq BOOLEAN
        /\ {producers[p].offered, producers[p].incoming, producers[p].ticket, producers[p].since} \subseteq Nat
        /\ {producers[p].mark, producers[p].awaits, producers[p].due} \subseteq Nat
    /\ channel.phase \in {"open", "ended", "spent", "broken"}
    /\ {channel.held, channel.taken, channel.purged, channel.gap} \subseteq Nat
    /\ {line.given, line.served, consumer.handed, consumer.consumed, faults} \subseteq Nat
    /\ consumer.came \in 0 .. Consumers

\* Each message that a producer has offered is incoming, or was taken in once.
EachTakenOnce == channel.taken = Sum([p \in Names |-> producers[p].offered - producers[p].incoming])

\* What was taken in is held, was dropped, or was passed on to one consumer.
PassedOnOnce ==
    /\ channel.taken = channel.held + Left
    /\ consumer.consumed <= consumer.handed
    /\ (channel.gap = 0) = (channel.purged = 0)
    /\ (Goes /\ consumer.handed > 0) => consumer.isThere
    /\ consumer.isThere => Goes

\* Each window bounds what is in it.
FanInBounded ==
    /\ \A p \in Names : producers[p].incoming <= ProducerWindow
    /\ channel.held <= ChannelWindow
    /\ consumer.handed - consumer.consumed <= ConsumerWindow

\* Each ticket that waits is one producer's, and no other one's.
OneInEachPlace ==
    /\ \A p \in Names :
        /\ producers[p].ticket > 0 =>
            line.served < producers[p].ticket /\ producers[p].ticket <= line.given /\ producers[p].incoming > 0
        /\ \A q \in Names : (p # q /\ producers[p].ticket > 0) => producers[p].ticket # producers[q].ticket
    /\ \A k \in line.served + 1 .. line.given : \E p \in Names : producers[p].ticket = k

\* While a message waits in the line, at most one of each other producer is taken in.
TakenInTurn == \A p \in Names : producers[p].ticket > 0 =>
    (channel.taken - producers[p].since) + (producers[p].ticket - line.served) <= Producers

\* An End comes behind all messages of its producer, and is answered for all that were in the channel then.
EndIsBehindAll == \A p \in Names :
    /\ HasEnded(producers[p]) =>
        producers[p].incoming = 0 /\ producers[p].life # "away" /\ producers[p].mark <= channel.taken
    /\ producers[p].end = "left" =>
        producers[p].due <= consumer.handed /\ producers[p].mark <= producers[p].due + channel.purged

\* What a producer is told is true: consumed, so are all messages up to its End, whosever, and none of them was dropped.
EachIsToldTrue == \A p \in Names :
    CASE producers[p].told = "consumed" ->
            /\ HasEnded(producers[p]) /\ producers[p].mark <= consumer.consumed
            /\ channel.gap = 0 \/ producers[p].mark < channel.gap
      [] producers[p].told = "accepted" -> HasEnded(producers[p])
      [] producers[p].told = "cancelled" -> channel.isCancelled
      [] producers[p].told = "error" ->
            channel.phase = "broken" \/ channel.isRetired \/ (IsRead /\ producers[p].incoming > 0)
      [] producers[p].told = "none" -> TRUE

\* A consumer that has read the end has consumed all that was taken in, and not dropped; nothing waits behind it.
EndIsOfAll == IsRead => consumer.consumed + channel.purged = channel.taken /\ line.given = line.served

\* The channel ends when a producer says that it closes it, and not before.
OpenUntilClosed ==
    (channel.phase = "ended" \/ IsRead) => \E p \in Names : producers[p].closes /\ HasEnded(producers[p])

\* A producer that is gone before its End has come breaks the channel.
LossBreaks == Goes => \A p \in Names : producers[p].life = "gone" => HasEnded(producers[p])

\* Where a consumer reads, and a producer has something under way, something moves, or the consumer has a message.
FanInMoves ==
    (consumer.isThere /\ \E p \in Names :
        IsLive(producers[p]) /\ (producers[p].incoming > 0 \/ producers[p].end # "none")) =>
            (ENABLED Protocol) \/ consumer.consumed < consumer.handed

\* When nothing moves any more, each producer has heard that the channel is over.
OverIsTold == (IsOver /\ ~ENABLED Protocol) => \A p \in Names : ~IsLive(producers[p])

\* A producer that has ended is answered, if a consumer comes where one is needed.
EachIsAnswered == \A p \in Names :
    producers[p].end = "sent" ~> (~IsLive(producers[p]) \/ (~consumer.isThere /\ consumer.came = Consumers))

\* False: a channel whose producers have all ended has ended.
EndedByAllProbe ==
    (\A p \in Names : HasEnded(producers[p])) => channel.phase # "open"

\* False: one that is told consumed was the only one to send.
ToldWithOthersProbe == \A p \in Names : producers[p].told = "consumed" => channel.taken = producers[p].offered

\* False: a producer that was told that its messages are accepted, or consumed, hears of no break afterwards.
ToldBeforeBreakProbe ==
    channel.phase = "broken" => \A p \in Names : producers[p].told \notin {"accepted", "consumed"}

\* False: a producer reaches its turn at once.
WaitsForAllProbe == \A p \in Names : producers[p].ticket - line.served < Producers

\* False: no producer of a channel that was read to its end, and not reset, hears an error.
RefusedProbe == \A p \in Names : ~(IsRead /\ ~channel.isRetired /\ producers[p].told = "error")
=============================================================================
