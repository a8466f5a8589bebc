---------------------------- MODULE RecordedTrace ----------------------------
(* TLC takes the steps of a recorded run, one after the other, as far as the  *)
(* specification allows them.                                                 *)
(*                                                                            *)
(* RecordedRun is generated for each run (permitflow_model/tlc/trace.py).  It *)
(* extends the module that says what a recorded step of the protocol is:      *)
(*   Taken(step), Possible(step)   with traceVars and InitTrace               *)
(* and holds the run:                                                         *)
(*   Parts, PartSize, Count        the steps, in parts of the same size       *)
(*   Impossible                    events said to be impossible after the run *)
(*   Start, Ends                   the states before the run and after it     *)
EXTENDS RecordedRun

VARIABLE
    position      \* steps of the recording that were taken

recordedVars == <<traceVars, position>>

Step(number) == Parts[((number - 1) \div PartSize) + 1][((number - 1) % PartSize) + 1]

InitRecorded == Start /\ InitTrace /\ position = 0

NextRecorded ==
    \/ /\ position < Count /\ Taken(Step(position + 1)) /\ position' = position + 1
       /\ position' = Count => Ends
    \/ /\ position = Count /\ \E step \in Impossible : Possible(step)
       /\ position' = position + 1 /\ UNCHANGED traceVars
    \/ UNCHANGED recordedVars

SpecRecorded == InitRecorded /\ [][NextRecorded]_recordedVars
=============================================================================
