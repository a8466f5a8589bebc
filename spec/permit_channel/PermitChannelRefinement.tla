----------------------- MODULE PermitChannelRefinement -----------------------
(***************************************************************************)
(* A permit channel is a bounded queue of chunks: wires and inbox, permits *)
(* and batches cannot be seen from outside.                                *)
(*                                                                         *)
(* The mapping: what waits at the sender waits to go in; what is on the    *)
(* wire or in the inbox is in the queue, barriers and watermarks left out. *)
(* OfferChunk is Ask, WithdrawChunk GiveUp, SendChunk Put, and Consume, of *)
(* a chunk, Get; all other steps leave the queue as it is.  Needs Tags > 1.*)
(***************************************************************************)
EXTENDS PermitChannel

CONSTANT
    QueueBound         \* what the queue may hold; RowPermits is enough, and less is not

IsChunk(m) == m.kind = "chunk"

Chunks(messages) ==
    LET chunks == SelectSeq(messages, IsChunk) IN
    [i \in DOMAIN chunks |-> [id |-> chunks[i].id, cost |-> chunks[i].cost]]

Asked == Chunks(waiting)

InQueue == Chunks(inbox \o wire)

Queue == INSTANCE BoundedQueue WITH
    Bound <- QueueBound, Costs <- 1 .. MaxChunkCost, Ids <- 0 .. Tags - 1, Line <- Waiters,
    asked <- Asked, queue <- InQueue

-----------------------------------------------------------------------------

\* For all parameters, live or not.
IsQueue == Queue!SafeQueue

\* Every item of the queue comes out, because Deliver and Consume are fair.
GetsFairly == Queue!GetFairly

\* A chunk for which there is room goes in.  Not at once: permits have to come home.  Needs costs of at most
\* RowPermits - PermitBatch + 1, or the idle flush.
PutsFairly == Queue!PutFairly
=============================================================================
