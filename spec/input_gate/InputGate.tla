------------------------------ MODULE InputGate ------------------------------
(***************************************************************************)
(* A consumer with several inputs that aligns barriers: it consumes what   *)
(* is behind a barrier when the barriers of all inputs have arrived        *)
(* (FLINK-16404, FLINK-16641).  Nothing is stored for a blocked input: its *)
(* sender stops after the barrier until consumption is resumed.            *)
(*                                                                         *)
(*      sender c                                            gate           *)
(*    waiting --Send--> wire ----Deliver----> inbox ---Consume--> (done)   *)
(*      |  AnnounceBacklog ^         |                     |               *)
(*    credit <--Hear-- grants <--Grant-- free <--Borrow-- pool             *)
(*                        ^-- Align: RESUME or REVOKE                      *)
(*                                                                         *)
(* A credit is a buffer at the gate.  Each channel has exclusive buffers;  *)
(* floating ones are lent from the gate's pool, as many as the backlog     *)
(* needs.  Data costs a credit, a barrier none.                            *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Inputs,       \* channels of the gate
    Exclusive,    \* buffers that each channel has of its own
    Floating,     \* buffers of the pool
    Backlog,      \* data and barriers of a channel that may be offered and not yet consumed
    Epochs,       \* epochs are counted modulo this; 1: they are not told apart; 0: they are counted without end
    Stop,         \* a sender stops after its barrier until consumption is resumed (the flag that shipped)
    Revoke,       \* a barrier takes back all credit that was granted (the rule of FLINK-16404)
    Release,      \* without exclusive buffers, a barrier takes back the floating ones
    Announce,     \* without exclusive buffers, a sender without credit announces its backlog
    Fair          \* names of the actions that are weakly fair; "BorrowInTurn": strongly, for each channel

ASSUME Assumption ==
    /\ Inputs \in Nat \ {0} /\ {Exclusive, Floating} \subseteq Nat /\ Backlog \in Nat \ {0}
    \* A channel is ahead of the gate by its barriers: those offered, and the one that blocks it.
    /\ Epochs \in {0, 1} \/ (Epochs \in Nat /\ Epochs > Backlog + 1)
    /\ {Stop, Revoke, Release, Announce} \subseteq BOOLEAN
    /\ Fair \subseteq {"SendData", "SendBarrier", "AnnounceBacklog", "Hear", "Deliver", "ConsumeData",
                       "ConsumeBarrier", "Borrow", "BorrowInTurn", "Grant", "Align"}

VARIABLES
    channels,     \* the inputs: Opened says what one consists of
    pool,         \* floating buffers that no channel has
    epoch         \* of what may be consumed now, modulo Epochs

vars == <<channels, pool, epoch>>

Names == 1 .. Inputs

Opened ==
    [epoch    |-> 0,          \* of the next offered item
     waiting  |-> <<>>,       \* data and barriers that wait at the sender
     stopped  |-> FALSE,      \* the sender has sent a barrier and waits to be resumed
     told     |-> 0,          \* the backlog that the sender has told last, less what it has sent since
     credit   |-> Exclusive,  \* at the sender
     wire     |-> <<>>,       \* messages in flight
     inbox    |-> <<>>,       \* data and barriers at the gate, not yet consumed
     blocked  |-> FALSE,      \* its barrier was consumed; others are awaited
     released |-> FALSE,      \* its credit was taken back; the sender has not been told yet
     wanted   |-> 0,          \* the backlog that the gate knows of
     free     |-> 0,          \* buffers of the channel that hold nothing, not granted yet
     borrowed |-> 0,          \* floating buffers that the channel has
     grants   |-> <<>>]       \* in flight back: so many credits, or one of these words

RESUME == 0        \* consumption is resumed
REVOKE == 0 - 1    \* consumption is resumed, and all credit granted before is void

Init ==
    /\ channels = [c \in Names |-> Opened]
    /\ pool = Floating /\ epoch = 0

Counted(epochs) == IF Epochs = 0 THEN epochs ELSE epochs % Epochs

IsEpoch(number) == number \in Nat /\ (Epochs = 0 \/ number < Epochs)

Item(kind, of, backlog) == [kind |-> kind, epoch |-> of, backlog |-> backlog]

Count(queue, kind) == Len(SelectSeq(queue, LAMBDA item : item.kind = kind))

DataIn(queue) == Count(queue, "data")

\* Has a queue got a head of this kind?
Starts(queue, kind) == queue # <<>> /\ Head(queue).kind = kind

\* Offered and not yet consumed.
Pipe(channel) == channel.inbox \o channel.wire \o channel.waiting

TakesBack == Revoke \/ (Release /\ Exclusive = 0)

Least(m, n) == IF m < n THEN m ELSE n

-----------------------------------------------------------------------------

Room(c) == LET pipe == Pipe(channels[c]) IN DataIn(pipe) + Count(pipe, "barrier") < Backlog

\* The application of an input wants to send data.
OfferData(c) ==
    /\ Room(c)
    /\ channels' = [channels EXCEPT ![c].waiting = Append(@, Item("data", channels[c].epoch, 0))]
    /\ UNCHANGED <<pool, epoch>>

\* A barrier ends the epoch of an input.
OfferBarrier(c) ==
    /\ Room(c)
    /\ channels' = [channels EXCEPT ![c].waiting = Append(@, Item("barrier", channels[c].epoch, 0)),
                                    ![c].epoch = Counted(@ + 1)]
    /\ UNCHANGED <<pool, epoch>>

\* Data costs a credit, and tells how much waits behind it.
SendData(c) ==
    LET channel == channels[c]  left == DataIn(channel.waiting) - 1 IN
    /\ Starts(channel.waiting, "data") /\ ~channel.stopped /\ channel.credit > 0
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].credit = @ - 1, ![c].told = left,
                                    ![c].wire = Append(@, Item("data", Head(channel.waiting).epoch, left))]
    /\ UNCHANGED <<pool, epoch>>

\* A barrier costs no credit; behind it the sender stops, and asks for nothing.  By the ticket's rule alone it does not
\* stop, but has no credit left: none but what crosses the barrier.
SendBarrier(c) ==
    LET channel == channels[c] IN
    /\ Starts(channel.waiting, "barrier") /\ ~channel.stopped
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].stopped = Stop, ![c].told = 0,
                                    ![c].credit = IF Revoke /\ ~Stop THEN 0 ELSE @,
                                    ![c].wire = Append(@, Item("barrier", Head(channel.waiting).epoch, 0))]
    /\ UNCHANGED <<pool, epoch>>

\* A sender without any credit says that it has data; with exclusive buffers the next data says so.
AnnounceBacklog(c) ==
    LET channel == channels[c]  backlog == DataIn(channel.waiting) IN
    /\ Announce /\ Exclusive = 0 /\ ~channel.stopped /\ channel.credit = 0 /\ channel.told < backlog
    /\ channels' = [channels EXCEPT ![c].told = backlog,
                                    ![c].wire = Append(@, Item("backlog", Head(channel.waiting).epoch, backlog))]
    /\ UNCHANGED <<pool, epoch>>

\* Credit, or a word, arrives at the sender.
Hear(c) ==
    LET channel == channels[c]  grant == Head(channel.grants) IN
    /\ channel.grants # <<>>
    /\ channels' = [channels EXCEPT ![c].grants = Tail(@),
                                    ![c].stopped = @ /\ grant > 0,
                                    ![c].credit = IF grant = REVOKE THEN 0 ELSE @ + grant]
    /\ UNCHANGED <<pool, epoch>>

\* A message arrives at the gate.  A barrier may take back all buffers of the channel that hold no data.
Deliver(c) ==
    LET channel == channels[c]
        message == Head(channel.wire)
        data == DataIn(channel.inbox)
        takes == message.kind = "barrier" /\ TakesBack
        kept == IF takes THEN Least(channel.borrowed, data) ELSE channel.borrowed
    IN
    /\ channel.wire # <<>>
    /\ pool' = pool + channel.borrowed - kept
    /\ channels' = [channels EXCEPT ![c].wire = Tail(@), ![c].wanted = message.backlog,
                                    ![c].inbox = IF message.kind = "backlog" THEN @ ELSE Append(@, message),
                                    ![c].released = @ \/ takes,
                                    ![c].free = IF takes THEN Exclusive + kept - data ELSE @,
                                    ![c].borrowed = kept]
    /\ UNCHANGED epoch

\* The buffer is free again: a floating one goes home, an exclusive one is granted again.
ConsumeData(c) ==
    LET channel == channels[c]  home == IF channel.borrowed > 0 THEN 1 ELSE 0 IN
    /\ Starts(channel.inbox, "data") /\ ~channel.blocked
    /\ pool' = pool + home
    /\ channels' = [channels EXCEPT ![c].inbox = Tail(@), ![c].borrowed = @ - home, ![c].free = @ + 1 - home]
    /\ UNCHANGED epoch

\* The channel is blocked until the barriers of all others have been consumed.
ConsumeBarrier(c) ==
    /\ Starts(channels[c].inbox, "barrier") /\ ~channels[c].blocked
    /\ channels' = [channels EXCEPT ![c].inbox = Tail(@), ![c].blocked = TRUE]
    /\ UNCHANGED <<pool, epoch>>

\* The backlog needs one more buffer than the channel has, and the pool has one.
Borrow(c) ==
    LET channel == channels[c] IN
    /\ pool > 0 /\ ~channel.released /\ channel.borrowed - DataIn(channel.inbox) < channel.wanted
    /\ pool' = pool - 1
    /\ channels' = [channels EXCEPT ![c].borrowed = @ + 1, ![c].free = @ + 1]
    /\ UNCHANGED epoch

\* All free buffers of a channel are granted together.
Grant(c) ==
    /\ channels[c].free > 0 /\ ~channels[c].released
    /\ channels' = [channels EXCEPT ![c].free = 0, ![c].grants = Append(@, channels[c].free)]
    /\ UNCHANGED <<pool, epoch>>

Resumed(channel) ==
    [channel EXCEPT !.blocked = FALSE, !.released = FALSE,
                    !.grants = IF Stop THEN Append(@, IF channel.released THEN REVOKE ELSE RESUME) ELSE @]

\* All barriers have arrived: the next epoch begins, and each sender is told.
Align ==
    /\ \A c \in Names : channels[c].blocked
    /\ channels' = [c \in Names |-> Resumed(channels[c])]
    /\ epoch' = Counted(epoch + 1)
    /\ UNCHANGED pool

Environment == (\E c \in Names : OfferData(c)) \/ (\E c \in Names : OfferBarrier(c))

Protocol ==
    \/ \E c \in Names : SendData(c)
    \/ \E c \in Names : SendBarrier(c)
    \/ \E c \in Names : AnnounceBacklog(c)
    \/ \E c \in Names : Hear(c)
    \/ \E c \in Names : Deliver(c)
    \/ \E c \in Names : ConsumeData(c)
    \/ \E c \in Names : ConsumeBarrier(c)
    \/ \E c \in Names : Borrow(c)
    \/ \E c \in Names : Grant(c)
    \/ Align

Next == Environment \/ Protocol

Fairness ==
    /\ \A c \in Names :
        /\ "SendData" \in Fair => WF_vars(SendData(c))
        /\ "SendBarrier" \in Fair => WF_vars(SendBarrier(c))
        /\ "AnnounceBacklog" \in Fair => WF_vars(AnnounceBacklog(c))
        /\ "Hear" \in Fair => WF_vars(Hear(c))
        /\ "Deliver" \in Fair => WF_vars(Deliver(c))
        /\ "ConsumeData" \in Fair => WF_vars(ConsumeData(c))
        /\ "ConsumeBarrier" \in Fair => WF_vars(ConsumeBarrier(c))
        /\ "Borrow" \in Fair => WF_vars(Borrow(c))
        /\ "BorrowInTurn" \in Fair => SF_vars(Borrow(c))
        /\ "Grant" \in Fair => WF_vars(Grant(c))
    /\ "Align" \in Fair => WF_vars(Align)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* What holds of each channel.                                             *)

RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

RECURSIVE After(_, _)
\* The credit of a sender when it has heard all of this.
After(credit, grants) ==
    IF grants = <<>> THEN credit
    ELSE After(IF Head(grants) = REVOKE THEN 0 ELSE credit + Head(grants), Tail(grants))

\* Credit that may still be used.
Valid(channel) == IF channel.released THEN 0 ELSE After(channel.credit, channel.grants)

DataHere(channel) == DataIn(channel.wire) + DataIn(channel.inbox)

BarriersHere(channel) == Count(channel.wire, "barrier") + Count(channel.inbox, "barrier")

One(condition) == IF condition THEN 1 ELSE 0

IsItem(item) == item.kind \in {"data", "barrier", "backlog"} /\ IsEpoch(item.epoch) /\ item.backlog \in Nat

TypeOK ==
    /\ DOMAIN channels = Names /\ pool \in Nat /\ IsEpoch(epoch)
    /\ \A c \in Names : LET channel == channels[c] IN
        /\ IsEpoch(channel.epoch) /\ {channel.told, channel.credit, channel.wanted} \subseteq Nat
        /\ {channel.free, channel.borrowed} \subseteq Nat
        /\ \A i \in DOMAIN Pipe(channel) : IsItem(Pipe(channel)[i])
        /\ \A i \in DOMAIN channel.waiting : channel.waiting[i].kind # "backlog"
        /\ \A i \in DOMAIN channel.inbox : channel.inbox[i].kind # "backlog"
        /\ \A i \in DOMAIN channel.grants : channel.grants[i] >= REVOKE

\* No buffer is made and none is lost: of the pool, and of each channel.
Conservation ==
    /\ pool + Sum([c \in Names |-> channels[c].borrowed]) = Floating
    /\ \A c \in Names :
        Valid(channels[c]) + DataHere(channels[c]) + channels[c].free = Exclusive + channels[c].borrowed

\* The gate never stores more than it has buffers for.
Bounded ==
    Sum([c \in Names |-> LET data == DataHere(channels[c]) IN IF data < Exclusive THEN 0 ELSE data - Exclusive])
        <= Floating

\* A sender is stopped by one barrier, from sending it to being told.
StoppedByBarrier ==
    \A c \in Names : LET channel == channels[c]  words == Len(SelectSeq(channel.grants, LAMBDA n : n <= RESUME)) IN
        IF Stop THEN One(channel.stopped) = BarriersHere(channel) + One(channel.blocked) + words
        ELSE ~channel.stopped /\ words = 0

\* Nothing is sent or stored behind a barrier before it is aligned.
NothingBehind ==
    \A c \in Names : LET stored == channels[c].inbox \o channels[c].wire IN
        /\ \A i \in DOMAIN stored : stored[i].kind = "barrier" => i = Len(stored)
        /\ channels[c].blocked => stored = <<>>

\* Everything sent or stored is of the epoch that may be consumed; waiting items are in order.
InEpoch ==
    \A c \in Names : LET channel == channels[c]  here == BarriersHere(channel) + One(channel.blocked) IN
        /\ \A i \in DOMAIN channel.wire : channel.wire[i].epoch = epoch
        /\ \A i \in DOMAIN channel.inbox : channel.inbox[i].epoch = epoch
        /\ \A i \in DOMAIN channel.waiting :
            channel.waiting[i].epoch = Counted(epoch + here + Count(SubSeq(channel.waiting, 1, i - 1), "barrier"))
        /\ channel.epoch = Counted(epoch + here + Count(channel.waiting, "barrier"))

\* Credit is taken back from the arrival of a barrier to its alignment.
ReleasedByBarrier ==
    \A c \in Names : LET channel == channels[c] IN
        /\ channel.released <=> (TakesBack /\ (channel.blocked \/ Count(channel.inbox, "barrier") > 0))
        /\ (channel.released /\ Exclusive = 0) => channel.free = 0

\* The gate will know the backlog that the sender has told, and no more than waits or travels.
BacklogKnown ==
    \A c \in Names : LET channel == channels[c] IN
        /\ channel.told <= DataIn(channel.waiting)
        /\ channel.told = IF channel.wire = <<>> THEN channel.wanted ELSE channel.wire[Len(channel.wire)].backlog
        /\ channel.wanted <= DataIn(channel.waiting) + DataIn(channel.wire)
        /\ \A i \in DOMAIN channel.wire :
            channel.wire[i].backlog <= DataIn(channel.waiting) + DataIn(SubSeq(channel.wire, i + 1, Len(channel.wire)))

\* A channel has no floating buffer that its backlog does not need.
NothingHoarded ==
    \A c \in Names : LET channel == channels[c] IN
        Valid(channel) + channel.free <= Exclusive + DataIn(channel.waiting)

\* Where something waits and is not blocked, the protocol can move.
NeverStuck == (\E c \in Names : channels[c].waiting # <<>> /\ ~channels[c].blocked) => ENABLED Protocol

-----------------------------------------------------------------------------
(* Properties that hold given fairness.                                    *)

HasBarrier(channel) == channel.blocked \/ Count(Pipe(channel), "barrier") > 0

\* An alignment that all inputs have joined is completed.
AlignmentCompletes ==
    /\ (\A c \in Names : HasBarrier(channels[c])) ~> (\A c \in Names : channels[c].blocked)
    /\ (\A c \in Names : channels[c].blocked) ~> (\A c \in Names : ~channels[c].blocked)

\* Where no barrier stands in the way, each channel that has data is served, again and again.
DataIsSent ==
    \A c \in Names :
        <>[](channels[c].waiting # <<>> /\ \A d \in Names : ~HasBarrier(channels[d])) => []<><<SendData(c)>>_vars

-----------------------------------------------------------------------------
(* False, each for a reason worth knowing.                                 *)

\* Inputs wait for each other.
NeverBlockedProbe == \A c \in Names : ~channels[c].blocked

\* The pool is used up: some channels wait for others.
PoolNeverEmptyProbe == pool > 0

\* With exclusive buffers a sender keeps its credit over a barrier.  Without them, or revoked, it starts with none.
StartsColdProbe ==
    \A c \in Names :
        channels[c].stopped /\ channels[c].grants # <<>> /\ Head(channels[c].grants) = RESUME => channels[c].credit = 0
=============================================================================
