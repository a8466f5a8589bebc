-------------------------- MODULE InputGateCredit ---------------------------
(***************************************************************************)
(* What a gate with several inputs consists of, and its credit: data costs *)
(* one, and each credit is a buffer at the gate.                           *)
(*                                                                         *)
(*      sender c                                 gate                      *)
(*    waiting --SendData--> wire --Deliver--> inbox --ConsumeData--> (done)*)
(*      |  AnnounceBacklog ^         |           |                         *)
(*    credit <--AddCredit-- grants <--Grant-- free <--Borrow-- pool        *)
(*                                                                         *)
(* Each channel has exclusive buffers.  Floating ones are lent from the    *)
(* gate's pool, as many as the backlog needs: so each data item tells how  *)
(* much waits behind it.  A buffer that is free again goes home if it is a *)
(* floating one, else it is granted again.                                 *)
(*                                                                         *)
(* A barrier costs no credit.  Where it arrives it may take credit back;   *)
(* what else barriers do is said in InputGateAlignment.                    *)
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

\* The application of an input wants to send data.
OfferData(c) ==
    /\ Room(c)
    /\ channels' = [channels EXCEPT ![c].waiting = Append(@, Item("data", channels[c].epoch, 0))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* Data costs a credit, and tells how much waits behind it.
SendData(c) ==
    LET channel == channels[c]  left == DataIn(channel.waiting) - 1 IN
    /\ Starts(channel.waiting, "data") /\ ~channel.stopped /\ channel.credit > 0
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].credit = @ - 1, ![c].announced = left,
                                    ![c].wire = Append(@, Item("data", Head(channel.waiting).epoch, left))]
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
=============================================================================
