------------------------------ MODULE DirectTask ------------------------------
(***************************************************************************)
(* Attempts at a task of a job whose rows are delivered as they come.      *)
(*                                                                         *)
(*   attempt --SendDirectly--> on their way --TakeDirectly--> readers      *)
(*                                                                         *)
(* A scheduler runs a task again that has failed, or beside one that is    *)
(* slow or only seems to be lost.  Rows that were taken may have been      *)
(* read, so that those of another attempt would come twice.  A later       *)
(* attempt takes the place of one of which no row was taken: nothing is    *)
(* taken any more of that one, though rows of it may be on their way.  At  *)
(* the end the exchange compares the rows that count with those that it    *)
(* has taken.                                                              *)
(*                                                                         *)
(* An exchange that was started again knows no attempt.  If its channel    *)
(* has rows from before, only a first attempt may begin, since the         *)
(* scheduler says which one that is; and the job does not end well.        *)
(*                                                                         *)
(* Not modelled: several tasks, which do not matter to each other; several *)
(* channels of a task, whose exchange asks all of them; rows of other      *)
(* jobs, which are told apart by the row at which a job was planned.       *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Attempts,     \* at the task, at most
    Rows,         \* rows that each of them has
    Restarts      \* of the exchange, at most; its channel keeps the rows

ASSUME Assumption == {Attempts, Rows} \subseteq Nat \ {0} /\ Restarts \in Nat

VARIABLES
    current,      \* the attempt whose rows are taken, as far as the exchange knows; 0: none
    found,        \* rows of the task that were in the channel when the exchange was started
    verdict,      \* what the readers hear in the end: "none" yet, "whole" or "broken"
    restarts,     \* so far
    attempts      \* New says what one consists of

vars == <<current, found, verdict, restarts, attempts>>

Names == 1 .. Attempts

New ==
    [phase  |-> "new",  \* then "run", "open", "ended", "over"
     isLost |-> FALSE,  \* and the exchange does not know yet
     way    |-> 0,      \* rows of it that are on their way
     taken  |-> 0]      \* rows of it that this exchange has taken

Init == current = 0 /\ found = 0 /\ verdict = "none" /\ restarts = 0 /\ attempts = [a \in Names |-> New]

Ended(one, phase) == [one EXCEPT !.phase = phase, !.isLost = FALSE, !.way = 0]

RECURSIVE TakenUpTo(_)
TakenUpTo(a) == IF a = 0 THEN 0 ELSE attempts[a].taken + TakenUpTo(a - 1)

Taken == TakenUpTo(Attempts)

\* Does the exchange let this attempt send?
MayBegin(a) ==
    /\ a = 1 \/ found = 0
    /\ IF current = 0 THEN TRUE ELSE current < a /\ attempts[current].taken = 0

-----------------------------------------------------------------------------
(* The scheduler, and what happens to attempts.                            *)

\* The task is run, perhaps while an earlier attempt still runs.
RunAttempt(a) ==
    /\ verdict = "none" /\ attempts[a].phase = "new"
    /\ IF a = 1 THEN TRUE ELSE attempts[a - 1].phase # "new"
    /\ attempts' = [attempts EXCEPT ![a] = [New EXCEPT !.phase = "run"]]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* It fails or is lost, and the exchange does not know yet: what is on its way may still come.
LoseSending(a) ==
    /\ attempts[a].phase \in {"run", "open"} /\ ~attempts[a].isLost
    /\ attempts' = [attempts EXCEPT ![a].isLost = TRUE]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* The exchange is started again: its channel has the rows, and it knows no attempt.
ForgetAttempts ==
    /\ verdict = "none" /\ restarts < Restarts
    /\ current' = 0
    /\ found' = found + Taken
    /\ restarts' = restarts + 1
    /\ attempts' = [a \in Names |->
        IF attempts[a].phase = "open" THEN [New EXCEPT !.phase = "over"] ELSE [attempts[a] EXCEPT !.taken = 0]]
    /\ UNCHANGED verdict

\* The scheduler lets the job fail: the channel breaks if it has rows of it.
GiveUpJob ==
    /\ verdict = "none"
    /\ verdict' = "broken"
    /\ attempts' = [a \in Names |->
        IF attempts[a].phase = "open" /\ attempts[a].taken = 0 THEN Ended(attempts[a], "over") ELSE attempts[a]]
    /\ UNCHANGED <<current, found, restarts>>

-----------------------------------------------------------------------------
(* The protocol.                                                           *)

\* It begins to send; from this moment on nothing is taken of the one whose place it takes.
BeginAttempt(a) ==
    /\ verdict = "none" /\ attempts[a].phase = "run" /\ MayBegin(a)
    /\ attempts' = [b \in Names |->
        IF b = a THEN [attempts[b] EXCEPT !.phase = "open"]
        ELSE IF b = current /\ attempts[b].phase = "open" THEN Ended(attempts[b], "over") ELSE attempts[b]]
    /\ current' = a
    /\ UNCHANGED <<found, verdict, restarts>>

\* The exchange refuses it.
RefuseAttempt(a) ==
    /\ verdict = "none" /\ attempts[a].phase = "run" /\ ~MayBegin(a)
    /\ attempts' = [attempts EXCEPT ![a] = Ended(@, "over")]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* A row of it leaves.
SendDirectly(a) ==
    LET one == attempts[a] IN
    /\ one.phase = "open" /\ ~one.isLost /\ one.way + one.taken < Rows
    /\ attempts' = [attempts EXCEPT ![a].way = @ + 1]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* The exchange takes a row that has come, and a reader may have it at once.
TakeDirectly(a) ==
    /\ verdict = "none" /\ attempts[a].phase = "open" /\ attempts[a].way > 0
    /\ attempts' = [attempts EXCEPT ![a] = [@ EXCEPT !.way = @ - 1, !.taken = @ + 1]]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* All of its rows were taken, and it hears of it.
EndSending(a) ==
    /\ attempts[a].phase = "open" /\ ~attempts[a].isLost /\ attempts[a].taken = Rows
    /\ attempts' = [attempts EXCEPT ![a] = Ended(@, "ended")]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* The exchange learns that it is lost.
NoticeSending(a) ==
    /\ attempts[a].isLost
    /\ attempts' = [attempts EXCEPT ![a] = Ended(@, "over")]
    /\ UNCHANGED <<current, found, verdict, restarts>>

\* The scheduler counts this attempt: if the exchange has taken other rows, or may have, the channel breaks.
CommitJob(a) ==
    /\ verdict = "none" /\ attempts[a].phase = "ended"
    /\ verdict' = IF found = 0 /\ Taken = Rows /\ \A b \in Names : attempts[b].phase # "open"
                  THEN "whole" ELSE "broken"
    /\ UNCHANGED <<current, found, restarts, attempts>>

\* The job has ended.
Done == verdict # "none" /\ UNCHANGED vars

Environment ==
    \/ Done
    \/ \E a \in Names : RunAttempt(a)
    \/ \E a \in Names : LoseSending(a)
    \/ ForgetAttempts
    \/ GiveUpJob

Protocol ==
    \/ \E a \in Names : BeginAttempt(a)
    \/ \E a \in Names : RefuseAttempt(a)
    \/ \E a \in Names : SendDirectly(a)
    \/ \E a \in Names : TakeDirectly(a)
    \/ \E a \in Names : EndSending(a)
    \/ \E a \in Names : NoticeSending(a)
    \/ \E a \in Names : CommitJob(a)

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ {found, restarts} \subseteq Nat /\ current \in 0 .. Attempts /\ verdict \in {"none", "whole", "broken"}
    /\ \A a \in Names :
        /\ attempts[a].phase \in {"new", "run", "open", "ended", "over"} /\ attempts[a].isLost \in BOOLEAN
        /\ {attempts[a].way, attempts[a].taken} \subseteq Nat /\ attempts[a].way + attempts[a].taken <= Rows
        /\ attempts[a].way = 0 \/ attempts[a].phase = "open"

\* Rows of one attempt at most were taken.
OneAttempt == \A a \in Names : attempts[a].taken = 0 \/ current = a

\* Rows of an attempt that is not the first are taken only if none of an earlier one are in the channel.
NoneTwice == \A a \in Names : attempts[a].taken = 0 \/ a = 1 \/ found = 0

\* Readers that come to a clean end have each row of the task once.
WholeOnce == verdict # "whole" \/ (found = 0 /\ Taken = Rows)

\* False: only rows of the first attempt are taken.
SecondAttemptProbe == \A a \in Names : a = 1 \/ attempts[a].taken = 0
=============================================================================
