-------------------------------- MODULE Diamond --------------------------------
(***************************************************************************)
(* A broadcast into branches of unequal length, and a zip of all of them.  *)
(*                                                                         *)
(*                   +--> [hold 1] --> [places 1] --+                      *)
(*   --Broadcast-->  |                              |  --Zip-->            *)
(*                   +--> [hold n] --> [places n] --+                      *)
(*                                                                         *)
(* A branch gives nothing for its first `hold` elements, and then one for  *)
(* one: it drops them, fills a window with them, or delays.  So the        *)
(* elements of the others wait for it.  The zip itself has one place for   *)
(* an element of each branch; a buffer in the branch has more.             *)
(*                                                                         *)
(* It is live if and only if, for each branch,                             *)
(*                                                                         *)
(*     places > (the largest hold of all branches) - its hold              *)
(*                                                                         *)
(* that is, with a buffer for the difference of the holds.  Otherwise      *)
(* every run gets stuck before the first element comes out.                *)
(*                                                                         *)
(* Source: Akka's report of a diamond whose branches buffer differently.   *)
(* Not modelled: branches that give more or fewer elements than they take  *)
(* in the long run (these fill every buffer), the end of the stream.       *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Branches,     \* branches of the diamond
    Hold,         \* elements for which a branch gives nothing, but the first one
    Places,       \* ... places in it for what it gives, the one at the zip included
    FirstHold,    \* the same of the first branch
    FirstPlaces   \* likewise

ASSUME Assumption ==
    /\ {Branches, Places, FirstPlaces} \subseteq Nat \ {0} /\ {Hold, FirstHold} \subseteq Nat

VARIABLES
    branches      \* the branches: Opened says what one consists of

vars == <<branches>>

Names == 1 .. Branches

Opened(hold, places) ==
    [hold   |-> hold,      \* elements for which it gives nothing
     places |-> places,    \* ... for which it has places
     kept   |-> 0,         \* of its first elements, those that have come
     queue  |-> 0]         \* elements that wait at the zip

Init == branches = [i \in Names |-> IF i = 1 THEN Opened(FirstHold, FirstPlaces) ELSE Opened(Hold, Places)]

-----------------------------------------------------------------------------

\* A branch takes an element because it has a place for what it gives.
Accepts(branch) == branch.queue < branch.places

Accepted(branch) ==
    IF branch.kept < branch.hold THEN [branch EXCEPT !.kept = @ + 1] ELSE [branch EXCEPT !.queue = @ + 1]

Zipped(branch) == [branch EXCEPT !.queue = @ - 1]

\* All branches ask, and each gets the element.
Broadcast ==
    /\ \A i \in Names : Accepts(branches[i])
    /\ branches' = [i \in Names |-> Accepted(branches[i])]

\* One element of each branch goes out.
Zip ==
    /\ \A i \in Names : branches[i].queue > 0
    /\ branches' = [i \in Names |-> Zipped(branches[i])]

Environment == Broadcast

Protocol == Zip

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ DOMAIN branches = Names
    /\ \A i \in Names :
        /\ branches[i].places \in Nat \ {0}
        /\ branches[i].kept \in 0 .. branches[i].hold
        /\ branches[i].queue \in 0 .. branches[i].places
        /\ branches[i].queue = 0 \/ branches[i].kept = branches[i].hold

\* Elements in a branch.
Level(branch) == branch.kept + branch.queue

\* All branches have got as many elements, and given as many.
SameLevel == \A i \in Names : Level(branches[i]) = Level(branches[1])

\* Something moves.  Needs places for what the other branches hold more.
NeverStuck == ENABLED Next

\* False: what a branch gives waits for the others.
NeverWaitsProbe == \A i \in Names : branches[i].queue = 0
=============================================================================
