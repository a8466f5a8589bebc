------------------------------ MODULE SharedPool ------------------------------
(***************************************************************************)
(* Channels that borrow permits from one pool, one by one, until a message *)
(* has what it costs, and give them back when it is consumed.  An end      *)
(* costs nothing; when the ends of all channels have been consumed, the    *)
(* next epoch begins.  Two channels that hold a part each may be stuck.    *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Channels,     \* how many there are
    Permits,      \* in the pool, to start with
    Largest       \* the most that a message costs

ASSUME Assumption == {Channels, Permits, Largest} \subseteq Nat \ {0}

VARIABLES
    channels,     \* the channels
    pool,         \* permits that nobody has
    epoch         \* of what is offered now, modulo 2

vars == <<channels, pool, epoch>>

Names == 1 .. Channels

Opened == [wanted |-> 0, borrowed |-> 0, ended |-> FALSE, wire |-> <<>>, blocked |-> FALSE]

Data(cost) == [kind |-> "data", cost |-> cost, epoch |-> epoch]

Ending == [kind |-> "end", cost |-> 0, epoch |-> epoch]

Init ==
    /\ channels = [c \in Names |-> Opened]
    /\ pool = Permits /\ epoch = 0

-----------------------------------------------------------------------------

\* The application wants to send a message that costs so much.
Offer(c, cost) ==
    /\ channels[c].wanted = 0 /\ ~channels[c].ended
    /\ channels' = [channels EXCEPT ![c].wanted = cost]
    /\ UNCHANGED <<pool, epoch>>

\* The application ends the epoch of a channel.
End(c) ==
    /\ channels[c].wanted = 0 /\ ~channels[c].ended
    /\ channels' = [channels EXCEPT ![c].ended = TRUE, ![c].wire = Append(@, Ending)]
    /\ UNCHANGED <<pool, epoch>>

\* One more permit for the message that waits.
Borrow(c) ==
    /\ pool > 0 /\ channels[c].borrowed < channels[c].wanted
    /\ pool' = pool - 1
    /\ channels' = [channels EXCEPT ![c].borrowed = @ + 1]
    /\ UNCHANGED epoch

\* The message has what it costs.
Send(c) ==
    /\ channels[c].wanted > 0 /\ channels[c].borrowed = channels[c].wanted
    /\ channels' = [channels EXCEPT ![c].wanted = 0, ![c].borrowed = 0,
                                    ![c].wire = Append(@, Data(channels[c].wanted))]
    /\ UNCHANGED <<pool, epoch>>

\* What a message has cost goes back to the pool.
Consume(c) ==
    /\ channels[c].wire # <<>> /\ Head(channels[c].wire).kind = "data"
    /\ pool' = pool + Head(channels[c].wire).cost
    /\ channels' = [channels EXCEPT ![c].wire = Tail(@)]
    /\ UNCHANGED epoch

\* The channel is blocked until the epochs of all channels have ended.
ConsumeEnd(c) ==
    /\ channels[c].wire # <<>> /\ Head(channels[c].wire).kind = "end"
    /\ channels' = [channels EXCEPT ![c].wire = Tail(@), ![c].blocked = TRUE]
    /\ UNCHANGED <<pool, epoch>>

\* The next epoch.
Align ==
    /\ \A c \in Names : channels[c].blocked
    /\ channels' = [c \in Names |-> [channels[c] EXCEPT !.ended = FALSE, !.blocked = FALSE]]
    /\ epoch' = (epoch + 1) % 2
    /\ UNCHANGED pool

Environment == \E c \in Names : (\E cost \in 1 .. Largest : Offer(c, cost)) \/ End(c)

Protocol == (\E c \in Names : Borrow(c) \/ Send(c) \/ Consume(c) \/ ConsumeEnd(c)) \/ Align

Next == Environment \/ Protocol

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------

RECURSIVE Sum(_)
Sum(costs) == IF costs = <<>> THEN 0 ELSE Head(costs) + Sum(Tail(costs))

Held(channel) == channel.borrowed + Sum([i \in DOMAIN channel.wire |-> channel.wire[i].cost])

Messages(wire) ==
    \A i \in DOMAIN wire :
        /\ wire[i].kind = "data" => wire[i].cost \in 1 .. Largest
        /\ wire[i].kind = "end" => wire[i].cost = 0

TypeOK ==
    /\ DOMAIN channels = Names /\ pool \in Nat /\ epoch \in {0, 1}
    /\ \A c \in Names :
        /\ channels[c].wanted \in 0 .. Largest /\ channels[c].borrowed \in 0 .. channels[c].wanted
        /\ Messages(channels[c].wire)

\* A channel that has ended wants nothing, and its end is on its way or has blocked it.
Ends ==
    \A c \in Names :
        /\ channels[c].ended => channels[c].wanted = 0
        /\ Len(SelectSeq(channels[c].wire, LAMBDA message : message.kind = "end"))
            = (IF channels[c].ended THEN 1 ELSE 0) - (IF channels[c].blocked THEN 1 ELSE 0)
        /\ channels[c].blocked => channels[c].wire = <<>>

\* No permit is made, none is lost.
Conservation == pool + Sum([c \in Names |-> Held(channels[c])]) = Permits

\* A message that waits can still be sent.  False: several channels may hold a part each.
NeverStuck == (\E c \in Names : channels[c].wanted > 0) => ENABLED Protocol

\* All that travels is of this epoch, and nothing travels behind an end.
InEpoch ==
    \A c \in Names : \A i \in DOMAIN channels[c].wire :
        /\ channels[c].wire[i].epoch = epoch
        /\ channels[c].wire[i].kind = "end" => i = Len(channels[c].wire)
=============================================================================
