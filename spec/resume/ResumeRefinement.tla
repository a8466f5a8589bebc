-------------------------- MODULE ResumeRefinement --------------------------
(***************************************************************************)
(* A stream that survives its connections is a bounded queue: connections, *)
(* acknowledgements and what is written again cannot be seen from outside. *)
(*                                                                         *)
(* The mapping: what was sent and has not arrived waits to go in; what is  *)
(* in the inbox is in the queue.  Send is Offer, Deliver is Put, Consume   *)
(* is Get; all other steps leave the queue as it is.                       *)
(***************************************************************************)
EXTENDS Resume

Item(number) == [id |-> number, cost |-> 1]

Asked == [i \in 1 .. sent - received |-> Item(received + i - 1)]

InQueue == [i \in DOMAIN inbox |-> Item(inbox[i])]

Queue == INSTANCE BoundedQueue WITH
    Bound <- Window, Costs <- {1}, Ids <- 0 .. Total - 1, Line <- Window,
    asked <- Asked, queue <- InQueue

-----------------------------------------------------------------------------

\* Whatever happens to its connections.
IsQueue == Queue!SafeQueue
=============================================================================
