------------------------ MODULE StopAndWaitRefinement ------------------------
(***************************************************************************)
(* Stop-and-wait is demand for one message at a time: an answer is the     *)
(* request for the next message.                                           *)
(***************************************************************************)
EXTENDS StopAndWait

Loop == INSTANCE Demand WITH
    Size <- 1, Batch <- 1, Initial <- 1, Fair <- {},
    credit <- free, unrequested <- 0, withheld <- 0, requests <- answers

-----------------------------------------------------------------------------

\* Each of its runs is one of Demand.
IsDemand == Loop!Init /\ [][Loop!Next]_(Loop!vars)
=============================================================================
