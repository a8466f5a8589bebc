------------------------- MODULE MuteSchedulerMistakes -------------------------
(***************************************************************************)
(* What the scheduler must not do.  Each mistake is an action that a model *)
(* puts in the place of the right one: see the key `actions` of            *)
(* models.toml.                                                            *)
(***************************************************************************)
EXTENDS MuteScheduler

\* An actor is muted although others wait for it, because it is overloaded or under pressure.
SendAndMuteTheBusy(a, b) ==
    /\ actors[a].inside /\ Count(Actors) < Messages
    /\ actors' = [actors EXCEPT ![b].mailbox = @ + 1]
    /\ waits' = [waits EXCEPT ![a][b] = @ \/ (a # b /\ Mutes(b))]
    /\ UNCHANGED freed

\* An actor that can keep up frees the senders that are muted already.  One that is still in the behaviour in which it
\* has sent is forgotten.
UnsetOverloadedForTheMuted(a) ==
    /\ actors[a].overloaded /\ ~actors[a].inside /\ ~actors[a].muted /\ actors[a].mailbox = 0
    /\ actors' = [actors EXCEPT ![a].overloaded = FALSE, ![a].done = 0]
    /\ freed' = IF actors[a].pressed THEN freed
                ELSE [s \in Names |-> [m \in Names |->
                         freed[s][m] \/ (m = a /\ waits[s][a] /\ actors[s].muted)]]
    /\ UNCHANGED waits
=============================================================================
