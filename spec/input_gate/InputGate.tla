----------------------------- MODULE InputGate ------------------------------
(***************************************************************************)
(* A consumer with several inputs that aligns barriers: it consumes what   *)
(* is behind a barrier when the barriers of all inputs have arrived        *)
(* (FLINK-16404, FLINK-16641).  Nothing is stored for a blocked input: its *)
(* sender stops after the barrier until consumption is resumed.            *)
(*                                                                         *)
(* InputGateCredit says what the gate consists of and how data flows,      *)
(* InputGateAlignment what barriers, ends and losses do.  This module puts *)
(* them together: what may happen, what is fair, and what holds.           *)
(*                                                                         *)
(* Source: Apache Flink: RemoteInputChannel, BufferManager, credit and     *)
(* backlog; CheckpointedInputGate for newer and older barriers.            *)
(* Not modelled: unaligned checkpoints, buffers of different sizes,        *)
(* watermarks.                                                             *)
(***************************************************************************)
EXTENDS InputGateAlignment

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
