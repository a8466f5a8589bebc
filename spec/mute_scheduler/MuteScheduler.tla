---------------------------- MODULE MuteScheduler ----------------------------
(***************************************************************************)
(* Back-pressure by the scheduler of actors, as in Pony: an actor that     *)
(* sends to one which cannot keep up does not run until that one can.      *)
(*                                                                         *)
(* An actor that had a whole batch to do is overloaded; one that says so   *)
(* itself is under pressure.  Both mute their senders, and so does a muted *)
(* actor.  They are not muted themselves: others wait for them.  A sender  *)
(* is muted when its behaviour ends, and its message is delivered.  When   *)
(* an actor can keep up again, its senders are freed: a message to each    *)
(* scheduler, which it hears between two behaviours.  An actor runs again  *)
(* when all its muters have freed it, and then frees its own senders.      *)
(*                                                                         *)
(* Source: ponyc, src/libponyrt/actor/actor.c and sched/scheduler.c.       *)
(*   Send             maybe_mark_should_mute, ponyint_sched_mute           *)
(*   EndBehaviour     maybe_should_mute: only the count of muters is looked*)
(*                    at; batch_limit_reached, actor_unsetoverloaded       *)
(*   UnsetOverloaded  actor_unsetoverloaded                                *)
(*   ApplyPressure    pony_apply_backpressure                              *)
(*   ReleasePressure  pony_release_backpressure                            *)
(*   UnmuteSender     ponyint_sched_unmute_senders,                        *)
(*                    sched_reschedule_unmuted: the senders are freed      *)
(*                    even if the actor is under pressure                  *)
(* An actor of Pony puts only itself under pressure, in a behaviour, and   *)
(* so is never released while it is muted.  Here both may come from        *)
(* outside as well; an actor that is muted then still mutes its senders.   *)
(* Not modelled: a run of Pony ends also at the message that was the last  *)
(* one when it began; pinned actors; several messages sent at once.        *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Actors,       \* how many there are
    Batch,        \* with so many messages in a run an actor is overloaded
    Messages,     \* messages that may be in mailboxes at once
    Pressures,    \* may actors be put under pressure?
    Helped        \* does the last actor alone release the others from pressure, in a behaviour?

ASSUME Assumption ==
    /\ {Actors, Batch, Messages} \subseteq Nat \ {0}
    /\ {Pressures, Helped} \subseteq BOOLEAN

VARIABLES
    actors,       \* Idle says what one consists of
    waits,        \* waits[a][m]: does actor m mute actor a?
    freed         \* freed[a][m]: is the message on its way that m can keep up, to the scheduler of a?

vars == <<actors, waits, freed>>

Names == 1 .. Actors

Idle ==
    [mailbox    |-> 0,      \* messages
     inside     |-> FALSE,  \* is it in a behaviour?
     done       |-> 0,      \* messages that it has done in this run
     overloaded |-> FALSE,
     pressed    |-> FALSE,  \* is it under pressure?
     muted      |-> FALSE]

Init ==
    /\ actors = [a \in Names |-> Idle]
    /\ waits = [a \in Names |-> [m \in Names |-> FALSE]]
    /\ freed = [a \in Names |-> [m \in Names |-> FALSE]]

-----------------------------------------------------------------------------

RECURSIVE Count(_)
Count(a) == IF a = 0 THEN 0 ELSE actors[a].mailbox + Count(a - 1)

IsBusy(a) == actors[a].overloaded \/ actors[a].pressed

\* Does it mute its senders?
Mutes(a) == IsBusy(a) \/ actors[a].muted

IsHeld(a) == \E m \in Names : waits[a][m]

\* Those that m mutes are freed.
Freed(m) ==
    [a \in Names |-> [n \in Names |-> freed[a][n] \/ (n = m /\ waits[a][m])]]

-----------------------------------------------------------------------------

\* A message comes from outside; at the limit it is refused, which is a step: only NeverStuck says what is stuck.
Post(a) ==
    /\ actors' = [actors EXCEPT ![a].mailbox = IF Count(Actors) < Messages THEN @ + 1 ELSE @]
    /\ UNCHANGED <<waits, freed>>

\* An actor is put under pressure.
ApplyPressure(a) ==
    /\ Pressures /\ ~actors[a].pressed
    /\ actors' = [actors EXCEPT ![a].pressed = TRUE]
    /\ UNCHANGED <<waits, freed>>

\* An actor is no longer under pressure.
ReleasePressure(a) ==
    /\ actors[a].pressed /\ (Helped => actors[Actors].inside)
    /\ actors' = [actors EXCEPT ![a].pressed = FALSE]
    /\ freed' = IF actors[a].overloaded \/ actors[a].muted THEN freed ELSE Freed(a)
    /\ UNCHANGED waits

\* In a behaviour an actor sends a message.
Send(a, b) ==
    /\ actors[a].inside /\ Count(Actors) < Messages
    /\ actors' = [actors EXCEPT ![b].mailbox = @ + 1]
    /\ waits' = [waits EXCEPT ![a][b] = @ \/ (a # b /\ Mutes(b) /\ ~IsBusy(a))]
    /\ UNCHANGED freed

\* An actor takes a message.
BeginBehaviour(a) ==
    /\ ~actors[a].inside /\ ~actors[a].muted /\ actors[a].mailbox > 0
    /\ actors' = [actors EXCEPT ![a].inside = TRUE, ![a].mailbox = @ - 1]
    /\ UNCHANGED <<waits, freed>>

\* A behaviour ends: the actor is muted, or overloaded, or can keep up, or goes on with its batch.
EndBehaviour(a) ==
    /\ actors[a].inside
    /\ LET done == actors[a].done + 1
           isHeld == IsHeld(a)
           isFull == ~isHeld /\ done >= Batch
           isEmpty == ~isHeld /\ ~isFull /\ actors[a].mailbox = 0
       IN  /\ actors' = [actors EXCEPT
                  ![a].inside = FALSE,
                  ![a].muted = isHeld,
                  ![a].overloaded = isFull \/ (@ /\ ~isEmpty),
                  ![a].done = IF isHeld \/ isFull \/ isEmpty THEN 0 ELSE done]
           /\ freed' = IF isEmpty /\ actors[a].overloaded /\ ~actors[a].pressed THEN Freed(a) ELSE freed
    /\ UNCHANGED waits

\* An overloaded actor without messages can keep up.
UnsetOverloaded(a) ==
    /\ actors[a].overloaded /\ ~actors[a].inside /\ ~actors[a].muted /\ actors[a].mailbox = 0
    /\ actors' = [actors EXCEPT ![a].overloaded = FALSE, ![a].done = 0]
    /\ freed' = IF actors[a].pressed THEN freed ELSE Freed(a)
    /\ UNCHANGED waits

\* A scheduler hears that m can keep up; an actor that nobody mutes any more runs again, and frees its own senders,
\* whether it is under pressure or not: they are muted again if they send to it again.
UnmuteSender(a, m) ==
    /\ freed[a][m] /\ ~actors[a].inside
    /\ waits' = [waits EXCEPT ![a][m] = FALSE]
    /\ LET isLast == actors[a].muted /\ \A n \in Names \ {m} : ~waits[a][n]
           others == [freed EXCEPT ![a][m] = FALSE]
       IN  /\ actors' = [actors EXCEPT ![a].muted = @ /\ ~isLast]
           /\ freed' = IF isLast
                       THEN [x \in Names |-> [n \in Names |-> others[x][n] \/ (n = a /\ Freed(a)[x][n])]]
                       ELSE others

Environment ==
    \/ (\E a \in Names : Post(a)) \/ (\E a \in Names : ApplyPressure(a)) \/ (\E a \in Names : ReleasePressure(a))
    \/ (\E a, b \in Names : Send(a, b))

Protocol ==
    \/ (\E a \in Names : BeginBehaviour(a)) \/ (\E a \in Names : EndBehaviour(a)) \/ (\E a \in Names : UnsetOverloaded(a))
    \/ (\E a, m \in Names : UnmuteSender(a, m))

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    \A a \in Names :
        /\ actors[a].mailbox \in Nat /\ actors[a].done \in 0 .. Batch - 1
        /\ {actors[a].inside, actors[a].overloaded, actors[a].pressed, actors[a].muted} \subseteq BOOLEAN

\* An actor is muted if somebody mutes it, and only then; in a behaviour it is not yet.
MutedIfHeld == \A a \in Names : actors[a].muted = (IsHeld(a) /\ ~actors[a].inside)

\* No actor mutes itself.
NotBySelf == \A a \in Names : ~waits[a][a]

\* No wake-up is lost: a muter cannot keep up, or the message that it can is on its way.
Woken == \A a, m \in Names : waits[a][m] => Mutes(m) \/ freed[a][m]

\* Actors do not wait for each other in a circle, but for those that are freed.
Waits(a, m) == waits[a][m] /\ ~freed[a][m]
MutedByIsAcyclic ==
    \A a, b, c \in Names : ~(Waits(a, b) /\ Waits(b, a)) /\ ~(Waits(a, b) /\ Waits(b, c) /\ Waits(c, a))

\* The actor that alone can release another one from pressure is not muted by it.
Releasable == \A a \in Names : Helped /\ actors[a].pressed => ~Waits(Actors, a)

\* As long as there is a message, and no actor is under pressure, something moves.
NeverStuck ==
    (\E a \in Names : actors[a].mailbox > 0) /\ (\A a \in Names : ~actors[a].pressed) => ENABLED Protocol

\* False: an actor is muted by at most one.
OneMuterProbe == \A a, m, n \in Names : waits[a][m] /\ waits[a][n] => m = n

\* False: muting does not spread from actor to actor.
NotTransitiveProbe == \A a, m \in Names : waits[a][m] => ~actors[m].muted

\* False: a muted actor gets no more messages.
MailboxRestsProbe == \A a \in Names : actors[a].muted => actors[a].mailbox = 0
=============================================================================
