------------------------- MODULE InputGateAlignment -------------------------
(***************************************************************************)
(* How a gate aligns the barriers of its inputs, and what ends an input.   *)
(*                                                                         *)
(*      sender c                                   gate                    *)
(*    waiting --SendBarrier--> wire --Deliver--> inbox --ConsumeBarrier--> *)
(*    stopped <--ResumeConsumption-- grants <--Align-- blocked             *)
(*                                                                         *)
(* Behind its barrier a sender stops, and its channel is blocked until the *)
(* barriers of all others have been consumed.  Then each sender is told to *)
(* go on: RESUME, or REVOKE if its credit was taken back meanwhile.        *)
(*                                                                         *)
(* Barriers have numbers.  A newer one subsumes the pending one, an older  *)
(* one is void: in both cases the inputs behind them go on.  An input that *)
(* has ended is not waited for; one that is lost fails the gate.           *)
(***************************************************************************)
EXTENDS InputGateCredit

Counted(epochs) == IF Epochs = 0 THEN epochs ELSE epochs % Epochs

IsEpoch(number) == number \in Nat /\ (Epochs = 0 \/ number < Epochs)

-----------------------------------------------------------------------------

\* Where barriers are compared, their numbers do not begin anew.
IsNumber(number) == Skip = 0 \/ Epochs = 0 \/ number + 1 < Epochs

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

\* A barrier costs no credit; behind it the sender stops, and asks for nothing.
SendBarrier(c) ==
    LET channel == channels[c] IN
    /\ Starts(channel.waiting, "barrier") /\ ~channel.stopped
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].stopped = TRUE, ![c].announced = 0,
                                    ![c].sent = Counted(Head(channel.waiting).epoch + 1),
                                    ![c].wire = Append(@, Item("barrier", Head(channel.waiting).epoch, 0))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* The sender is told to go on; all credit that it has may be void.
ResumeConsumption(c) ==
    LET channel == channels[c] IN
    /\ channel.grants # <<>> /\ Head(channel.grants) <= RESUME
    /\ channels' = [channels EXCEPT ![c].grants = Tail(@),
                                    ![c].stopped = FALSE,
                                    ![c].credit = IF Head(channel.grants) = REVOKE THEN 0 ELSE @]
    /\ UNCHANGED <<pool, epoch, failed>>

-----------------------------------------------------------------------------

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

Joined == Pending /\ \A c \in Names : channels[c].blocked \/ channels[c].over

\* All barriers have arrived, but for inputs that have ended: the next epoch begins, and each sender is told.
Align ==
    /\ Joined
    /\ channels' = [c \in Names |-> Freed(channels[c])]
    /\ epoch' = Counted(epoch + 1)
    /\ UNCHANGED <<pool, failed>>

-----------------------------------------------------------------------------
(* Inputs that end, or are lost.                                           *)

\* The application of an input sends nothing more.  The end is in band: it waits, travels and is stored behind all that
\* was offered, free of charge.  So it is consumed when nothing is in front of it.
OfferEnd(c) ==
    /\ Ends /\ ~channels[c].closed
    /\ channels' = [channels EXCEPT ![c].closed = TRUE]
    /\ UNCHANGED <<pool, epoch, failed>>

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
=============================================================================
