----------------------------- MODULE ByteWindow -----------------------------
(***************************************************************************)
(* A channel with two ledgers: permits for rows, and a window of bytes.    *)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting ----Send----> wire ---Deliver---> inbox ---Consume--> (done) *)
(*    permits <---ReturnRows---- returned <-------------- unreturned       *)
(*    outstanding <-ReturnBytes-                                           *)
(*                                                                         *)
(* A chunk leaves if both admit it: the sender has its permits, and the    *)
(* window has room for its bytes.  The receiver collects the rows and the  *)
(* bytes of consumed chunks, each for itself, and returns them in batches. *)
(*                                                                         *)
(* A chunk may be larger than the window, and must not wait for ever.  So  *)
(* there is an exception: it leaves when less than a batch is outstanding. *)
(* Not when nothing is: the receiver may withhold as much as a batch less  *)
(* one byte, and returns it only with what it consumes later.              *)
(*                                                                         *)
(* Rows and bytes on their way back are two numbers, of which any part may *)
(* arrive: a message brings one of them or both, and may be late.          *)
(*                                                                         *)
(* A sender may have to admit a chunk before it knows its size, as the     *)
(* most that it can be (`expected').  It counts the bytes that it sends,   *)
(* which are those that the receiver sees.                                 *)
(*                                                                         *)
(* Source: RisingWave's exchange, whose permits were rows, then bytes, and *)
(* then rows again; the windows of HTTP/2, which are independent of what   *)
(* an application grants.                                                  *)
(* Not modelled: barriers and watermarks, which have permits of their own  *)
(* and are not counted in bytes; row permits that the receiver withholds   *)
(* at the start (PermitChannel); the numbers of chunks:                    *)
(* ByteWindowRefinement says that they are consumed in order.              *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    RowPermits,   \* row permits of the channel
    PermitBatch,  \* the receiver returns row permits once it has collected this many
    WindowBytes,  \* bytes that may be outstanding, but for the exception
    BatchBytes,   \* the receiver returns bytes once it has collected this many
    RowCosts,     \* how many row permits a chunk may cost
    ByteCosts,    \* how many bytes it may cost
    Estimates,    \* may a sender expect more bytes of a chunk than it turns out to have?
    Together,     \* do row permits take the collected bytes along when they return?
    Waiters,      \* chunks that may wait at once
    Withdrawals,  \* may the sender give up waiting (a cancelled send)?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ RowPermits \in Nat \ {0} /\ PermitBatch \in Nat \ {0}
    /\ WindowBytes \in Nat \ {0} /\ BatchBytes \in 1 .. WindowBytes
    /\ RowCosts \subseteq Nat \ {0} /\ ByteCosts \subseteq Nat /\ {} \notin {RowCosts, ByteCosts}
    /\ Waiters \in Nat \ {0} /\ {Estimates, Together, Withdrawals} \subseteq BOOLEAN
    /\ Fair \subseteq {"Send", "Deliver", "Consume", "ReturnRows", "ReturnBytes"}

VARIABLES
    waiting,          \* chunks that wait, oldest first
    permits,          \* row permits at the sender
    outstanding,      \* bytes that the sender has sent and that have not returned to it
    wire,             \* chunks in flight
    inbox,            \* chunks received, not yet consumed
    unreturnedRows,   \* row permits of consumed chunks, not yet returned
    unreturnedBytes,  \* bytes of consumed chunks, not yet returned
    returnedRows,     \* row permits on their way back
    returnedBytes     \* bytes on their way back

receiverVars == <<unreturnedRows, unreturnedBytes>>

backVars == <<returnedRows, returnedBytes>>

vars == <<waiting, permits, outstanding, wire, inbox, receiverVars, backVars>>

-----------------------------------------------------------------------------

Most(numbers) == CHOOSE most \in numbers : \A other \in numbers : other <= most

\* The most bytes that are ever outstanding.
MostBytes == Most({WindowBytes, BatchBytes - 1 + Most(ByteCosts)})

Init ==
    /\ waiting = <<>> /\ permits = RowPermits /\ outstanding = 0
    /\ wire = <<>> /\ inbox = <<>>
    /\ unreturnedRows = 0 /\ unreturnedBytes = 0
    /\ returnedRows = 0 /\ returnedBytes = 0

\* Does the window admit so many bytes where others are outstanding?
Admits(others, bytes) == others + bytes <= WindowBytes \/ others < BatchBytes

AdmitsBytes(bytes) == Admits(outstanding, bytes)

-----------------------------------------------------------------------------

\* The application wants to send a chunk.
Offer(rows, expected, bytes) ==
    /\ Len(waiting) < Waiters
    /\ bytes <= expected /\ (Estimates \/ bytes = expected)
    /\ waiting' = Append(waiting, [rows |-> rows, expected |-> expected, bytes |-> bytes])
    /\ UNCHANGED <<permits, outstanding, wire, inbox, receiverVars, backVars>>

\* The application gives up waiting with its newest chunk.
Withdraw ==
    /\ Withdrawals /\ waiting # <<>>
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ UNCHANGED <<permits, outstanding, wire, inbox, receiverVars, backVars>>

\* Both ledgers admit the oldest chunk: it leaves.
Send ==
    /\ waiting # <<>>
    /\ Head(waiting).rows <= permits /\ AdmitsBytes(Head(waiting).expected)
    /\ permits' = permits - Head(waiting).rows
    /\ outstanding' = outstanding + Head(waiting).bytes
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ UNCHANGED <<inbox, receiverVars, backVars>>

\* A chunk arrives at the receiver.
Deliver ==
    /\ wire # <<>>
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ UNCHANGED <<waiting, permits, outstanding, receiverVars, backVars>>

\* The application has consumed a chunk: each ledger returns a batch that is complete.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ LET rows == unreturnedRows + Head(inbox).rows
           bytes == unreturnedBytes + Head(inbox).bytes
           returnsRows == rows >= PermitBatch
           returnsBytes == bytes >= BatchBytes \/ (Together /\ returnsRows)
       IN /\ unreturnedRows' = IF returnsRows THEN 0 ELSE rows
          /\ returnedRows' = IF returnsRows THEN returnedRows + rows ELSE returnedRows
          /\ unreturnedBytes' = IF returnsBytes THEN 0 ELSE bytes
          /\ returnedBytes' = IF returnsBytes THEN returnedBytes + bytes ELSE returnedBytes
    /\ UNCHANGED <<waiting, permits, outstanding, wire>>

\* So many row permits arrive at the sender.
ReturnRows(rows) ==
    /\ rows <= returnedRows
    /\ returnedRows' = returnedRows - rows /\ permits' = permits + rows
    /\ UNCHANGED <<waiting, outstanding, wire, inbox, receiverVars, returnedBytes>>

\* So many bytes do.
ReturnBytes(bytes) ==
    /\ bytes <= returnedBytes
    /\ returnedBytes' = returnedBytes - bytes /\ outstanding' = outstanding - bytes
    /\ UNCHANGED <<waiting, permits, wire, inbox, receiverVars, returnedRows>>

Environment ==
    \/ \E rows \in RowCosts : \E expected \in ByteCosts : \E bytes \in ByteCosts : Offer(rows, expected, bytes)
    \/ Withdraw

Protocol ==
    \/ Send \/ Deliver \/ Consume
    \/ \E rows \in 1 .. RowPermits : ReturnRows(rows)
    \/ \E bytes \in 1 .. MostBytes : ReturnBytes(bytes)

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "ReturnRows" \in Fair => WF_vars(\E rows \in 1 .. RowPermits : ReturnRows(rows))
    /\ "ReturnBytes" \in Fair => WF_vars(\E bytes \in 1 .. MostBytes : ReturnBytes(bytes))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

IsChunk(chunk) ==
    /\ chunk.rows \in RowCosts /\ {chunk.expected, chunk.bytes} \subseteq ByteCosts
    /\ chunk.bytes <= chunk.expected

Chunks(chunks) == \A i \in DOMAIN chunks : IsChunk(chunks[i])

TypeOK ==
    /\ Len(waiting) <= Waiters
    /\ Chunks(waiting) /\ Chunks(wire) /\ Chunks(inbox)
    /\ {permits, outstanding, unreturnedRows, unreturnedBytes, returnedRows, returnedBytes} \subseteq Nat

RECURSIVE RowsIn(_)
RowsIn(chunks) == IF chunks = <<>> THEN 0 ELSE Head(chunks).rows + RowsIn(Tail(chunks))

RECURSIVE BytesIn(_)
BytesIn(chunks) == IF chunks = <<>> THEN 0 ELSE Head(chunks).bytes + BytesIn(Tail(chunks))

\* Row permits are at the sender, held by a chunk, collected, or on their way back.
RowsConserved ==
    permits + RowsIn(wire) + RowsIn(inbox) + unreturnedRows + returnedRows = RowPermits

\* What the sender counts is in the channel, collected, or on its way back.
BytesConserved ==
    outstanding = BytesIn(wire) + BytesIn(inbox) + unreturnedBytes + returnedBytes

RowsBounded == RowsIn(wire) + RowsIn(inbox) <= RowPermits

\* What was sent and not returned, and so what a receiver may have to keep.
BytesBounded == outstanding <= MostBytes

\* Chunks that are small enough need no exception: the window is the bound.
WindowHolds == Most(ByteCosts) <= WindowBytes - BatchBytes + 1 => outstanding <= WindowBytes

\* Less than a batch is collected.
RowsBatched == unreturnedRows < PermitBatch

BytesBatched == unreturnedBytes < BatchBytes

\* A chunk that waits can still be served.  Needs RowCosts to be at most RowPermits - PermitBatch + 1; bytes need nothing.
NeverStuck == waiting # <<>> => ENABLED Protocol

\* Where no chunk is under way and no bytes are, the window admits any chunk, whatever the permits say.
WindowAdmits == (wire = <<>> /\ inbox = <<>> /\ returnedBytes = 0) => \A bytes \in ByteCosts : AdmitsBytes(bytes)

\* A receiver that asks the same of what it holds refuses no chunk that comes.
ReceiverAdmits == wire # <<>> => Admits(BytesIn(inbox) + unreturnedBytes, Head(wire).bytes)

\* Needs Waiters = 1.
EveryChunkLeaves == (waiting # <<>>) ~> (waiting = <<>>)

\* False: a chunk that has its permits waits for bytes.
PermitsSufficeProbe == waiting # <<>> /\ Head(waiting).rows <= permits => AdmitsBytes(Head(waiting).expected)

\* False: a chunk that the window admits waits for permits.
WindowSufficesProbe == waiting # <<>> /\ AdmitsBytes(Head(waiting).expected) => Head(waiting).rows <= permits

\* False: a large chunk exceeds the window.
WithinWindowProbe == outstanding <= WindowBytes

\* False: such a chunk need not be alone; less than a batch may be outstanding besides.
AloneProbe == outstanding > WindowBytes => outstanding <= Most(ByteCosts)

\* False: the receiver withholds less than a batch, and so not always nothing.
NothingWithheldProbe == outstanding > 0 => Len(wire) + Len(inbox) + returnedBytes > 0

\* False: the bound is reached.
BoundNotReachedProbe == outstanding < MostBytes

\* False: a chunk waits for bytes, although nothing is under way but bytes on their way back.
ChannelNeverIdleProbe == waiting # <<>> => ENABLED (Send \/ Deliver \/ Consume)
=============================================================================
