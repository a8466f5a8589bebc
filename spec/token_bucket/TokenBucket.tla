----------------------------- MODULE TokenBucket -----------------------------
(***************************************************************************)
(* A throttle.  Each Period ticks a token comes; the bucket keeps no more  *)
(* than Capacity of them.  An element takes as many as it costs.  If some  *)
(* are missing it waits for them, and no other element may come; Period is *)
(* thus kept on average, and Capacity bounds a burst.                      *)
(*                                                                         *)
(* Behind the throttle is a consumer that takes Period ticks for one       *)
(* token's worth.  It needs room for one burst, and for no more.  If it    *)
(* becomes slower than that, nothing tells the throttle: this is what a    *)
(* permit would do.                                                        *)
(*                                                                         *)
(* A window is any stretch of time: OpenWindow begins one.                 *)
(*                                                                         *)
(* Source: the token bucket of traffic shaping, as in Akka Streams'        *)
(* throttle.                                                               *)
(* Not modelled: several senders at one bucket.                            *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Capacity,     \* the most tokens that are kept
    Period,       \* ticks from one token to the next
    MaxCost,      \* the most tokens that an element takes; it may be more than are kept
    Room,         \* places of the consumer behind the throttle, in tokens' worth
    Window,       \* ticks of the longest window that is looked at
    Slowdowns     \* may the consumer become slower than the rate?

ASSUME Assumption ==
    /\ {Capacity, Room} \subseteq Nat
    /\ {Period, MaxCost, Window} \subseteq Nat \ {0}
    /\ Slowdowns \in BOOLEAN

VARIABLES
    level,        \* tokens in the bucket; below 0: tokens that are missing
    phase,        \* ticks since the last token came
    pending,      \* the cost of the element that waits; 0: none waits
    queue,        \* what the consumer has still to do, in tokens' worth
    slow,         \* has the consumer stopped?
    ticks,        \* ticks since the window began
    earned,       \* tokens that came in the window
    passed        \* the cost of what passed in the window

vars == <<level, phase, pending, queue, slow, ticks, earned, passed>>

Sizes == 1 .. MaxCost

Max(a, b) == IF a > b THEN a ELSE b

\* The most that passes at once.
LargestBurst == Max(Capacity, MaxCost)

Init ==
    /\ level = Capacity /\ phase = 0 /\ pending = 0
    /\ queue = 0 /\ slow = FALSE
    /\ ticks = 0 /\ earned = 0 /\ passed = 0

-----------------------------------------------------------------------------

\* An element comes: it takes its tokens, and waits for those that are missing.
TakeTokens(cost) ==
    /\ pending = 0
    /\ level' = level - cost
    /\ IF level >= cost
       THEN queue' = queue + cost /\ passed' = passed + cost /\ UNCHANGED pending
       ELSE pending' = cost /\ UNCHANGED <<queue, passed>>
    /\ UNCHANGED <<phase, slow, ticks, earned>>

\* Somebody begins to count what passes; a consumer that has stopped starts anew, with nothing to do.
OpenWindow ==
    /\ ticks' = 0 /\ earned' = 0 /\ passed' = 0
    /\ queue' = (IF slow THEN 0 ELSE queue)
    /\ slow' = FALSE
    /\ UNCHANGED <<level, phase, pending>>

\* The consumer stops.
SlowDown ==
    /\ Slowdowns /\ ~slow
    /\ slow' = TRUE
    /\ UNCHANGED <<level, phase, pending, queue, ticks, earned, passed>>

\* A token comes, and the consumer is done with one token's worth.
Token ==
    LET more == IF level < Capacity THEN level + 1 ELSE level
        left == IF queue > 0 /\ ~slow THEN queue - 1 ELSE queue
        passes == IF pending > 0 /\ more = 0 THEN pending ELSE 0
    IN  /\ level' = more
        /\ queue' = left + passes
        /\ passed' = passed + passes
        /\ pending' = pending - passes
        /\ earned' = earned + 1

\* Time passes.
Tick ==
    /\ ticks < Window
    /\ ticks' = ticks + 1
    /\ IF phase + 1 < Period
       THEN phase' = phase + 1 /\ UNCHANGED <<level, pending, queue, earned, passed>>
       ELSE phase' = 0 /\ Token
    /\ UNCHANGED slow

Environment == \E size \in Sizes : TakeTokens(size) \/ OpenWindow \/ SlowDown

Protocol == Tick

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ level \in -pending .. Capacity /\ phase \in 0 .. Period - 1 /\ pending \in 0 .. MaxCost
    /\ {queue, earned, passed} \subseteq Nat /\ ticks \in 0 .. Window

\* An element waits if, and only if, tokens are missing: none is held back longer than that.
WaitsForTokens == (pending > 0) = (level < 0)

\* In a window pass no more than the largest burst and the tokens of its ticks, rounded up.
InWindow == Period * (passed - LargestBurst) <= ticks + Period - 1

\* The consumer has room for what has passed.
Fits == queue <= Room

\* False: elements wait.
NothingWaitsProbe == pending = 0

\* False: there are bursts.
NoBurstProbe == Period * (passed - 1) <= ticks
=============================================================================
