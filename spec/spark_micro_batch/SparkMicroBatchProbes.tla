------------------------ MODULE SparkMicroBatchProbes ------------------------
(***************************************************************************)
(* Statements about SparkMicroBatch that are false, each for a reason      *)
(* worth knowing.  TLC must violate every one of them.                     *)
(***************************************************************************)
EXTENDS SparkMicroBatch

\* Back-pressure happens: the replay buffer is full, and the producer waits.
ProducerNeverWaitsProbe == waiting > 0 => produced + waiting - acknowledged <= RowPermits

\* What jobs publish into the channel is there although there are no permits for it.
NeverBeyondTheWindowProbe == produced - acknowledged <= RowPermits

\* A batch is staged again though the sink has published it: the driver crashed before it wrote the commit log.
NeverPublishedBeforeProbe == phase = "staged" => ~published

\* An attempt of an earlier batch may still run while a later one is staged.
NoLateAttemptProbe == (phase = "staged" /\ late # NoRows) => late.start = start

\* The abort of a dead driver may come when the next driver has staged the same batch.
NoAbortWhileStagedProbe == phase = "staged" => aborting = 0

\* An exchange in memory may crash without harm: what it lost was published already, though not acknowledged.
CrashAlwaysHarmsProbe == (lost > acknowledged /\ phase = "idle") => lost > end

\* The query of an exchange in memory, or of one whose rows expire, may have to fail.
NeverFailsProbe == phase # "failed"

\* A full batch runs, and the next full one is there already.
NoFullBatchWaitsProbe == (running /\ end - start = BatchCap) => produced - end < BatchCap
=============================================================================
