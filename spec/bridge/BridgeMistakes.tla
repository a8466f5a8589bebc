--------------------------- MODULE BridgeMistakes ---------------------------
(***************************************************************************)
(* What a bridge must not do.  Each mistake is an action that a model puts *)
(* in the place of the right one: see the key `actions` of models.toml.    *)
(***************************************************************************)
EXTENDS Bridge

\* Each hop answers for itself: a message that has left for the consumer counts as consumed.
AnswersWhenPassedOn ==
    LET wasRead == (channel.isAwaited /\ IsThere /\ channel.held = 0) \/ channel.phase = "spent"
    IN /\ producer.life = "ended" /\ producer.told = "none" /\ channel.phase \in {"ended", "spent"}
       /\ ~channel.isAwaited \/ wasRead
       /\ producer' = [producer EXCEPT !.told = IF wasRead /\ channel.purged = 0 THEN "consumed" ELSE "accepted"]
       /\ UNCHANGED <<incoming, channel, consumer, comers, consumed, lost>>

\* Another consumer may go on where one has left halfway, although what that one was handed is lost.
LetsAnotherGoOn ==
    /\ consumer.life \in {"suspended", "gone"}
    /\ channel' = [channel EXCEPT !.isAwaited = FALSE]
    /\ lost' = lost + OfConsumer
    /\ Leaves("error")
    /\ UNCHANGED <<producer, incoming, comers, consumed>>

\* A producer that is gone counts as one that has ended.
EndsForTheLost ==
    /\ Faults /\ IsLive
    /\ producer' = [producer EXCEPT !.life = "gone"]
    /\ channel' = IF channel.phase = "open" THEN [channel EXCEPT !.phase = "ended"] ELSE channel
    /\ incoming' = 0
    /\ lost' = lost + incoming
    /\ UNCHANGED <<consumer, comers, consumed>>

\* End overtakes the messages that wait for room in the channel.
EndsBeforeAllIsIn ==
    /\ producer.life = "ended" /\ channel.phase = "open"
    /\ channel' = [channel EXCEPT !.phase = "ended", !.isAwaited = Waits /\ IsThere]
    /\ incoming' = 0
    /\ lost' = lost + incoming
    /\ UNCHANGED <<producer, consumer, comers, consumed>>

\* A consumer that cancels is taken for one that has consumed what it drops.
CancelsAsConsumed ==
    /\ consumer.life = "reading" /\ consumer.seen = "none"
    /\ consumer' = [consumer EXCEPT !.seen = "cancelled", !.inbox = 0, !.returned = @ + consumer.inbox]
    /\ lost' = lost + consumer.inbox
    /\ UNCHANGED <<producer, incoming, channel, comers, consumed>>

\* The producer of a channel that has lost its consumer is not told: it learns of it when it sends, if it ever does.
BreaksInSilence ==
    LET breaks == consumer.handed > 0 /\ Goes
    IN /\ consumer.life \in {"suspended", "gone"}
       /\ IF breaks THEN Breaks([channel EXCEPT !.isLost = TRUE])
          ELSE channel' = [channel EXCEPT !.isAwaited = FALSE] /\ UNCHANGED incoming
       /\ lost' = lost + (IF breaks THEN DroppedByBreak ELSE 0) + OfConsumer
       /\ Leaves("error")
       /\ UNCHANGED <<producer, comers, consumed>>

\* The first bridge consumes a message before there is room for it, and holds it: the channel has no bound.
TakesInWithoutRoom ==
    /\ channel.phase = "open" /\ incoming > 0
    /\ incoming' = incoming - 1
    /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
    /\ producer' = [producer EXCEPT !.returned = @ + 1]
    /\ UNCHANGED <<consumer, comers, consumed, lost>>

\* It forgets the permit.
TakesInWithoutAPermit ==
    /\ channel.phase = "open" /\ incoming > 0 /\ channel.held < ChannelWindow
    /\ incoming' = incoming - 1
    /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
    /\ UNCHANGED <<producer, consumer, comers, consumed, lost>>
=============================================================================
