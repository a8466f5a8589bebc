----------------------------- MODULE FanInMistakes -----------------------------
(***************************************************************************)
(* What an exchange must not do where several producers share a channel.   *)
(* Each mistake is an action that a model puts in the place of the right   *)
(* one: see the key `actions` of models.toml.                              *)
(***************************************************************************)
EXTENDS FanIn

\* An answer counts the messages of its own producer: others' that stand before them seem to be consumed.
CountsItsOwn(p) ==
    LET one == producers[p]
    IN /\ IsLive(one) /\ one.end = "here" /\ IsWaiting(one) /\ Left >= one.offered
       /\ producers' = [producers EXCEPT ![p].end = "left", ![p].due = one.offered]
       /\ UNCHANGED <<channel, line, consumer, faults>>

\* What an administrator has dropped counts as consumed.
CountsPurged(p) ==
    LET one == producers[p]
        hasConsumed == IsWaiting(one) /\ one.end = "left" /\ consumer.consumed >= one.due
        wasRead == hasConsumed \/ channel.phase = "spent"
    IN /\ IsLive(one) /\ HasEnded(one) /\ ~IsOver
       /\ ~IsWaiting(one) \/ wasRead
       /\ producers' = [producers EXCEPT ![p].told = IF wasRead THEN "consumed" ELSE "accepted"]
       /\ UNCHANGED <<channel, line, consumer, faults>>

\* A producer that finds room takes it, though others wait for it.
Overtakes(p) ==
    LET one == producers[p]
        isLinedUp == one.ticket > 0
    IN /\ Goes /\ one.incoming > 0 /\ channel.held < ChannelWindow
       /\ IF isLinedUp THEN one.ticket = line.served + 1 ELSE channel.phase = "open"
       /\ producers' = [producers EXCEPT ![p] = [one EXCEPT
              !.incoming = @ - 1, !.ticket = 0, !.since = 0]]
       /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
       /\ line' = IF isLinedUp THEN [line EXCEPT !.served = @ + 1] ELSE line
       /\ UNCHANGED <<consumer, faults>>

\* A message is taken in without room for it.
TakesInWhereFull(p) ==
    LET one == producers[p]
    IN /\ channel.phase = "open" /\ one.incoming > 0 /\ one.ticket = 0 /\ line.given = line.served
       /\ producers' = [producers EXCEPT ![p] = [one EXCEPT !.incoming = @ - 1]]
       /\ channel' = [channel EXCEPT !.held = @ + 1, !.taken = @ + 1]
       /\ UNCHANGED <<line, consumer, faults>>

\* The first End ends the channel for all.
EndsForAll(p) ==
    LET one == producers[p]
    IN /\ IsLive(one) /\ one.end = "sent" /\ one.incoming = 0 /\ ~IsOver
       /\ producers' = [producers EXCEPT ![p] = [one EXCEPT
              !.end = "here", !.mark = channel.taken,
              !.awaits = IF Waits /\ consumer.isThere THEN consumer.came ELSE 0]]
       /\ channel' = IF channel.phase = "open" THEN [channel EXCEPT !.phase = "ended"] ELSE channel
       /\ UNCHANGED <<line, consumer, faults>>

\* A lost producer is forgotten: there are others.
LosesQuietly(p) ==
    /\ Fails /\ IsLive(producers[p]) /\ ~IsOver
    /\ producers' = [producers EXCEPT ![p].life = "gone"]
    /\ UNCHANGED <<channel, line, consumer>>

\* What comes to a channel that is closed is dropped, and its sender is not told.
DropsQuietly(p) ==
    /\ IsLive(producers[p]) /\ producers[p].incoming > 0 /\ producers[p].ticket = 0 /\ ~IsOver
    /\ channel.phase # "open"
    /\ producers' = [producers EXCEPT ![p].incoming = 0]
    /\ UNCHANGED <<channel, line, consumer, faults>>

\* The end overtakes the messages that wait in the line.
ReadsEndBeforeTheLine ==
    /\ channel.phase = "ended" /\ channel.held = 0
    /\ consumer.isThere /\ consumer.consumed = consumer.handed
    /\ channel' = [channel EXCEPT !.phase = "spent"]
    /\ consumer' = [consumer EXCEPT !.isThere = FALSE]
    /\ UNCHANGED <<producers, line, faults>>

\* Another consumer goes on where one was lost.
ForgetsTheLost ==
    /\ Fails /\ consumer.isThere
    /\ consumer' = [consumer EXCEPT !.isThere = FALSE]
    /\ UNCHANGED <<producers, channel, line>>
=============================================================================
