--------------------------- MODULE GrpcCallMistakes ---------------------------
(***************************************************************************)
(* Mistakes of the sender's stage, from the article "Back-pressure in      *)
(* Grpc-akkastream".  Each is an action that a model puts in the place of  *)
(* the right one: see the key `actions` of models.toml.                    *)
(***************************************************************************)
EXTENDS GrpcCall

\* The actions as they are; without `Right!` those that a model has put in their place would be meant.
Right == INSTANCE GrpcCall

\* The stage keeps the message that it has given to the call.
OnReadyAndKeep ==
    /\ edge
    /\ edge' = FALSE
    /\ LET isOver == producer = "completed" IN
       IF hand = <<>> \/ ~IsReady
       THEN UNCHANGED <<asked, closed, local>>
       ELSE /\ local' = Append(local, Head(hand))
            /\ asked' = IF isOver THEN asked ELSE asked + 1
            /\ closed' = (closed \/ isOver)
    /\ UNCHANGED <<offered, producer, hand, wire, receiverVars>>

\* The stage half-closes the call at once, and what it holds is gone.
CompleteAtOnce ==
    /\ producer = "open"
    /\ producer' = "completed"
    /\ closed' = TRUE
    /\ hand' = <<>>
    /\ UNCHANGED <<offered, asked, local, edge, wire, receiverVars>>

\* The stage looks, finds the call full, and stores the message.  In between the oldest message has entered the window:
\* the call became ready, and told so a stage that held nothing yet.
PushTooLate(size) ==
    IF producer = "open" /\ ~IsReady /\ consumer = "open" /\ Fits(Head(local))
    THEN /\ asked > 0
         /\ offered' = Successor(offered)
         /\ asked' = asked - 1
         /\ hand' = <<[number |-> offered, size |-> size]>>
         /\ wire' = Append(wire, Head(local))
         /\ local' = Tail(local)
         /\ UNCHANGED <<producer, closed, edge, receiverVars>>
    ELSE Right!Push(size)

\* The call's own thread sends what the stage holds.  In between the stage has completed, and left the half-close to what
\* it still held.
OnReadyInAThread ==
    IF edge /\ hand # <<>> /\ IsReady /\ producer = "open"
    THEN /\ edge' = FALSE
         /\ producer' = "completed"
         /\ local' = Append(local, Head(hand))
         /\ hand' = <<>>
         /\ asked' = asked + 1
         /\ UNCHANGED <<offered, closed, wire, receiverVars>>
    ELSE Right!OnReady
=============================================================================
