------------------------------- MODULE MuteLinks -------------------------------
(***************************************************************************)
(* Mute among processes: connections are lost and made anew, sinks die     *)
(* while they mute, sources come and go.                                   *)
(*                                                                         *)
(*   source <-- relay <-- boundary <== link == sink     signals            *)
(*                            mutes while its link is lost                 *)
(*                                                                         *)
(* A boundary is a relay with a link: a connection to the process that is  *)
(* downstream.  It is a muter, too, and its number as one is one of the    *)
(* first sinks, which are no other node.  While its link is lost it mutes. *)
(* On a new link it forgets what it had heard over the lost one, because   *)
(* who said so may be dead.  The node downstream tells what it knows now,  *)
(* and then says welcome: only then the boundary unmutes.  So a source     *)
(* that a sink holds is held without a gap, if not by the sink then by the *)
(* boundary.                                                               *)
(*                                                                         *)
(* A node that has heard of a muter notes which nodes downstream speak of  *)
(* it.  If none does any more, it forgets the muter, and tells the nodes   *)
(* upstream that it is gone.  So nobody stays muted by a sink that is dead.*)
(*                                                                         *)
(* Source: Wallaroo's OutgoingBoundary and DataReceiver, which lose mutes  *)
(* with a connection, or keep those of the dead: MuteLinksMistakes.        *)
(* Not modelled: messages on a lost link, which a boundary keeps and sends *)
(* again; what a boundary mutes for its backlog, as a sink does; a process *)
(* that is started again: its sinks are new ones, with new names.          *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Sinks,       \* these are those of Mute; the first sinks are the numbers of boundaries as muters
    Relays,      \* as in Mute
    Sources,     \* as in Mute
    Hops,        \* a boundary has one hop to its number as a muter, and another one, its link
    High,        \* as in Mute, like the others up to Clears
    Low,         \* ...
    Supply,      \* ...
    Newcomers,   \* ...
    Disposals,   \* ...
    Clears,      \* ...
    Remakes,     \* so often a link may be lost
    Boundaries,  \* how many there are
    Deaths,      \* may sinks die that are behind links?
    Leaves,      \* may sources leave, and join again?
    Fair         \* names of the actions that are weakly fair

VARIABLES
    sources,     \* as in Mute
    sinks,       \* as in Mute; of a boundary there are no messages
    heard,       \* as in Mute; of a muter that a node has forgotten: epoch 0
    signals,     \* as in Mute; some say that a muter is gone, that all is told on a new link, or that a link is lost
    remade,      \* links that were lost
    spoken,      \* of two nodes and a muter: does the first one know from the second one that there is this muter?
    noted        \* of each source: the newest epoch of each muter that it has ever heard; nothing depends on it

Graph == INSTANCE Mute WITH Fair <- {}

Names == 1 .. Sinks + Relays + Sources
Muters == 1 .. Sinks
IsSource(n) == Graph!IsSource(n)
IsHop(up, down) == Graph!IsHop(up, down)
IsMute(epoch) == Graph!IsMute(epoch)
At(n) == Graph!At(n)

IsBoundary(n) == \E k \in 1 .. Boundaries : IsHop(n, k)
IsLink(up, down) == IsBoundary(up) /\ IsHop(up, down) /\ down > Boundaries

\* The number of a boundary as a muter.
Muter(n) == CHOOSE k \in 1 .. Boundaries : IsHop(n, k)

ASSUME Assumption ==
    /\ Boundaries \in 0 .. Sinks - 1
    /\ {Deaths, Leaves} \subseteq BOOLEAN
    /\ \A k \in 1 .. Boundaries : \E up \in Names :
        /\ Graph!IsRelay(up)
        /\ \A n \in Names : IsHop(n, k) => n = up
        /\ \E down \in Names : \A d \in Names : IsHop(up, d) <=> d \in {k, down} /\ down > Boundaries

vars == <<sources, sinks, heard, signals, remade, spoken, noted>>

Init ==
    /\ Graph!Init
    /\ spoken = [up \in Names |-> [down \in Names |-> [m \in Muters |-> FALSE]]]
    /\ noted = [s \in 1 .. Sources |-> [m \in Muters |-> 0]]

-----------------------------------------------------------------------------

\* In place of an epoch: the muter is gone.
Gone == -1

\* At the end of all that is told on a new link.
Welcome == [muter |-> 0, epoch |-> 0]

\* At the end of all that still comes over a link that is lost.
Broken == [muter |-> 0, epoch |-> Gone]

\* Has a boundary noticed that its link is lost, and nobody answered yet?
IsLost(up, down) ==
    IsLink(up, down) /\ IsMute(heard[Muter(up)][Muter(up)]) /\ Welcome \notin Graph!InFlight(signals[up][down])

\* The signals in flight when a node has told all nodes upstream.
Told(queues, down, told) ==
    [u \in Names |-> [d \in Names |->
        IF d = down /\ IsHop(u, d) /\ Graph!IsHere(u) THEN queues[u][d] \o told ELSE queues[u][d]]]

\* A boundary mutes or unmutes.
Turn(n, queues) ==
    LET k == Muter(n)
        epoch == heard[k][k] + 1
    IN  /\ heard' = [heard EXCEPT ![k][k] = epoch, ![n][k] = epoch]
        /\ signals' = Told(queues, n, <<[muter |-> k, epoch |-> epoch]>>)

\* A node does not know from another one any more that there are these muters; it forgets those of which no other speaks.
Forget(up, down, muters, queues) ==
    LET isLost == [m \in Muters |->
            m \in muters /\ spoken[up][down][m] /\ \A d \in Names : spoken[up][d][m] => d = down]
        lost == [m \in Muters |-> [muter |-> m, epoch |-> Gone]]
    IN  /\ spoken' = [spoken EXCEPT ![up][down] = [m \in Muters |-> @[m] /\ m \notin muters]]
        /\ heard' = [heard EXCEPT ![up] = [m \in Muters |-> IF isLost[m] THEN 0 ELSE @[m]]]
        /\ signals' = Told(queues, up, SelectSeq(lost, LAMBDA signal : isLost[signal.muter]))
        /\ sources' = IF IsSource(up)
                      THEN [sources EXCEPT ![At(up)].holds = [m \in Muters |-> IF isLost[m] THEN 0 ELSE @[m]]]
                      ELSE sources

\* Has a source something to send, and a sink for it?
HasWork(n) ==
    /\ IsSource(n) /\ Graph!IsHere(n) /\ sources[At(n)].left > 0
    /\ \E m \in Graph!Reached[n] : m > Boundaries /\ ~sinks[m].gone

-----------------------------------------------------------------------------

\* A source joins, and learns from the nodes downstream who mutes.
Join(n) ==
    /\ Graph!Join(n)
    /\ spoken' = [spoken EXCEPT ![n] = [d \in Names |-> [m \in Muters |-> IsHop(n, d) /\ heard[d][m] > 0]]]
    /\ noted' = [noted EXCEPT ![At(n)] = heard'[n]]

\* A source leaves: it hears no more.
Leave(n) ==
    /\ Leaves /\ IsSource(n) /\ Graph!IsHere(n)
    /\ LET nothing == [m \in Muters |-> 0]
       IN  /\ sources' = [sources EXCEPT ![At(n)].here = FALSE, ![At(n)].holds = nothing]
           /\ heard' = [heard EXCEPT ![n] = nothing]
           /\ noted' = [noted EXCEPT ![At(n)] = nothing]
    /\ signals' = [signals EXCEPT ![n] = [d \in Names |-> <<>>]]
    /\ spoken' = [spoken EXCEPT ![n] = [d \in Names |-> [m \in Muters |-> FALSE]]]
    /\ UNCHANGED <<sinks, remade>>

\* A link is lost, with what was in flight on it.
LoseLink(up, down) ==
    /\ remade < Remakes /\ IsLink(up, down) /\ ~IsLost(up, down)
    /\ signals' = [signals EXCEPT ![up][down] = <<Broken>>]
    /\ remade' = remade + 1
    /\ UNCHANGED <<sources, sinks, heard, spoken, noted>>

\* A sink dies with its process; what was for it is dropped, and what it has told may still come.
LoseSink(m) ==
    /\ Deaths /\ m \in Muters /\ m > Boundaries /\ ~sinks[m].gone
    /\ \A up \in Names : IsHop(up, m) => IsLink(up, m)
    /\ sinks' = [sinks EXCEPT ![m] = [gone |-> TRUE, wire |-> 0, inbox |-> 0]]
    /\ heard' = [heard EXCEPT ![m][m] = 0]
    /\ signals' = Told(signals, m, <<Broken>>)
    /\ UNCHANGED <<sources, remade, spoken, noted>>

\* A sink leaves; what was for it is dropped.
Dispose(m) == m > Boundaries /\ Graph!Dispose(m) /\ UNCHANGED <<spoken, noted>>

\* A sink drops its queue.
Clear(m) == Graph!Clear(m) /\ UNCHANGED <<spoken, noted>>

\* A source that is not muted reads a message, and sends it to a sink.
Send(n, m) == m > Boundaries /\ Graph!Send(n, m) /\ UNCHANGED <<spoken, noted>>

\* A message arrives in the queue of a sink.
Deliver(m) == Graph!Deliver(m) /\ UNCHANGED <<spoken, noted>>

\* A sink consumes a message.
Consume(m) == Graph!Consume(m) /\ UNCHANGED <<spoken, noted>>

\* A signal arrives at a node; a relay hands on what is news to it.
ReceiveSignal(up, down) ==
    /\ signals[up][down] # <<>> /\ ~IsLost(up, down)
    /\ LET signal == Head(signals[up][down])
       IN  /\ signal.muter # 0
           /\ IF signal.epoch = Gone
              THEN /\ Forget(up, down, {signal.muter}, [signals EXCEPT ![up][down] = Tail(@)])
                   /\ UNCHANGED <<sinks, remade, noted>>
              ELSE /\ Graph!ReceiveSignal(up, down)
                   /\ spoken' = [spoken EXCEPT ![up][down][signal.muter] = TRUE]
                   /\ noted' = IF IsSource(up)
                               THEN [noted EXCEPT ![At(up)][signal.muter] = Graph!Larger(@, signal.epoch)]
                               ELSE noted

\* A boundary notices that its link is lost, and mutes.
NoticeLoss(up, down) ==
    /\ signals[up][down] # <<>> /\ Head(signals[up][down]) = Broken /\ ~IsLost(up, down)
    /\ Turn(up, [signals EXCEPT ![up][down] = <<>>])
    /\ UNCHANGED <<sources, sinks, remade, spoken, noted>>

\* A link is made anew: what was heard over the lost one does not hold any more, and what holds now is told.
Reconnect(up, down) ==
    /\ IsLost(up, down)
    /\ Forget(up, down, Muters, [signals EXCEPT ![up][down] = Append(Graph!Newest(down), Welcome)])
    /\ UNCHANGED <<sinks, remade, noted>>

\* All is told: the boundary unmutes.
OpenLink(up, down) ==
    /\ signals[up][down] # <<>> /\ Head(signals[up][down]) = Welcome
    /\ Turn(up, [signals EXCEPT ![up][down] = Tail(@)])
    /\ UNCHANGED <<sources, sinks, remade, spoken, noted>>

\* No source has anything to send.
Done ==
    /\ \A n \in Names : ~HasWork(n)
    /\ UNCHANGED vars

Environment ==
    \/ Done \/ (\E n \in Names : Join(n)) \/ (\E n \in Names : Leave(n))
    \/ (\E m \in Names : Dispose(m)) \/ (\E m \in Names : Clear(m))
    \/ (\E up, down \in Names : LoseLink(up, down)) \/ (\E m \in Names : LoseSink(m))

Protocol ==
    \/ (\E n, m \in Names : Send(n, m)) \/ (\E m \in Names : Deliver(m)) \/ (\E m \in Names : Consume(m))
    \/ (\E up, down \in Names : ReceiveSignal(up, down)) \/ (\E up, down \in Names : NoticeLoss(up, down))
    \/ (\E up, down \in Names : Reconnect(up, down)) \/ (\E up, down \in Names : OpenLink(up, down))

Next == Environment \/ Protocol

Fairness ==
    /\ \A m \in Names : "Consume" \in Fair => WF_vars(Consume(m))
    /\ \A up, down \in Names :
        IsHop(up, down) /\ "ReceiveSignal" \in Fair => WF_vars(ReceiveSignal(up, down))
    /\ \A up, down \in Names : IsLink(up, down) =>
        /\ "NoticeLoss" \in Fair => WF_vars(NoticeLoss(up, down))
        /\ "Reconnect" \in Fair => WF_vars(Reconnect(up, down))
        /\ "OpenLink" \in Fair => WF_vars(OpenLink(up, down))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ \A s \in 1 .. Sources : sources[s].left \in 0 .. Supply /\ \A m \in Muters : sources[s].holds[m] \in 0 .. 1
    /\ \A m \in Muters : {sinks[m].wire, sinks[m].inbox} \subseteq Nat
    /\ \A n \in Names, m \in Muters : heard[n][m] \in Nat
    /\ remade \in 0 .. Remakes

\* A sink mutes above its high mark, and unmutes at its low mark.
Marks ==
    \A m \in Muters : m > Boundaries /\ ~sinks[m].gone =>
        IF IsMute(heard[m][m]) THEN sinks[m].inbox > Low ELSE sinks[m].inbox <= High

\* No node has heard more of a muter than that has told.
InOrder == \A n \in Names, m \in Muters : sinks[m].gone \/ heard[n][m] <= heard[m][m]

\* Nothing comes over a hop: it is a link that is lost, whether that was noticed or not.
IsBroken(up, down) == IsLost(up, down) \/ Broken \in Graph!InFlight(signals[up][down])

\* The signals of a muter that are in flight on a hop.
OfMuter(up, down, m) == SelectSeq(signals[up][down], LAMBDA signal : signal.muter = m)

\* ... and the newest epoch of those behind the last one that it is gone.
NewestSince(told) ==
    LET Newest[i \in 0 .. Len(told)] ==
            IF i = 0 THEN 0 ELSE IF told[i].epoch = Gone THEN 0 ELSE Graph!Larger(Newest[i - 1], told[i].epoch)
    IN  Newest[Len(told)]

SaysGone(told) == \E i \in DOMAIN told : told[i].epoch = Gone

\* What a node has heard, the node upstream has heard, too, or it is on its way.
OnItsWay ==
    \A up, down \in Names : IsHop(up, down) /\ Graph!IsHere(up) /\ ~IsBroken(up, down) =>
        \A m \in Muters :
            LET told == OfMuter(up, down, m)
                known == IF SaysGone(told) THEN 0 ELSE heard[up][m]
            IN  Graph!Larger(known, NewestSince(told)) >= heard[down][m]

\* Who speaks of a muter knows it, or it is on its way that it is gone.
SpeakersKnow ==
    \A up, down \in Names : IsHop(up, down) /\ ~IsBroken(up, down) => \A m \in Muters :
        LET told == OfMuter(up, down, m)
            speaks == IF told = <<>> THEN spoken[up][down][m] ELSE told[Len(told)].epoch # Gone
        IN  speaks => heard[down][m] > 0

\* A node knows a muter only as long as a node downstream speaks of it.
KnownFromSpeakers ==
    \A n \in Names, m \in Muters :
        n > Sinks /\ heard[n][m] > 0 => \/ \E d \in Names : spoken[n][d][m]
                                        \/ m <= Boundaries /\ IsHop(n, m)

\* A source that has heard that a muter mutes does not read before that unmutes or dies, whatever is lost meanwhile.
HeldThroughout ==
    \A n \in Names, m \in Muters :
        IsSource(n) /\ Graph!IsHere(n) /\ ~sinks[m].gone /\ IsMute(heard[m][m]) /\ noted[At(n)][m] = heard[m][m] =>
            Graph!IsMuted(n)

\* When nothing is in flight and no link is lost, each source is held by the muters that mute, and by none that is dead.
Settled ==
    (\A up, down \in Names : signals[up][down] = <<>> /\ ~IsLost(up, down)) =>
        \A n \in Names : IsSource(n) /\ Graph!IsHere(n) =>
            \A m \in Graph!Reached[n] : (sources[At(n)].holds[m] > 0) = (~sinks[m].gone /\ IsMute(heard[m][m]))

\* As long as a source has something for a sink, something moves.
NeverStuck == (\E n \in Names : HasWork(n)) => ENABLED Protocol

\* A source that is muted reads again.
Resumed == \A n \in Names : IsSource(n) => (Graph!IsMuted(n) ~> ~Graph!IsMuted(n))

\* False: who is held by a sink is held by it alone, and not for a while by a boundary.
HeldByItselfProbe ==
    \A n \in Names, m \in Muters :
        IsSource(n) /\ Graph!IsHere(n) /\ ~sinks[m].gone /\ IsMute(heard[m][m]) /\ noted[At(n)][m] = heard[m][m] =>
            sources[At(n)].holds[m] > 0

\* False: nobody is held by the dead; that they are takes its time to be heard.
NotHeldByTheDeadProbe == \A s \in 1 .. Sources, m \in Muters : sinks[m].gone => sources[s].holds[m] = 0
=============================================================================
