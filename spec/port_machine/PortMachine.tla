----------------------------- MODULE PortMachine -----------------------------
(***************************************************************************)
(* One connection between two stages of a stream that run in one island.   *)
(*                                                                         *)
(*     outlet  ---Push---> (an event) --- the inlet hears "element" ---Grab*)
(*             <--(an event)---Pull---   inlet                             *)
(*                                                                         *)
(* Calls do not run the other stage: they leave an event, and the island   *)
(* runs the events one by one (ProcessEvent).  One token goes round: the   *)
(* inlet is ready, a pull is on its way, the outlet is ready, an element is*)
(* on its way.  Either end may close at any moment.  The end of a stream   *)
(* does not overtake an element, nor does a failure; a cancellation drops  *)
(* it.  The rules are those of Pekko's GraphInterpreter.                   *)
(*                                                                         *)
(* Not modelled: several connections of a stage, supervision, asynchronous *)
(* callbacks.                                                              *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Failures,     \* may the outlet fail?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption == Failures \in BOOLEAN /\ Fair \subseteq {"ProcessEvent"}

VARIABLES
    token,        \* where the token is
    inlet,        \* "open", or what it has done or heard
    outlet,       \* "open", or what it has done or heard
    element,      \* elements on their way, or arrived and not grabbed
    events,       \* events of this connection that the island has still to run
    demand,       \* pulls without a push
    heard         \* what a stage was told by the last event

vars == <<token, inlet, outlet, element, events, demand, heard>>

Init ==
    /\ token = "InReady" /\ inlet = "open" /\ outlet = "open"
    /\ element = 0 /\ events = 0 /\ demand = 0 /\ heard = "nothing"

IsAtRest == token \in {"InReady", "OutReady"}

-----------------------------------------------------------------------------

\* The inlet asks; an element that was not grabbed is dropped.  A closed outlet is not told.
Pull ==
    /\ inlet = "open" /\ token = "InReady"
    /\ token' = "Pulling"
    /\ element' = 0
    /\ events' = IF outlet = "open" THEN events + 1 ELSE events
    /\ demand' = demand + 1
    /\ heard' = "nothing"
    /\ UNCHANGED <<inlet, outlet>>

\* The inlet takes the element that has arrived.
Grab ==
    /\ element > 0 /\ token = "InReady"
    /\ element' = element - 1
    /\ heard' = "nothing"
    /\ UNCHANGED <<token, inlet, outlet, events, demand>>

\* The inlet wants no more; an element is dropped.  No effect after the end.
Cancel ==
    /\ heard' = "nothing"
    /\ IF inlet = "open"
       THEN /\ inlet' = "cancelled"
            /\ element' = 0
            /\ events' = IF outlet = "open" /\ IsAtRest THEN events + 1 ELSE events
       ELSE UNCHANGED <<inlet, element, events>>
    /\ UNCHANGED <<token, outlet, demand>>

\* The outlet sends an element; a closed inlet is not told, and gets none.
Push ==
    /\ outlet = "open" /\ token = "OutReady"
    /\ token' = "Pushing"
    /\ demand' = demand - 1
    /\ IF inlet = "open"
       THEN element' = element + 1 /\ events' = events + 1
       ELSE UNCHANGED <<element, events>>
    /\ heard' = "nothing"
    /\ UNCHANGED <<inlet, outlet>>

CloseOutlet(how) ==
    /\ heard' = "nothing"
    /\ IF outlet = "open"
       THEN /\ outlet' = how
            /\ events' = IF inlet = "open" /\ IsAtRest THEN events + 1 ELSE events
       ELSE UNCHANGED <<outlet, events>>

\* The outlet ends the stream, behind an element on its way.  No effect on a closed outlet.
Complete ==
    /\ CloseOutlet("completed")
    /\ UNCHANGED <<token, inlet, element, demand>>

\* ... with an error.  Where the inlet is closed, nobody hears of it.
Fail ==
    /\ Failures
    /\ CloseOutlet(IF inlet = "open" THEN "failed" ELSE "completed")
    /\ UNCHANGED <<token, inlet, element, demand>>

\* Another connection.
OpenConnection ==
    /\ inlet # "open" /\ outlet # "open" /\ events = 0 /\ element = 0
    /\ token' = "InReady" /\ inlet' = "open" /\ outlet' = "open"
    /\ element' = 0 /\ events' = 0 /\ demand' = 0 /\ heard' = "nothing"

Arrival(next, word) ==
    /\ token' = next
    /\ heard' = word
    /\ events' = events - 1
    /\ UNCHANGED <<inlet, outlet, element, demand>>

\* Both ends are open: a pull or an element arrives.
StepOpen ==
    CASE token = "Pushing" -> Arrival("InReady", "element")
      [] token = "Pulling" -> Arrival("OutReady", "asked")
      [] OTHER -> Arrival(token, "nothing")

\* The outlet has ended the stream: first the element, in an event of its own.
StepEnded ==
    IF token = "Pushing"
    THEN /\ token' = "InReady"
         /\ heard' = "element"
         /\ UNCHANGED <<inlet, outlet, element, events, demand>>
    ELSE /\ inlet' = outlet
         /\ heard' = IF outlet = "failed" THEN "failure" ELSE "end"
         /\ events' = events - 1
         /\ UNCHANGED <<token, outlet, element, demand>>

\* The inlet has cancelled.
StepCancelled ==
    /\ outlet' = "cancelled"
    /\ heard' = "cancelled"
    /\ events' = events - 1
    /\ UNCHANGED <<token, inlet, element, demand>>

\* The island runs the next event.
ProcessEvent ==
    /\ events > 0
    /\ CASE inlet = "open" /\ outlet = "open" -> StepOpen
         [] inlet = "open" /\ outlet # "open" -> StepEnded
         [] inlet # "open" /\ outlet = "open" -> StepCancelled
         [] OTHER -> Arrival(token, "nothing")

Environment == Pull \/ Grab \/ Cancel \/ Push \/ Complete \/ Fail \/ OpenConnection

Protocol == ProcessEvent

Next == Environment \/ Protocol

Fairness == "ProcessEvent" \in Fair => WF_vars(ProcessEvent)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

\* There is at most one element, and at most one event.
TypeOK == element \in 0 .. 1 /\ events \in 0 .. 1

\* There is one demand while a pull is on its way or the outlet may push: each push answers one pull.
Demanded == demand = IF token \in {"Pulling", "OutReady"} THEN 1 ELSE 0

\* An element on its way to an open inlet is there, and the island will tell of it, even if the stream has ended.
NothingLost == (token = "Pushing" /\ inlet = "open") => (element = 1 /\ events = 1)

\* An open connection has an event if, and only if, something is on its way; no element is here beside a demand.
Quiet ==
    /\ inlet = "open" /\ outlet = "open" => events = IF IsAtRest THEN 0 ELSE 1
    /\ token \in {"Pulling", "OutReady"} => element = 0

\* When the inlet hears the end or a failure, no element is on its way.
NotOvertaken == inlet \in {"completed", "failed"} => token # "Pushing"

\* Where one end has closed and the other does not know, the island will tell it.
CloseReported == ((inlet = "open") = (outlet = "open")) \/ events = 1

\* The inlet hears what the outlet did; the outlet hears a cancellation only if there was one.
EndsMatch ==
    /\ inlet \in {"completed", "failed"} => outlet = inlet
    /\ outlet = "cancelled" => inlet = "cancelled"

\* When one end closes, the other one does, too.
BothClose == (inlet # "open" \/ outlet # "open") ~> (inlet # "open" /\ outlet # "open")

\* False: one end has closed before the other one knows.
ClosedAtOnceProbe == (inlet = "open") = (outlet = "open")

\* False: the stream ends while an element is on its way.
EndsBetweenElementsProbe == outlet = "completed" => token # "Pushing"
=============================================================================
