------------------------------ MODULE DropQueue ------------------------------
(***************************************************************************)
(* A queue of jobs that drops one when it is full.  A client whose job was *)
(* not served within Resend ticks sends it again; to serve the first one   *)
(* then is a waste, and feeds the overload.  Which job should give way?    *)
(*                                                                         *)
(* In each tick Arrivals jobs come, and then Services are served.  Any     *)
(* accepted job may be watched: its place in the queue and the time that   *)
(* it waits are known.  A job that waits behind others is served after     *)
(* them.  If the oldest is dropped, the others move up with each arrival,  *)
(* and no job that is served has waited longer than Capacity / Arrivals;   *)
(* otherwise it is Capacity / Services, which is more under overload.      *)
(*                                                                         *)
(* Source: the master of jobs in E. Varga's mail "back pressure", 2014,     *)
(* whose clients send again.                                               *)
(* Not modelled: workers one by one; a client that gives up.               *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Capacity,     \* jobs that wait at most
    Arrivals,     \* jobs that come in a tick
    Services,     \* jobs that are served in a tick, if so many wait
    Resend,       \* ticks after which a client that was not served sends its job again
    Drops         \* the job that a full queue drops: the "oldest", the "youngest" that waits, or the "incoming" one

ASSUME Assumption ==
    /\ {Capacity, Arrivals, Services, Resend} \subseteq Nat \ {0}
    /\ Drops \in {"oldest", "youngest", "incoming"}

VARIABLES
    size,         \* jobs that wait
    came,         \* jobs that have come in this tick
    served,       \* jobs that were served in this tick
    watched,      \* is a job of the queue watched?
    ahead,        \* jobs that wait ahead of it
    waited,       \* ticks since it came
    outdated      \* was a watched job served that had been sent again?

vars == <<size, came, served, watched, ahead, waited, outdated>>

Init ==
    /\ size = 0 /\ came = 0 /\ served = 0
    /\ watched = FALSE /\ ahead = 0 /\ waited = 0 /\ outdated = FALSE

\* Must more jobs come in this tick?
IsDueToArrive == came < Arrivals

\* Must more jobs be served in this tick, now that all of it have come?
IsDueToServe == ~IsDueToArrive /\ served < Services /\ size > 0

-----------------------------------------------------------------------------

\* Does the job that comes push the watched one out?
PushesOut ==
    /\ watched /\ size = Capacity
    /\ \/ Drops = "oldest" /\ ahead = 0
       \/ Drops = "youngest" /\ ahead = size - 1

\* A job comes; a full queue drops one.
Arrive ==
    /\ IsDueToArrive
    /\ came' = came + 1
    /\ size' = IF size < Capacity THEN size + 1 ELSE size
    /\ IF PushesOut
       THEN watched' = FALSE /\ ahead' = 0 /\ waited' = 0
       ELSE /\ ahead' = IF watched /\ size = Capacity /\ Drops = "oldest" THEN ahead - 1 ELSE ahead
            /\ UNCHANGED <<watched, waited>>
    /\ UNCHANGED <<served, outdated>>

\* A job comes that is watched from here on, as any other may be; it is let in.
ArriveWatched ==
    /\ ~watched /\ IsDueToArrive
    /\ size < Capacity \/ Drops # "incoming"
    /\ came' = came + 1
    /\ size' = IF size < Capacity THEN size + 1 ELSE size
    /\ watched' = TRUE
    /\ ahead' = size' - 1
    /\ UNCHANGED <<served, waited, outdated>>

\* Time passes: all jobs of the tick have come, and all that can be were served.
Tick ==
    /\ ~IsDueToArrive /\ ~IsDueToServe
    /\ came' = 0 /\ served' = 0
    /\ waited' = IF watched THEN waited + 1 ELSE 0
    /\ UNCHANGED <<size, watched, ahead, outdated>>

\* The oldest job is served; was it sent again meanwhile?
Serve ==
    /\ IsDueToServe
    /\ size' = size - 1
    /\ served' = served + 1
    /\ IF watched /\ ahead = 0
       THEN /\ watched' = FALSE /\ ahead' = 0 /\ waited' = 0
            /\ outdated' = (outdated \/ waited >= Resend)
       ELSE /\ ahead' = IF watched THEN ahead - 1 ELSE ahead
            /\ UNCHANGED <<watched, waited, outdated>>
    /\ UNCHANGED came

Environment == Arrive \/ ArriveWatched \/ Tick

Protocol == Serve

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ size \in 0 .. Capacity /\ came \in 0 .. Arrivals /\ served \in 0 .. Services
    /\ {ahead, waited} \subseteq Nat
    /\ served = 0 \/ came = Arrivals
    /\ IF watched THEN ahead < size ELSE ahead = 0 /\ waited = 0

\* No job is served that was sent again meanwhile.
Fresh == ~outdated

\* False: the queue is full.
NeverFullProbe == size < Capacity

\* False: jobs wait.
ServedAtOnceProbe == waited = 0
=============================================================================
