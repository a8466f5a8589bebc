----------------------------- MODULE SharedWindow -----------------------------
(***************************************************************************)
(* A consumer with several inputs that aligns barriers, whose inputs are   *)
(* streams of one connection, as HTTP/2 has them: each stream has a window *)
(* of its own, and all share the window of the connection.  An input that  *)
(* is blocked by its barrier is not read; what it has received fills the   *)
(* connection's window, and the others wait (RisingWave's #4505).          *)
(*                                                                         *)
(* Not modelled: data behind a barrier one by one, bytes, the end of a     *)
(* stream.                                                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Inputs,       \* streams of the connection
    Connection,   \* messages that all streams together may have sent and the consumer has not read
    Stream,       \* ... and each stream
    Waiters       \* messages of a stream that may wait at once

ASSUME Assumption == {Inputs, Connection, Stream, Waiters} \subseteq Nat \ {0}

VARIABLES
    streams,      \* the inputs: Opened says what one consists of
    room          \* messages that the connection's window still admits

vars == <<streams, room>>

Names == 1 .. Inputs

Opened ==
    [waiting |-> <<>>,    \* messages that wait at the sender
     inbox   |-> <<>>,    \* messages sent, not yet read
     blocked |-> FALSE]   \* its barrier was read; others are awaited

Init ==
    /\ streams = [c \in Names |-> Opened]
    /\ room = Connection

-----------------------------------------------------------------------------

\* The application of an input wants to send data.
OfferData(c) ==
    /\ Len(streams[c].waiting) < Waiters
    /\ streams' = [streams EXCEPT ![c].waiting = Append(@, "data")]
    /\ UNCHANGED room

\* A barrier ends the epoch of an input.
OfferBarrier(c) ==
    /\ Len(streams[c].waiting) < Waiters
    /\ streams' = [streams EXCEPT ![c].waiting = Append(@, "barrier")]
    /\ UNCHANGED room

\* Both windows admit the oldest message.
Send(c) ==
    /\ streams[c].waiting # <<>> /\ Len(streams[c].inbox) < Stream /\ room > 0
    /\ room' = room - 1
    /\ streams' = [streams EXCEPT ![c].waiting = Tail(@), ![c].inbox = Append(@, Head(streams[c].waiting))]

\* Reading makes room in both windows; a barrier blocks its input.
Read(c) ==
    /\ streams[c].inbox # <<>> /\ ~streams[c].blocked
    /\ room' = room + 1
    /\ streams' = [streams EXCEPT ![c].inbox = Tail(@), ![c].blocked = Head(streams[c].inbox) = "barrier"]

\* All barriers have been read.
Align ==
    /\ \A c \in Names : streams[c].blocked
    /\ streams' = [c \in Names |-> [streams[c] EXCEPT !.blocked = FALSE]]
    /\ UNCHANGED room

Environment == (\E c \in Names : OfferData(c)) \/ (\E c \in Names : OfferBarrier(c))

Protocol == (\E c \in Names : Send(c)) \/ (\E c \in Names : Read(c)) \/ Align

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

RECURSIVE Sum(_)
Sum(numbers) == IF numbers = <<>> THEN 0 ELSE Head(numbers) + Sum(Tail(numbers))

TypeOK ==
    /\ DOMAIN streams = Names /\ room \in Nat
    /\ \A c \in Names : Len(streams[c].waiting) <= Waiters /\ Len(streams[c].inbox) <= Stream

\* Each message that is not read takes one place in the connection's window.
Conservation == room + Sum([c \in Names |-> Len(streams[c].inbox)]) = Connection

\* Where something waits and is not blocked, the protocol can move: if and only if Connection > (Inputs - 1) * Stream.
NeverStuck == (\E c \in Names : streams[c].waiting # <<>> /\ ~streams[c].blocked) => ENABLED Protocol

\* False: the window of the connection is used up.
RoomProbe == room > 0
=============================================================================
