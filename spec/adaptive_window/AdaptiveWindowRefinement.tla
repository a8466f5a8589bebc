----------------------- MODULE AdaptiveWindowRefinement -----------------------
(***************************************************************************)
(* A channel whose window adapts is the bounded queue of chunks that a     *)
(* permit channel with the agreed window is: targets make chunks wait, and *)
(* cannot be seen otherwise.                                               *)
(*                                                                         *)
(* The mapping: a chunk is told from others by its cost.  Send is Put,     *)
(* Consume is Get; deliveries, returns and new targets leave the queue as  *)
(* it is.                                                                  *)
(***************************************************************************)
EXTENDS AdaptiveWindow

InQueue(chunks) == [i \in DOMAIN chunks |-> [id |-> chunks[i], cost |-> chunks[i]]]

Queue == INSTANCE BoundedQueue WITH
    Bound <- RowPermits, Costs <- RowCosts, Ids <- RowCosts, Line <- Waiters,
    asked <- InQueue(waiting), queue <- InQueue(inbox \o wire)

-----------------------------------------------------------------------------

\* Whatever the targets.
IsQueue == Queue!SafeQueue

\* Every item of the queue comes out, because Deliver and Consume are fair.
GetsFairly == Queue!GetFairly

\* A chunk that fits into the agreed window goes in, though not at once.  Needs costs of at most Room, or FlushIdle.
PutsFairly == Queue!PutFairly
=============================================================================
