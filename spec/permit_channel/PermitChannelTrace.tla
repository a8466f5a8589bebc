------------------------- MODULE PermitChannelTrace -------------------------
(* Steps of the permit channel as recorded runs tell of them.  A generated    *)
(* module extends this one, holds a run as a constant, and lets TLC take its  *)
(* steps one after the other (model/permitflow_model/tlc/trace.py).           *)
(*                                                                            *)
(* A step is told as <<action, arguments, counters>>: the rows of the chunk   *)
(* and the permits of the message, or those that are returned, by class; and  *)
(* what the end counted afterwards.  << >>, or rows alone: nothing was told.  *)
EXTENDS PermitChannel

VARIABLE
    inboxRows     \* rows in the inbox: to sum them up at every step would take too long

traceVars == <<vars, inboxRows>>

RECURSIVE RowsIn(_)
RowsIn(queue) == IF queue = <<>> THEN 0 ELSE Head(queue).rows + RowsIn(Tail(queue))

InitTrace == inboxRows = RowsIn(inbox)

AsRecorded(p) == <<p.rows, p.barriers, p.watermarks>>

Arguments(rows, p) == <<rows, p.rows, p.barriers, p.watermarks>>

HasArguments(step) == Len(step[2]) = 4

Of(step, message) == HasArguments(step) => step[2] = Arguments(message.rows, Held(message))

Carries(step, p) == HasArguments(step) => step[2] = Arguments(0, p)

Counted(step) ==
    \/ step[3] = <<>>
    \/ step[3] = IF step[1] \in {"Deliver", "Consume", "Flush"}
                 THEN <<Len(inbox'), inboxRows', unreturned'>>
                 ELSE AsRecorded(permits')

Watermark == Message("watermark", 0, 0, 1)

\* A receiver that nobody recorded may return permits in other portions than the specification's.
Parted(first) ==
    LET all == SumPermits(grants)
        rest == Permits(all.rows - first.rows, all.barriers - first.barriers, all.watermarks - first.watermarks)
    IN  /\ IsPermits(first) /\ IsPermits(rest)
        /\ grants' = IF rest = Permits(0, 0, 0) THEN <<first>> ELSE <<first, rest>>
        /\ UNCHANGED <<senderVars, newestWatermark, wire, receiverVars>>

\* The step is one of the specification's, with its recorded arguments and counters.
Taken(step) ==
    /\ CASE step[1] = "OfferChunk"      -> OfferChunk(step[2][1]) /\ Of(step, waiting'[Len(waiting')])
         [] step[1] = "OfferBarrier"    -> OfferBarrier /\ Of(step, waiting'[Len(waiting')])
         [] step[1] = "OfferWatermark"  -> OfferWatermark /\ Of(step, Watermark)
         [] step[1] = "WithdrawChunk"   -> WithdrawChunk /\ Of(step, waiting[Len(waiting)])
         [] step[1] = "WithdrawBarrier" -> WithdrawBarrier /\ Of(step, waiting[Len(waiting)])
         [] step[1] = "SendChunk"       -> SendChunk /\ Of(step, Head(waiting))
         [] step[1] = "SendBarrier"     -> SendBarrier /\ Of(step, Head(waiting))
         [] step[1] = "SendWatermark"   -> SendWatermark /\ Of(step, Watermark)
         [] step[1] = "Deliver"         -> Deliver /\ Of(step, Head(wire))
         [] step[1] = "Consume"         -> Consume /\ Of(step, Head(inbox))
         [] step[1] = "Flush"           -> Flush /\ Carries(step, Permits(unreturned, 0, 0))
         [] step[1] = "AddPermits"      -> AddPermits /\ Carries(step, Head(grants))
         [] step[1] = "PartGrants"      -> Parted(Permits(step[2][2], step[2][3], step[2][4]))
    /\ inboxRows' = CASE step[1] = "Deliver" -> inboxRows + Head(wire).rows
                      [] step[1] = "Consume" -> inboxRows - Head(inbox).rows
                      [] OTHER               -> inboxRows
    /\ Counted(step)

Withdrawn(step, kind) ==
    /\ \E i \in DOMAIN waiting : waiting[i].kind = kind /\ Of(step, waiting[i])
    /\ step[3] \in {<<>>, AsRecorded(permits)}

\* An event may stand for several steps: returned permits add up, and any message that waits may be withdrawn.
Possible(step) ==
    CASE step[1] = "AddPermits" ->
           \E n \in DOMAIN grants :
               LET sum == SumPermits(SubSeq(grants, 1, n)) IN
               step[2] = Arguments(0, sum) /\ step[3] \in {<<>>, AsRecorded(Plus(permits, sum))}
      [] step[1] = "WithdrawChunk"   -> Withdrawn(step, "chunk")
      [] step[1] = "WithdrawBarrier" -> Withdrawn(step, "barrier")
      [] OTHER -> ENABLED Taken(step)
=============================================================================
