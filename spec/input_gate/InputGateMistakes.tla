--------------------------- MODULE InputGateMistakes ---------------------------
(***************************************************************************)
(* Gates without one of the three rules that a gate without exclusive      *)
(* buffers needs: stop, release, announce.  Each is an action, or two,     *)
(* that a model puts in the place of the right one: see the key `actions`  *)
(* of models.toml.                                                         *)
(***************************************************************************)
EXTENDS InputGate

\* A sender goes on behind its barrier.  Where the barrier takes back all credit (the ticket's rule), none is left but what
\* crosses the barrier.
SendBarrierAndGoOn(c) ==
    LET channel == channels[c] IN
    /\ Starts(channel.waiting, "barrier")
    /\ channels' = [channels EXCEPT ![c].waiting = Tail(@), ![c].announced = 0,
                                    ![c].sent = Counted(Head(channel.waiting).epoch + 1),
                                    ![c].credit = IF Revoke THEN 0 ELSE @,
                                    ![c].wire = Append(@, Item("barrier", Head(channel.waiting).epoch, 0))]
    /\ UNCHANGED <<pool, epoch, failed>>

\* ... so no sender has to be told.
AlignSilently ==
    /\ Joined
    /\ channels' = [c \in Names |-> [channels[c] EXCEPT !.blocked = FALSE, !.released = @ /\ ~channels[c].blocked]]
    /\ epoch' = Counted(epoch + 1)
    /\ UNCHANGED <<pool, failed>>

\* A barrier takes back nothing.
DeliverAndKeep(c) ==
    LET message == Head(channels[c].wire) IN
    /\ channels[c].wire # <<>>
    /\ channels' = [channels EXCEPT ![c].wire = Tail(@), ![c].required = message.backlog,
                                    ![c].inbox = IF message.kind = "backlog" THEN @ ELSE Append(@, message)]
    /\ UNCHANGED <<pool, epoch, failed>>

\* A sender without credit cannot say that it has data.
AnnounceNothing(c) == FALSE
=============================================================================
