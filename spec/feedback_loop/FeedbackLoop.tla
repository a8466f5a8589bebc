----------------------------- MODULE FeedbackLoop -----------------------------
(***************************************************************************)
(* A loop of stages under back-pressure: a merge takes elements from       *)
(* outside and those that come back, and each stage takes an element only  *)
(* because the places behind it were asked for one.                        *)
(*                                                                         *)
(*   source --Feed--> [station 1] --HandOn--> ... [station n]              *)
(*                        ^                            |                   *)
(*                        +----------HandOn------------+                   *)
(*                                                                         *)
(* A station is a stage and the places behind it.  Its stage gives from    *)
(* `least` to `most` elements for one; data say how many.  What it gives   *)
(* beyond the places it keeps in its hand, and takes nothing meanwhile.    *)
(* Station 1 has the merge, too; elements come back from the last one.     *)
(* A copy of an element may leave the loop anywhere, to a sink that always *)
(* asks: it changes nothing here.                                          *)
(*                                                                         *)
(* - One element for one, fed from outside: the loop fills up, and is dead, *)
(*   whatever its size; so it is for a filter, on data that it lets pass.  *)
(* - More than one for one: dead without any feeding.                      *)
(* - Live: as long as one place stays free for each element that comes     *)
(*   back.  A merge that lets at most Permits elements in keeps it free; a *)
(*   merge that prefers what comes back, too, but it starves its source.   *)
(* - A station that drops what it has no place for is never full: live.    *)
(* - A zip with the source instead of the merge is a closed loop           *)
(*   (Permits = 0): each element from outside takes the place of one that  *)
(*   has come back.  It needs a first one.                                 *)
(*                                                                         *)
(* Source: cycles and deadlocks of Akka Streams' documentation.            *)
(* Not modelled: stages that take several elements for one, the end of the *)
(* stream, loops in loops.                                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Stations,     \* stations of the loop
    Places,       \* places of each station but the last
    BackPlaces,   \* places of the last station
    Least,        \* elements that the first station gives for one, at least; the others give one
    Most,         \* ... at most
    Start,        \* elements in the last station at the start
    Merge,        \* what it takes: "any" element, "preferred": from outside only if none has come back, or by "permits"
    Permits,      \* elements in the loop with which a merge by permits takes no more from outside
    Drops         \* does the last station drop what it has no place for?

ASSUME Assumption ==
    /\ {Stations, Places, BackPlaces, Most} \subseteq Nat \ {0} /\ {Least, Permits} \subseteq Nat /\ Least <= Most
    /\ Start \in 0 .. BackPlaces
    /\ Merge \in {"any", "preferred", "permits"} /\ Drops \in BOOLEAN

VARIABLES
    stations      \* the stations, from the merge on: Opened says what one consists of

vars == <<stations>>

Names == 1 .. Stations

Opened(i) ==
    [least  |-> IF i = 1 THEN Least ELSE 1,    \* elements that its stage gives for one, at least
     most   |-> IF i = 1 THEN Most ELSE 1,     \* ... at most
     places |-> IF i = Stations THEN BackPlaces ELSE Places,
     drops  |-> i = Stations /\ Drops,         \* does it drop what it has no place for?
     held   |-> IF i = Stations THEN Start ELSE 0]    \* elements that wait here, in the stage's hand included

Init == stations = [i \in Names |-> Opened(i)]

-----------------------------------------------------------------------------

RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

After(i) == IF i = Stations THEN 1 ELSE i + 1

\* Does a station ask for an element?
Takes(station) == station.drops \/ station.held < station.places

\* A station after its stage has taken an element and given so many.
Filled(station, given) ==
    LET held == station.held + given IN
    [station EXCEPT !.held = IF station.drops /\ held > station.places THEN station.places ELSE held]

\* May an element from outside come in, as far as the merge is concerned?
Admits ==
    CASE Merge = "any"       -> TRUE
      [] Merge = "preferred" -> stations[Stations].held = 0
      [] Merge = "permits"   -> Sum([i \in Names |-> stations[i].held]) < Permits

\* The merge takes an element from outside.
Feed ==
    /\ Admits /\ Takes(stations[1])
    /\ \E given \in stations[1].least .. stations[1].most : stations' = [stations EXCEPT ![1] = Filled(@, given)]

\* An element goes from a station through the stage of the next one, which has asked for it.
HandOn(i) ==
    /\ stations[i].held > 0 /\ Takes(stations[After(i)])
    /\ \E given \in stations[After(i)].least .. stations[After(i)].most :
        LET taken == [stations EXCEPT ![i].held = @ - 1] IN
        stations' = [taken EXCEPT ![After(i)] = Filled(@, given)]

Environment == Feed

Protocol == \E i \in Names : HandOn(i)

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ DOMAIN stations = Names
    /\ \A i \in Names :
        /\ {stations[i].places, stations[i].most} \subseteq Nat \ {0}
        /\ stations[i].least \in 0 .. stations[i].most
        /\ stations[i].held \in Nat
        /\ stations[i].held < stations[i].places + stations[i].most
        /\ stations[i].drops => stations[i].held <= stations[i].places

\* Some station asks for an element.
NeverFull == \E i \in Names : Takes(stations[i])

\* As long as elements are in the loop, one goes on.
NeverStuck == (\E i \in Names : stations[i].held > 0) => ENABLED Protocol

\* False: a loop that loses elements is empty some time.
NeverEmptyProbe == \E i \in Names : stations[i].held > 0
=============================================================================
