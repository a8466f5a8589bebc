------------------------- MODULE ByteWindowRefinement -------------------------
(***************************************************************************)
(* With a byte window a channel is the bounded queue of chunks that it was *)
(* without one: the window makes chunks wait, and cannot be seen otherwise.*)
(*                                                                         *)
(* The mapping: a chunk is told from others by its bytes.  Send is Put,    *)
(* Consume is Get; deliveries and returns leave the queue as it is.        *)
(***************************************************************************)
EXTENDS ByteWindow

InQueue(chunks) == [i \in DOMAIN chunks |-> [id |-> chunks[i].bytes, cost |-> chunks[i].rows]]

Queue == INSTANCE BoundedQueue WITH
    Bound <- RowPermits, Costs <- RowCosts, Ids <- ByteCosts, Line <- Waiters,
    asked <- InQueue(waiting), queue <- InQueue(inbox \o wire)

-----------------------------------------------------------------------------

\* Whatever the window.
IsQueue == Queue!SafeQueue

\* Every item of the queue comes out, because Deliver and Consume are fair.
GetsFairly == Queue!GetFairly

\* A chunk that fits by its rows goes in, however large it is.  Not at once: permits and bytes have to come home.  Needs
\* costs of at most RowPermits - PermitBatch + 1.
PutsFairly == Queue!PutFairly
=============================================================================
