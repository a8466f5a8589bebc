------------------------- MODULE LoopChainRefinement -------------------------
(***************************************************************************)
(* Each loop of a chain is a Demand of its own.                            *)
(*                                                                         *)
(* The mapping: what the stage before a loop has received, and not yet     *)
(* consumed, waits for the loop.  So Deliver of one loop is Offer of the   *)
(* next one, and HandOn is Consume of one and Send of the next.            *)
(***************************************************************************)
EXTENDS LoopChain

\* So many messages, which are not told apart.
Messages(count) == [n \in 1 .. count |-> 0]

Loop(i) == INSTANCE Demand WITH
    Size <- IF i = Loops THEN LastSize ELSE Size,
    Batch <- IF i = Loops THEN LastBatch ELSE Batch,
    Initial <- IF i = Loops THEN LastSize ELSE Size,
    Waiters <- IF i = 1 THEN Waiters ELSE Size,
    Withdrawals <- FALSE, Tags <- 1, Fair <- {},
    offered <- 0, consumed <- 0, withheld <- 0,
    waiting <- Messages(IF i = 1 THEN waiting ELSE loops[i - 1].inbox),
    credit <- loops[i].credit, wire <- Messages(loops[i].wire), inbox <- Messages(loops[i].inbox),
    unrequested <- loops[i].unrequested, requests <- loops[i].requests

-----------------------------------------------------------------------------

\* Each run of the chain is a run of Demand for each of its loops.
EachIsDemand ==
    /\ \A i \in Names : Loop(i)!Init
    /\ [][\A i \in Names : [Loop(i)!Next]_(Loop(i)!vars)]_vars
=============================================================================
