-------------------------- MODULE WithdrawingGate ---------------------------
(***************************************************************************)
(* A gate whose senders take back what waits (a cancelled send): so the    *)
(* gate has lent credit for data that never comes.                         *)
(*                                                                         *)
(*      sender c                                 gate                      *)
(*    waiting --WithdrawData--> (taken back)                               *)
(*    credit --ReturnCredit--> wire --Deliver--> pool                      *)
(*                                                                         *)
(* A sender that has more credit than its own and than waits gives it back,*)
(* and tells what waits now.  What it returns is on the wire, in its order *)
(* between data and barriers, while more credit may be on its way back.    *)
(* All else is as in InputGate.                                            *)
(*                                                                         *)
(* Only the newest message is taken back.  One from the middle is taken    *)
(* back with all behind it, and these are offered again.                   *)
(*                                                                         *)
(* Source: permitflow's own; Flink's buffers are never taken back.         *)
(* Not modelled: what InputGate leaves out, too; that a sender returns     *)
(* several credits by one message.                                         *)
(***************************************************************************)
EXTENDS InputGateAlignment

Gate == INSTANCE InputGate

\* The gate has failed, or all inputs have ended.
Done == (failed \/ \A c \in Names : channels[c].over) /\ UNCHANGED vars

-----------------------------------------------------------------------------

Last(queue) == queue[Len(queue)]

Front(queue) == SubSeq(queue, 1, Len(queue) - 1)

\* The epoch that is due behind all that waits.
Due(channel, waiting) ==
    IF waiting = <<>> THEN channel.sent
    ELSE IF Last(waiting).kind = "data" THEN Last(waiting).epoch ELSE Counted(Last(waiting).epoch + 1)

\* The application takes back its newest message, which is data: no credit was taken for it.
WithdrawData(c) ==
    LET channel == channels[c] IN
    /\ channel.waiting # <<>> /\ Last(channel.waiting).kind = "data"
    /\ channels' = [channels EXCEPT ![c].waiting = Front(@)]
    /\ UNCHANGED <<pool, epoch, failed>>

\* ... or a barrier: the epoch goes on that it would have ended.
WithdrawBarrier(c) ==
    LET channel == channels[c] IN
    /\ channel.waiting # <<>> /\ Last(channel.waiting).kind = "barrier"
    /\ channels' = [channels EXCEPT ![c].waiting = Front(@), ![c].epoch = Due(channel, Front(channel.waiting))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* Data costs a credit.  The gate knows that less waits by the data itself, so it believes in what was taken back until
\* the sender tells the truth.
SendAndTell(c) ==
    LET channel == channels[c]
        waits == DataIn(channel.waiting)
        told == (IF channel.announced > waits THEN channel.announced ELSE waits) - 1
    IN
    /\ Starts(channel.waiting, "data") /\ ~channel.stopped /\ channel.credit > 0
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].credit = @ - 1, ![c].announced = told,
                                    ![c].wire = Append(@, Item("data", Head(channel.waiting).epoch, told))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* Has a sender more credit than its own and than waits?
Hoards(channel) ==
    ~channel.stopped /\ ~channel.over /\ channel.credit > Exclusive + DataIn(channel.waiting)

\* It gives one back, and tells what waits.
ReturnCredit(c) ==
    LET channel == channels[c]  backlog == DataIn(channel.waiting) IN
    /\ Hoards(channel)
    /\ channels' = [channels EXCEPT ![c].credit = @ - 1, ![c].announced = backlog,
                                    ![c].wire = Append(@, Item("return", channel.sent, backlog))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* A message arrives at the gate, as in InputGate; a credit that comes back was lent, and goes home.
DeliverOrReturn(c) ==
    LET message == Head(channels[c].wire) IN
    IF Starts(channels[c].wire, "return")
    THEN /\ pool' = pool + 1
         /\ channels' = [channels EXCEPT ![c].wire = Tail(@), ![c].required = message.backlog, ![c].borrowed = @ - 1]
         /\ UNCHANGED <<epoch, failed>>
    ELSE Deliver(c)

Environment ==
    \/ \E c \in Names : OfferData(c)
    \/ \E c \in Names : OfferBarrier(c)
    \/ \E c \in Names : OfferNewerBarrier(c)
    \/ \E c \in Names : OfferEnd(c)
    \/ \E c \in Names : LoseInput(c)
    \/ Done
    \/ \E c \in Names : WithdrawData(c)
    \/ \E c \in Names : WithdrawBarrier(c)

Protocol ==
    \/ \E c \in Names : SendAndTell(c)
    \/ \E c \in Names : SendBarrier(c)
    \/ \E c \in Names : AnnounceBacklog(c)
    \/ \E c \in Names : AddCredit(c)
    \/ \E c \in Names : ResumeConsumption(c)
    \/ \E c \in Names : DeliverOrReturn(c)
    \/ \E c \in Names : ConsumeData(c)
    \/ \E c \in Names : ConsumeBarrier(c)
    \/ \E c \in Names : ConsumeNewerBarrier(c)
    \/ \E c \in Names : ConsumeOlderBarrier(c)
    \/ \E c \in Names : ConsumeEnd(c)
    \/ \E c \in Names : Borrow(c)
    \/ \E c \in Names : Grant(c)
    \/ Align
    \/ \E c \in Names : ReturnCredit(c)

Next == Environment \/ Protocol

Fairness ==
    /\ \A c \in Names :
        /\ "SendData" \in Fair => WF_vars(SendAndTell(c))
        \* Strongly: an application may offer and take back for ever, so that it never stays possible.
        /\ "AnnounceBacklog" \in Fair => SF_vars(AnnounceBacklog(c) \/ ReturnCredit(c))
        /\ "AddCredit" \in Fair => WF_vars(AddCredit(c))
        /\ "ResumeConsumption" \in Fair => WF_vars(ResumeConsumption(c))
        /\ "Deliver" \in Fair => WF_vars(DeliverOrReturn(c))
        /\ "ConsumeData" \in Fair => WF_vars(ConsumeData(c))
        /\ "ConsumeBarrier" \in Fair => WF_vars(ConsumeBarrier(c))
        /\ "BorrowInTurn" \in Fair => SF_vars(Borrow(c))
        /\ "Grant" \in Fair => WF_vars(Grant(c))
    /\ "Align" \in Fair => WF_vars(Align)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

\* A credit that comes back is told of like a backlog.
Plain(items) == [i \in DOMAIN items |-> [items[i] EXCEPT !.kind = IF @ = "return" THEN "backlog" ELSE @]]

Told == INSTANCE InputGate WITH channels <- [c \in Names |-> [channels[c] EXCEPT !.wire = Plain(@)]]

TypeOK == Told!TypeOK

Returns(channel) == Count(channel.wire, "return")

\* No buffer is made and none is lost, also of those that come back.
Conservation ==
    /\ pool + Gate!Sum([c \in Names |-> channels[c].borrowed]) = Floating
    /\ \A c \in Names : LET channel == channels[c] IN
        Gate!Valid(channel) + Gate!DataHere(channel) + Returns(channel) + channel.free =
            channel.borrowed + IF channel.over THEN 0 ELSE Exclusive

\* Whatever comes back is still lent when it arrives: all data before it holds a buffer that is lent, too.
ReturnsAreLent ==
    \A c \in Names : LET channel == channels[c] IN
        \A i \in DOMAIN channel.wire : channel.wire[i].kind = "return" =>
            LET before == SubSeq(channel.wire, 1, i) IN
            DataIn(channel.inbox) + DataIn(before) + Count(before, "return") <= channel.borrowed

\* The gate will know what the sender has told.
BacklogTold ==
    \A c \in Names : LET channel == channels[c] IN
        channel.announced = IF channel.wire = <<>> THEN channel.required ELSE Last(channel.wire).backlog

Bounded == Gate!Bounded
StoppedByBarrier == Gate!StoppedByBarrier
NothingBehind == Gate!NothingBehind
NothingAfterEnd == Gate!NothingAfterEnd
InEpoch == Gate!InEpoch
ReleasedByBarrier == Gate!ReleasedByBarrier
LossFrees == Gate!LossFrees

\* As in InputGate; a channel that waits may need what another one hoards.
NeverStuck == ~failed /\ (Gate!Joined \/ \E c \in Names : Gate!Waits(channels[c])) => ENABLED Protocol

-----------------------------------------------------------------------------

\* Nobody hoards for ever.
CreditReturns == \A c \in Names : Hoards(channels[c]) ~> ~Hoards(channels[c])

\* A barrier that has left is taken back no more.
HasSentBarrier(channel) == channel.blocked \/ Gate!BarriersHere(channel) > 0

AlignmentCompletes ==
    /\ (\A c \in Names : HasSentBarrier(channels[c])) ~> (\A c \in Names : channels[c].blocked)
    /\ (\A c \in Names : channels[c].blocked) ~> (\A c \in Names : ~channels[c].blocked)

\* Each channel is served, again and again, if its data is not taken back.
DataIsSent ==
    \A c \in Names :
        <>[](channels[c].waiting # <<>> /\ \A d \in Names : ~Gate!HasBarrier(channels[d]))
            => []<><<SendAndTell(c)>>_vars

\* False: credit is on its way back while more is on its way to the sender.
NothingCrossesProbe == \A c \in Names : Returns(channels[c]) = 0 \/ channels[c].grants = <<>>

\* False: the gate believes in data that was taken back.
BacklogTrueProbe == \A c \in Names : channels[c].announced <= DataIn(channels[c].waiting)
=============================================================================
