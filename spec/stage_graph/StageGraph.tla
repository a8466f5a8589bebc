------------------------------ MODULE StageGraph ------------------------------
(***************************************************************************)
(* A graph of stages, as `permitflow.stages` runs it: arcs carry asks      *)
(* upstream and elements downstream.  What a stage does is written as its  *)
(* class does it, handler by handler.  Only how many elements there are    *)
(* counts.  The data choose what a stage with an open ratio emits; outside, *)
(* a source gives an element or ends, and a sink asks.  The island runs    *)
(* its events in their order; the outside has its turn when none is left.  *)
(*                                                                         *)
(* The graphs are the small ones of the table at `Blueprint`: loops with   *)
(* each kind of merge and of arc back, with a zip, with and without a      *)
(* first element; diamonds; an echo.  Stages and arcs are numbered from 0. *)
(*                                                                         *)
(* Source: cycles and deadlocks of Akka Streams' documentation, and        *)
(* permitflow/stages/core.                                                 *)
(* Not modelled: cancellation (nobody cancels in these graphs; TLC says so *)
(* where a case is missing), failures, and the kinds of stages that these  *)
(* graphs do not have.                                                     *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Graph,        \* which graph
    Size          \* places of its buffer; of a line or an echo, the elements that its source or client has

ASSUME Assumption == Size \in Nat \ {0}

VARIABLES
    arcs,         \* of each arc, where its only ask or element is, and which of its ends is closed
    stages,       \* what each stage keeps: Begin says what that is
    queue         \* the arcs that have an event, in the order in which the island runs them

vars == <<arcs, stages, queue>>

-----------------------------------------------------------------------------

\* The graphs.

Any == -1    \* no bound

NewStage(kind) ==
    [kind |-> kind, elements |-> Any, takes |-> 1, least |-> 1, most |-> 1, capacity |-> 0, overflow |-> "block",
     writes |-> 0]

Buffer == [NewStage("buffer") EXCEPT !.capacity = Size]

Ratio(takes, gives) == [NewStage("stage") EXCEPT !.takes = takes, !.least = gives, !.most = gives]

\* A source of so many elements, a buffer of 1 and a sink.
Line ==
    [stages |-> <<[NewStage("source") EXCEPT !.elements = Size], [NewStage("buffer") EXCEPT !.capacity = 1],
                  NewStage("sink")>>,
     arcs   |-> <<<<0, 1>>, <<1, 2>>>>]

\* A source goes into a loop: what leaves the join goes to a sink, and through these stages back into the join.
Loop(join, back) ==
    [stages |-> <<NewStage("source"), NewStage(join), NewStage("broadcast"), NewStage("sink")>> \o back,
     arcs   |-> <<<<0, 1>>, <<1, 2>>, <<2, 3>>, <<2, 4>>>>
                \o [n \in 1 .. Len(back) |-> <<3 + n, IF n = Len(back) THEN 1 ELSE 4 + n>>]]

\* Two branches of a broadcast meet in a zip; one has a buffer, the other this stage.
Diamond(stage) ==
    [stages |-> <<NewStage("source"), NewStage("broadcast"), Buffer, NewStage("zip"), NewStage("sink"), stage>>,
     arcs   |-> <<<<0, 1>>, <<1, 2>>, <<2, 3>>, <<1, 5>>, <<5, 3>>, <<3, 4>>>>]

\* A loop of pairs, in which the first element comes from a second source.
KickedZip ==
    [stages |-> <<NewStage("source"), NewStage("zip"), NewStage("broadcast"), NewStage("sink"), NewStage("concat"),
                  [NewStage("source") EXCEPT !.elements = 1], Buffer>>,
     arcs   |-> <<<<0, 1>>, <<1, 2>>, <<2, 3>>, <<2, 6>>, <<5, 4>>, <<6, 4>>, <<4, 1>>>>]

\* The server has a buffer of 1, and the client one of 1, too.
Echoed ==
    [stages |-> <<[NewStage("blocking_client") EXCEPT !.writes = Size, !.capacity = 1],
                  [NewStage("buffer") EXCEPT !.capacity = 1]>>,
     arcs   |-> <<<<0, 1>>, <<1, 0>>>>]

Blueprint ==
    CASE Graph = "line"             -> Line
      [] Graph = "loop"             -> Loop("merge", <<Buffer>>)
      [] Graph = "preferred loop"   -> Loop("merge_preferred", <<Buffer>>)
      [] Graph = "dropping loop"    -> Loop("merge", <<[Buffer EXCEPT !.overflow = "drop_oldest"]>>)
      [] Graph = "halving loop"     -> Loop("merge", <<Ratio(2, 1), Buffer>>)
      [] Graph = "doubling loop"    -> Loop("merge", <<Ratio(1, 2), Buffer>>)
      [] Graph = "zip loop"         -> Loop("zip", <<Buffer>>)
      [] Graph = "kicked zip loop"  -> KickedZip
      [] Graph = "diamond"          -> Diamond(NewStage("stage"))
      [] Graph = "filtered diamond" -> Diamond([NewStage("stage") EXCEPT !.least = 0])
      [] Graph = "grouped diamond"  -> Diamond(Ratio(3, 3))
      [] Graph = "echo"             -> Echoed

Names == 0 .. Len(Blueprint.stages) - 1

Numbers == [n \in 1 .. Len(Blueprint.arcs) |-> n - 1]

Of(s) == Blueprint.stages[s + 1]
From(a) == Blueprint.arcs[a + 1][1]
To(a) == Blueprint.arcs[a + 1][2]

Outlets(s) == LET Leaves(a) == From(a) = s IN SelectSeq(Numbers, Leaves)

\* In the order of the arcs; but of a merge that prefers what comes back this is the first inlet.
Inlets(s) ==
    LET Enters(a) == To(a) = s
        entering == SelectSeq(Numbers, Enters) IN
    IF Of(s).kind = "merge_preferred" THEN <<entering[2], entering[1]>> ELSE entering

Inlet(s) == Inlets(s)[1]
Outlet(s) == Outlets(s)[1]

\* A stage that takes one and gives one, or perhaps none.
IsOneForOne(s) == Of(s).takes = 1 /\ Of(s).most = 1

\* What a stage keeps in the beginning.
Begin(s) ==
    CASE Of(s).kind = "source"          -> <<Of(s).elements>>     \* elements that are left
      [] Of(s).kind = "stage"           -> IF IsOneForOne(s) THEN <<>>
                                           ELSE <<0, -1>>         \* of the next group, and given of the last; -1: none
      [] Of(s).kind = "buffer"          -> <<0>>                  \* its elements
      [] Of(s).kind = "concat"          -> <<0>>                  \* whose turn it is
      [] Of(s).kind = "blocking_client" -> <<Of(s).writes, 0>>    \* elements to write, and of the answer received
      [] OTHER                          -> <<>>                   \* a merge: inlets whose elements are here

-----------------------------------------------------------------------------

\* What a stage does at its ports.  A board is the state while handlers change it, with what the data choose: `more`,
\* if they may emit one more, and `chosen`, if they were asked.

Token(b, a) == b.arcs[a + 1]

With(b, a, token) == [b EXCEPT !.arcs[a + 1] = token]

WithEvent(b, a, token) == [b EXCEPT !.arcs[a + 1] = token, !.queue = Append(@, a)]

Kept(b, s) == b.stages[s + 1]

Keep(b, s, numbers) == [b EXCEPT !.stages[s + 1] = numbers]

\* Ask for an element, unless the inlet has asked, has one, or is closed.
Asked(b, a) == IF Token(b, a) = "idle" THEN WithEvent(b, a, "asking") ELSE b

RECURSIVE AllAsked(_, _)
AllAsked(b, some) == IF some = <<>> THEN b ELSE AllAsked(Asked(b, Head(some)), Tail(some))

\* Take the element that has arrived.
Grabbed(b, a) ==
    CASE Token(b, a) = "here"         -> With(b, a, "idle")
      [] Token(b, a) = "here, ending" -> With(b, a, "ending")
      [] Token(b, a) = "here, ended"  -> With(b, a, "closed")

\* Emit an element; it was asked for.
Pushed(b, a) == CASE Token(b, a) = "asked" -> WithEvent(b, a, "element")

RECURSIVE AllPushed(_, _)
AllPushed(b, some) == IF some = <<>> THEN b ELSE AllPushed(Pushed(b, Head(some)), Tail(some))

\* End the stream, after an element that is on its way.
Completed(b, a) ==
    CASE Token(b, a) \in {"idle", "asked"} -> WithEvent(b, a, "ending")
      [] Token(b, a) = "here"              -> WithEvent(b, a, "here, ending")
      [] Token(b, a) = "asking"            -> With(b, a, "ending")
      [] Token(b, a) = "element"           -> With(b, a, "element, ending")
      [] OTHER                             -> b

\* A stage whose inlets have all ended completes its only outlet.
StageCompleted(b, s) == Completed(Keep(b, s, Begin(s)), Outlet(s))

IsAsked(b, a) == Token(b, a) = "asked"

IsHere(b, a) == Token(b, a) \in {"here", "here, ending", "here, ended"}

HasEnded(b, a) == Token(b, a) \in {"here, ended", "closed"}

\* If the data choose so.
Choose(b) == [b EXCEPT !.chosen = TRUE]

-----------------------------------------------------------------------------

\* The handlers of each kind.

\* A stage with a ratio has been asked: it goes on with what it makes of a group, or asks for the next one.
RatioPull(b, s) ==
    LET taken == Kept(b, s)[1]
        given == Kept(b, s)[2] IN
    IF given >= 0 /\ given < Of(s).most
    THEN Pushed(Keep(b, s, <<taken, given + 1>>), Outlet(s))
    ELSE LET rest == Keep(b, s, <<taken, -1>>) IN
         IF HasEnded(rest, Inlet(s)) THEN StageCompleted(rest, s) ELSE Asked(rest, Inlet(s))

RatioPush(b, s) ==
    LET taken == Kept(b, s)[1] + 1 IN
    IF taken < Of(s).takes
    THEN Asked(Keep(b, s, <<taken, -1>>), Inlet(s))
    ELSE RatioPull(Keep(b, s, <<0, 0>>), s)

OneForOnePush(b, s) ==
    IF Of(s).least = 1 THEN Pushed(b, Outlet(s))
    ELSE IF b.more THEN Pushed(Choose(b), Outlet(s)) ELSE Asked(Choose(b), Inlet(s))

\* A buffer asks while it has room, or always if its elements give way.
BufferAsk(b, s) ==
    IF Kept(b, s)[1] < Of(s).capacity \/ Of(s).overflow # "block" THEN Asked(b, Inlet(s)) ELSE b

BufferPush(b, s) ==
    LET count == Kept(b, s)[1] IN
    BufferAsk(
        IF IsAsked(b, Outlet(s)) THEN Pushed(b, Outlet(s))
        ELSE IF count < Of(s).capacity THEN Keep(b, s, <<count + 1>>) ELSE b,
        s)

BufferPull(b, s) ==
    LET count == Kept(b, s)[1]
        pushed == IF count > 0 THEN Pushed(Keep(b, s, <<count - 1>>), Outlet(s)) ELSE b IN
    BufferAsk(IF HasEnded(b, Inlet(s)) /\ count <= 1 THEN StageCompleted(pushed, s) ELSE pushed, s)

BroadcastPull(b, s) ==
    IF \A n \in 1 .. Len(Outlets(s)) : IsAsked(b, Outlets(s)[n]) THEN Asked(b, Inlet(s)) ELSE b

\* A zip emits when each inlet has an element.
RECURSIVE AllGrabbed(_, _)
AllGrabbed(b, some) == IF some = <<>> THEN b ELSE AllGrabbed(Grabbed(b, Head(some)), Tail(some))

ZipPush(b, s) ==
    IF \A n \in 1 .. Len(Inlets(s)) : IsHere(b, Inlets(s)[n])
    THEN Pushed(AllGrabbed(b, Inlets(s)), Outlet(s))
    ELSE b

\* A merge emits what has come first.
MergeEmit(b, s) == Pushed(Keep(b, s, Tail(Kept(b, s))), Outlet(s))

MergePush(b, s, a) ==
    LET held == IF Of(s).kind = "merge_preferred" /\ a = Inlet(s) THEN <<a>> \o Kept(b, s) ELSE Append(Kept(b, s), a)
        kept == Keep(b, s, held) IN
    IF IsAsked(b, Outlet(s)) THEN MergeEmit(kept, s) ELSE kept

MergePull(b, s) ==
    LET emitted == IF Kept(b, s) = <<>> THEN b ELSE MergeEmit(b, s)
        IsAway(a) == \A n \in 1 .. Len(Kept(emitted, s)) : Kept(emitted, s)[n] # a IN
    AllAsked(emitted, SelectSeq(Inlets(s), IsAway))

\* A concat asks the inlet whose turn it is.
ConcatPull(b, s) == Asked(b, Inlets(s)[Kept(b, s)[1] + 1])

ConcatFinish(b, s) ==
    LET open == {n \in 1 .. Len(Inlets(s)) : n > Kept(b, s)[1] /\ ~HasEnded(b, Inlets(s)[n])}
        next == Keep(b, s, <<(CHOOSE n \in open : \A other \in open : n <= other) - 1>>) IN
    IF open = {} THEN StageCompleted(b, s)
    ELSE IF IsAsked(next, Outlet(s)) THEN ConcatPull(next, s) ELSE next

\* A client writes all, and asks for as much of the answer as it receives meanwhile; then it reads.
ClientGoOn(b, s, unwritten, received) ==
    IF unwritten > 0
    THEN LET kept == Keep(b, s, <<unwritten, received>>) IN
         IF received < Of(s).capacity THEN Asked(kept, Inlet(s)) ELSE kept
    ELSE Asked(Keep(Completed(b, Outlet(s)), s, <<0, 0>>), Inlet(s))

ClientPull(b, s) == ClientGoOn(Pushed(b, Outlet(s)), s, Kept(b, s)[1] - 1, Kept(b, s)[2])

ClientPush(b, s) == ClientGoOn(b, s, Kept(b, s)[1], Kept(b, s)[2] + 1)

\* The run begins.
OnStart(b, s) ==
    CASE Of(s).kind = "buffer"          -> Asked(b, Inlet(s))
      [] Of(s).kind = "blocking_client" -> ClientGoOn(b, s, Of(s).writes, 0)
      [] OTHER                          -> b

\* An element is asked for.
OnPull(b, s) ==
    CASE Of(s).kind = "source"          -> b
      [] Of(s).kind = "stage"           -> IF IsOneForOne(s) THEN Asked(b, Inlet(s)) ELSE RatioPull(b, s)
      [] Of(s).kind = "buffer"          -> BufferPull(b, s)
      [] Of(s).kind = "broadcast"       -> BroadcastPull(b, s)
      [] Of(s).kind = "zip"             -> AllAsked(b, Inlets(s))
      [] Of(s).kind = "merge"           -> MergePull(b, s)
      [] Of(s).kind = "merge_preferred" -> MergePull(b, s)
      [] Of(s).kind = "concat"          -> ConcatPull(b, s)
      [] Of(s).kind = "blocking_client" -> ClientPull(b, s)

\* An element has arrived; a zip leaves it at its inlet.
OnPush(b, s, a) ==
    CASE Of(s).kind = "sink"            -> Grabbed(b, a)
      [] Of(s).kind = "stage"           -> IF IsOneForOne(s) THEN OneForOnePush(Grabbed(b, a), s)
                                           ELSE RatioPush(Grabbed(b, a), s)
      [] Of(s).kind = "buffer"          -> BufferPush(Grabbed(b, a), s)
      [] Of(s).kind = "broadcast"       -> AllPushed(Grabbed(b, a), Outlets(s))
      [] Of(s).kind = "zip"             -> ZipPush(b, s)
      [] Of(s).kind = "merge"           -> MergePush(Grabbed(b, a), s, a)
      [] Of(s).kind = "merge_preferred" -> MergePush(Grabbed(b, a), s, a)
      [] Of(s).kind = "concat"          -> Pushed(Grabbed(b, a), Outlet(s))
      [] Of(s).kind = "blocking_client" -> ClientPush(Grabbed(b, a), s)

\* The stream before an inlet has ended.
OnFinish(b, s) ==
    CASE Of(s).kind = "sink"            -> b
      [] Of(s).kind = "buffer"          -> IF Kept(b, s)[1] = 0 THEN StageCompleted(b, s) ELSE b
      [] Of(s).kind = "concat"          -> ConcatFinish(b, s)
      [] Of(s).kind = "blocking_client" -> b

\* The event of an arc.
RunEvent(b, a) ==
    CASE Token(b, a) = "asking"          -> OnPull(With(b, a, "asked"), From(a))
      [] Token(b, a) = "element"         -> OnPush(With(b, a, "here"), To(a), a)
      [] Token(b, a) = "element, ending" -> OnPush(WithEvent(b, a, "here, ending"), To(a), a)
      [] Token(b, a) = "here, ending"    -> OnFinish(With(b, a, "here, ended"), To(a))
      [] Token(b, a) = "ending"          -> OnFinish(With(b, a, "closed"), To(a))

-----------------------------------------------------------------------------

Board(more) == [arcs |-> arcs, stages |-> stages, queue |-> queue, more |-> more, chosen |-> FALSE]

RECURSIVE Started(_, _)
Started(b, s) == IF s \in Names THEN Started(OnStart(b, s), s + 1) ELSE b

Init ==
    LET idle == [n \in 1 .. Len(Blueprint.arcs) |-> "idle"]
        begun == [n \in 1 .. Len(Blueprint.stages) |-> Begin(n - 1)]
        b == Started([arcs |-> idle, stages |-> begun, queue |-> <<>>, more |-> TRUE, chosen |-> FALSE], 0) IN
    arcs = b.arcs /\ stages = b.stages /\ queue = b.queue

Becomes(b) == arcs' = b.arcs /\ stages' = b.stages /\ queue' = b.queue

\* The island runs the next event; where the data have the choice, they emit one more or not.
ProcessEvent ==
    /\ queue # <<>>
    /\ \E none \in BOOLEAN :
        LET b == RunEvent([Board(~none) EXCEPT !.queue = Tail(@)], Head(queue)) IN
        /\ none => b.chosen
        /\ Becomes(b)

\* Is a source asked, with nothing else going on?
IsDue(s) == queue = <<>> /\ Of(s).kind = "source" /\ arcs[Outlet(s) + 1] = "asked"

Left(s) == stages[s + 1][1]

\* A source that is asked gives an element.
Give(s) ==
    /\ IsDue(s) /\ Left(s) # 0
    /\ Becomes(Pushed(Keep(Board(TRUE), s, <<IF Left(s) = Any THEN Any ELSE Left(s) - 1>>), Outlet(s)))

\* A source that is asked has no element left, and ends.
End(s) ==
    /\ IsDue(s) /\ Left(s) = 0
    /\ Becomes(Completed(Board(TRUE), Outlet(s)))

\* A sink asks for its next element.
Want(s) ==
    /\ queue = <<>> /\ Of(s).kind = "sink" /\ arcs[Inlet(s) + 1] = "idle"
    /\ Becomes(Asked(Board(TRUE), Inlet(s)))

CanMove ==
    \/ queue # <<>>
    \/ \E s \in Names : IsDue(s) \/ (Of(s).kind = "sink" /\ arcs[Inlet(s) + 1] = "idle")

\* Nothing moves any more: the run has ended, or is stuck.
Done == ~CanMove /\ UNCHANGED vars

Environment == (\E s \in Names : Give(s)) \/ (\E s \in Names : End(s)) \/ (\E s \in Names : Want(s)) \/ Done

Protocol == ProcessEvent

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

Moving == {"asking", "element", "ending", "element, ending", "here, ending"}

Tokens == Moving \cup {"idle", "asked", "here", "here, ended", "closed"}

\* An arc has at most one event, and has one if something is on its way.
TypeOK ==
    /\ \A m, n \in 1 .. Len(queue) : m # n => queue[m] # queue[n]
    /\ \A n \in 1 .. Len(arcs) :
        /\ arcs[n] \in Tokens
        /\ arcs[n] \in Moving => \E m \in 1 .. Len(queue) : queue[m] = n - 1

\* No stage keeps more than it may.
Bounded ==
    \A s \in Names :
        LET kept == stages[s + 1] IN
        CASE Of(s).kind = "buffer"                     -> kept[1] <= Of(s).capacity
          [] Of(s).kind = "blocking_client"            -> kept[2] <= Of(s).capacity
          [] Of(s).kind \in {"merge", "merge_preferred"} -> \A m, n \in 1 .. Len(kept) : m # n => kept[m] # kept[n]
          [] OTHER                                     -> TRUE

\* Something moves, until all sinks and clients have heard of the end.
NeverStuck ==
    CanMove \/ \A s \in Names : Of(s).kind \in {"sink", "blocking_client"} => arcs[Inlet(s) + 1] = "closed"
=============================================================================
