--------------------------------- MODULE Mute ---------------------------------
(***************************************************************************)
(* Back-pressure from end to end: a sink whose queue is full mutes all     *)
(* sources that lead to it, through the relays in between.                 *)
(*                                                                         *)
(*    source --Send------------- wire ------------Deliver--> queue of a    *)
(*      |    <-- relay <---ReceiveSignal--- relay <------- tells | sink    *)
(*      reads                                                Consume       *)
(*                                                                         *)
(* With more than High messages in its queue a sink mutes, with no more    *)
(* than Low it unmutes.  It is then a muter, and counts an epoch: one more *)
(* with each mute and each unmute, so that odd epochs mute.  A signal is a *)
(* muter and its epoch.  It goes up hop by hop; of two signals of a muter  *)
(* the one with the higher epoch counts, whichever path it took and however*)
(* often it came.  So a node needs one number for each muter.  A source    *)
(* reads while the newest epoch that it has heard of each sink is even.    *)
(*                                                                         *)
(* Relays are never muted: they hand on what they have, so messages in     *)
(* relays are in flight, too.  How many come until a mute has reached all  *)
(* sources is said in MuteDelay.                                           *)
(*                                                                         *)
(* Source: Wallaroo: TCPSink, OutgoingBoundary, Step and TCPSource; its    *)
(* published faults are in MuteMistakes.                                   *)
(* Not modelled: TCP's buffers (MuteDelay counts them as flight),          *)
(* acknowledgements; processes that die, and nodes that leave (MuteLinks). *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Sinks,      \* sinks: the nodes 1, 2, ...
    Relays,     \* relays: the next nodes
    Sources,    \* sources: the last nodes
    Hops,       \* pairs of nodes; of each, the node with the larger number is upstream
    High,       \* with more messages than this in its queue a sink mutes
    Low,        \* with no more messages than this in its queue a sink unmutes
    Supply,     \* messages that each source has to send
    Newcomers,  \* so many of the last sources join later
    Disposals,  \* may sinks leave?
    Clears,     \* may sinks drop what is in their queues, to begin again?
    Remakes,    \* so often a connection may be made anew
    Fair        \* names of the actions that are weakly fair

Names == 1 .. Sinks + Relays + Sources
IsSink(n) == n <= Sinks
IsSource(n) == n > Sinks + Relays
IsRelay(n) == ~IsSink(n) /\ ~IsSource(n)
IsHop(up, down) == down < up /\ {up, down} \in Hops

\* The sinks to which a node leads.
Reached[n \in Names] == IF IsSink(n) THEN {n} ELSE UNION {Reached[d] : d \in {d \in Names : IsHop(n, d)}}

ASSUME Assumption ==
    /\ {Sinks, Sources, Supply} \subseteq Nat \ {0} /\ {Relays, Newcomers, Remakes} \subseteq Nat
    /\ Newcomers <= Sources
    /\ \A hop \in Hops : \E up, down \in Names : hop = {up, down} /\ down < up /\ ~IsSink(up) /\ ~IsSource(down)
    /\ \A n \in Names : Reached[n] # {}
    /\ Fair \subseteq {"Send", "Deliver", "Consume", "ReceiveSignal"}
    /\ Low \in Nat /\ High \in Nat /\ High >= Low
    /\ {Disposals, Clears} \subseteq BOOLEAN

VARIABLES
    sources,  \* of each source: is it here, the messages that it has, the mutes that hold it, by muter
    sinks,    \* of each sink: has it left, the messages in flight to it, those in its queue
    heard,    \* of each node: the newest epoch of each sink that it has heard; of a sink: what it has told
    signals,  \* of two nodes: the signals in flight up to the first from the second, oldest first
    remade    \* connections that were made anew

vars == <<sources, sinks, heard, signals, remade>>

\* The source at a node.
At(n) == n - Sinks - Relays

Init ==
    /\ sources = [s \in 1 .. Sources |->
                    [here |-> s <= Sources - Newcomers, left |-> Supply, holds |-> [m \in 1 .. Sinks |-> 0]]]
    /\ sinks = [m \in 1 .. Sinks |-> [gone |-> FALSE, wire |-> 0, inbox |-> 0]]
    /\ heard = [n \in Names |-> [m \in 1 .. Sinks |-> 0]]
    /\ signals = [up \in Names |-> [down \in Names |-> <<>>]]
    /\ remade = 0

-----------------------------------------------------------------------------

IsMute(epoch) == epoch % 2 = 1

IsHere(n) == IsSource(n) => sources[At(n)].here

\* Is the source at this node muted?
IsMuted(n) == \E m \in 1 .. Sinks : sources[At(n)].holds[m] > 0

\* The signals in flight when a node has told all nodes upstream.
Forwarded(queues, down, signal) ==
    [u \in Names |-> [d \in Names |->
        IF d = down /\ IsHop(u, d) /\ IsHere(u) THEN Append(queues[u][d], signal) ELSE queues[u][d]]]

\* The newest signals that a node knows.
Newest(n) ==
    SelectSeq([m \in 1 .. Sinks |-> [muter |-> m, epoch |-> heard[n][m]]], LAMBDA signal : signal.epoch > 0)

\* A sink begins an epoch.
BeginEpoch(m, epoch) ==
    /\ heard' = [heard EXCEPT ![m][m] = epoch]
    /\ signals' = Forwarded(signals, m, [muter |-> m, epoch |-> epoch])

\* A sink mutes or unmutes, if its marks say so.
Evaluate(m, inbox) ==
    IF IF IsMute(heard[m][m]) THEN inbox <= Low ELSE inbox > High
    THEN BeginEpoch(m, heard[m][m] + 1)
    ELSE UNCHANGED <<heard, signals>>

\* Has a source something to send, and a sink for it?
HasWork(n) ==
    IsSource(n) /\ IsHere(n) /\ sources[At(n)].left > 0 /\ \E m \in Reached[n] : ~sinks[m].gone

Larger(left, right) == IF left >= right THEN left ELSE right

-----------------------------------------------------------------------------

\* A source joins, and learns from the nodes downstream who mutes.
Join(n) ==
    /\ IsSource(n) /\ ~IsHere(n)
    /\ LET Learned[d \in 0 .. Sinks + Relays] ==
               IF d = 0 THEN heard[n]
               ELSE [m \in 1 .. Sinks |->
                        IF IsHop(n, d) THEN Larger(heard[d][m], Learned[d - 1][m]) ELSE Learned[d - 1][m]]
           known == Learned[Sinks + Relays]
       IN  /\ heard' = [heard EXCEPT ![n] = known]
           /\ sources' = [sources EXCEPT ![At(n)].here = TRUE,
                                         ![At(n)].holds = [m \in 1 .. Sinks |-> known[m] % 2]]
    /\ UNCHANGED <<sinks, signals, remade>>

\* A sink leaves; what was for it is dropped.
Dispose(m) ==
    /\ Disposals /\ IsSink(m) /\ ~sinks[m].gone
    /\ sinks' = [sinks EXCEPT ![m] = [gone |-> TRUE, wire |-> 0, inbox |-> 0]]
    /\ IF IsMute(heard[m][m]) THEN BeginEpoch(m, heard[m][m] + 1) ELSE UNCHANGED <<heard, signals>>
    /\ UNCHANGED <<sources, remade>>

\* A sink drops its queue.
Clear(m) ==
    /\ Clears /\ IsSink(m) /\ sinks[m].inbox > 0
    /\ sinks' = [sinks EXCEPT ![m].inbox = 0]
    /\ Evaluate(m, 0)
    /\ UNCHANGED <<sources, remade>>

\* A connection is made anew: what was in flight is lost.
Reconnect(up, down) ==
    /\ remade < Remakes /\ signals[up][down] # <<>>
    /\ signals' = [signals EXCEPT ![up][down] = Newest(down)]
    /\ remade' = remade + 1
    /\ UNCHANGED <<sources, sinks, heard>>

\* A connection is made anew: a signal of the old one will come once more, behind newer ones.
DuplicateSignal(up, down) ==
    /\ remade < Remakes /\ signals[up][down] # <<>>
    /\ signals' = [signals EXCEPT ![up][down] = Append(@, Head(@))]
    /\ remade' = remade + 1
    /\ UNCHANGED <<sources, sinks, heard>>

\* A source that is not muted reads a message, and sends it to a sink.
Send(n, m) ==
    /\ IsSource(n) /\ IsHere(n) /\ ~IsMuted(n) /\ sources[At(n)].left > 0
    /\ m \in Reached[n] /\ ~sinks[m].gone
    /\ sources' = [sources EXCEPT ![At(n)].left = @ - 1]
    /\ sinks' = [sinks EXCEPT ![m].wire = @ + 1]
    /\ UNCHANGED <<heard, signals, remade>>

\* A message arrives in the queue of a sink.
Deliver(m) ==
    /\ IsSink(m) /\ sinks[m].wire > 0
    /\ sinks' = [sinks EXCEPT ![m].wire = @ - 1, ![m].inbox = @ + 1]
    /\ Evaluate(m, sinks[m].inbox + 1)
    /\ UNCHANGED <<sources, remade>>

\* A sink consumes a message.
Consume(m) ==
    /\ IsSink(m) /\ sinks[m].inbox > 0
    /\ sinks' = [sinks EXCEPT ![m].inbox = @ - 1]
    /\ Evaluate(m, sinks[m].inbox - 1)
    /\ UNCHANGED <<sources, remade>>

\* A signal arrives at a node; a relay hands on what is news to it.
ReceiveSignal(up, down) ==
    /\ signals[up][down] # <<>>
    /\ LET signal == Head(signals[up][down])
           isNews == signal.epoch > heard[up][signal.muter]
           others == [signals EXCEPT ![up][down] = Tail(@)]
       IN  /\ heard' = IF isNews THEN [heard EXCEPT ![up][signal.muter] = signal.epoch] ELSE heard
           /\ signals' = IF IsRelay(up) /\ isNews THEN Forwarded(others, up, signal) ELSE others
           /\ sources' = IF IsSource(up) /\ isNews
                         THEN [sources EXCEPT ![At(up)].holds[signal.muter] = signal.epoch % 2]
                         ELSE sources
    /\ UNCHANGED <<sinks, remade>>

\* No source has anything to send.
Done ==
    /\ \A n \in Names : ~HasWork(n)
    /\ UNCHANGED vars

Environment ==
    \/ Done \/ (\E n \in Names : Join(n)) \/ (\E m \in Names : Dispose(m)) \/ (\E m \in Names : Clear(m))
    \/ (\E up, down \in Names : Reconnect(up, down)) \/ (\E up, down \in Names : DuplicateSignal(up, down))

Protocol ==
    \/ (\E n, m \in Names : Send(n, m)) \/ (\E m \in Names : Deliver(m)) \/ (\E m \in Names : Consume(m))
    \/ (\E up, down \in Names : ReceiveSignal(up, down))

Next == Environment \/ Protocol

Fairness ==
    /\ \A m \in Names :
        /\ "Deliver" \in Fair => WF_vars(Deliver(m))
        /\ "Consume" \in Fair => WF_vars(Consume(m))
    /\ \A n, m \in Names :
        /\ "Send" \in Fair => WF_vars(Send(n, m))
        /\ "ReceiveSignal" \in Fair => WF_vars(ReceiveSignal(n, m))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

InFlight(queue) == {queue[i] : i \in DOMAIN queue}

TypeOK ==
    /\ \A s \in 1 .. Sources : sources[s].left \in 0 .. Supply /\ \A m \in 1 .. Sinks : sources[s].holds[m] \in Nat
    /\ \A m \in 1 .. Sinks : {sinks[m].wire, sinks[m].inbox} \subseteq Nat
    /\ \A n \in Names, m \in 1 .. Sinks : heard[n][m] \in Nat
    /\ remade \in 0 .. Remakes

\* A sink mutes above its high mark, and unmutes at its low mark: its epoch is odd in between.
Marks ==
    \A m \in 1 .. Sinks :
        /\ IF IsMute(heard[m][m]) THEN ~sinks[m].gone /\ sinks[m].inbox > Low ELSE sinks[m].inbox <= High
        /\ sinks[m].gone => sinks[m].wire + sinks[m].inbox = 0

\* No node has heard more than the muter has told, and none tells more than it has heard.
InOrder ==
    /\ \A n \in Names, m \in 1 .. Sinks : heard[n][m] <= heard[m][m]
    /\ \A up, down \in Names : \A signal \in InFlight(signals[up][down]) : signal.epoch <= heard[down][signal.muter]

\* What a node has heard, the node upstream has heard, too, or it is on its way.
OnItsWay ==
    \A up, down \in Names : IsHop(up, down) /\ IsHere(up) => \A m \in 1 .. Sinks :
        \/ heard[up][m] >= heard[down][m]
        \/ \E signal \in InFlight(signals[up][down]) : signal.muter = m /\ signal.epoch >= heard[down][m]

\* A source does not read if the newest epoch that it has heard of some sink is a mute.
NoEarlyUnmute ==
    \A n \in Names, m \in 1 .. Sinks :
        IsSource(n) /\ IsMute(heard[n][m]) => sources[At(n)].holds[m] > 0

\* When nothing is in flight, each source is held by the sinks that mute, and by no other.
Settled ==
    (\A up, down \in Names : signals[up][down] = <<>>) =>
        \A n \in Names : IsSource(n) /\ IsHere(n) =>
            \A m \in Reached[n] : (sources[At(n)].holds[m] > 0) = IsMute(heard[m][m])

\* As long as a source has something for a sink, or a sink has something to consume, something moves.
NeverStuck ==
    (\E n \in Names : HasWork(n)) => ENABLED Protocol

\* A source that is muted reads again.
Resumed == \A n \in Names : IsSource(n) => (IsMuted(n) ~> ~IsMuted(n))

\* Everything is consumed.
Drained ==
    <>(/\ \A s \in 1 .. Sources : sources[s].left = 0
       /\ \A m \in 1 .. Sinks : sinks[m].wire + sinks[m].inbox = 0)

\* False: a source reads while a sink mutes, because the signal is on its way.
MutedAtOnceProbe ==
    \A n \in Names, m \in 1 .. Sinks : IsSource(n) /\ m \in Reached[n] /\ IsMute(heard[m][m]) => IsMuted(n)

\* False: a queue grows above its high mark by no more than one message.
WithinHighProbe == \A m \in 1 .. Sinks : sinks[m].inbox <= High + 1

\* False: no signal arrives behind a newer one.
NeverOldProbe ==
    \A up, down \in Names : \A signal \in InFlight(signals[up][down]) : signal.epoch > heard[up][signal.muter]
=============================================================================
