-------------------------------- MODULE Staging --------------------------------
(***************************************************************************)
(* A query publishes what its tasks have staged: one attempt of each task, *)
(* all or none, once, whichever attempts, drivers and orders there were.   *)
(*                                                                         *)
(*   driver --StartAttempt--> attempt --OpenAttempt, EndAttempt--> staged  *)
(*          <--------HearAttempt------                                     *)
(*          --PrepareBatch--> prepared                                     *)
(*          --DecideBatch--> decision --PublishBatch--> published          *)
(*                                                                         *)
(* Each attempt has a name that no other one has had or will have.  A task *)
(* is run again if its attempt is lost, and perhaps beside an attempt that *)
(* is slow.  The driver names, for each task, the first attempt of which   *)
(* it has heard.  An exchange publishes what is named at it all together;  *)
(* all else at that batch, or an older one, is late: its rows are dropped. *)
(*                                                                         *)
(* Where the tasks of a batch lie at several exchanges, each of them first *)
(* prepares what is named at it, which does not expire any more.  Then the *)
(* driver writes down what it names, before the first one publishes.  A    *)
(* driver that finds such a decision carries it out before it runs         *)
(* anything.                                                               *)
(*                                                                         *)
(* A task here is a part: the rows of one partition for one channel.       *)
(* Source: Apache Spark: task attempts, speculation, commit and abort of a *)
(* writer; two-phase commit: prepared participants, a coordinator's log.   *)
(* Not modelled: rows and room; exchanges that lose what was staged; an    *)
(* order to prepare that comes late, which only delays that rows expire;   *)
(* that a channel is removed or ended by force; two drivers at a time, of  *)
(* which Spark allows none.                                                *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Tasks,        \* tasks of each batch
    Attempts,     \* attempts that are started at most
    Batches,      \* batches of the query
    Exchanges,    \* exchanges at which the tasks lie, in turn
    Faults,       \* attempts, drivers and staged rows that are lost, and second attempts beside a first, at most
    Expires,      \* may an exchange forget what is staged: after a long silence, or as its channel is removed or ended?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Tasks, Attempts, Batches, Exchanges} \subseteq Nat \ {0} /\ Faults \in Nat
    /\ Expires \in BOOLEAN
    /\ Fair \subseteq {"StartAttempt", "OpenAttempt", "EndAttempt", "HearAttempt", "PrepareBatch", "DecideBatch",
                      "PublishBatch", "ForgetDecision", "FinishBatch", "RestartDriver"}

VARIABLES
    phase,        \* what the driver is at: "running", "publishing", "recovering", "down"
    run,          \* how many drivers there were
    batch,        \* that is run now: those before it are in the commit log
    begun,        \* attempts that were started; the number of the newest one is its name
    decided,      \* the batch of the decision that is written down; 0: there is none
    late,         \* the batch of an order to publish that is on its way from a dead driver; 0: there is none
    faults,       \* so far
    tasks,        \* of each: where it lies, and which attempt is named; 0: none
    attempts,     \* of each: whose it is, and how far it has come
    published     \* of each exchange: the last batch that it has published

vars == <<phase, run, batch, begun, decided, late, faults, tasks, attempts, published>>

TaskNames == 1 .. Tasks

AttemptNames == 1 .. Attempts

Homes == 1 .. Exchanges

Before(t) ==
    [home    |-> ((t - 1) % Exchanges) + 1,    \* its exchange
     chosen  |-> 0,      \* by the driver that runs now
     decided |-> 0,      \* by the decision
     late    |-> 0]      \* by the order that is on its way from a dead driver

NotBegun == [task |-> 0, batch |-> 0, run |-> 0, phase |-> "none"]

Init ==
    /\ phase = "running" /\ run = 1 /\ batch = 1 /\ begun = 0 /\ decided = 0 /\ late = 0 /\ faults = 0
    /\ tasks = [t \in TaskNames |-> Before(t)]
    /\ attempts = [a \in AttemptNames |-> NotBegun]
    /\ published = [e \in Homes |-> 0]

Fails == faults < Faults /\ faults' = faults + 1

Home(one) == tasks[one.task].home

\* Are its rows in an exchange, and belong to nothing yet?
IsStaged(one) == one.phase \in {"open", "ended", "prepared"}

\* Is it at a task that is run now, and may the driver still hear of it?
IsAlive(one, t) == one.task = t /\ one.run = run /\ one.batch = batch /\ one.phase # "forgotten"

SomeAlive(t) == \E a \in AttemptNames : IsAlive(attempts[a], t)

Start(t) ==
    /\ phase = "running" /\ batch <= Batches /\ begun < Attempts
    /\ begun' = begun + 1
    /\ attempts' = [attempts EXCEPT ![begun + 1] = [task |-> t, batch |-> batch, run |-> run, phase |-> "started"]]
    /\ UNCHANGED <<phase, run, batch, decided, late, tasks, published>>

Moved(a, to) ==
    /\ attempts' = [attempts EXCEPT ![a].phase = to]
    /\ UNCHANGED <<phase, run, batch, begun, decided, late, tasks, published>>

\* Of each task the attempt that an order names: "chosen", "decided" or "late".
Named(order, t) == tasks[t][order]

IsThere(e, order) ==
    \A t \in TaskNames : tasks[t].home = e => attempts[Named(order, t)].phase \in {"ended", "prepared"}

AllChosen == \A t \in TaskNames : tasks[t].chosen # 0

\* Is what the driver names of it prepared, or was its batch published?
IsReady(t) == published[tasks[t].home] >= batch \/ attempts[tasks[t].chosen].phase = "prepared"

\* What is named becomes published, and what else is staged for this batch or an older one is late.
Publishing(e, number, order) ==
    /\ published' = [published EXCEPT ![e] = number]
    /\ attempts' = [a \in AttemptNames |->
           LET one == attempts[a] IN
           IF ~IsStaged(one) \/ Home(one) # e \/ one.batch > number THEN one
           ELSE IF Named(order, one.task) = a THEN [one EXCEPT !.phase = "published"]
           ELSE [one EXCEPT !.phase = "late"]]

\* The driver's order, with the batch and the names that it has.
Order == IF phase = "recovering" THEN "decided" ELSE "chosen"

Ordered == IF phase = "recovering" THEN decided ELSE batch

IsPublished(number) == \A e \in Homes : published[e] >= number

-----------------------------------------------------------------------------
(* The driver.                                                             *)

\* A task is run, or run again: nobody is at it.
StartAttempt(t) ==
    /\ ~SomeAlive(t) /\ tasks[t].chosen = 0
    /\ Start(t)
    /\ UNCHANGED faults

\* The driver hears that an attempt has ended, the first one of its task.
HearAttempt(a) ==
    LET one == attempts[a] IN
    /\ phase = "running" /\ one.phase \in {"ended", "late"} /\ one.run = run /\ one.batch = batch
    /\ tasks[one.task].chosen = 0
    /\ tasks' = [tasks EXCEPT ![one.task].chosen = a]
    /\ UNCHANGED <<phase, run, batch, begun, decided, late, faults, attempts, published>>

\* All tasks are done: of several exchanges each keeps what is named at it from now on, though it hears nothing for
\* long.  If that is not there, the query fails, and can be run again.
PrepareBatch(e) ==
    /\ phase = "running" /\ Exchanges > 1 /\ AllChosen
    /\ \E t \in TaskNames : tasks[t].home = e /\ ~IsReady(t)
    /\ IF IsThere(e, "chosen")
       THEN /\ attempts' = [a \in AttemptNames |->
                   LET one == attempts[a] IN
                   IF one.phase = "ended" /\ Home(one) = e /\ tasks[one.task].chosen = a
                   THEN [one EXCEPT !.phase = "prepared"] ELSE one]
            /\ UNCHANGED phase
       ELSE phase' = "down" /\ UNCHANGED attempts
    /\ UNCHANGED <<run, batch, begun, decided, late, faults, tasks, published>>

\* What is named now stands: for several exchanges, which have prepared it, it is written down.
DecideBatch ==
    /\ phase = "running" /\ batch <= Batches /\ AllChosen
    /\ Exchanges > 1 => \A t \in TaskNames : IsReady(t)
    /\ phase' = "publishing"
    /\ decided' = IF Exchanges > 1 THEN batch ELSE 0
    /\ tasks' = IF Exchanges > 1 THEN [t \in TaskNames |-> [tasks[t] EXCEPT !.decided = tasks[t].chosen]] ELSE tasks
    /\ UNCHANGED <<run, batch, begun, late, faults, attempts, published>>

\* An exchange publishes what is named at it: at once, and once.  If that is not there, the query fails, and can be run
\* again.
PublishBatch(e) ==
    /\ phase \in {"publishing", "recovering"}
    /\ IF published[e] >= Ordered
       THEN UNCHANGED <<phase, published, attempts>>
       ELSE IF IsThere(e, Order)
       THEN Publishing(e, Ordered, Order) /\ UNCHANGED phase
       ELSE phase' = "down" /\ UNCHANGED <<published, attempts>>
    /\ UNCHANGED <<run, batch, begun, decided, late, faults, tasks>>

\* Each exchange has published what was decided.
ForgetDecision ==
    /\ phase \in {"publishing", "recovering"} /\ decided # 0 /\ IsPublished(decided)
    /\ decided' = 0
    /\ tasks' = [t \in TaskNames |-> [tasks[t] EXCEPT !.decided = 0]]
    /\ phase' = IF phase = "recovering" THEN "running" ELSE phase
    /\ UNCHANGED <<run, batch, begun, late, faults, attempts, published>>

\* The batch is in the commit log.
FinishBatch ==
    /\ phase = "publishing" /\ decided = 0 /\ IsPublished(batch)
    /\ batch' = batch + 1
    /\ tasks' = [t \in TaskNames |-> [tasks[t] EXCEPT !.chosen = 0]]
    /\ phase' = "running"
    /\ UNCHANGED <<run, begun, decided, late, faults, attempts, published>>

\* A driver starts: it carries out what was decided, or runs the batch, perhaps again.
RestartDriver ==
    /\ phase = "down"
    /\ run' = run + 1
    /\ tasks' = [t \in TaskNames |-> [tasks[t] EXCEPT !.chosen = 0]]
    /\ phase' = IF decided = 0 THEN "running" ELSE "recovering"
    /\ UNCHANGED <<batch, begun, decided, late, faults, attempts, published>>

-----------------------------------------------------------------------------
(* An attempt, and the exchange at which its task lies.                    *)

\* It begins to stage; what comes after its batch was published is late.
OpenAttempt(a) ==
    /\ attempts[a].phase = "started"
    /\ Moved(a, IF attempts[a].batch <= published[Home(attempts[a])] THEN "late" ELSE "open")
    /\ UNCHANGED faults

\* All of its rows are there.
EndAttempt(a) ==
    /\ attempts[a].phase = "open"
    /\ Moved(a, "ended")
    /\ UNCHANGED faults

-----------------------------------------------------------------------------
(* What goes wrong.                                                        *)

\* Another attempt begins beside one that is slow, or whose executor is lost.
SpeculateAttempt(t) ==
    /\ SomeAlive(t)
    /\ Start(t)
    /\ Fails

\* Its stream breaks off: what it has staged is given back.
LoseAttempt(a) ==
    /\ attempts[a].phase \in {"started", "open"}
    /\ Moved(a, "forgotten")
    /\ Fails

\* The abort of a driver that has failed, perhaps long ago, names it.  A decided one is never named.
DiscardAttempt(a) ==
    LET one == attempts[a] IN
    /\ IsStaged(one) /\ (one.run < run \/ phase = "down") /\ tasks[one.task].decided # a
    /\ Moved(a, "forgotten")
    /\ UNCHANGED faults

\* Nothing was heard for long: an exchange where no attempt goes on forgets what is staged and not prepared.
ExpireAttempts(e) ==
    /\ Expires
    /\ \A a \in AttemptNames : attempts[a].phase = "open" => Home(attempts[a]) # e
    /\ \E a \in AttemptNames : attempts[a].phase = "ended" /\ Home(attempts[a]) = e
    /\ attempts' = [a \in AttemptNames |->
           IF attempts[a].phase = "ended" /\ Home(attempts[a]) = e
           THEN [attempts[a] EXCEPT !.phase = "forgotten"] ELSE attempts[a]]
    /\ Fails
    /\ UNCHANGED <<phase, run, batch, begun, decided, late, tasks, published>>

\* The channel of a task is removed, or ended, by an order from outside: what is staged for it is forgotten.  While some
\* of it is prepared, the order is refused: other exchanges may publish the rest of the batch.
RemoveChannel(t) ==
    /\ Expires
    /\ \A a \in AttemptNames : attempts[a].task = t => attempts[a].phase # "prepared"
    /\ \E a \in AttemptNames : attempts[a].task = t /\ IsStaged(attempts[a])
    /\ attempts' = [a \in AttemptNames |->
           IF attempts[a].task = t /\ IsStaged(attempts[a])
           THEN [attempts[a] EXCEPT !.phase = "forgotten"] ELSE attempts[a]]
    /\ Fails
    /\ UNCHANGED <<phase, run, batch, begun, decided, late, tasks, published>>

\* The driver dies.  An order to publish may be on its way; of two such orders, the earlier one is lost.
CrashDriver ==
    /\ phase \in {"running", "publishing", "recovering"} /\ batch <= Batches
    /\ phase' = "down"
    /\ late' = IF phase = "running" THEN late ELSE Ordered
    /\ tasks' = IF phase = "running" THEN tasks ELSE [t \in TaskNames |-> [tasks[t] EXCEPT !.late = Named(Order, t)]]
    /\ Fails
    /\ UNCHANGED <<run, batch, begun, decided, attempts, published>>

\* That order arrives, at any time; nobody hears the answer.
PublishLateOrder(e) ==
    /\ late # 0 /\ published[e] < late /\ IsThere(e, "late")
    /\ Publishing(e, late, "late")
    /\ UNCHANGED <<phase, run, batch, begun, decided, late, faults, tasks>>

\* All batches are in the commit log.
Done == batch > Batches /\ UNCHANGED vars

Environment ==
    \/ Done
    \/ \E t \in TaskNames : SpeculateAttempt(t)
    \/ \E a \in AttemptNames : LoseAttempt(a)
    \/ \E a \in AttemptNames : DiscardAttempt(a)
    \/ \E e \in Homes : ExpireAttempts(e)
    \/ \E t \in TaskNames : RemoveChannel(t)
    \/ CrashDriver
    \/ \E e \in Homes : PublishLateOrder(e)

Protocol ==
    \/ \E t \in TaskNames : StartAttempt(t)
    \/ \E a \in AttemptNames : OpenAttempt(a)
    \/ \E a \in AttemptNames : EndAttempt(a)
    \/ \E a \in AttemptNames : HearAttempt(a)
    \/ \E e \in Homes : PrepareBatch(e)
    \/ DecideBatch
    \/ \E e \in Homes : PublishBatch(e)
    \/ ForgetDecision \/ FinishBatch \/ RestartDriver

Next == Environment \/ Protocol

Fairness ==
    /\ "StartAttempt" \in Fair => WF_vars(\E t \in TaskNames : StartAttempt(t))
    /\ "OpenAttempt" \in Fair => WF_vars(\E a \in AttemptNames : OpenAttempt(a))
    /\ "EndAttempt" \in Fair => WF_vars(\E a \in AttemptNames : EndAttempt(a))
    /\ "HearAttempt" \in Fair => WF_vars(\E a \in AttemptNames : HearAttempt(a))
    /\ "PrepareBatch" \in Fair => WF_vars(\E e \in Homes : PrepareBatch(e))
    /\ "DecideBatch" \in Fair => WF_vars(DecideBatch)
    /\ "PublishBatch" \in Fair => WF_vars(\E e \in Homes : PublishBatch(e))
    /\ "ForgetDecision" \in Fair => WF_vars(ForgetDecision)
    /\ "FinishBatch" \in Fair => WF_vars(FinishBatch)
    /\ "RestartDriver" \in Fair => WF_vars(RestartDriver)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ phase \in {"running", "publishing", "recovering", "down"}
    /\ {run, batch} \subseteq Nat \ {0} /\ {faults, decided, late} \subseteq Nat
    /\ begun \in 0 .. Attempts /\ decided <= batch /\ late <= batch
    /\ \A t \in TaskNames :
        /\ tasks[t].home \in Homes
        /\ {tasks[t].chosen, tasks[t].decided, tasks[t].late} \subseteq 0 .. begun
    /\ \A a \in AttemptNames :
        /\ attempts[a].phase \in {"none", "started", "open", "ended", "prepared", "published", "late",
                                 "forgotten"}
        /\ IF a > begun THEN attempts[a] = NotBegun
           ELSE attempts[a].task \in TaskNames /\ attempts[a].batch \in 1 .. batch /\ attempts[a].run \in 1 .. run
    /\ \A e \in Homes : published[e] \in Nat

\* Of two attempts at the same, one at most is published.
PublishedOnce == \A a, b \in AttemptNames :
    (/\ a # b /\ attempts[a].phase = "published" /\ attempts[b].phase = "published"
     /\ attempts[a].task = attempts[b].task)
        => attempts[a].batch # attempts[b].batch

\* An exchange that has published a batch has published one attempt of each of its tasks.
PublishedWhole == \A t \in TaskNames : \A number \in 1 .. published[tasks[t].home] :
    \E a \in AttemptNames :
        attempts[a].phase = "published" /\ attempts[a].task = t /\ attempts[a].batch = number

\* All that is published of a batch was staged for the same driver, though others have run the batch again.
PublishedOfOneRun == \A a, b \in AttemptNames :
    (/\ attempts[a].phase = "published" /\ attempts[b].phase = "published"
     /\ attempts[a].batch = attempts[b].batch)
        => attempts[a].run = attempts[b].run

\* A batch is published at each exchange, or at none, or what was decided is there to be published.
AllOrNone == \A e, f \in Homes :
    published[e] < published[f] =>
        /\ decided = published[f] /\ published[e] = published[f] - 1
        /\ IsThere(e, "decided")

\* Batches are published one after the other, and those in the commit log are.
BatchesInOrder == \A e \in Homes : published[e] \in {batch - 1, batch}

\* What the driver is about to publish is there, unless the only exchange has forgotten it.
NamedIsThere == (phase \in {"publishing", "recovering"} /\ (Exchanges > 1 \/ ~Expires)) =>
    \A e \in Homes : published[e] >= Ordered \/ IsThere(e, Order)

\* Of a batch that was published nothing is staged any more.
GivenBack == \A a \in AttemptNames :
    IsStaged(attempts[a]) => attempts[a].batch > published[Home(attempts[a])]

\* False: rows that are published are those of the newest driver.
NewestRunProbe == \A a \in AttemptNames :
    (attempts[a].phase = "published" /\ attempts[a].batch = batch) => attempts[a].run = run

\* False: no batch that was published is run again.
NoRepetitionProbe == phase = "running" => \A e \in Homes : published[e] < batch

\* False: all exchanges have always published the same batches.
AtOnceProbe == \A e, f \in Homes : published[e] = published[f]

\* All is published at last.
AllPublished == <>(batch > Batches)
=============================================================================
