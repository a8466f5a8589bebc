----------------------------- MODULE BlockingEcho -----------------------------
(***************************************************************************)
(* A client that writes its whole request before it reads, and a server    *)
(* that sends back each element that it takes.                             *)
(*                                                                         *)
(*   client --Write--> [server's buffer] --Take--> [its hand] --Echo-->    *)
(*          [client's buffer] --Read--> client                             *)
(*                                                                         *)
(* Back-pressure alone makes it a deadlock: the client cannot write because *)
(* the server's buffer is full, the server cannot go on because the        *)
(* client's buffer is full, and the client does not read because it still  *)
(* writes.  This happens if and only if                                    *)
(*                                                                         *)
(*     Writes > ServerBuffer + Hand + ClientBuffer                         *)
(*                                                                         *)
(* and then in every run.  A client that reads meanwhile is never stuck.   *)
(*                                                                         *)
(* Source: E. Varga's mail "back pressure", 2014: 2,048 bytes against a     *)
(* buffer of 1,024.                                                        *)
(* Not modelled: what the elements are (a piece of a message is as good as *)
(* a whole one), and an answer longer or shorter than the request.         *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    Writes,          \* elements that the client writes
    ServerBuffer,    \* elements that the server's receive buffer takes
    Hand,            \* elements that the server has taken and not yet sent back, at most
    ClientBuffer,    \* elements that the client's receive buffer takes
    ReadsMeanwhile   \* does the client read while it writes?

ASSUME Assumption ==
    /\ {Writes, ServerBuffer} \subseteq Nat \ {0} /\ {Hand, ClientBuffer} \subseteq Nat
    /\ ReadsMeanwhile \in BOOLEAN

VARIABLES
    unwritten,       \* elements that the client has still to write
    server,          \* elements in the server's receive buffer
    hand,            \* elements in the server's hand
    client,          \* elements in the client's receive buffer, or handed to a read that waits for them
    read             \* elements that the client has read

vars == <<unwritten, server, hand, client, read>>

Init ==
    /\ unwritten = Writes
    /\ server = 0 /\ hand = 0 /\ client = 0 /\ read = 0

IsReading == ReadsMeanwhile \/ unwritten = 0

\* A client that reads has one place more, in the read that waits for an element.
Places == IF IsReading THEN ClientBuffer + 1 ELSE ClientBuffer

-----------------------------------------------------------------------------

\* The client writes an element; it waits while the server's buffer is full.
Write ==
    /\ unwritten > 0 /\ server < ServerBuffer
    /\ unwritten' = unwritten - 1
    /\ server' = server + 1
    /\ UNCHANGED <<hand, client, read>>

\* The server takes an element out of its buffer.
Take ==
    /\ server > 0 /\ hand < Hand
    /\ server' = server - 1
    /\ hand' = hand + 1
    /\ UNCHANGED <<unwritten, client, read>>

\* The server sends one back: from its hand, or from its buffer if it takes an element only when it can send it.
Echo ==
    /\ client < Places
    /\ IF Hand = 0
       THEN server > 0 /\ server' = server - 1 /\ hand' = hand
       ELSE hand > 0 /\ hand' = hand - 1 /\ server' = server
    /\ client' = client + 1
    /\ UNCHANGED <<unwritten, read>>

\* The client reads an element of the answer.
Read ==
    /\ IsReading /\ client > 0
    /\ client' = client - 1
    /\ read' = read + 1
    /\ UNCHANGED <<unwritten, server, hand>>

\* The client has its answer, and begins its next request.
BeginRequest ==
    /\ read = Writes
    /\ unwritten' = Writes
    /\ read' = 0
    /\ UNCHANGED <<server, hand, client>>

Environment == Write \/ Read \/ BeginRequest

Protocol == Take \/ Echo

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

TypeOK ==
    /\ unwritten \in 0 .. Writes /\ read \in 0 .. Writes
    /\ server \in 0 .. ServerBuffer /\ hand \in 0 .. Hand /\ client \in 0 .. Places

\* Each element of the request is somewhere, once.
Conservation == unwritten + server + hand + client + read = Writes

\* A client that blocks reads nothing before it has written everything.
ReadsLast == IsReading \/ read = 0

\* What goes round until the client reads: a longer request is never written to its end.
Fits == ReadsMeanwhile \/ Writes <= ServerBuffer + Hand + ClientBuffer

NeverWritten == Fits \/ unwritten > 0

\* Something moves.  Needs Fits.
NeverStuck == ENABLED Next

\* False: the client reads its whole answer.
NeverAnsweredProbe == read < Writes
=============================================================================
