----------------------------- MODULE HashDispatch -----------------------------
(***************************************************************************)
(* An upstream whose rows go to the channel of their key, and whose        *)
(* barriers, watermarks and end go to every channel.                       *)
(*                                                                         *)
(*                                   pending      queue                    *)
(*                               +-> [parts] --> [channel] --Consume-->    *)
(*   --AddRow, TakeChunk-->      |                                         *)
(*   --TakeBarrier, TakeEnd-->   +-> [parts] --> [channel] --Consume-->    *)
(*                                                                         *)
(* A key has a virtual node, and each node a channel: its owner.  One      *)
(* element is taken at a time, and the next one when every channel has its *)
(* part of it.  So a channel that is full makes the upstream wait, but no  *)
(* other channel's part of the same element.  A barrier may add channels:  *)
(* they begin with it, and take some nodes of the others.  A channel whose *)
(* consumer is gone ends the whole stream.                                 *)
(*                                                                         *)
(* Rows, barriers, watermarks and the end are numbered in the order in     *)
(* which they are taken.  A channel is a queue with places: that permits   *)
(* make one is the matter of PermitChannelRefinement.                      *)
(*                                                                         *)
(* Source: RisingWave's HashDataDispatcher; channels that are added spread *)
(* by the rule of Grown.                                                   *)
(* Not modelled: keys of one node are one key; a chunk is cut row by row   *)
(* (AddRow) before its parts leave, and an update is two rows; a barrier   *)
(* has places of its own and a watermark needs none, so both wait for less *)
(* than here; how readers hear that the stream has failed.                 *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Nodes,         \* virtual nodes
    Channels,      \* channels at first
    MostChannels,  \* channels at last
    Rows,          \* rows that are taken at most
    Marks,         \* barriers and watermarks that are taken at most
    Room,          \* messages that a channel has places for
    Losses,        \* may consumers go away?
    Fair           \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Nodes, Channels, MostChannels, Room} \subseteq Nat \ {0} /\ {Rows, Marks} \subseteq Nat
    /\ Channels <= MostChannels /\ MostChannels <= Nodes
    /\ Losses \in BOOLEAN
    /\ Fair \subseteq {"Forward", "Consume"}

VARIABLES
    owners,       \* the channel of each virtual node
    rows,         \* rows that were taken
    marks,        \* barriers and watermarks that were taken, and the end
    consumed,     \* rows that were consumed
    isSplitting,  \* is a chunk being cut?
    isOver,       \* was the end taken?
    isLost,       \* is a consumer gone?
    channels      \* the channels, also those to come: Before says what one consists of

takenVars == <<rows, marks>>

vars == <<owners, takenVars, consumed, isSplitting, isOver, isLost, channels>>

-----------------------------------------------------------------------------

\* Which channel has which node.

NodesOf(mapping, number) == {n \in 1 .. Nodes : mapping[n] = number}

Most(numbers) == CHOOSE most \in numbers : \A other \in numbers : other <= most

Opened(mapping) == 1 + Most({mapping[n] : n \in 1 .. Nodes})

\* The channel that gives a node to a new one: it has the most; of several the one with the lowest number.
Giver(mapping, new) ==
    CHOOSE one \in 0 .. new - 1 : \A other \in (0 .. new - 1) \ {one} :
        LET its == Cardinality(NodesOf(mapping, one))
            others == Cardinality(NodesOf(mapping, other))
        IN its > others \/ (its = others /\ one < other)

\* ... its highest nodes, one after the other.
RECURSIVE Given(_, _, _)
Given(mapping, new, number) ==
    IF number = 0 THEN mapping
    ELSE Given([mapping EXCEPT ![Most(NodesOf(mapping, Giver(mapping, new)))] = new], new, number - 1)

\* The mapping once there are so many channels: each new one gets its share of the nodes.
RECURSIVE Grown(_, _)
Grown(mapping, to) ==
    LET new == Opened(mapping)
    IN IF new >= to THEN mapping ELSE Grown(Given(mapping, new, Nodes \div (new + 1)), to)

Spread == Grown([n \in 1 .. Nodes |-> 0], Channels)

-----------------------------------------------------------------------------

Names == 1 .. MostChannels

Before(number) ==
    [number  |-> number,  \* by which the mapping knows it
     pending |-> <<>>,    \* its part of the taken element, as far as it has not gone into it
     queue   |-> <<>>,    \* messages in it
     read    |-> 0,       \* the number of the newest message that was consumed; at first, of what was before it
     marks   |-> 0,       \* barriers, watermarks and ends that were consumed, or were before it
     ends    |-> 0,       \* ... of these, ends
     isGone  |-> FALSE]   \* is its consumer gone?

Init ==
    /\ owners = Spread /\ rows = 0 /\ marks = 0 /\ consumed = 0
    /\ isSplitting = FALSE /\ isOver = FALSE /\ isLost = FALSE
    /\ channels = [c \in Names |-> Before(c - 1)]

IsOpen(c) == channels[c].number < Opened(owners)

\* The number of what is taken next.
Number == rows + marks + 1

\* Each channel has its part of the element before.
AllHave == \A c \in Names : channels[c].pending = <<>>

CanTake == AllHave /\ ~isSplitting /\ ~isOver /\ ~isLost

Message(kind, node) == [kind |-> kind, number |-> Number, node |-> node]

\* A channel with a mark that is on its way into all of so many.
Marked(channel, message, to) ==
    IF channel.number >= to THEN channel
    ELSE IF channel.number >= Opened(owners)
    THEN [channel EXCEPT !.pending = <<message>>, !.read = rows + marks, !.marks = marks]
    ELSE [channel EXCEPT !.pending = Append(@, message)]

TakeMark(kind, to) ==
    /\ CanTake
    /\ channels' = [c \in Names |-> Marked(channels[c], Message(kind, 0), to)]
    /\ marks' = marks + 1
    /\ UNCHANGED <<rows, consumed, isSplitting, isLost>>

-----------------------------------------------------------------------------

\* One more row of a chunk is cut: it is for the owner of its key's node.
AddRow(c, n) ==
    /\ isSplitting \/ CanTake
    /\ rows < Rows
    /\ owners[n] = channels[c].number
    /\ channels' = [channels EXCEPT ![c].pending = Append(@, Message("row", n - 1))]
    /\ rows' = rows + 1
    /\ isSplitting' = TRUE
    /\ UNCHANGED <<owners, marks, consumed, isOver, isLost>>

\* The chunk is cut: its parts may leave.
TakeChunk ==
    /\ isSplitting
    /\ isSplitting' = FALSE
    /\ UNCHANGED <<owners, takenVars, consumed, isOver, isLost, channels>>

\* A barrier is taken, for every channel; behind it there are so many.
TakeBarrier(to) ==
    /\ marks < Marks
    /\ Opened(owners) <= to /\ to <= MostChannels
    /\ TakeMark("barrier", to)
    /\ owners' = Grown(owners, to)
    /\ UNCHANGED isOver

\* A watermark is taken, for every channel.
TakeWatermark ==
    /\ marks < Marks
    /\ TakeMark("watermark", Opened(owners))
    /\ UNCHANGED <<owners, isOver>>

\* The end is taken, for every channel.
TakeEnd ==
    /\ TakeMark("end", Opened(owners))
    /\ isOver' = TRUE
    /\ UNCHANGED owners

\* A channel has room for the oldest message of its part, whatever the others have.
Forward(c) ==
    /\ ~isSplitting /\ ~isLost
    /\ channels[c].pending # <<>> /\ Len(channels[c].queue) < Room
    /\ channels' = [channels EXCEPT ![c].queue = Append(@, Head(channels[c].pending)), ![c].pending = Tail(@)]
    /\ UNCHANGED <<owners, takenVars, consumed, isSplitting, isOver, isLost>>

\* A channel's consumer consumes the oldest message.
Consume(c) ==
    /\ channels[c].queue # <<>> /\ ~channels[c].isGone
    /\ LET message == Head(channels[c].queue)
           isRow == message.kind = "row"
       IN /\ channels' = [channels EXCEPT
                 ![c].queue = Tail(@),
                 ![c].read = message.number,
                 ![c].ends = IF message.kind = "end" THEN @ + 1 ELSE @,
                 ![c].marks = IF isRow THEN @ ELSE @ + 1]
          /\ consumed' = IF isRow THEN consumed + 1 ELSE consumed
    /\ UNCHANGED <<owners, takenVars, isSplitting, isOver, isLost>>

\* A channel's consumer is gone: nothing is taken or forwarded any more, to any channel.
Lose(c) ==
    /\ Losses /\ ~isLost /\ ~isSplitting
    /\ IsOpen(c)
    /\ isLost' = TRUE
    /\ channels' = [d \in Names |-> [channels[d] EXCEPT !.pending = <<>>, !.isGone = d = c]]
    /\ UNCHANGED <<owners, takenVars, consumed, isSplitting, isOver>>

\* The stream has ended or failed, and all that can be is consumed.
Done ==
    /\ isOver \/ isLost
    /\ \A c \in Names : channels[c].pending = <<>> /\ (channels[c].queue = <<>> \/ channels[c].isGone)
    /\ UNCHANGED vars

Environment ==
    \/ Done
    \/ \E c \in Names : \E n \in 1 .. Nodes : AddRow(c, n)
    \/ TakeChunk
    \/ \E to \in Channels .. MostChannels : TakeBarrier(to)
    \/ TakeWatermark
    \/ TakeEnd
    \/ \E c \in Names : Lose(c)

Protocol == \E c \in Names : Forward(c) \/ Consume(c)

Next == Environment \/ Protocol

Fairness ==
    /\ "Forward" \in Fair => WF_vars(\E c \in Names : Forward(c))
    /\ "Consume" \in Fair => WF_vars(\E c \in Names : Consume(c))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

IsMessage(message) ==
    /\ message.kind \in {"row", "barrier", "watermark", "end"}
    /\ message.number \in 1 .. rows + marks /\ message.node \in 0 .. Nodes - 1

TypeOK ==
    /\ DOMAIN owners = 1 .. Nodes /\ DOMAIN channels = Names
    /\ \A n \in 1 .. Nodes : owners[n] \in 0 .. MostChannels - 1
    /\ {rows, marks, consumed} \subseteq Nat
    /\ \A c \in Names :
        /\ \A i \in DOMAIN channels[c].pending : IsMessage(channels[c].pending[i])
        /\ \A i \in DOMAIN channels[c].queue : IsMessage(channels[c].queue[i])
        /\ channels[c].read \in 0 .. rows + marks /\ channels[c].ends \in 0 .. 1
        /\ channels[c].marks \in 0 .. marks

\* What is on its way to a consumer, oldest first.
Coming(c) == channels[c].queue \o channels[c].pending

CountOf(messages, kinds) == Cardinality({i \in DOMAIN messages : messages[i].kind \in kinds})

\* A consumer gets everything in the order in which it was taken, and nothing twice.
InOrder ==
    \A c \in Names : LET coming == Coming(c) IN \A i \in DOMAIN coming :
        /\ coming[i].number > channels[c].read
        /\ i > 1 => coming[i].number > coming[i - 1].number

\* ... that was taken, and nothing that was not.
Numbered == \A c \in Names : \A i \in DOMAIN Coming(c) : Coming(c)[i].number <= rows + marks

\* ... and nothing behind the end.
EndLast ==
    \A c \in Names : LET coming == Coming(c) IN
        /\ \A i \in DOMAIN coming : coming[i].kind = "end" => isOver /\ i = Len(coming)
        /\ channels[c].ends > 0 => isOver /\ coming = <<>>

RECURSIVE RowsComing(_)
RowsComing(c) == IF c = 0 THEN 0 ELSE CountOf(Coming(c), {"row"}) + RowsComing(c - 1)

\* Each row is on its way to one consumer, or was consumed: also where a consumer is gone, once the end was taken.
RowsConserved == (~isLost \/ isOver) => rows = consumed + RowsComing(MostChannels)

\* Each barrier, each watermark and the end comes to each channel, and once: to a new one from the barrier on that adds it.
MarksConserved ==
    \A c \in Names : (IsOpen(c) /\ ~isLost) =>
        marks = channels[c].marks + CountOf(Coming(c), {"barrier", "watermark", "end"})

\* What a channel holds is bounded by its places; nothing else is held but one element.
Bounded == \A c \in Names : Len(channels[c].queue) <= Room

\* A chunk is cut before anything ends.
CutBeforeEnd == isSplitting => ~isOver /\ ~isLost

\* A channel that is not there yet has nothing.
Closed == \A c \in Names : ~IsOpen(c) => channels[c] = Before(c - 1)

\* Behind the end nothing waits but the end itself: each row is in its channel, or was consumed.
EndBehindAll == isOver => \A c \in Names : CountOf(channels[c].pending, {"row"}) = 0

\* Once a consumer is gone, nothing waits to be forwarded, and nothing is.
NothingForwarded == IF isLost THEN AllHave ELSE \A c \in Names : ~channels[c].isGone

\* Shares of nodes differ by one at most.
Balanced ==
    \A one, other \in 0 .. Opened(owners) - 1 :
        Cardinality(NodesOf(owners, one)) <= Cardinality(NodesOf(owners, other)) + 1

\* A row that waits is for the owner of its node.
InPlace ==
    \A c \in Names : \A i \in DOMAIN channels[c].pending :
        channels[c].pending[i].kind = "row" => owners[channels[c].pending[i].node + 1] = channels[c].number

\* A row whose node has moved to another channel is ahead of a barrier: so no row of the same key overtakes it there.
MovedAtBarrier ==
    ~isLost => \A c \in Names : LET coming == Coming(c) IN \A i \in DOMAIN coming :
        (coming[i].kind = "row" /\ owners[coming[i].node + 1] # channels[c].number) =>
            \E j \in i + 1 .. Len(coming) : coming[j].kind = "barrier"

\* Where something waits, it can go on, or a channel can be consumed.
NeverStuck == AllHave \/ isSplitting \/ ENABLED Protocol

\* It waits only for channels that are full.
WaitsForFull ==
    (~isSplitting /\ ~\E c \in Names : ENABLED Forward(c)) =>
        \A c \in Names : channels[c].pending # <<>> => Len(channels[c].queue) = Room

\* Every part leaves: needs all consumers.
EveryPartLeaves == (~AllHave /\ ~isSplitting) ~> AllHave

\* False: a part waits for its channel.
NeverWaitsProbe == \A c \in Names : channels[c].pending # <<>> => Len(channels[c].queue) < Room

\* False: a full channel keeps the other parts of the element.
AllWaitProbe ==
    \A c, d \in Names :
        (~isSplitting /\ channels[c].pending # <<>> /\ Len(channels[c].queue) = Room /\ Len(channels[c].pending) = 1
            /\ IsOpen(d)) => channels[d].pending # <<>>

\* False: all channels are at the same barrier.
TogetherProbe ==
    \A c, d \in Names : IsOpen(c) /\ IsOpen(d) => channels[c].marks <= channels[d].marks + 1

\* False: the rows of a key stay in one channel.
NeverMovesProbe ==
    \A c \in Names : \A i \in DOMAIN channels[c].queue :
        channels[c].queue[i].kind = "row" => owners[channels[c].queue[i].node + 1] = channels[c].number
=============================================================================
