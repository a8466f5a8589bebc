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
(*    credit <--AddCredit-- grants <--Grant-- free <--Borrow-- pool        *)
(*    stopped <--ResumeConsumption--' ^-- Align: RESUME or REVOKE          *)
(*                                                                         *)
(* A credit is a buffer at the gate.  Each channel has exclusive buffers;  *)
(* floating ones are lent from the gate's pool, as many as the backlog     *)
(* needs.  Data costs a credit, a barrier none.                            *)
(*                                                                         *)
(* Barriers have numbers.  A newer one subsumes the pending one, an older  *)
(* one is void: in both cases the inputs behind them go on.  An input that *)
(* has ended is not waited for; one that is lost fails the gate.           *)
(*                                                                         *)
(* Source: Apache Flink: RemoteInputChannel, BufferManager, credit and     *)
(* backlog; CheckpointedInputGate for newer and older barriers.            *)
(* Not modelled: unaligned checkpoints, buffers of different sizes,        *)
(* watermarks.                                                             *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Inputs,       \* channels of the gate
    Exclusive,    \* buffers that each channel has of its own
    Floating,     \* buffers of the pool
    Backlog,      \* data and barriers of a channel that may be offered and not yet consumed
    Epochs,       \* epochs are counted modulo this; 1: they are not told apart; 0: they are counted without end
    Revoke,       \* a barrier takes back all credit that was granted, exclusive or not (the rule of FLINK-16404)
    Skip,         \* so many barriers may an input leave out at once; if any, numbers are not modulo, but below Epochs
    Ends,         \* inputs may end
    Losses,       \* inputs may be lost
    Fair          \* names of the actions that are weakly fair; "BorrowInTurn": strongly, for each channel

ASSUME Assumption ==
    /\ Inputs \in Nat \ {0} /\ {Exclusive, Floating} \subseteq Nat /\ Backlog \in Nat \ {0}
    \* A channel is ahead of the gate by its barriers: those offered, and the one that blocks it.
    /\ Epochs \in {0, 1} \/ (Epochs \in Nat /\ Epochs > Backlog + 1)
    /\ {Revoke, Ends, Losses} \subseteq BOOLEAN
    /\ Skip \in Nat /\ (Skip > 0 => Epochs # 1)
    /\ Fair \subseteq {"SendData", "SendBarrier", "AnnounceBacklog", "AddCredit", "ResumeConsumption", "Deliver",
                       "ConsumeData", "ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier", "ConsumeEnd",
                       "Borrow", "BorrowInTurn", "Grant", "Align"}

VARIABLES
    channels,     \* the inputs: Opened says what one consists of
    pool,         \* floating buffers that no channel has
    epoch,        \* the number of the barrier that is pending, or may be next: of what may be consumed now
    failed        \* an input was lost

vars == <<channels, pool, epoch, failed>>

Names == 1 .. Inputs

Opened ==
    [epoch    |-> 0,          \* of the next offered item
     sent     |-> 0,          \* of the next sent item
     waiting  |-> <<>>,       \* data and barriers that wait at the sender
     stopped  |-> FALSE,      \* the sender has sent a barrier and waits to be resumed
     announced |-> 0,         \* the backlog that the sender has announced last, less what it has sent since
     credit   |-> Exclusive,  \* at the sender
     wire     |-> <<>>,       \* messages in flight
     inbox    |-> <<>>,       \* data and barriers at the gate, not yet consumed
     blocked  |-> FALSE,      \* its barrier was consumed; others are awaited
     released |-> FALSE,      \* its credit was taken back; the sender has not been told yet
     required |-> 0,          \* the backlog that the gate knows of
     free     |-> 0,          \* buffers of the channel that hold nothing, not granted yet
     borrowed |-> 0,          \* floating buffers that the channel has
     grants   |-> <<>>,       \* in flight back: so many credits, or one of these words
     closed   |-> FALSE,      \* nothing more is offered: its end is behind all that was
     over     |-> FALSE]      \* its end was consumed, or it was lost

RESUME == 0        \* consumption is resumed
REVOKE == 0 - 1    \* consumption is resumed, and all credit granted before is void

Init ==
    /\ channels = [c \in Names |-> Opened]
    /\ pool = Floating /\ epoch = 0 /\ failed = FALSE

Counted(epochs) == IF Epochs = 0 THEN epochs ELSE epochs % Epochs

IsEpoch(number) == number \in Nat /\ (Epochs = 0 \/ number < Epochs)

\* Data has the epoch behind the last barrier before it; a barrier has its own number, which may be larger.
Item(kind, of, backlog) == [kind |-> kind, epoch |-> of, backlog |-> backlog]

Count(queue, kind) == Len(SelectSeq(queue, LAMBDA item : item.kind = kind))

DataIn(queue) == Count(queue, "data")

\* Has a queue got a head of this kind?
Starts(queue, kind) == queue # <<>> /\ Head(queue).kind = kind

\* Offered and not yet consumed.
Pipe(channel) == channel.inbox \o channel.wire \o channel.waiting

\* A barrier takes back what its channel has: without exclusive buffers the floating ones, which others need.
TakesBack == Revoke \/ Exclusive = 0

Least(m, n) == IF m < n THEN m ELSE n

-----------------------------------------------------------------------------

Room(c) ==
    LET pipe == Pipe(channels[c]) IN ~channels[c].closed /\ DataIn(pipe) + Count(pipe, "barrier") < Backlog

\* Where barriers are compared, their numbers do not begin anew.
IsNumber(number) == Skip = 0 \/ Epochs = 0 \/ number + 1 < Epochs

\* The application of an input wants to send data.
OfferData(c) ==
    /\ Room(c)
    /\ channels' = [channels EXCEPT ![c].waiting = Append(@, Item("data", channels[c].epoch, 0))]
    /\ UNCHANGED <<pool, epoch, failed>>

WithBarrier(channel, number) ==
    [channel EXCEPT !.waiting = Append(@, Item("barrier", number, 0)), !.epoch = Counted(number + 1)]

\* A barrier ends the epoch of an input.
OfferBarrier(c) ==
    /\ Room(c) /\ IsNumber(channels[c].epoch)
    /\ channels' = [channels EXCEPT ![c] = WithBarrier(@, @.epoch)]
    /\ UNCHANGED <<pool, epoch, failed>>

\* ... or a newer one does: this input leaves some out.
OfferNewerBarrier(c) ==
    /\ Room(c)
    /\ \E skipped \in 1 .. Skip :
        /\ IsNumber(channels[c].epoch + skipped)
        /\ channels' = [channels EXCEPT ![c] = WithBarrier(@, @.epoch + skipped)]
    /\ UNCHANGED <<pool, epoch, failed>>

\* The application of an input sends nothing more.  The end is in band: it waits, travels and is stored behind all that
\* was offered, free of charge.  So it is consumed when nothing is in front of it.
OfferEnd(c) ==
    /\ Ends /\ ~channels[c].closed
    /\ channels' = [channels EXCEPT ![c].closed = TRUE]
    /\ UNCHANGED <<pool, epoch, failed>>

\* Data costs a credit, and tells how much waits behind it.
SendData(c) ==
    LET channel == channels[c]  left == DataIn(channel.waiting) - 1 IN
    /\ Starts(channel.waiting, "data") /\ ~channel.stopped /\ channel.credit > 0
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].credit = @ - 1, ![c].announced = left,
                                    ![c].wire = Append(@, Item("data", Head(channel.waiting).epoch, left))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* A barrier costs no credit; behind it the sender stops, and asks for nothing.
SendBarrier(c) ==
    LET channel == channels[c] IN
    /\ Starts(channel.waiting, "barrier") /\ ~channel.stopped
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].stopped = TRUE, ![c].announced = 0,
                                    ![c].sent = Counted(Head(channel.waiting).epoch + 1),
                                    ![c].wire = Append(@, Item("barrier", Head(channel.waiting).epoch, 0))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* A sender without any credit says that it has data; with exclusive buffers the next data says so.
AnnounceBacklog(c) ==
    LET channel == channels[c]  backlog == DataIn(channel.waiting) IN
    /\ Exclusive = 0 /\ ~channel.stopped /\ channel.credit = 0 /\ channel.announced < backlog
    /\ channels' = [channels EXCEPT ![c].announced = backlog,
                                    ![c].wire = Append(@, Item("backlog", channel.sent, backlog))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* Credit arrives at the sender.
AddCredit(c) ==
    LET channel == channels[c] IN
    /\ channel.grants # <<>> /\ Head(channel.grants) > 0
    /\ channels' = [channels EXCEPT ![c].grants = Tail(@), ![c].credit = @ + Head(channel.grants)]
    /\ UNCHANGED <<pool, epoch, failed>>

\* The sender is told to go on; all credit that it has may be void.
ResumeConsumption(c) ==
    LET channel == channels[c] IN
    /\ channel.grants # <<>> /\ Head(channel.grants) <= RESUME
    /\ channels' = [channels EXCEPT ![c].grants = Tail(@),
                                    ![c].stopped = FALSE,
                                    ![c].credit = IF Head(channel.grants) = REVOKE THEN 0 ELSE @]
    /\ UNCHANGED <<pool, epoch, failed>>

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
    /\ channels' = [channels EXCEPT ![c].wire = Tail(@), ![c].required = message.backlog,
                                    ![c].inbox = IF message.kind = "backlog" THEN @ ELSE Append(@, message),
                                    ![c].released = @ \/ takes,
                                    ![c].free = IF takes THEN Exclusive + kept - data ELSE @,
                                    ![c].borrowed = kept]
    /\ UNCHANGED <<epoch, failed>>

\* The buffer is free again: a floating one goes home, an exclusive one is granted again.
ConsumeData(c) ==
    LET channel == channels[c]  home == IF channel.borrowed > 0 THEN 1 ELSE 0 IN
    /\ ~failed /\ Starts(channel.inbox, "data") /\ ~channel.blocked
    /\ pool' = pool + home
    /\ channels' = [channels EXCEPT ![c].inbox = Tail(@), ![c].borrowed = @ - home, ![c].free = @ + 1 - home]
    /\ UNCHANGED <<epoch, failed>>

Resumed(channel) ==
    [channel EXCEPT !.blocked = FALSE, !.released = FALSE,
                    !.grants = Append(@, IF channel.released THEN REVOKE ELSE RESUME)]

\* What blocked it is no longer pending.
Freed(channel) == IF channel.blocked THEN Resumed(channel) ELSE channel

\* The gate takes a barrier of this number.
TakesBarrier(c, number) ==
    /\ ~failed /\ Starts(channels[c].inbox, "barrier") /\ ~channels[c].blocked
    /\ number = Head(channels[c].inbox).epoch
    /\ UNCHANGED <<pool, failed>>

Behind(channel) == [channel EXCEPT !.inbox = Tail(@), !.blocked = TRUE]

Pending == \E c \in Names : channels[c].blocked

\* The channel is blocked until the barriers of all others have been consumed.
ConsumeBarrier(c) ==
    LET number == Head(channels[c].inbox).epoch IN
    /\ TakesBarrier(c, number)
    /\ Skip = 0 \/ number = epoch \/ (number > epoch /\ ~Pending)
    /\ channels' = [channels EXCEPT ![c] = Behind(@)]
    /\ epoch' = IF Skip = 0 THEN epoch ELSE number

\* A newer barrier subsumes the pending one, whose alignment is aborted: the channels that it blocks go on.
ConsumeNewerBarrier(c) ==
    LET number == Head(channels[c].inbox).epoch IN
    /\ Skip > 0 /\ TakesBarrier(c, number) /\ number > epoch /\ Pending
    /\ channels' = [d \in Names |-> IF d = c THEN Behind(channels[d]) ELSE Freed(channels[d])]
    /\ epoch' = number

\* An older barrier was given up: the channel goes on at once.
ConsumeOlderBarrier(c) ==
    LET number == Head(channels[c].inbox).epoch IN
    /\ Skip > 0 /\ TakesBarrier(c, number) /\ number < epoch
    /\ channels' = [channels EXCEPT ![c] = Resumed(Behind(@))]
    /\ UNCHANGED epoch

\* An input ends: nobody waits for it, and its buffers go home.
ConsumeEnd(c) ==
    LET channel == channels[c] IN
    /\ ~failed /\ channel.closed /\ ~channel.over
    /\ Pipe(channel) = <<>> /\ ~channel.stopped /\ ~channel.blocked
    /\ pool' = pool + channel.borrowed
    /\ channels' = [channels EXCEPT ![c].over = TRUE, ![c].borrowed = 0, ![c].free = 0]
    /\ UNCHANGED <<epoch, failed>>

\* An input is lost with all that it has, and the gate fails: it consumes nothing more, and gives up what is pending.
LoseInput(c) ==
    /\ Losses /\ ~channels[c].over
    /\ pool' = pool + channels[c].borrowed
    /\ channels' = [d \in Names |-> IF d = c THEN [Opened EXCEPT !.credit = 0, !.closed = TRUE, !.over = TRUE]
                                     ELSE Freed(channels[d])]
    /\ epoch' = IF Pending THEN Counted(epoch + 1) ELSE epoch
    /\ failed' = TRUE

\* The backlog needs one more buffer than the channel has, and the pool has one.
Borrow(c) ==
    LET channel == channels[c] IN
    /\ pool > 0 /\ ~channel.released /\ ~channel.over /\ channel.borrowed - DataIn(channel.inbox) < channel.required
    /\ pool' = pool - 1
    /\ channels' = [channels EXCEPT ![c].borrowed = @ + 1, ![c].free = @ + 1]
    /\ UNCHANGED <<epoch, failed>>

\* All free buffers of a channel are granted together.
Grant(c) ==
    /\ channels[c].free > 0 /\ ~channels[c].released
    /\ channels' = [channels EXCEPT ![c].free = 0, ![c].grants = Append(@, channels[c].free)]
    /\ UNCHANGED <<pool, epoch, failed>>

Joined == Pending /\ \A c \in Names : channels[c].blocked \/ channels[c].over

\* All barriers have arrived, but for inputs that have ended: the next epoch begins, and each sender is told.
Align ==
    /\ Joined
    /\ channels' = [c \in Names |-> Freed(channels[c])]
    /\ epoch' = Counted(epoch + 1)
    /\ UNCHANGED <<pool, failed>>

\* The gate has failed, or all inputs have ended.
Done == (failed \/ \A c \in Names : channels[c].over) /\ UNCHANGED vars

Environment ==
    \/ \E c \in Names : OfferData(c)
    \/ \E c \in Names : OfferBarrier(c)
    \/ \E c \in Names : OfferNewerBarrier(c)
    \/ \E c \in Names : OfferEnd(c)
    \/ \E c \in Names : LoseInput(c)
    \/ Done

Protocol ==
    \/ \E c \in Names : SendData(c)
    \/ \E c \in Names : SendBarrier(c)
    \/ \E c \in Names : AnnounceBacklog(c)
    \/ \E c \in Names : AddCredit(c)
    \/ \E c \in Names : ResumeConsumption(c)
    \/ \E c \in Names : Deliver(c)
    \/ \E c \in Names : ConsumeData(c)
    \/ \E c \in Names : ConsumeBarrier(c)
    \/ \E c \in Names : ConsumeNewerBarrier(c)
    \/ \E c \in Names : ConsumeOlderBarrier(c)
    \/ \E c \in Names : ConsumeEnd(c)
    \/ \E c \in Names : Borrow(c)
    \/ \E c \in Names : Grant(c)
    \/ Align

Next == Environment \/ Protocol

Fairness ==
    /\ \A c \in Names :
        /\ "SendData" \in Fair => WF_vars(SendData(c))
        /\ "SendBarrier" \in Fair => WF_vars(SendBarrier(c))
        /\ "AnnounceBacklog" \in Fair => WF_vars(AnnounceBacklog(c))
        /\ "AddCredit" \in Fair => WF_vars(AddCredit(c))
        /\ "ResumeConsumption" \in Fair => WF_vars(ResumeConsumption(c))
        /\ "Deliver" \in Fair => WF_vars(Deliver(c))
        /\ "ConsumeData" \in Fair => WF_vars(ConsumeData(c))
        /\ "ConsumeBarrier" \in Fair => WF_vars(ConsumeBarrier(c))
        /\ "ConsumeNewerBarrier" \in Fair => WF_vars(ConsumeNewerBarrier(c))
        /\ "ConsumeOlderBarrier" \in Fair => WF_vars(ConsumeOlderBarrier(c))
        /\ "ConsumeEnd" \in Fair => WF_vars(ConsumeEnd(c))
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
\* The credit of a sender when all of this has arrived.
After(credit, grants) ==
    IF grants = <<>> THEN credit
    ELSE After(IF Head(grants) = REVOKE THEN 0 ELSE credit + Head(grants), Tail(grants))

\* Credit that may still be used.
Valid(channel) == IF channel.released \/ channel.over THEN 0 ELSE After(channel.credit, channel.grants)

DataHere(channel) == DataIn(channel.wire) + DataIn(channel.inbox)

BarriersHere(channel) == Count(channel.wire, "barrier") + Count(channel.inbox, "barrier")

RECURSIVE InOrder(_, _, _)
\* From one epoch to another: barriers begin epochs, and data is of the epoch in which it is.
InOrder(queue, from, to) ==
    IF queue = <<>> THEN from = to
    ELSE /\ Head(queue).epoch = from \/ (Skip > 0 /\ Head(queue).kind = "barrier" /\ Head(queue).epoch > from)
         /\ InOrder(Tail(queue), IF Head(queue).kind = "barrier" THEN Counted(Head(queue).epoch + 1) ELSE from, to)

One(condition) == IF condition THEN 1 ELSE 0

IsItem(item) == item.kind \in {"data", "barrier", "backlog"} /\ IsEpoch(item.epoch) /\ item.backlog \in Nat

TypeOK ==
    /\ DOMAIN channels = Names /\ pool \in Nat /\ IsEpoch(epoch) /\ failed \in BOOLEAN
    /\ \A c \in Names : LET channel == channels[c] IN
        /\ IsEpoch(channel.epoch) /\ IsEpoch(channel.sent)
        /\ {channel.announced, channel.credit, channel.required} \subseteq Nat
        /\ {channel.free, channel.borrowed} \subseteq Nat
        /\ \A i \in DOMAIN Pipe(channel) : IsItem(Pipe(channel)[i])
        /\ \A i \in DOMAIN channel.waiting : channel.waiting[i].kind # "backlog"
        /\ \A i \in DOMAIN channel.inbox : channel.inbox[i].kind # "backlog"
        /\ \A i \in DOMAIN channel.grants : channel.grants[i] >= REVOKE

\* No buffer is made and none is lost: of the pool, and of each channel.  The buffers of an input end with it.
Conservation ==
    /\ pool + Sum([c \in Names |-> channels[c].borrowed]) = Floating
    /\ \A c \in Names :
        Valid(channels[c]) + DataHere(channels[c]) + channels[c].free =
            channels[c].borrowed + IF channels[c].over THEN 0 ELSE Exclusive

\* The gate never stores more than it has buffers for.
Bounded ==
    Sum([c \in Names |-> LET data == DataHere(channels[c]) IN IF data < Exclusive THEN 0 ELSE data - Exclusive])
        <= Floating

\* A sender is stopped by one barrier, from sending it to being told.
StoppedByBarrier ==
    \A c \in Names : LET channel == channels[c]  words == Len(SelectSeq(channel.grants, LAMBDA n : n <= RESUME)) IN
        One(channel.stopped) = BarriersHere(channel) + One(channel.blocked) + words

\* Nothing is sent or stored behind a barrier before it is aligned.
NothingBehind ==
    \A c \in Names : LET stored == channels[c].inbox \o channels[c].wire IN
        /\ \A i \in DOMAIN stored : stored[i].kind = "barrier" => i = Len(stored)
        /\ channels[c].blocked => stored = <<>>

\* An input that has ended has nothing, and nobody waits behind its end.
NothingAfterEnd ==
    \A c \in Names : LET channel == channels[c] IN
        channel.over =>
            /\ channel.closed /\ Pipe(channel) = <<>> /\ ~channel.blocked
            /\ channel.borrowed = 0 /\ channel.free = 0

\* Everything sent or stored is of the epoch that may be consumed, or of one given up; waiting items are in order.
\* A channel's barrier is behind what the gate may consume, until it is aligned or given up.
InEpoch ==
    \A c \in Names : LET channel == channels[c]  here == BarriersHere(channel) + One(channel.blocked)
                          stored == channel.inbox \o channel.wire IN
        ~failed /\ ~channel.over =>
            /\ IF Skip = 0
               THEN /\ channel.sent = Counted(epoch + here)
                    /\ \A i \in DOMAIN stored : stored[i].epoch = epoch
               ELSE /\ here = 0 => channel.sent <= epoch
                    /\ channel.blocked => channel.sent = epoch + 1
                    /\ \A i \in DOMAIN stored :
                        IF stored[i].kind = "barrier" THEN channel.sent = stored[i].epoch + 1
                        ELSE stored[i].epoch <= epoch
            /\ InOrder(channel.waiting, channel.sent, channel.epoch)

\* Credit is taken back from the arrival of a barrier to its alignment.
ReleasedByBarrier ==
    \A c \in Names : LET channel == channels[c] IN
        /\ channel.released <=> (TakesBack /\ (channel.blocked \/ Count(channel.inbox, "barrier") > 0))
        /\ (channel.released /\ Exclusive = 0) => channel.free = 0

\* The gate will know the backlog that the sender has told, and no more than waits or travels.
BacklogKnown ==
    \A c \in Names : LET channel == channels[c] IN
        /\ channel.announced <= DataIn(channel.waiting)
        /\ channel.announced = IF channel.wire = <<>> THEN channel.required ELSE channel.wire[Len(channel.wire)].backlog
        /\ channel.required <= DataIn(channel.waiting) + DataIn(channel.wire)
        /\ \A i \in DOMAIN channel.wire :
            channel.wire[i].backlog <= DataIn(channel.waiting) + DataIn(SubSeq(channel.wire, i + 1, Len(channel.wire)))

\* A channel has no floating buffer that its backlog does not need.
NothingHoarded ==
    \A c \in Names : LET channel == channels[c] IN
        Valid(channel) + channel.free <= Exclusive + DataIn(channel.waiting)

\* An alignment is aborted where an input is lost: nobody stays behind a barrier.
LossFrees == \A c \in Names : failed => ~channels[c].blocked

\* Does something wait, an end included, that need not wait for an alignment?
Waits(channel) == (channel.waiting # <<>> \/ (channel.closed /\ ~channel.over)) /\ ~channel.blocked

\* Where something waits and is not blocked, or nothing is waited for, the protocol can move.
NeverStuck == ~failed /\ (Joined \/ \E c \in Names : Waits(channels[c])) => ENABLED Protocol

-----------------------------------------------------------------------------
(* Properties that hold given fairness.                                    *)

HasBarrier(channel) == channel.blocked \/ Count(Pipe(channel), "barrier") > 0

\* An alignment that all inputs have joined is completed.
AlignmentCompletes ==
    /\ (\A c \in Names : HasBarrier(channels[c])) ~> (\A c \in Names : channels[c].blocked)
    /\ (\A c \in Names : channels[c].blocked) ~> (\A c \in Names : ~channels[c].blocked)

\* It has this barrier or a newer one, or ends.
Joins(channel, number) ==
    channel.closed \/ channel.blocked
    \/ \E i \in DOMAIN Pipe(channel) : Pipe(channel)[i].kind = "barrier" /\ Pipe(channel)[i].epoch >= number

\* An alignment that starts is completed or aborted, if each input joins it: with Epochs > 1.
AlignmentEnds ==
    \A number \in 0 .. Epochs :
        (Pending /\ epoch = number /\ \A c \in Names : Joins(channels[c], number)) ~> (epoch # number)

\* An input that ends is over, unless it stands behind a barrier for which others never come.
EndIsConsumed ==
    \A c \in Names : (channels[c].closed /\ ~HasBarrier(channels[c])) ~> (channels[c].over \/ failed)

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
