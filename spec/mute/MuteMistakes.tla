------------------------------ MODULE MuteMistakes ------------------------------
(***************************************************************************)
(* The published faults of muting, and a counter that does not mend them.  *)
(* Each is an action that a model puts in the place of the right one: see  *)
(* the key `actions` of models.toml.                                       *)
(***************************************************************************)
EXTENDS Mute

\* A source that joins is not told who mutes.
JoinUntold(n) ==
    /\ IsSource(n) /\ ~IsHere(n)
    /\ sources' = [sources EXCEPT ![At(n)].here = TRUE]
    /\ UNCHANGED <<sinks, heard, signals, remade>>

\* A sink that leaves does not unmute.
DisposeSilently(m) ==
    /\ Disposals /\ IsSink(m) /\ ~sinks[m].gone
    /\ sinks' = [sinks EXCEPT ![m] = [gone |-> TRUE, wire |-> 0, inbox |-> 0]]
    /\ UNCHANGED <<sources, heard, signals, remade>>

\* A sink drops its queue, and does not look at its marks.
ClearSilently(m) ==
    /\ Clears /\ IsSink(m) /\ sinks[m].inbox > 0
    /\ sinks' = [sinks EXCEPT ![m].inbox = 0]
    /\ UNCHANGED <<sources, heard, signals, remade>>

\* On a new connection a node does not tell its epochs again.
ReconnectSilently(up, down) ==
    /\ remade < Remakes /\ signals[up][down] # <<>>
    /\ signals' = [signals EXCEPT ![up][down] = <<>>]
    /\ remade' = remade + 1
    /\ UNCHANGED <<sources, sinks, heard>>

\* Each signal counts, however old: a relay hands it on.
ReceiveAny(up, down) ==
    LET signal == Head(signals[up][down])
        others == [signals EXCEPT ![up][down] = Tail(@)]
    IN  /\ heard' = [heard EXCEPT ![up][signal.muter] = Larger(@, signal.epoch)]
        /\ signals' = IF IsRelay(up) THEN Forwarded(others, up, signal) ELSE others
        /\ UNCHANGED <<sinks, remade>>

\* A source keeps the set of its muters.
ReceiveSignalIntoSet(up, down) ==
    /\ signals[up][down] # <<>>
    /\ LET signal == Head(signals[up][down]) IN
       sources' = IF IsSource(up) THEN [sources EXCEPT ![At(up)].holds[signal.muter] = signal.epoch % 2] ELSE sources
    /\ ReceiveAny(up, down)

\* A source counts the mutes of each muter that were not taken back.
ReceiveSignalIntoCounter(up, down) ==
    /\ signals[up][down] # <<>>
    /\ LET signal == Head(signals[up][down])
           Counted(mutes) == IF IsMute(signal.epoch) THEN mutes + 1 ELSE IF mutes > 0 THEN mutes - 1 ELSE 0
       IN  sources' = IF IsSource(up)
                      THEN [sources EXCEPT ![At(up)].holds[signal.muter] = Counted(@)]
                      ELSE sources
    /\ ReceiveAny(up, down)
=============================================================================
