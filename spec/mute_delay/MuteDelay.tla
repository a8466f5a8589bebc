------------------------------ MODULE MuteDelay ------------------------------
(***************************************************************************)
(* How far the queue of a sink grows above its high mark while its mute    *)
(* goes up, hop by hop, to sources that are Depth hops away (Mute.tla says *)
(* who hears what).  For each source there must be places for              *)
(*                                                                         *)
(*     Flight + Rate * (Depth + Losses)                                    *)
(*                                                                         *)
(* messages: what is in flight from it when the sink mutes, in relays      *)
(* included, and what it sends until it hears the mute.  A tick is the     *)
(* longest time in which a signal goes one hop, so a source that sends R   *)
(* messages in a second has Rate = R * SignalDelay, and, if a message      *)
(* takes at most DataDelay for a hop, Flight = R * Depth * DataDelay.      *)
(*                                                                         *)
(* Of the signals on their way the newest counts; older ones may arrive    *)
(* before it at any time, by any path: they change nothing in the bound.   *)
(* A signal that is lost with its connection is told again by the node     *)
(* downstream, and begins its hop anew.                                    *)
(*                                                                         *)
(* Source: the bound is ours; the protocol is Wallaroo's, whose mailboxes  *)
(* have none.                                                              *)
(* Not modelled: who hears what (Mute).  Slack, spare and reach count      *)
(* messages and not hops, so that the steps of the proof stay linear.      *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Sources,      \* sources that lead to the sink
    Rate,         \* the most messages that a source sends in a tick
    Depth,        \* hops from a source to the sink
    Flight,       \* the most messages in flight from a source
    FirstRate,    \* the same of the first source
    FirstDepth,   \* likewise
    FirstFlight,  \* likewise
    High,         \* with more messages than this in its queue the sink mutes
    Low,          \* with no more messages than this in its queue the sink unmutes
    Capacity,     \* messages for which the sink has places
    Losses        \* signals to each source that may be lost

ASSUME Assumption ==
    /\ {Sources, Rate, Depth, Flight, FirstRate, FirstDepth, FirstFlight} \subseteq Nat \ {0}
    /\ {Low, Losses} \subseteq Nat /\ High \in Nat /\ High >= Low /\ Capacity \in Nat /\ Capacity >= High

VARIABLES
    sources,      \* of each source: Opened says what
    inbox,        \* messages in the queue of the sink
    mutes         \* does the sink mute?

vars == <<sources, inbox, mutes>>

Names == 1 .. Sources

Opened(rate, depth, flight) ==
    [rate   |-> rate,
     reach  |-> rate * depth,   \* the most messages that leave while a signal goes all its way
     slack  |-> rate * Losses,  \* ... and while the lost ones go their hops again
     flight |-> flight,
     muted  |-> FALSE,          \* is it muted, as far as it has heard?
     ahead  |-> 0,              \* of `reach`, what may still leave: Rate for each hop that the newest signal has to go
     late   |-> FALSE,          \* has the signal been on its present hop for a tick?
     spare  |-> rate * Losses,  \* of `slack`, what is left
     sent   |-> 0,              \* messages sent in this tick
     wire   |-> 0]              \* messages in flight to the sink

Init ==
    /\ sources = [s \in Names |-> IF s = 1 THEN Opened(FirstRate, FirstDepth, FirstFlight)
                                  ELSE Opened(Rate, Depth, Flight)]
    /\ inbox = 0 /\ mutes = FALSE

-----------------------------------------------------------------------------

\* Has the newest signal still a hop to go?
IsComing(source) == source.ahead >= source.rate

\* The newest signal begins its way.
Signalled(source) == [source EXCEPT !.ahead = source.reach, !.late = FALSE]

Later(source) == [source EXCEPT !.sent = 0, !.late = IsComing(source)]

\* The sink has a queue of this length, and mutes or unmutes if its marks say so.
Evaluate(length, all) ==
    /\ inbox' = length
    /\ IF IF mutes THEN length <= Low ELSE length > High
       THEN /\ mutes' = ~mutes
            /\ sources' = [s \in Names |-> Signalled(all[s])]
       ELSE /\ mutes' = mutes
            /\ sources' = all

-----------------------------------------------------------------------------

\* Time passes; a signal that is late must arrive before that, and before anything is sent.
Tick ==
    /\ \A s \in Names : ~sources[s].late
    /\ sources' = [s \in Names |-> Later(sources[s])]
    /\ UNCHANGED <<inbox, mutes>>

\* A signal is lost with its connection, and is told again.
LoseSignal(s) ==
    /\ IsComing(sources[s]) /\ sources[s].spare >= sources[s].rate
    /\ sources' = [sources EXCEPT ![s].spare = @ - sources[s].rate, ![s].late = FALSE]
    /\ UNCHANGED <<inbox, mutes>>

\* An older signal arrives.
ReceiveOldSignal(s) ==
    /\ IsComing(sources[s])
    /\ sources' = [sources EXCEPT ![s].muted = ~@]
    /\ UNCHANGED <<inbox, mutes>>

\* A source that is not muted, as far as it has heard, sends a message; earlier ones have arrived.
Send(s) ==
    /\ ~sources[s].muted /\ ~sources[s].late
    /\ sources[s].sent < sources[s].rate
    /\ sources[s].wire < sources[s].flight
    /\ sources' = [sources EXCEPT ![s].sent = @ + 1, ![s].wire = @ + 1]
    /\ UNCHANGED <<inbox, mutes>>

\* A message arrives at the sink; nothing keeps it out.
Deliver(s) ==
    /\ sources[s].wire > 0
    /\ Evaluate(inbox + 1, [sources EXCEPT ![s].wire = @ - 1])

\* The sink consumes a message.
Consume ==
    /\ inbox > 0
    /\ Evaluate(inbox - 1, sources)

\* The newest signal arrives at the next node; the last one is the source.
Hop(s) ==
    /\ IsComing(sources[s])
    /\ LET ahead == sources[s].ahead - sources[s].rate
       IN  sources' = [sources EXCEPT ![s].ahead = ahead,
                                      ![s].late = FALSE,
                                      ![s].muted = IF ahead < sources[s].rate THEN mutes ELSE @]
    /\ UNCHANGED <<inbox, mutes>>

Environment == Tick \/ (\E s \in Names : LoseSignal(s)) \/ (\E s \in Names : ReceiveOldSignal(s))

Protocol ==
    \/ (\E s \in Names : Send(s)) \/ (\E s \in Names : Deliver(s)) \/ Consume \/ (\E s \in Names : Hop(s))

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ inbox \in Nat /\ mutes \in BOOLEAN
    /\ \A s \in Names :
        /\ sources[s].ahead \in 0 .. sources[s].reach /\ sources[s].spare \in 0 .. sources[s].slack
        /\ sources[s].sent \in 0 .. sources[s].rate /\ sources[s].wire \in 0 .. sources[s].flight
        /\ sources[s].late \in BOOLEAN

\* The queue never grows beyond its places.
Bounded == inbox <= Capacity

\* A sink that does not mute is not above its high mark; one that mutes is above its low mark.
Marks == IF mutes THEN inbox > Low ELSE inbox <= High

\* A source that has heard the newest signal does what it says.
NewestObeyed == \A s \in Names : ~IsComing(sources[s]) => sources[s].muted = mutes

\* A signal that is late is on its way, and nothing was sent while it was.
InTime == \A s \in Names : sources[s].late => IsComing(sources[s]) /\ sources[s].sent = 0

\* False: places for what is in flight when the sink mutes are enough.
OneWayProbe == inbox <= High + FirstFlight + (Sources - 1) * Flight
=============================================================================
