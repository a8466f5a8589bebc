---------------------------- MODULE NamedProducer ----------------------------
(***************************************************************************)
(* A producer with a name, which puts rows into a channel that keeps them. *)
(*                                                                         *)
(*   a start --PutRow--> on their way --BeginWrite, WriteRows--> log       *)
(*           <--TakeName: so many are kept-- books <--NoteRows--           *)
(*                                                                         *)
(* It may be lost at any point, and be started again, also while an older  *)
(* start of its still runs.  The exchange tells each start how many rows   *)
(* of the name are kept, and it goes on behind them.  So each row is kept  *)
(* once, whatever was on its way, and whatever is being written.           *)
(*                                                                         *)
(* Rows are numbered from 0; all starts have the same rows.                *)
(*                                                                         *)
(* Source: Apache Kafka's idempotent producer, and the fencing of its      *)
(* older epochs.                                                           *)
(* Not modelled: other producers, room for rows, and consumers             *)
(* (KeptChannel); a stream that survives its connection (Resume); an       *)
(* exchange that loses its rows.                                           *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Starts,       \* of the producer, at most; each has a stream
    Rows,         \* rows that it has
    Window,       \* rows that may be on their way in a stream
    Faults,       \* writes that fail, and exchanges that change, at most
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Starts, Window} \subseteq Nat \ {0} /\ {Rows, Faults} \subseteq Nat
    /\ Fair \subseteq {"TakeName", "PutRow", "BeginWrite", "WriteRows", "NoteRows", "NoticePutting", "FreeName"}

VARIABLES
    log,          \* rows of this name that the store has
    noted,        \* ... as it has noted beside them
    counted,      \* ... as the exchange's books say
    misplaced,    \* rows that were kept where others belong
    holder,       \* the stream that has the name; 0: none
    writer,       \* the stream whose rows are being written; 0: none
    writing,      \* how many these are
    isWritten,    \* has the store got them?
    faults,       \* so far
    streams       \* New says what one consists of

vars == <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults, streams>>

Names == 1 .. Starts

New ==
    [phase  |-> "new",  \* then "asking", "open", "leaving", "over"
     isLost |-> FALSE,  \* and the exchange does not know yet
     at     |-> 0,      \* the row that is kept next from it
     sent   |-> 0]      \* the row that it sends next; those from `at` on are on their way

Init ==
    /\ log = 0 /\ noted = 0 /\ counted = 0 /\ misplaced = 0
    /\ holder = 0 /\ writer = 0 /\ writing = 0 /\ isWritten = FALSE /\ faults = 0
    /\ streams = [s \in Names |-> New]

Becomes(s, phase) == streams' = [streams EXCEPT ![s].phase = phase]

Over(one) == IF one.phase = "new" THEN one ELSE [New EXCEPT !.phase = "over"]

Fails == faults < Faults /\ faults' = faults + 1

NoWrite == writer' = 0 /\ writing' = 0 /\ isWritten' = FALSE

-----------------------------------------------------------------------------
(* The producer.                                                           *)

\* It is started, perhaps while an older start of its still runs.
DialAs(s) ==
    /\ streams[s].phase = "new"
    /\ Becomes(s, "asking")
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults>>

\* A row leaves.
PutRow(s) ==
    LET one == streams[s] IN
    /\ one.phase = "open" /\ ~one.isLost /\ one.sent < Rows /\ one.sent - one.at < Window
    /\ streams' = [streams EXCEPT ![s].sent = @ + 1]
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults>>

\* It is lost, and the exchange does not know yet: it may still get the name, and what is on its way may be kept.
LosePutting(s) ==
    /\ streams[s].phase \in {"asking", "open"} /\ ~streams[s].isLost
    /\ streams' = [streams EXCEPT ![s].isLost = TRUE]
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults>>

-----------------------------------------------------------------------------
(* The exchange.                                                           *)

\* The exchange learns of it.
NoticePutting(s) ==
    /\ streams[s].phase \in {"asking", "open"} /\ streams[s].isLost
    /\ streams' = [streams EXCEPT ![s] = IF @.phase = "asking" THEN Over(@) ELSE [@ EXCEPT !.phase = "leaving"]]
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults>>

\* A newer start asks for the name: nothing more of the older one is kept, but what is being written.
ReplaceHolder(s, older) ==
    /\ streams[s].phase = "asking" /\ holder = older /\ streams[older].phase = "open"
    /\ Becomes(older, "leaving")
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, writer, writing, isWritten, faults>>

\* The name is free once nothing of it is being written.
FreeName(s) ==
    /\ holder = s /\ streams[s].phase = "leaving" /\ writer # s
    /\ streams' = [streams EXCEPT ![s] = Over(@)]
    /\ holder' = 0
    /\ UNCHANGED <<log, noted, counted, misplaced, writer, writing, isWritten, faults>>

\* It has the name, and is told how many rows are kept.
TakeName(s) ==
    /\ holder = 0 /\ streams[s].phase = "asking"
    /\ streams' = [streams EXCEPT ![s] = [@ EXCEPT !.phase = "open", !.at = counted, !.sent = counted]]
    /\ holder' = s
    /\ UNCHANGED <<log, noted, counted, misplaced, writer, writing, isWritten, faults>>

\* Rows that have come are written, all or none of them.
BeginWrite(s, rows) ==
    /\ writer = 0 /\ holder = s /\ streams[s].phase = "open" /\ rows <= streams[s].sent - streams[s].at
    /\ writer' = s /\ writing' = rows
    /\ UNCHANGED <<log, noted, counted, misplaced, holder, isWritten, faults, streams>>

\* The store has them, and notes with them how many of the name these are.
WriteRows(s) ==
    /\ writer = s /\ ~isWritten
    /\ isWritten' = TRUE
    /\ log' = log + writing
    /\ noted' = counted + writing
    /\ misplaced' = IF streams[s].at = log THEN misplaced ELSE misplaced + writing
    /\ UNCHANGED <<counted, holder, writer, writing, faults, streams>>

\* The books learn of it, and the producer's permits return.
NoteRows(s) ==
    /\ writer = s /\ isWritten
    /\ counted' = counted + writing
    /\ streams' = [streams EXCEPT ![s].at = @ + writing]
    /\ NoWrite
    /\ UNCHANGED <<log, noted, misplaced, holder, faults>>

\* The store refuses them, and the stream ends.
FailWrite(s) ==
    /\ writer = s /\ ~isWritten
    /\ NoWrite
    /\ Becomes(s, "leaving")
    /\ Fails
    /\ UNCHANGED <<log, noted, counted, misplaced, holder>>

\* Another exchange takes the channel: it has what the store has, and no streams.
ChangeExchange ==
    /\ counted' = noted
    /\ holder' = 0
    /\ NoWrite
    /\ streams' = [s \in Names |-> Over(streams[s])]
    /\ Fails
    /\ UNCHANGED <<log, noted, misplaced>>

\* All rows are kept, or the producer is not started any more.
Done == (log = Rows \/ \A s \in Names : streams[s].phase = "over") /\ UNCHANGED vars

UpToWindow == 1 .. Window

Environment ==
    \/ Done
    \/ \E s \in Names : DialAs(s)
    \/ \E s \in Names : LosePutting(s)
    \/ \E s \in Names : FailWrite(s)
    \/ ChangeExchange

Protocol ==
    \/ \E s \in Names : PutRow(s)
    \/ \E s \in Names : NoticePutting(s)
    \/ \E s, older \in Names : ReplaceHolder(s, older)
    \/ \E s \in Names : FreeName(s)
    \/ \E s \in Names : TakeName(s)
    \/ \E s \in Names, rows \in UpToWindow : BeginWrite(s, rows)
    \/ \E s \in Names : WriteRows(s)
    \/ \E s \in Names : NoteRows(s)

Next == Environment \/ Protocol

Fairness ==
    /\ "TakeName" \in Fair => WF_vars(\E s \in Names : TakeName(s))
    /\ "PutRow" \in Fair => WF_vars(\E s \in Names : PutRow(s))
    /\ "BeginWrite" \in Fair => WF_vars(\E s \in Names, rows \in UpToWindow : BeginWrite(s, rows))
    /\ "WriteRows" \in Fair => WF_vars(\E s \in Names : WriteRows(s))
    /\ "NoteRows" \in Fair => WF_vars(\E s \in Names : NoteRows(s))
    /\ "NoticePutting" \in Fair => WF_vars(\E s \in Names : NoticePutting(s))
    /\ "FreeName" \in Fair => WF_vars(\E s \in Names : FreeName(s))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Has(one) == one.phase \in {"open", "leaving"}

TypeOK ==
    /\ {log, noted, counted, misplaced, writing, faults} \subseteq Nat
    /\ {holder, writer} \subseteq 0 .. Starts /\ isWritten \in BOOLEAN
    /\ \A s \in Names :
        /\ streams[s].phase \in {"new", "asking", "open", "leaving", "over"} /\ streams[s].isLost \in BOOLEAN
        /\ 0 <= streams[s].at /\ streams[s].at <= streams[s].sent /\ streams[s].sent <= Rows

\* The log has the name's rows, each once and in order.
KeptInOrder == misplaced = 0 /\ log <= Rows

\* The store's note says how many these are, and the books say so, too, but for rows that were just written.
NotesAgree == noted = log /\ counted = log - (IF isWritten THEN writing ELSE 0)

\* One stream at most has the name.
OneHolder == \A s \in Names : Has(streams[s]) <=> holder = s

\* It goes on where the log ends.
GoesOnBehind == \A s \in Names : holder = s => streams[s].at = counted

\* What is being written has come, from the stream that has the name.
WritesWhatCame ==
    /\ writer = 0 <=> writing = 0
    /\ isWritten => writer # 0
    /\ \A s \in Names : writer = s => holder = s /\ writing <= streams[s].sent - streams[s].at

\* No more rows are on their way than its permits are for.
OnTheWayBounded == \A s \in Names : streams[s].sent - streams[s].at <= Window

\* False: nothing of a stream is written any more that another one replaces.
LateWriteProbe == \A s \in Names : ~(writer = s /\ isWritten /\ streams[s].phase = "leaving")

\* Again and again all rows are kept, or no start of the producer is left: it has to be started again.
AllKept == []<>(log = Rows \/ \A s \in Names : streams[s].phase \in {"new", "over"})
=============================================================================
