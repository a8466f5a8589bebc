------------------------------ MODULE Conflate ------------------------------
(***************************************************************************)
(* A stage between a fast producer and a slow consumer, which never keeps  *)
(* the producer waiting: it adds up what comes while nobody asks, and      *)
(* gives the sum.  Single elements are gone; their number, sum and peak    *)
(* are exact, whatever the speeds.                                         *)
(*                                                                         *)
(* Source: conflate of Akka Streams and Pekko.                             *)
(* Not modelled: sums that overflow.                                       *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Elements,     \* elements that come, at most
    Largest       \* the largest element; the smallest is 0

ASSUME Assumption == Elements \in Nat \ {0} /\ Largest \in Nat

VARIABLES
    came,         \* the summary of what came
    held,         \* ... of what is held
    given,        \* ... of what was given to the consumer
    asked,        \* does the consumer wait for an element?
    completed,    \* is it known that no more elements come?
    ended         \* was the consumer told?

vars == <<came, held, given, asked, completed, ended>>

Sizes == 0 .. Largest

Nothing == [number |-> 0, total |-> 0, peak |-> 0]

Together(one, other) ==
    [number |-> one.number + other.number,
     total |-> one.total + other.total,
     peak |-> IF one.peak >= other.peak THEN one.peak ELSE other.peak]

Init ==
    /\ came = Nothing /\ held = Nothing /\ given = Nothing
    /\ asked = FALSE /\ completed = FALSE /\ ended = FALSE

-----------------------------------------------------------------------------

\* An element comes: the consumer gets it if it has asked; otherwise it is added to what is held.
Push(size) ==
    LET element == [number |-> 1, total |-> size, peak |-> size] IN
    /\ ~completed /\ came.number < Elements
    /\ came' = Together(came, element)
    /\ IF asked
       THEN given' = Together(given, element) /\ asked' = FALSE /\ UNCHANGED held
       ELSE held' = Together(held, element) /\ UNCHANGED <<given, asked>>
    /\ UNCHANGED <<completed, ended>>

\* The consumer asks: it is given all that is held, or the next element.
Pull ==
    /\ ~asked /\ ~ended
    /\ IF held.number > 0
       THEN given' = Together(given, held) /\ held' = Nothing /\ UNCHANGED asked
       ELSE asked' = TRUE /\ UNCHANGED <<held, given>>
    /\ UNCHANGED <<came, completed, ended>>

\* No more elements come.
Complete ==
    /\ ~completed
    /\ completed' = TRUE
    /\ UNCHANGED <<came, held, given, asked, ended>>

\* The consumer is told that nothing more comes, once nothing is held.
OnComplete ==
    /\ completed /\ ~ended /\ held.number = 0
    /\ ended' = TRUE
    /\ asked' = FALSE
    /\ UNCHANGED <<came, held, given, completed>>

\* Another stream.
OpenStream ==
    /\ ended
    /\ came' = Nothing /\ held' = Nothing /\ given' = Nothing
    /\ asked' = FALSE /\ completed' = FALSE /\ ended' = FALSE

Environment == (\E size \in Sizes : Push(size)) \/ Pull \/ Complete \/ OpenStream

Protocol == OnComplete

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ came.number <= Elements /\ {held.number, given.number} \subseteq Nat
    /\ {held.peak, given.peak} \subseteq Sizes
    /\ held.number > 0 \/ held = Nothing

\* What is given and what is held is exactly what came: in number, sum and peak.
Conservation == Together(given, held) = came

\* Nothing is held while somebody waits.
HeldForNobody == asked => held.number = 0

\* At the end everything was given.
AllGiven == ended => completed /\ given = came

\* False: elements are added up.
SingleElementsProbe == held.number <= 1
=============================================================================
