---------------------------- MODULE LossyChannel ----------------------------
(***************************************************************************)
(* A channel over a network that loses, doubles and reorders messages.     *)
(*                                                                         *)
(*    sender                      network                   receiver       *)
(*    sent --Send, Retransmit-->  data  ---Deliver--> inbox --Consume-->   *)
(*    acked, limit <---Hear---- feedback <-Acknowledge- received, consumed *)
(*                                                                         *)
(* Data are numbered, from 0.  The receiver takes the number that is due   *)
(* and no other; all others are duplicates, or come after a gap.  Its      *)
(* feedback says which numbers it has, and up to which number the sender   *)
(* may send: consumed + Window.  Both are cumulative: the sender keeps the *)
(* largest that it has heard, so feedback that is lost, doubled or late    *)
(* does no harm.  What may have been lost is sent again: data that are not *)
(* acknowledged, and the last feedback.                                    *)
(*                                                                         *)
(* Each connection has an epoch, and each copy tells that of its own.      *)
(*                                                                         *)
(* With Cumulative = FALSE feedback grants permits to be added, as on a    *)
(* connection that loses nothing: a wrong design here.  With Epochs = FALSE *)
(* copies of an earlier connection count: another one.                     *)
(*                                                                         *)
(* The network is two queues of copies, and any copy can come to the head. *)
(*                                                                         *)
(* Source: Stenning's data transfer protocol (1976); cumulative limits:    *)
(* QUIC (RFC 9000, chapters 4 and 13.3).                                   *)
(* Not modelled: the time after which something is sent again; data that   *)
(* are kept beyond a gap; how a connection is made; numbers that wrap      *)
(* around.                                                                 *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Window,       \* data that the receiver has places for
    Total,        \* data that the application sends
    Copies,       \* the most copies in each direction of the network
    Cumulative,   \* does feedback tell a limit, of which the largest counts?  If not, permits to be added
    Retransmits,  \* are data sent again that are not acknowledged?
    Reminds,      \* is the last feedback sent again?
    Losses,       \* does the network lose copies?
    Duplicates,   \* does it double them?
    Reorders,     \* does it reorder them?
    Reconnects,   \* how often the two ends make a new connection
    Epochs,       \* does a copy tell of which connection it is?  If not, those of an earlier one count
    Fair          \* names of the actions that are strongly fair

ASSUME Assumption ==
    /\ {Window, Total, Copies} \subseteq Nat \ {0}
    /\ {Cumulative, Retransmits, Reminds, Losses, Duplicates, Reorders, Epochs} \subseteq BOOLEAN
    /\ Reconnects \in Nat
    /\ Fair \subseteq {"Send", "Retransmit", "Deliver", "Refuse", "Consume", "Acknowledge", "Remind", "Hear", "Ignore"}

VARIABLES
    sent,         \* data that were sent: the next number
    acked,        \* all data below this number have arrived, as far as the sender knows
    limit,        \* data below this number may be sent
    data,         \* numbers in the network
    feedback,     \* feedback in the network
    received,     \* data that arrived in order: the number that is due
    inbox,        \* numbers received, not yet consumed
    consumed,     \* data that the application has consumed
    unreturned,   \* consumed data whose permits are not under way; counted if permits are added
    due,          \* has the receiver something to tell?
    epoch         \* of the connection: those before it

vars == <<sent, acked, limit, data, feedback, received, inbox, consumed, unreturned, due, epoch>>

\* How far what is sent again may be behind the oldest number that is not acknowledged.
Offsets == 0 .. Window - 1

Max(a, b) == IF a >= b THEN a ELSE b

Init ==
    /\ sent = 0 /\ acked = 0 /\ limit = Window
    /\ data = <<>> /\ feedback = <<>>
    /\ received = 0 /\ inbox = <<>> /\ consumed = 0 /\ unreturned = 0 /\ due = FALSE
    /\ epoch = 0

\* What the receiver tells now.
Told == [ack |-> received, limit |-> IF Cumulative THEN consumed + Window ELSE unreturned]

\* The sender's limit after this feedback.
Raised(told) == IF Cumulative THEN Max(limit, told.limit) ELSE limit + told.limit

\* Does it tell the sender anything?
IsNews(told) == told.ack > acked \/ Raised(told) > limit

-----------------------------------------------------------------------------

\* The network loses its oldest copy,
LoseData ==
    /\ Losses /\ data # <<>>
    /\ data' = Tail(data)
    /\ UNCHANGED <<sent, acked, limit, feedback, received, inbox, consumed, unreturned, due, epoch>>

LoseFeedback ==
    /\ Losses /\ feedback # <<>>
    /\ feedback' = Tail(feedback)
    /\ UNCHANGED <<sent, acked, limit, data, received, inbox, consumed, unreturned, due, epoch>>

\* ... doubles it,
DuplicateData ==
    /\ Duplicates /\ data # <<>> /\ Len(data) < Copies
    /\ data' = Append(data, Head(data))
    /\ UNCHANGED <<sent, acked, limit, feedback, received, inbox, consumed, unreturned, due, epoch>>

DuplicateFeedback ==
    /\ Duplicates /\ feedback # <<>> /\ Len(feedback) < Copies
    /\ feedback' = Append(feedback, Head(feedback))
    /\ UNCHANGED <<sent, acked, limit, data, received, inbox, consumed, unreturned, due, epoch>>

\* ... or lets all others overtake it.
ReorderData ==
    /\ Reorders /\ Len(data) > 1
    /\ data' = Append(Tail(data), Head(data))
    /\ UNCHANGED <<sent, acked, limit, feedback, received, inbox, consumed, unreturned, due, epoch>>

ReorderFeedback ==
    /\ Reorders /\ Len(feedback) > 1
    /\ feedback' = Append(Tail(feedback), Head(feedback))
    /\ UNCHANGED <<sent, acked, limit, data, received, inbox, consumed, unreturned, due, epoch>>

\* The ends make a new connection, and begin anew: one of them has stopped, or has given the other one up.  A copy of an
\* earlier connection is dropped wherever it arrives; so it may as well be lost at once.  Likewise what an end still sends
\* on the earlier one, because it has not noticed.
Reconnect ==
    /\ epoch < Reconnects
    /\ epoch' = epoch + 1
    /\ sent' = 0 /\ acked' = 0 /\ limit' = Window
    /\ received' = 0 /\ inbox' = <<>> /\ consumed' = 0 /\ unreturned' = 0 /\ due' = FALSE
    /\ data' = IF Epochs THEN <<>> ELSE data
    /\ feedback' = IF Epochs THEN <<>> ELSE feedback

\* The next number leaves.
Send ==
    /\ sent < limit /\ sent < Total /\ Len(data) < Copies
    /\ data' = Append(data, sent)
    /\ sent' = sent + 1
    /\ UNCHANGED <<acked, limit, feedback, received, inbox, consumed, unreturned, due, epoch>>

\* A number that is not acknowledged leaves again; behind 0, the oldest one.
Retransmit(behind) ==
    /\ Retransmits /\ acked + behind < sent /\ Len(data) < Copies
    /\ data' = Append(data, acked + behind)
    /\ UNCHANGED <<sent, acked, limit, feedback, received, inbox, consumed, unreturned, due, epoch>>

\* The number arrives that is due.
Deliver ==
    /\ data # <<>> /\ Head(data) = received
    /\ data' = Tail(data)
    /\ inbox' = Append(inbox, Head(data))
    /\ received' = received + 1
    /\ due' = TRUE
    /\ UNCHANGED <<sent, acked, limit, feedback, consumed, unreturned, epoch>>

\* Another number arrives: it is dropped, and what has arrived is acknowledged again, because that may have been lost.
Refuse ==
    /\ data # <<>> /\ Head(data) # received
    /\ data' = Tail(data)
    /\ due' = TRUE
    /\ UNCHANGED <<sent, acked, limit, feedback, received, inbox, consumed, unreturned, epoch>>

\* The application has consumed the oldest number.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ consumed' = consumed + 1
    /\ unreturned' = IF Cumulative THEN 0 ELSE unreturned + 1
    /\ due' = TRUE
    /\ UNCHANGED <<sent, acked, limit, data, feedback, received, epoch>>

\* The receiver tells what has arrived, and what may be sent.
Acknowledge ==
    /\ due /\ Len(feedback) < Copies
    /\ feedback' = Append(feedback, Told)
    /\ unreturned' = 0
    /\ due' = FALSE
    /\ UNCHANGED <<sent, acked, limit, data, received, inbox, consumed, epoch>>

\* After a time-out the receiver tells it again: the last feedback may have been lost.
Remind ==
    /\ Reminds /\ ~due
    /\ due' = TRUE
    /\ UNCHANGED <<sent, acked, limit, data, feedback, received, inbox, consumed, unreturned, epoch>>

\* Feedback arrives that tells the sender something.
Hear ==
    /\ feedback # <<>> /\ IsNews(Head(feedback))
    /\ acked' = Max(acked, Head(feedback).ack)
    /\ limit' = Raised(Head(feedback))
    /\ feedback' = Tail(feedback)
    /\ UNCHANGED <<sent, data, received, inbox, consumed, unreturned, due, epoch>>

\* Feedback arrives that tells nothing: it is late, or doubled.
Ignore ==
    /\ feedback # <<>> /\ ~IsNews(Head(feedback))
    /\ feedback' = Tail(feedback)
    /\ UNCHANGED <<sent, acked, limit, data, received, inbox, consumed, unreturned, due, epoch>>

\* Everything is consumed and acknowledged, and nothing is under way: the run has ended.
Done ==
    /\ consumed = Total /\ acked = Total /\ data = <<>> /\ feedback = <<>> /\ ~due
    /\ UNCHANGED vars

Environment ==
    \/ Done
    \/ LoseData \/ LoseFeedback
    \/ DuplicateData \/ DuplicateFeedback
    \/ ReorderData \/ ReorderFeedback
    \/ Reconnect

Protocol ==
    \/ Send \/ (\E behind \in Offsets : Retransmit(behind)) \/ Deliver \/ Refuse \/ Consume
    \/ Acknowledge \/ Remind \/ Hear \/ Ignore

Next == Environment \/ Protocol

\* The network is fair: what is sent again and again arrives.  So what is news is strongly fair, apart from what is not.
Fairness ==
    /\ "Send" \in Fair => SF_vars(Send)
    /\ "Retransmit" \in Fair => SF_vars(Retransmit(0))
    /\ "Deliver" \in Fair => SF_vars(Deliver)
    /\ "Refuse" \in Fair => SF_vars(Refuse)
    /\ "Consume" \in Fair => SF_vars(Consume)
    /\ "Acknowledge" \in Fair => SF_vars(Acknowledge)
    /\ "Remind" \in Fair => SF_vars(Remind)
    /\ "Hear" \in Fair => SF_vars(Hear)
    /\ "Ignore" \in Fair => SF_vars(Ignore)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ {sent, acked, limit, received, consumed, unreturned} \subseteq Nat
    /\ sent <= Total /\ due \in BOOLEAN /\ epoch \in 0 .. Reconnects
    /\ \A i \in DOMAIN data : data[i] \in Nat
    /\ \A i \in DOMAIN inbox : inbox[i] \in Nat
    /\ \A i \in DOMAIN feedback : feedback[i].ack \in Nat /\ feedback[i].limit \in Nat

\* Nobody knows of data that were not sent, or of arrivals that did not happen.
NothingInvented ==
    /\ acked <= received /\ received <= sent
    /\ \A i \in DOMAIN data : data[i] < sent
    /\ \A i \in DOMAIN feedback : feedback[i].ack <= received

\* The sender never goes beyond its limit, and no limit beyond the receiver's places.  Only for cumulative limits.
LimitGranted ==
    /\ sent <= limit /\ limit <= consumed + Window
    /\ \A i \in DOMAIN feedback : feedback[i].limit <= consumed + Window

\* The inbox holds the numbers from consumed to received: none is lost, doubled or overtaken.
InOrder ==
    /\ received = consumed + Len(inbox)
    /\ \A i \in DOMAIN inbox : inbox[i] = consumed + i - 1

\* Whatever may still arrive has a place.
Bounded == sent - consumed <= Window

\* A sender that may not send, and whose data are all consumed and acknowledged, will be told that it may send more.
NeverStarved ==
    (sent < Total /\ sent = limit /\ acked = sent /\ consumed = sent /\ data = <<>> /\ feedback = <<>>)
        => IF Cumulative THEN due \/ Reminds ELSE unreturned > 0

\* Everything is consumed.
EverythingConsumed == <>(consumed = Total)

\* ... and the sender hears of it: nothing is sent again any more.
EverythingAcknowledged == <>(acked = Total)

\* False: data are sent again though they have arrived.
NoDuplicateProbe == \A i \in DOMAIN data : data[i] >= received

\* False: a number arrives that is not due yet.
NoGapProbe == data # <<>> => Head(data) <= received

\* False: an old limit arrives after a newer one.
NoLateLimitProbe == \A i \in DOMAIN feedback : feedback[i].limit >= limit
=============================================================================
