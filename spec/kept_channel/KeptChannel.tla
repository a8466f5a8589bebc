------------------------------ MODULE KeptChannel ------------------------------
(***************************************************************************)
(* A channel that keeps its rows for several consumers, each by its name.  *)
(*                                                                         *)
(*   producer --Produce--> exchange: rows [first, next) --SendRow--> streams *)
(*                         a position of each consumer <--Acknowledge--    *)
(*                                                                         *)
(* A row is kept until each consumer has acknowledged it, or until it      *)
(* expires.  The room is that of the slowest consumer.  A consumer may     *)
(* leave at any point, and come back under its name: it reads on from what *)
(* it has handled, or from where it wants.  Where rows are gone, it is     *)
(* told, and goes on behind them.  The exchange may change: the next one   *)
(* has what was confirmed, and no streams.                                 *)
(*                                                                         *)
(* Rows are numbered from 0.  Each consumer keeps with its results how     *)
(* many rows these are of: its own position, which the exchange never      *)
(* sees.                                                                   *)
(*                                                                         *)
(* Source: Apache Kafka's consumer groups: offsets, retention.             *)
(* Not modelled: chunks of several rows of a producer, barriers, bytes, an *)
(* exchange that loses its rows; two readers of one name at a time.  The   *)
(* exchange has no holder of the name: each of them gets all rows, and has *)
(* an own position.  What one acknowledges is gone for the other one as    *)
(* after a purge: that one is told.                                        *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Consumers,    \* that rows are kept for
    RowPermits,   \* rows that producers may have in the channel
    StagingRows,  \* rows that jobs may publish beyond these
    Horizon,      \* rows that come at most
    Expires,      \* may rows expire before they are acknowledged, or be purged?
    Faults,       \* streams that are lost, and exchanges that change, at most
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Consumers, RowPermits} \subseteq Nat \ {0} /\ {StagingRows, Horizon, Faults} \subseteq Nat
    /\ Expires \in BOOLEAN
    /\ Fair \subseteq {"Produce", "BeginReading", "SendRow", "TakeRow", "Acknowledge", "SkipRows"}

VARIABLES
    next,         \* rows that have come; the number of the next one
    first,        \* the first row that is still there
    expired,      \* rows below this have expired
    ended,        \* has a producer ended the channel, or broken it?
    faults,       \* so far
    misplaced,    \* rows that a consumer took where another one belongs, or that were sent and not there
    consumers     \* Before says what one consists of

vars == <<next, first, expired, ended, faults, misplaced, consumers>>

Names == 1 .. Consumers

Before ==
    [acknowledged |-> 0,       \* its position: it needs no row below this
     handled      |-> 0,       \* its own position, with its results
     taken        |-> 0,       \* rows that it has taken
     skipped      |-> 0,       \* rows of which it was told that they are gone
     isPurged     |-> FALSE,   \* has an administrator acknowledged in its place, since it was last told?
     phase        |-> "away",  \* then "reading", "told", "done"
     at           |-> 0,       \* the row of its stream that it takes next
     sent         |-> 0]       \* the row that is sent next; those from `at` on are on their way

Init ==
    /\ next = 0 /\ first = 0 /\ expired = 0 /\ ended = FALSE /\ faults = 0 /\ misplaced = 0
    /\ consumers = [c \in Names |-> Before]

Max(a, b) == IF a < b THEN b ELSE a

\* The first row that it can still be sent.
FirstOf(one) == Max(one.acknowledged, expired)

\* The first row that somebody needs, where rows below `gone` have expired.
Needed(all, gone) ==
    LET slowest == CHOOSE row \in 0 .. next :
            /\ \E c \in Names : all[c].acknowledged = row
            /\ \A c \in Names : row <= all[c].acknowledged
    IN Max(gone, slowest)

\* A consumer is another one, and what nobody needs is forgotten.
Noted(c, one) ==
    LET all == [consumers EXCEPT ![c] = one] IN
    consumers' = all /\ first' = Needed(all, expired)

Fails == faults < Faults /\ faults' = faults + 1

Stopped(one) == [one EXCEPT !.phase = IF @ = "reading" THEN "away" ELSE @, !.at = 0, !.sent = 0]

-----------------------------------------------------------------------------
(* Producers.                                                              *)

\* A row is kept, if there is room.
Produce ==
    /\ ~ended /\ next < Horizon /\ next - first < RowPermits
    /\ next' = next + 1
    /\ UNCHANGED <<first, expired, ended, faults, misplaced, consumers>>

\* A job's rows are published: they are there at once, permits or not.
ProduceBatch ==
    /\ ~ended /\ next < Horizon /\ next - first < RowPermits + StagingRows
    /\ next' = next + 1
    /\ UNCHANGED <<first, expired, ended, faults, misplaced, consumers>>

\* No more rows come: a producer has ended the channel, or broken it.
EndLog ==
    /\ ~ended
    /\ ended' = TRUE
    /\ UNCHANGED <<next, first, expired, faults, misplaced, consumers>>

-----------------------------------------------------------------------------
(* A consumer.                                                             *)

\* It reads on from its own position, or is told that rows from there on are gone.
BeginReading(c) ==
    LET one == consumers[c] IN
    /\ one.phase = "away"
    /\ consumers' = [consumers EXCEPT ![c] =
           IF one.handled < FirstOf(one) THEN [one EXCEPT !.phase = "told"]
           ELSE [one EXCEPT !.phase = "reading", !.at = one.handled, !.sent = one.handled]]
    /\ UNCHANGED <<next, first, expired, ended, faults, misplaced>>

\* The exchange sends the next row; if it is gone meanwhile, the stream breaks.
SendRow(c) ==
    LET one == consumers[c] IN
    /\ one.phase = "reading" /\ one.sent < next
    /\ IF one.sent < FirstOf(one)
       THEN consumers' = [consumers EXCEPT ![c] = Stopped(@)] /\ UNCHANGED misplaced
       ELSE /\ consumers' = [consumers EXCEPT ![c].sent = @ + 1]
            /\ misplaced' = IF one.sent < first THEN misplaced + 1 ELSE misplaced
    /\ UNCHANGED <<next, first, expired, ended, faults>>

\* It takes a row, and keeps its position with its results.
TakeRow(c) ==
    LET one == consumers[c] IN
    /\ one.phase = "reading" /\ one.at < one.sent
    /\ consumers' = [consumers EXCEPT ![c].at = @ + 1, ![c].handled = @ + 1, ![c].taken = @ + 1]
    /\ misplaced' = IF one.at = one.handled THEN misplaced ELSE misplaced + 1
    /\ UNCHANGED <<next, first, expired, ended, faults>>

\* It needs no row below this one: an order that may come late, or twice.
Acknowledge(c, row) ==
    LET one == consumers[c] IN
    /\ row <= one.handled
    /\ Noted(c, [one EXCEPT !.acknowledged = Max(@, row)])
    /\ UNCHANGED <<next, expired, ended, faults, misplaced>>

\* It was told that rows are gone: it goes on behind them, and acknowledges them.
SkipRows(c) ==
    LET one == consumers[c]
        from == FirstOf(one)
    IN
    /\ one.phase = "told"
    /\ Noted(c, [one EXCEPT !.acknowledged = from, !.handled = from, !.skipped = @ + (from - one.handled), !.isPurged = FALSE, !.phase = "away"])
    /\ UNCHANGED <<next, expired, ended, faults, misplaced>>

\* It has taken all rows, and reads the end, or the error of a broken channel.
ReadLogEnd(c) ==
    LET one == consumers[c] IN
    /\ one.phase = "reading" /\ ended /\ one.at = one.sent /\ one.sent = next
    /\ consumers' = [consumers EXCEPT ![c] = [Stopped(one) EXCEPT !.phase = "done"]]
    /\ UNCHANGED <<next, first, expired, ended, faults, misplaced>>

-----------------------------------------------------------------------------
(* What goes wrong, and administration.                                    *)

\* Its stream is lost, with what is on its way; or it leaves.
LoseReading(c) ==
    /\ consumers[c].phase = "reading"
    /\ consumers' = [consumers EXCEPT ![c] = Stopped(@)]
    /\ Fails
    /\ UNCHANGED <<next, first, expired, ended, misplaced>>

\* Another exchange takes the channel: it has the rows and the positions, and no streams.
ChangeExchange ==
    /\ consumers' = [c \in Names |-> Stopped(consumers[c])]
    /\ Fails
    /\ UNCHANGED <<next, first, expired, ended, misplaced>>

UpToHorizon == 1 .. Horizon

\* Rows have been there for too long, or take too many bytes.
Expire(row) ==
    /\ Expires /\ first < row /\ row <= next
    /\ expired' = row
    /\ first' = Needed(consumers, row)
    /\ UNCHANGED <<next, ended, faults, misplaced, consumers>>

\* An administrator acknowledges all there is, in a consumer's place.
PurgeConsumer(c) ==
    /\ Expires /\ consumers[c].acknowledged < next
    /\ Noted(c, [consumers[c] EXCEPT !.acknowledged = next, !.isPurged = TRUE])
    /\ UNCHANGED <<next, expired, ended, faults, misplaced>>

\* All consumers have all rows.
Done == (\A c \in Names : consumers[c].phase = "done") /\ UNCHANGED vars

Environment ==
    \/ Done
    \/ ProduceBatch \/ EndLog
    \/ \E c \in Names : LoseReading(c)
    \/ ChangeExchange
    \/ \E row \in UpToHorizon : Expire(row)
    \/ \E c \in Names : PurgeConsumer(c)

Protocol ==
    \/ Produce
    \/ \E c \in Names : BeginReading(c)
    \/ \E c \in Names : SendRow(c)
    \/ \E c \in Names : TakeRow(c)
    \/ \E c \in Names, row \in UpToHorizon : Acknowledge(c, row)
    \/ \E c \in Names : SkipRows(c)
    \/ \E c \in Names : ReadLogEnd(c)

Next == Environment \/ Protocol

Fairness ==
    /\ "Produce" \in Fair => WF_vars(Produce)
    /\ "BeginReading" \in Fair => WF_vars(\E c \in Names : BeginReading(c))
    /\ "SendRow" \in Fair => WF_vars(\E c \in Names : SendRow(c))
    /\ "TakeRow" \in Fair => WF_vars(\E c \in Names : TakeRow(c))
    /\ "Acknowledge" \in Fair => WF_vars(\E c \in Names, row \in UpToHorizon : Acknowledge(c, row))
    /\ "SkipRows" \in Fair => WF_vars(\E c \in Names : SkipRows(c))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ 0 <= expired /\ 0 <= first /\ expired <= first /\ first <= next /\ next <= Horizon
    /\ ended \in BOOLEAN /\ {faults, misplaced} \subseteq Nat
    /\ \A c \in Names :
        /\ consumers[c].phase \in {"away", "reading", "told", "done"}
        /\ {consumers[c].acknowledged, consumers[c].handled} \subseteq 0 .. next
        /\ {consumers[c].taken, consumers[c].skipped} \subseteq Nat /\ consumers[c].isPurged \in BOOLEAN
        /\ 0 <= consumers[c].at /\ consumers[c].at <= consumers[c].sent /\ consumers[c].sent <= next

\* The channel has at most the permits' rows, and the staged ones.
KeptBounded == next - first <= RowPermits + StagingRows

\* What a consumer has not acknowledged is there, unless it has expired.
NeededIsKept == \A c \in Names : first <= FirstOf(consumers[c])

\* What nobody needs is not: the room is that of the slowest consumer.
RoomOfSlowest == \E c \in Names : consumers[c].acknowledged <= first

\* A row is sent only while it is there, and taken where it belongs.
InPlace == misplaced = 0 /\ \A c \in Names : consumers[c].phase = "reading" => consumers[c].at = consumers[c].handled

\* Each consumer has taken each row once, or was told that it is gone.
EachRowOnce == \A c \in Names : consumers[c].taken + consumers[c].skipped = consumers[c].handled

\* Nobody but an administrator acknowledges in its place what a consumer has not handled.
AcknowledgedIsHandled ==
    \A c \in Names : ~consumers[c].isPurged => consumers[c].acknowledged <= consumers[c].handled

\* Without expiry and purges nobody is told so.
NothingLost == ~Expires => \A c \in Names : consumers[c].phase # "told" /\ ~consumers[c].isPurged

\* Who has read the end, or the error of a broken channel, has all rows, or was told which are gone.
EndIsWholeLog == \A c \in Names : consumers[c].phase = "done" => ended /\ consumers[c].handled = next

\* False: a consumer hears of no loss.
NobodyToldProbe == \A c \in Names : consumers[c].phase # "told"

\* False: while one consumer has acknowledged all rows, there is room for more.
RoomOfFastestProbe ==
    (\E c \in Names : consumers[c].acknowledged = next) => next - first < RowPermits

\* Each consumer comes to have all rows that come, or to know which are gone.
AllHandled == <>((ended \/ next = Horizon) /\ \A c \in Names : consumers[c].handled = next)
=============================================================================
