---------------------------- MODULE PermitChannel ----------------------------
(***************************************************************************)
(* One channel of a permit-based exchange, as in RisingWave's RFC          *)
(* "Permit-based Back-pressure with Bidirectional gRPC Streaming".         *)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting --SendChunk--> wire --Deliver--> inbox --Consume--> (done)   *)
(*    permits <--AddPermits------- grants <--------- unreturned            *)
(*                                                                         *)
(* Permits circulate: none is created, none is lost.  A chunk holds `cost' *)
(* permits from SendChunk until the receiver has consumed it; the receiver *)
(* collects them (`unreturned') and gives them back in batches.  Barriers  *)
(* keep their place among the chunks: all wait in one line.  They have     *)
(* permits of their own, which return at once.  Watermarks cost nothing    *)
(* that anybody waits for: there is one watermark permit, and while it is  *)
(* away a newer watermark replaces (conflates) the one that is pending.    *)
(*                                                                         *)
(* The receiver may withhold row permits at the start (pull), and grants   *)
(* them when its application first asks for a message or consumes one.     *)
(*                                                                         *)
(* The published protocol is the one with InitialPermits = RowPermits and  *)
(* FlushIdle = FALSE.                                                      *)
(*                                                                         *)
(* Not modelled: bytes, the handshake and its numbers (mismatched ends are *)
(* given as constants), several channels of one connection, the end of a   *)
(* stream (PermitChannelHistory).                                          *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    RowPermits,      \* row permits of the channel (RisingWave: ROW_COUNT; "Buf")
    InitialPermits,  \* row permits at the sender from the start; the receiver withholds the others
    PermitBatch,     \* the receiver returns row permits once it holds this many
    MaxChunkCost,    \* the most a chunk costs; a larger chunk is admitted whole
    Sizes,           \* the chunk sizes that may be offered, in rows
    BarrierPermits,  \* barriers that may be in the channel at once; 0: none are offered
    Watermarks,      \* are watermarks offered?
    FlushIdle,       \* does an idle receiver return a residue below PermitBatch?
    Withdrawals,     \* may the sender give up waiting (a cancelled send)?
    Waiters,         \* chunks and barriers that may wait for permits at once
    Tags,            \* numbers of chunks and barriers are taken modulo Tags; 1: they are anonymous
    Fair             \* names of the actions that are weakly (SendWatermark: strongly) fair

ASSUME Assumption ==
    /\ RowPermits \in Nat \ {0} /\ PermitBatch \in Nat \ {0} /\ MaxChunkCost \in Nat \ {0}
    /\ InitialPermits \in 0 .. RowPermits
    /\ Sizes \subseteq Nat /\ BarrierPermits \in Nat
    /\ {Watermarks, FlushIdle, Withdrawals} \subseteq BOOLEAN
    /\ Fair \subseteq {"SendChunk", "SendBarrier", "SendWatermark", "Deliver", "Consume", "Flush", "AddPermits"}
    /\ Waiters \in Nat \ {0}
    \* Every chunk and barrier in the channel holds a permit, so this many numbers cannot be confused.
    /\ Tags = 1 \/ (Tags \in Nat /\ Tags > RowPermits + BarrierPermits + Waiters)

VARIABLES
    offered,           \* number of the next chunk or barrier to be offered, modulo Tags
    consumed,          \* number of the next chunk or barrier to be consumed, modulo Tags
    waiting,           \* chunks and barriers that wait for permits, oldest first
    watermarkPending,  \* -1: none; n: the newest watermark, to be sent after n more waiting messages
    newestWatermark,   \* the watermark offered last: "pending", "sent", or "heard" (consumed, or there was none)
    permits,           \* permits at the sender, by class
    wire,              \* messages in flight
    inbox,             \* messages received, not yet consumed
    unreturned,        \* row permits of consumed chunks, not yet returned
    grants             \* permits in flight back, by class

senderVars == <<offered, waiting, watermarkPending, permits>>

wireVars == <<wire, grants>>

receiverVars == <<consumed, inbox, unreturned>>

vars == <<senderVars, wireVars, receiverVars, newestWatermark>>

-----------------------------------------------------------------------------

Permits(rows, barriers, watermarks) ==
    [rows |-> rows, barriers |-> barriers, watermarks |-> watermarks]

Plus(p, q) == Permits(p.rows + q.rows, p.barriers + q.barriers, p.watermarks + q.watermarks)

Total == Permits(RowPermits, BarrierPermits, 1)

\* An empty chunk costs one permit, an oversize chunk MaxChunkCost.
Cost(rows) == IF rows < 1 THEN 1 ELSE IF rows > MaxChunkCost THEN MaxChunkCost ELSE rows

Message(kind, id, rows, cost) == [kind |-> kind, id |-> id, rows |-> rows, cost |-> cost]

\* What a message holds while it is in the channel; it travels with the message.
Held(m) == CASE m.kind = "chunk"     -> Permits(m.cost, 0, 0)
             [] m.kind = "barrier"   -> Permits(0, m.cost, 0)
             [] m.kind = "watermark" -> Permits(0, 0, m.cost)

Successor(id) == (id + 1) % Tags

\* The number of the next chunk or barrier to be sent: where a watermark stands among them.
NextSent == IF waiting = <<>> THEN offered ELSE Head(waiting).id

Withheld == RowPermits - InitialPermits

\* The receiver grants what it withholds before all else, and a grant may take any time: these permits are in flight.
Init ==
    /\ offered = 0 /\ consumed = 0
    /\ waiting = <<>> /\ watermarkPending = -1 /\ newestWatermark = "heard"
    /\ permits = [Total EXCEPT !.rows = InitialPermits]
    /\ wire = <<>> /\ inbox = <<>> /\ unreturned = 0
    /\ grants = IF Withheld > 0 THEN <<Permits(Withheld, 0, 0)>> ELSE <<>>

-----------------------------------------------------------------------------
(* The environment: the application at the sender.                         *)

\* The application wants to send a chunk.
OfferChunk(rows) ==
    /\ Len(waiting) < Waiters
    /\ waiting' = Append(waiting, Message("chunk", offered, rows, Cost(rows)))
    /\ offered' = Successor(offered)
    /\ UNCHANGED <<watermarkPending, newestWatermark, permits, wireVars, receiverVars>>

\* The application wants to send a barrier: it waits behind the chunks that were offered before it.
OfferBarrier ==
    /\ BarrierPermits > 0 /\ Len(waiting) < Waiters
    /\ waiting' = Append(waiting, Message("barrier", offered, 0, 1))
    /\ offered' = Successor(offered)
    /\ UNCHANGED <<watermarkPending, newestWatermark, permits, wireVars, receiverVars>>

\* The application announces a watermark: it never waits, and replaces an unsent one.
OfferWatermark ==
    /\ Watermarks
    /\ watermarkPending' = Len(waiting)
    /\ newestWatermark' = "pending"
    /\ UNCHANGED <<offered, waiting, permits, wireVars, receiverVars>>

\* The application gives up waiting with a chunk, its newest message: nothing was taken, nothing is lost.
WithdrawChunk ==
    /\ Withdrawals /\ waiting # <<>> /\ waiting[Len(waiting)].kind = "chunk"
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ offered' = waiting[Len(waiting)].id
    /\ watermarkPending' = IF watermarkPending = Len(waiting) THEN watermarkPending - 1 ELSE watermarkPending
    /\ UNCHANGED <<newestWatermark, permits, wireVars, receiverVars>>

\* The application gives up waiting with a barrier, its newest message.
WithdrawBarrier ==
    /\ Withdrawals /\ waiting # <<>> /\ waiting[Len(waiting)].kind = "barrier"
    /\ waiting' = SubSeq(waiting, 1, Len(waiting) - 1)
    /\ offered' = waiting[Len(waiting)].id
    /\ watermarkPending' = IF watermarkPending = Len(waiting) THEN watermarkPending - 1 ELSE watermarkPending
    /\ UNCHANGED <<newestWatermark, permits, wireVars, receiverVars>>

-----------------------------------------------------------------------------
(* The protocol.                                                           *)

\* The oldest message that waits is a chunk: it takes its permits and leaves.
SendChunk ==
    /\ waiting # <<>> /\ Head(waiting).kind = "chunk" /\ Head(waiting).cost <= permits.rows
    /\ permits' = [permits EXCEPT !.rows = @ - Head(waiting).cost]
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ watermarkPending' = IF watermarkPending > 0 THEN watermarkPending - 1 ELSE watermarkPending
    /\ UNCHANGED <<offered, newestWatermark, grants, receiverVars>>

\* The oldest message that waits is a barrier: it waits for no row permits, and overtakes no chunk.
SendBarrier ==
    /\ waiting # <<>> /\ Head(waiting).kind = "barrier" /\ 1 <= permits.barriers
    /\ permits' = [permits EXCEPT !.barriers = @ - 1]
    /\ wire' = Append(wire, Head(waiting))
    /\ waiting' = Tail(waiting)
    /\ watermarkPending' = IF watermarkPending > 0 THEN watermarkPending - 1 ELSE watermarkPending
    /\ UNCHANGED <<offered, newestWatermark, grants, receiverVars>>

\* A watermark overtakes nothing that was offered before it.
SendWatermark ==
    /\ watermarkPending = 0 /\ 1 <= permits.watermarks
    /\ permits' = [permits EXCEPT !.watermarks = @ - 1]
    /\ wire' = Append(wire, Message("watermark", NextSent, 0, 1))
    /\ watermarkPending' = -1
    /\ newestWatermark' = "sent"
    /\ UNCHANGED <<offered, waiting, grants, receiverVars>>

\* A message arrives at the receiver.
Deliver ==
    /\ wire # <<>>
    /\ inbox' = Append(inbox, Head(wire))
    /\ wire' = Tail(wire)
    /\ UNCHANGED <<senderVars, newestWatermark, grants, consumed, unreturned>>

\* The application has consumed a message; its permits are returned verbatim, rows in batches.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ LET m == Head(inbox) IN
       /\ consumed' = IF m.kind = "watermark" THEN consumed ELSE Successor(consumed)
       /\ newestWatermark' = IF m.kind = "watermark" /\ newestWatermark = "sent" THEN "heard" ELSE newestWatermark
       /\ IF m.kind = "chunk"
          THEN IF unreturned + m.cost >= PermitBatch
               THEN /\ grants' = Append(grants, Permits(unreturned + m.cost, 0, 0))
                    /\ unreturned' = 0
               ELSE /\ unreturned' = unreturned + m.cost
                    /\ UNCHANGED grants
          ELSE /\ grants' = Append(grants, Held(m))
               /\ UNCHANGED unreturned
    /\ UNCHANGED <<senderVars, wire>>

\* An idle receiver returns the residue (not in the published protocol).
Flush ==
    /\ FlushIdle /\ inbox = <<>> /\ unreturned > 0
    /\ grants' = Append(grants, Permits(unreturned, 0, 0))
    /\ unreturned' = 0
    /\ UNCHANGED <<senderVars, newestWatermark, wire, consumed, inbox>>

\* Returned permits arrive at the sender.
AddPermits ==
    /\ grants # <<>>
    /\ permits' = Plus(permits, Head(grants))
    /\ grants' = Tail(grants)
    /\ UNCHANGED <<offered, waiting, watermarkPending, newestWatermark, wire, receiverVars>>

Environment ==
    \/ \E rows \in Sizes : OfferChunk(rows)
    \/ OfferBarrier \/ OfferWatermark
    \/ WithdrawChunk \/ WithdrawBarrier

Protocol ==
    \/ SendChunk \/ SendBarrier \/ SendWatermark
    \/ Deliver \/ Consume \/ Flush \/ AddPermits

Next == Environment \/ Protocol

\* Watermarks are conflated for as long as messages keep arriving before them: strong fairness.
Fairness ==
    /\ "SendChunk"     \in Fair => WF_vars(SendChunk)
    /\ "SendBarrier"   \in Fair => WF_vars(SendBarrier)
    /\ "SendWatermark" \in Fair => SF_vars(SendWatermark)
    /\ "Deliver"       \in Fair => WF_vars(Deliver)
    /\ "Consume"       \in Fair => WF_vars(Consume)
    /\ "Flush"         \in Fair => WF_vars(Flush)
    /\ "AddPermits"    \in Fair => WF_vars(AddPermits)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* Safety.                                                                 *)

RECURSIVE SumHeld(_)
SumHeld(messages) ==
    IF messages = <<>> THEN Permits(0, 0, 0) ELSE Plus(Held(Head(messages)), SumHeld(Tail(messages)))

RECURSIVE SumPermits(_)
SumPermits(returned) ==
    IF returned = <<>> THEN Permits(0, 0, 0) ELSE Plus(Head(returned), SumPermits(Tail(returned)))

RECURSIVE SumRows(_)
SumRows(messages) == IF messages = <<>> THEN 0 ELSE Head(messages).rows + SumRows(Tail(messages))

IsPermits(p) == DOMAIN p = {"rows", "barriers", "watermarks"} /\ \A class \in DOMAIN p : p[class] \in Nat

IsMessage(m) ==
    /\ DOMAIN m = {"kind", "id", "rows", "cost"}
    /\ m.kind \in {"chunk", "barrier", "watermark"} /\ m.id \in 0 .. Tags - 1
    /\ IF m.kind = "chunk" THEN m.rows \in Nat /\ m.cost = Cost(m.rows) ELSE m.rows = 0 /\ m.cost = 1

TypeOK ==
    /\ {offered, consumed} \subseteq 0 .. Tags - 1
    /\ Len(waiting) <= Waiters
    /\ \A i \in DOMAIN waiting : IsMessage(waiting[i]) /\ waiting[i].kind # "watermark"
    /\ watermarkPending \in -1 .. Len(waiting)
    /\ newestWatermark \in {"pending", "sent", "heard"}
    /\ IsPermits(permits)
    /\ \A i \in DOMAIN wire : IsMessage(wire[i])
    /\ \A i \in DOMAIN inbox : IsMessage(inbox[i])
    /\ unreturned \in Nat
    /\ \A i \in DOMAIN grants : IsPermits(grants[i])

\* permits + data in flight + inbox + unreturned + permits in flight = Buf, for each class.
Conservation ==
    Plus(Plus(permits, SumHeld(wire \o inbox)), Plus(Permits(unreturned, 0, 0), SumPermits(grants))) = Total

\* The channel never holds more than it has permits for, in any class.
Bounded ==
    LET held == SumHeld(wire \o inbox) IN
    held.rows <= RowPermits /\ held.barriers <= BarrierPermits /\ held.watermarks <= 1

Largest == IF Sizes = {} THEN 0 ELSE CHOOSE rows \in Sizes : \A other \in Sizes : other <= rows

\* Each message holds a permit, or brings one back: their number is bounded in both directions.
MessagesBounded == Len(wire) + Len(inbox) + Len(grants) <= RowPermits + BarrierPermits + 1

\* Rows, not permits: an oversize chunk is admitted whole and exceeds its cost.
MostRows == RowPermits + (IF Largest > MaxChunkCost THEN (RowPermits \div MaxChunkCost) * (Largest - MaxChunkCost) ELSE 0)

RowBound == SumRows(wire \o inbox) <= MostRows

\* Somebody waits, and nothing that the protocol can do will ever change that.
Stuck == waiting # <<>> /\ ~ ENABLED Protocol

NeverStuck == ~Stuck

\* Chunks and barriers: the messages with numbers of their own.
Numbered(messages) == Cardinality({i \in DOMAIN messages : messages[i].kind # "watermark"})

\* Chunks and barriers leave in the order in which they were offered, each once; watermarks keep their place.
ExactlyOnceInOrder ==
    LET pipe == inbox \o wire \o waiting IN
    /\ \A i \in DOMAIN pipe : pipe[i].id = (consumed + Numbered(SubSeq(pipe, 1, i - 1))) % Tags
    /\ offered = (consumed + Numbered(pipe)) % Tags

\* The newest watermark is not lost: it is pending, or on its way, or has been consumed.
NewestWatermarkKept ==
    /\ (newestWatermark = "pending") = (watermarkPending >= 0)
    /\ newestWatermark = "sent" => SumHeld(wire \o inbox).watermarks = 1

\* The residue stays below PermitBatch, and each return of rows carries at least PermitBatch permits:
\* grant messages <= consumed / PermitBatch.  (An idle flush may return less, and so may the grant of what was withheld.)
GrantsBatched ==
    /\ unreturned < PermitBatch
    /\ FlushIdle \/ \A i \in DOMAIN grants : grants[i].rows \in {0, Withheld} \/ grants[i].rows >= PermitBatch

\* With the idle flush, a channel in which nothing can move holds all its permits again.
WholeWhenIdle == (FlushIdle /\ ~ ENABLED Protocol) => permits = Total

-----------------------------------------------------------------------------
(* Liveness.                                                               *)

IsOffered(kind, id) ==
    LET pipe == inbox \o wire \o waiting IN
    \E i \in DOMAIN pipe : pipe[i].kind = kind /\ pipe[i].id = id

\* These two need Tags > 1 and Withdrawals = FALSE.
EveryChunkDelivered == \A id \in 0 .. Tags - 1 : IsOffered("chunk", id) ~> (consumed = Successor(id))

EveryBarrierDelivered == \A id \in 0 .. Tags - 1 : IsOffered("barrier", id) ~> (consumed = Successor(id))

EveryWatermarkDelivered ==
    /\ (watermarkPending >= 0) ~> (watermarkPending = -1)
    /\ (permits.watermarks = 0) ~> (permits.watermarks = 1)
=============================================================================
