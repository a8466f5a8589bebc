--------------------------- MODULE SparkMicroBatch ---------------------------
(***************************************************************************)
(* A Structured Streaming query reads one channel of an exchange.          *)
(*                                                                         *)
(*   producer --Produce--> exchange --RunTask--> staged --Publish--> table *)
(*            <-permits--- keeps rows <-Acknowledge- driver: offset log,   *)
(*                                                           commit log    *)
(*                                                                         *)
(* The exchange keeps the rows that were not acknowledged, so that a batch *)
(* can be read again: a replay buffer, which the permits bound.  A batch   *)
(* is the rows [start, end) between two offsets.  The driver asks for the  *)
(* latest offset, writes the batch to the offset log, runs it, publishes   *)
(* what its tasks have staged, and writes it to the commit log.  An        *)
(* attempt at a task has a name of its own: publishing names it, and so    *)
(* does an abort.                                                          *)
(* Acknowledged rows are forgotten, and their permits return.  So are rows *)
(* that expire, though nobody has acknowledged them, and rows that were    *)
(* lost in a crash: the query is told.                                     *)
(*                                                                         *)
(* Rows are numbered from 0 since the channel was opened.  How permits     *)
(* travel is PermitChannel's business; here they are there at once.  The   *)
(* query may read other channels, too: each is a partition of its own.     *)
(*                                                                         *)
(* Source: Apache Spark: MicroBatchExecution, its offset log and commit    *)
(* log, and data sources in Python.                                        *)
(* Not modelled: several channels of a query, bytes, the watermark of a    *)
(* query.                                                                  *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    RowPermits,        \* row permits: the exchange takes over a producer's chunk if it keeps no more rows than this
    BatchCap,          \* a batch has no more rows of the channel than this
    Sizes,             \* the chunk sizes that may be offered, in rows
    Horizon,           \* rows that are produced before the stream ends
    StagingRows,       \* rows that jobs may have staged for the channel, or published beyond the row permits
    AcknowledgeIn,     \* "latestOffset" or "commit": the call in which rows are acknowledged
    DriverCrashes,     \* may the driver crash?
    Durable,           \* does the exchange keep its rows when it crashes?
    Expires,           \* may rows expire before they are acknowledged?
    Faults,            \* how many faults of any kind may happen
    Fair               \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ RowPermits \in Nat \ {0} /\ BatchCap \in Nat \ {0} /\ Horizon \in Nat /\ Faults \in Nat
    /\ StagingRows \in Nat
    /\ Sizes \subseteq Nat \ {0}
    /\ AcknowledgeIn \in {"latestOffset", "commit"}
    /\ {DriverCrashes, Durable, Expires} \subseteq BOOLEAN
    /\ Fair \subseteq {"Offer", "Produce", "PlanBatch", "WriteOffsetLog", "Acknowledge", "RunTask", "Stage", "Publish",
                      "WriteCommitLog", "Restart", "ReportLoss"}

VARIABLES
    waiting,           \* rows of the chunk that waits for permits; 0: none waits
    produced,          \* rows that the exchange has taken over from the producer
    acknowledged,      \* rows whose permits have returned; the exchange has forgotten them
    lost,              \* rows below this and not acknowledged were lost in a crash of the exchange, or have expired
    phase,             \* what the driver is at
    plan,              \* where a batch ends that is not in the offset log yet; 0: there is none
    start,             \* the last batch in the offset log: its first row ...
    end,               \* ... and the first row after it
    committed,         \* is this batch in the commit log?
    published,         \* has the sink published this batch?
    attempts,          \* how many attempts have begun; the number is the name of the newest one
    running,           \* does the newest attempt run, and the driver waits for it?
    late,              \* rows of an attempt that runs on though nobody waits for it
    staged,            \* the attempt that has staged last for a driver, and its rows; 0: they were removed
    aborting,          \* the attempt that an abort names which is on its way from a dead driver; 0: there is none
    output,            \* rows in the published table, repetitions included
    misplaced,         \* how many of them are not where they belong: row n at position n
    faults             \* how many faults may still happen

vars == <<waiting, produced, acknowledged, lost, phase, plan, start, end, committed, published, attempts, running,
          late, staged, aborting, output, misplaced, faults>>

exchange == <<produced, acknowledged, lost>>
logs == <<start, end, committed>>
driver == <<phase, plan, logs>>
tasks == <<attempts, running, late>>
table == <<output, misplaced>>
sink == <<published, staged, aborting, table>>

-----------------------------------------------------------------------------

Rows(from, to) == [start |-> from, end |-> to]

NoRows == Rows(0, 0)

Staged(attempt, from, to) == [attempt |-> attempt, start |-> from, end |-> to]

NothingStaged == Staged(0, 0, 0)

Min(a, b) == IF a < b THEN a ELSE b

Max(a, b) == IF a < b THEN b ELSE a

\* What would be lost for ever if it were lost now: the rows from here on.
CommittedEnd == IF committed THEN end ELSE start

\* Rows below this take no permits.
Gone == Max(acknowledged, lost)

\* The exchange still has all rows from this one on that it ever had.
Keeps(row) == acknowledged <= row /\ lost <= row

Init ==
    /\ waiting = 0 /\ produced = 0 /\ acknowledged = 0 /\ lost = 0
    /\ phase = "idle" /\ plan = 0 /\ start = 0 /\ end = 0 /\ committed = TRUE
    /\ published = TRUE /\ attempts = 0 /\ running = FALSE /\ late = NoRows
    /\ staged = NothingStaged /\ aborting = 0
    /\ output = 0 /\ misplaced = 0
    /\ faults = Faults

-----------------------------------------------------------------------------
(* The producer.                                                           *)

\* The producer wants to hand over a chunk.
Offer(rows) ==
    /\ waiting = 0 /\ produced + rows <= Horizon
    /\ waiting' = rows
    /\ UNCHANGED <<exchange, driver, tasks, sink, faults>>

\* The exchange takes the chunk over; what it keeps stays within the permits.
Produce ==
    /\ waiting > 0 /\ produced + waiting - Gone <= RowPermits
    /\ produced' = produced + waiting
    /\ waiting' = 0
    /\ UNCHANGED <<acknowledged, lost, driver, tasks, sink, faults>>

\* A job publishes a batch that it has staged for the channel: its rows belong to the channel at once, all together.
\* The permits need not be there; rows kept beyond them take the room of the next batch to be staged.
ProduceBatch(rows) ==
    /\ produced + waiting + rows <= Horizon
    /\ rows + Max(0, produced - Gone - RowPermits) <= StagingRows
    /\ produced' = produced + rows
    /\ UNCHANGED <<waiting, acknowledged, lost, driver, tasks, sink, faults>>

-----------------------------------------------------------------------------
(* The driver.                                                             *)

\* latestOffset finds new rows: they are the next batch, as many of them as the cap allows.
PlanBatch ==
    /\ phase = "idle" /\ produced > end /\ Keeps(end)
    /\ AcknowledgeIn = "latestOffset" => acknowledged = end
    /\ plan' = Min(end + BatchCap, produced)
    /\ phase' = "planned"
    /\ UNCHANGED <<waiting, exchange, logs, tasks, sink, faults>>

\* From now on this batch has these rows, in every attempt.
WriteOffsetLog ==
    /\ phase = "planned"
    /\ start' = end /\ end' = plan /\ committed' = FALSE /\ published' = FALSE
    /\ plan' = 0
    /\ phase' = IF AcknowledgeIn = "commit" THEN "logged" ELSE "ready"
    /\ UNCHANGED <<waiting, exchange, tasks, staged, aborting, table, faults>>

\* Permits return.  latestOffset(start) is called at each trigger, new rows or not; commit only once the next batch
\* is in the offset log, and not for a batch that is run again after a crash.
Acknowledge ==
    /\ CASE AcknowledgeIn = "latestOffset" ->
              phase = "idle" /\ acknowledged < end /\ acknowledged' = end /\ UNCHANGED phase
         [] AcknowledgeIn = "commit" ->
              phase = "logged" /\ acknowledged' = start /\ phase' = "ready"
    /\ UNCHANGED <<waiting, produced, lost, plan, logs, tasks, sink, faults>>

\* A task reads the rows of the batch, in an attempt whose name no other one has had or will have: not in an earlier run
\* of the driver either.
RunTask ==
    /\ phase = "ready" /\ ~running /\ Keeps(start)
    /\ running' = TRUE
    /\ attempts' = attempts + 1
    /\ UNCHANGED <<waiting, exchange, driver, late, sink, faults>>

\* The task has read its rows and staged them under its name, and the driver knows the name.
Stage ==
    /\ phase = "ready" /\ running /\ Keeps(start)
    /\ staged' = Staged(attempts, start, end)
    /\ running' = FALSE
    /\ phase' = "staged"
    /\ UNCHANGED <<waiting, exchange, plan, logs, attempts, late, published, aborting, table, faults>>

\* The sink makes the rows of the attempt that the driver names part of the table, unless it has published the batch
\* before.  It refuses an attempt whose rows are not there.
Publish ==
    /\ phase = "staged" /\ staged.attempt = attempts
    /\ IF published
       THEN UNCHANGED table
       ELSE /\ output' = output + (staged.end - staged.start)
            /\ misplaced' = IF staged.start = output THEN misplaced ELSE misplaced + (staged.end - staged.start)
    /\ published' = TRUE
    /\ phase' = "published"
    /\ UNCHANGED <<waiting, exchange, plan, logs, tasks, staged, aborting, faults>>

\* The batch is done; the rest of its staged data is removed.
WriteCommitLog ==
    /\ phase = "published"
    /\ committed' = TRUE
    /\ staged' = NothingStaged
    /\ phase' = "idle"
    /\ UNCHANGED <<waiting, exchange, plan, start, end, tasks, published, aborting, table, faults>>

\* The driver starts again, and runs the last batch again if it is not in the commit log.
Restart ==
    /\ phase = "down"
    /\ phase' = IF committed THEN "idle" ELSE "ready"
    /\ UNCHANGED <<waiting, exchange, plan, logs, tasks, sink, faults>>

\* Rows that are needed are gone: the query fails and says so, rather than go on without them.
ReportLoss ==
    /\ phase \in {"idle", "ready"} /\ ~Keeps(CommittedEnd)
    /\ phase' = "failed"
    /\ running' = FALSE
    /\ UNCHANGED <<waiting, exchange, plan, logs, attempts, late, sink, faults>>

-----------------------------------------------------------------------------
(* What goes wrong.                                                        *)

Fault == faults > 0 /\ faults' = faults - 1

\* An attempt fails; another one follows.
FailTask ==
    /\ Fault /\ running
    /\ running' = FALSE
    /\ UNCHANGED <<waiting, exchange, driver, attempts, late, sink>>

\* The driver takes an attempt for dead, or starts a faster one; it runs on.
AbandonTask ==
    /\ Fault /\ running /\ late = NoRows
    /\ running' = FALSE
    /\ late' = Rows(start, end)
    /\ UNCHANGED <<waiting, exchange, driver, attempts, sink>>

\* An attempt that nobody waits for has staged its rows, in a place of its own.
StageLate ==
    /\ late # NoRows
    /\ late' = NoRows
    /\ UNCHANGED <<waiting, exchange, driver, attempts, running, sink, faults>>

\* The abort of a driver that has died arrives: perhaps after its batch was published, perhaps when the next driver has
\* staged the batch again.  It removes the attempt that it names, wherever the next driver is.
AbortLate ==
    /\ aborting # 0
    /\ staged' = IF staged.attempt = aborting THEN NothingStaged ELSE staged
    /\ aborting' = 0
    /\ UNCHANGED <<waiting, exchange, driver, tasks, published, table, faults>>

\* The query was stopped, and its source is asked no more: a process that knows what the commit log has acknowledges it in
\* the driver's place.  If the word comes when the query runs again, it is what Acknowledge says there, or nothing new.
AcknowledgeForDriver ==
    /\ phase = "down" /\ AcknowledgeIn = "latestOffset" /\ acknowledged < CommittedEnd
    /\ acknowledged' = CommittedEnd
    /\ UNCHANGED <<waiting, produced, lost, driver, tasks, sink, faults>>

\* The driver dies, and with it everything that is in no log.  Its last word may be an abort of the attempt that it knew
\* to be staged; of two such words that are on their way, the earlier one is lost.
CrashDriver ==
    /\ Fault /\ DriverCrashes /\ phase \notin {"down", "failed"}
    /\ phase' = "down"
    /\ plan' = 0
    /\ running' = FALSE
    /\ aborting' = IF phase \in {"staged", "published"} THEN attempts ELSE aborting
    /\ UNCHANGED <<waiting, exchange, logs, attempts, late, published, staged, table>>

\* An exchange that keeps its rows in memory crashes: what it had is gone.
CrashExchange ==
    /\ Fault /\ ~Durable /\ produced > Gone
    /\ lost' = produced
    /\ UNCHANGED <<waiting, produced, acknowledged, driver, tasks, sink>>

UpToHorizon == 1..Horizon

\* Rows have been there for too long, or take too many bytes: they are gone, and their permits return.  What the query
\* has acknowledged does not change: else it would never hear of its loss.
Expire(row) ==
    /\ Expires /\ Gone < row /\ row <= produced
    /\ lost' = row
    /\ UNCHANGED <<waiting, produced, acknowledged, driver, tasks, sink, faults>>

\* All rows were read, or the query has failed: the end of the run.
Done == (phase = "failed" \/ (phase = "idle" /\ end = Horizon)) /\ UNCHANGED vars

Environment ==
    \/ \E rows \in Sizes : Offer(rows)
    \/ \E rows \in Sizes : ProduceBatch(rows)
    \/ FailTask \/ AbandonTask \/ StageLate \/ AbortLate \/ AcknowledgeForDriver \/ CrashDriver \/ CrashExchange
    \/ \E row \in UpToHorizon : Expire(row)
    \/ Done

Protocol ==
    \/ Produce \/ PlanBatch \/ WriteOffsetLog \/ Acknowledge \/ RunTask \/ Stage \/ Publish
    \/ WriteCommitLog \/ Restart \/ ReportLoss

Next == Environment \/ Protocol

\* Each part that can go on does, and the producer hands over all rows of the stream.
Fairness ==
    /\ "Offer" \in Fair => WF_vars(\E rows \in Sizes : Offer(rows))
    /\ "Produce" \in Fair => WF_vars(Produce)
    /\ "PlanBatch" \in Fair => WF_vars(PlanBatch)
    /\ "WriteOffsetLog" \in Fair => WF_vars(WriteOffsetLog)
    /\ "Acknowledge" \in Fair => WF_vars(Acknowledge)
    /\ "RunTask" \in Fair => WF_vars(RunTask)
    /\ "Stage" \in Fair => WF_vars(Stage)
    /\ "Publish" \in Fair => WF_vars(Publish)
    /\ "WriteCommitLog" \in Fair => WF_vars(WriteCommitLog)
    /\ "Restart" \in Fair => WF_vars(Restart)
    /\ "ReportLoss" \in Fair => WF_vars(ReportLoss)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Safety.                                                                 *)

Phases == {"idle", "planned", "logged", "ready", "staged", "published", "down", "failed"}

IsRows(rows) == DOMAIN rows = {"start", "end"} /\ 0 <= rows.start /\ rows.start <= rows.end /\ rows.end <= end

TypeOK ==
    /\ {waiting, output, misplaced, faults} \subseteq Nat
    /\ 0 <= acknowledged /\ acknowledged <= produced
    /\ 0 <= lost /\ lost <= produced
    /\ 0 <= start /\ start <= end /\ end <= produced
    /\ phase \in Phases
    /\ IF phase = "planned" THEN end < plan /\ plan <= produced ELSE plan = 0
    /\ {committed, published, running} \subseteq BOOLEAN
    /\ attempts \in Nat /\ aborting \in 0..attempts
    /\ IsRows(late) /\ IsRows(Rows(staged.start, staged.end))
    /\ DOMAIN staged = {"attempt", "start", "end"} /\ staged.attempt \in 0..attempts

\* The exchange keeps no more rows than there are permits, and room for staged rows.
Bounded == produced - Gone <= RowPermits + StagingRows

\* Nothing is forgotten before the commit log has its batch.
AcknowledgedIsCommitted == acknowledged <= CommittedEnd

\* The table holds each row of the published batches once, in order, and nothing else.
PublishedOnceInOrder == misplaced = 0 /\ output = (IF published THEN end ELSE start)

\* What the driver is about to publish is there: no abort of another driver has removed it.
ToPublishIsStaged == phase = "staged" => staged = Staged(attempts, start, end)

\* The commit log has no batch that the table has not.
CommittedIsPublished == committed => published

BatchCapped == end - start <= BatchCap /\ plan - end <= BatchCap

\* An exchange that keeps its rows never lets the query fail, unless they expire.
NeverFails == Durable /\ ~Expires => phase # "failed"

\* The producer waits, and nothing that exchange, driver and sink can do will ever change that.
Stuck == waiting > 0 /\ phase # "failed" /\ ~ ENABLED Protocol

NeverStuck == ~Stuck

\* When nothing can move, the permits of all rows that were read have returned: the tail of a stream, too.
WholeWhenIdle == (~ ENABLED Protocol /\ phase # "failed") => acknowledged = end

-----------------------------------------------------------------------------
(* Liveness.                                                               *)

\* Once the stream has ended, all of it is published, and all permits return.
Drained == <>(produced = Horizon /\ output = Horizon /\ acknowledged = Horizon)

\* A query that needs rows that were lost fails, and does not go on without them.
LossIsSaid == (phase \in {"idle", "ready"} /\ lost > CommittedEnd) ~> (phase = "failed")
=============================================================================
