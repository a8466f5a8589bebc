------------------------------- MODULE Resume -------------------------------
(***************************************************************************)
(* A stream that survives its connections.  One end dials, the other one   *)
(* accepts; messages have no numbers, both ends count them.                *)
(*                                                                         *)
(*   sender                       connection                     receiver  *)
(*   sent --Send--> kept --WriteKept--> data --Deliver--> inbox --Consume  *)
(*   acked, returned <--Hear-- feedback <--Acknowledge, ReturnPermit--     *)
(*                                                                         *)
(* The sender keeps what the receiver has not acknowledged.  Each end may  *)
(* lose the connection alone, at any moment: nothing that was on its way   *)
(* to it arrives any more, and what the other end still writes is lost.    *)
(* Of what was on its way to the other end any beginning may arrive, until *)
(* that end notices, or accepts a newer connection.                        *)
(*                                                                         *)
(* The dialler dials again.  Its request says which attempt it is, and how *)
(* many messages the dialler has; the answer says how many the acceptor    *)
(* has.  Each sender goes on from there.  Requests travel on different     *)
(* connections, so an older one may come after a newer one: it is refused. *)
(*                                                                         *)
(* This is one direction of data; the other one is the same, with the      *)
(* roles of sender and receiver exchanged (SenderDials).  The permits are  *)
(* the messages of that other direction: one for each consumed message.    *)
(*                                                                         *)
(* Source: RSocket's resumption (positions of both ends), MQTT 5's session *)
(* (an acceptor that displaces the older connection).                      *)
(* Not modelled: how long an end waits before it dials or gives up; how a  *)
(* stream is known to be the same one: a request without its token is      *)
(* refused, and changes nothing; messages of several costs.                *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Window,       \* messages that may be sent and not be consumed
    Every,        \* the receiver acknowledges when it has so many messages that it has not acknowledged
    Total,        \* messages that the application sends
    Connections,  \* the most connections, with the first one: cuts stop
    SenderDials,  \* does the sender dial?  If not, the receiver does
    GoesOnFrom,   \* from where the sender goes on: the "position" that it is told; where it "stopped", or what is "acknowledged" are wrong designs
    Displaces,    \* does a newer connection displace the older one?  If not, what is on its way there still arrives
    GivesUp,      \* does an end without a connection give up, some time?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Window, Every, Total, Connections} \subseteq Nat \ {0}
    /\ {SenderDials, Displaces, GivesUp} \subseteq BOOLEAN
    /\ GoesOnFrom \in {"position", "stopped", "acknowledged"}
    /\ Fair \subseteq {"Send", "WriteKept", "Deliver", "Consume", "Acknowledge", "ReturnPermit", "Hear", "NoticeDialled",
                       "NoticeAccepted", "Dial", "Accept", "HearAnswer", "Decline", "GiveUpDialled", "GiveUpAccepted"}

VARIABLES
    dialled,      \* the number of the dialler's newest connection
    dialler,      \* its end: "open", "closed", "dialling" while it waits for the answer, or "failed" for ever
    accepted,     \* the number of the newest connection that was accepted
    acceptor,     \* its end: "open", "closed" or "failed"
    request,      \* the request of the newest connection, if it is on its way: its number, and the dialler's position
    late,         \* likewise a request whose connection the dialler has given up
    answer,       \* the acceptor's position, if it is on its way to the dialler
    sent,         \* messages that were sent
    acked,        \* messages that have arrived, as far as the sender knows: the others are kept
    written,      \* the next message to write on this connection
    returned,     \* permits that came back
    data,         \* messages on their way, by their numbers, which the receiver does not see
    feedback,     \* acknowledgements and permits on their way
    received,     \* messages that have arrived
    told,         \* ... of these, as many as the receiver has told
    inbox,        \* numbers received, not yet consumed
    consumed,     \* messages that the application has consumed
    granted       \* permits that were written on this connection, or have arrived before

link == <<dialled, dialler, accepted, acceptor, request, late, answer>>
wires == <<data, feedback>>
sender == <<sent, acked, written, returned>>
receiver == <<received, told, inbox, consumed, granted>>
vars == <<link, wires, sender, receiver>>

\* No answer is on its way.
None == -1

\* No request is.
NoRequest == [number |-> 0, position |-> 0]

Max(a, b) == IF a >= b THEN a ELSE b

Init ==
    /\ dialled = 1 /\ dialler = "open" /\ accepted = 1 /\ acceptor = "open"
    /\ request = NoRequest /\ late = NoRequest /\ answer = None
    /\ sent = 0 /\ acked = 0 /\ written = 0 /\ returned = 0
    /\ data = <<>> /\ feedback = <<>>
    /\ received = 0 /\ told = 0 /\ inbox = <<>> /\ consumed = 0 /\ granted = 0

\* Does the dialler listen on the newest connection, and has the acceptor accepted it?
Reached == dialler \in {"dialling", "open"} /\ accepted = dialled

\* Which end has a connection, as far as it knows?
SenderIsOn == IF SenderDials THEN dialler = "open" ELSE acceptor = "open"
ReceiverIsOn == IF SenderDials THEN acceptor = "open" ELSE dialler = "open"

\* Does what one end writes reach the other one?  Asked where the one end has a connection.
ReceiverListens == IF SenderDials THEN acceptor = "open" ELSE Reached
SenderListens == IF SenderDials THEN Reached ELSE acceptor = "open"

SenderFailed == IF SenderDials THEN dialler = "failed" ELSE acceptor = "failed"

\* How many of the other end's messages each end has.
DiallersPosition == IF SenderDials THEN returned ELSE received
AcceptorsPosition == IF SenderDials THEN received ELSE returned

-----------------------------------------------------------------------------

\* An end is without a connection: what was on its way to it does not arrive.
DiallerLeaves(state) ==
    /\ dialler' = state
    /\ late' = IF request.number > 0 THEN request ELSE late
    /\ request' = NoRequest
    /\ answer' = None
    /\ data' = IF SenderDials THEN data ELSE <<>>
    /\ feedback' = IF SenderDials THEN <<>> ELSE feedback
    /\ UNCHANGED <<dialled, accepted, acceptor, sender, receiver>>

AcceptorLeaves(state) ==
    /\ acceptor' = state
    /\ data' = IF SenderDials THEN <<>> ELSE data
    /\ feedback' = IF SenderDials THEN feedback ELSE <<>>
    /\ UNCHANGED <<dialled, dialler, accepted, request, late, answer, sender, receiver>>

\* The dialler loses the connection; a request that is on its way may still arrive.
CutDialled ==
    /\ dialler \in {"dialling", "open"} /\ dialled < Connections
    /\ ~(accepted = dialled /\ acceptor # "open")
    /\ DiallerLeaves("closed")

\* The acceptor loses the connection.
CutAccepted ==
    /\ acceptor = "open" /\ Reached /\ dialled < Connections
    /\ AcceptorLeaves("closed")

\* A request whose connection was given up does not arrive.
LoseLate ==
    /\ late.number > accepted
    /\ late' = NoRequest
    /\ UNCHANGED <<dialled, dialler, accepted, acceptor, request, answer, wires, sender, receiver>>

-----------------------------------------------------------------------------

\* The application sends the next message: it is kept, with a connection or without.
Send ==
    /\ sent < returned + Window /\ sent < Total /\ ~SenderFailed
    /\ sent' = sent + 1
    /\ UNCHANGED <<link, wires, acked, written, returned, receiver>>

\* The next message is written on this connection.
WriteKept ==
    /\ SenderIsOn /\ written < sent
    /\ data' = IF ReceiverListens THEN Append(data, written) ELSE data
    /\ written' = written + 1
    /\ UNCHANGED <<link, feedback, sent, acked, returned, receiver>>

\* A message arrives, and counts once it is in the inbox.
Deliver ==
    /\ ReceiverIsOn /\ data # <<>>
    /\ data' = Tail(data)
    /\ inbox' = Append(inbox, Head(data))
    /\ received' = received + 1
    /\ UNCHANGED <<link, feedback, sender, told, consumed, granted>>

\* The application has consumed the oldest message.
Consume ==
    /\ inbox # <<>>
    /\ inbox' = Tail(inbox)
    /\ consumed' = consumed + 1
    /\ UNCHANGED <<link, wires, sender, received, told, granted>>

\* The receiver acknowledges what has arrived: in time, before its own messages.
Acknowledge ==
    /\ ReceiverIsOn /\ received - told >= Every
    /\ feedback' = IF SenderListens THEN Append(feedback, [ack |-> received, returned |-> granted]) ELSE feedback
    /\ told' = received
    /\ UNCHANGED <<link, data, sender, received, inbox, consumed, granted>>

\* The permit of a consumed message returns: a message of the other direction.
ReturnPermit ==
    /\ ReceiverIsOn /\ granted < consumed /\ received - told < Every
    /\ feedback' = IF SenderListens THEN Append(feedback, [ack |-> told, returned |-> granted + 1]) ELSE feedback
    /\ granted' = granted + 1
    /\ UNCHANGED <<link, data, sender, received, told, inbox, consumed>>

\* An acknowledgement or a permit arrives.
Hear ==
    /\ SenderIsOn /\ feedback # <<>>
    /\ acked' = Max(acked, Head(feedback).ack)
    /\ returned' = Max(returned, Head(feedback).returned)
    /\ feedback' = Tail(feedback)
    /\ UNCHANGED <<link, data, sent, written, receiver>>

-----------------------------------------------------------------------------

\* An end notices that the other one has left the connection: it hears the end of it, or nothing for too long.
NoticeDialled ==
    /\ Reached /\ acceptor # "open"
    /\ DiallerLeaves("closed")

NoticeAccepted ==
    /\ acceptor = "open" /\ ~Reached
    /\ AcceptorLeaves("closed")

\* The dialler tries again: its request says how many messages it has.
Dial ==
    /\ dialler = "closed" /\ dialled < Connections
    /\ dialler' = "dialling"
    /\ dialled' = dialled + 1
    /\ request' = [number |-> dialled + 1, position |-> DiallersPosition]
    /\ told' = IF SenderDials THEN told ELSE received
    /\ UNCHANGED <<accepted, acceptor, late, answer, wires, sender, received, inbox, consumed, granted>>

\* From where the sender goes on that is told this position.
GoingOn(position) ==
    /\ acked' = IF GoesOnFrom = "position" THEN position ELSE acked
    /\ written' = CASE GoesOnFrom = "position" -> position [] GoesOnFrom = "acknowledged" -> acked [] OTHER -> written

\* The acceptor takes a connection, whether it has noticed the end of an older one or not; nothing more is heard of that.
Takes(asked) ==
    /\ acceptor # "failed"
    /\ acceptor' = "open"
    /\ accepted' = asked.number
    /\ data' = IF Displaces \/ ~SenderDials THEN <<>> ELSE data
    /\ feedback' = IF Displaces \/ SenderDials THEN <<>> ELSE feedback
    /\ IF SenderDials
       THEN told' = received /\ granted' = asked.position /\ UNCHANGED <<acked, written>>
       ELSE GoingOn(asked.position) /\ UNCHANGED <<told, granted>>
    /\ UNCHANGED <<dialled, dialler, sent, returned, received, inbox, consumed>>

\* The newest request arrives; the answer says how many messages the acceptor has.
Accept ==
    /\ request.number > 0
    /\ Takes(request)
    /\ request' = NoRequest
    /\ answer' = AcceptorsPosition
    /\ UNCHANGED late

\* A request arrives whose connection the dialler has given up: the acceptor cannot know, and its answer goes nowhere.
AcceptLate ==
    /\ late.number > accepted
    /\ Takes(late)
    /\ late' = NoRequest
    /\ UNCHANGED <<request, answer>>

\* ... it is older than the newest connection that was accepted, and is refused.
RefuseLate ==
    /\ late.number > 0 /\ late.number <= accepted
    /\ late' = NoRequest
    /\ UNCHANGED <<dialled, dialler, accepted, acceptor, request, answer, wires, sender, receiver>>

\* The dialler hears the answer: the stream goes on.
HearAnswer ==
    /\ answer # None
    /\ dialler' = "open"
    /\ answer' = None
    /\ IF SenderDials
       THEN GoingOn(answer) /\ UNCHANGED granted
       ELSE granted' = answer /\ UNCHANGED <<acked, written>>
    /\ UNCHANGED <<dialled, accepted, acceptor, request, late, wires, sent, returned, received, told, inbox, consumed>>

\* An acceptor that has failed does not know the stream: the dialler fails, too.
Decline ==
    /\ request.number > 0 /\ acceptor = "failed"
    /\ dialler' = "failed"
    /\ request' = NoRequest
    /\ UNCHANGED <<dialled, accepted, acceptor, late, answer, wires, sender, receiver>>

\* An end without a connection gives up, after a while: it fails.
GiveUpDialled ==
    /\ GivesUp /\ dialler \in {"closed", "dialling"}
    /\ DiallerLeaves("failed")

GiveUpAccepted ==
    /\ GivesUp /\ acceptor = "closed"
    /\ AcceptorLeaves("failed")

\* Everything is consumed and its permits are back, or both ends have failed: the run has ended.
Done ==
    /\ \/ returned >= Total
       \/ dialler = "failed" /\ acceptor = "failed" /\ inbox = <<>>
    /\ UNCHANGED vars

Environment == Done \/ CutDialled \/ CutAccepted \/ LoseLate

Protocol ==
    \/ Send \/ WriteKept \/ Deliver \/ Consume \/ Acknowledge \/ ReturnPermit \/ Hear
    \/ NoticeDialled \/ NoticeAccepted \/ Dial \/ Accept \/ AcceptLate \/ RefuseLate
    \/ HearAnswer \/ Decline \/ GiveUpDialled \/ GiveUpAccepted

Next == Environment \/ Protocol

Fairness ==
    /\ "Send" \in Fair => WF_vars(Send)
    /\ "WriteKept" \in Fair => WF_vars(WriteKept)
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "Acknowledge" \in Fair => WF_vars(Acknowledge)
    /\ "ReturnPermit" \in Fair => WF_vars(ReturnPermit)
    /\ "Hear" \in Fair => WF_vars(Hear)
    /\ "NoticeDialled" \in Fair => WF_vars(NoticeDialled)
    /\ "NoticeAccepted" \in Fair => WF_vars(NoticeAccepted)
    /\ "Dial" \in Fair => WF_vars(Dial)
    /\ "Accept" \in Fair => WF_vars(Accept)
    /\ "HearAnswer" \in Fair => WF_vars(HearAnswer)
    /\ "Decline" \in Fair => WF_vars(Decline)
    /\ "GiveUpDialled" \in Fair => WF_vars(GiveUpDialled)
    /\ "GiveUpAccepted" \in Fair => WF_vars(GiveUpAccepted)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ dialler \in {"open", "closed", "dialling", "failed"}
    /\ acceptor \in {"open", "closed", "failed"}
    /\ {accepted, dialled, request.number, late.number, request.position, late.position} \subseteq Nat
    /\ {sent, acked, written, returned, received, told, consumed, granted} \subseteq Nat
    /\ answer \in Nat \cup {None}
    /\ sent <= Total /\ dialled <= Connections
    /\ \A i \in DOMAIN data : data[i] \in Nat
    /\ \A i \in DOMAIN inbox : inbox[i] \in Nat
    /\ \A i \in DOMAIN feedback : feedback[i].ack \in Nat /\ feedback[i].returned \in Nat

\* No end is on a connection of which the other one does not know, and none waits for an answer that does not come.
OneConnection ==
    /\ accepted <= dialled
    /\ request.number = 0 \/ (request.number = dialled /\ accepted < dialled /\ dialler = "dialling")
    /\ late.number <= dialled /\ (dialler \in {"dialling", "open"} => late.number < dialled)
    /\ dialler = "open" => accepted = dialled
    /\ dialler = "dialling" => (request.number > 0 \/ answer # None)
    /\ answer # None => dialler = "dialling" /\ accepted = dialled
    /\ dialler = "closed" => dialled < Connections
    /\ accepted = dialled /\ acceptor # "open" => dialled < Connections \/ dialler = "failed"
    /\ dialler = "failed" \/ acceptor = "failed" => GivesUp

\* Nobody knows of messages that were not sent, or of arrivals that did not happen; and what the ends tell is still so.
NothingInvented ==
    /\ acked <= told /\ told <= received /\ received <= sent
    /\ written <= sent
    /\ returned <= granted /\ granted <= consumed
    /\ \A i \in DOMAIN feedback : feedback[i].ack <= told /\ feedback[i].returned <= granted
    /\ request.number > 0 => request.position = DiallersPosition
    /\ late.number > accepted => late.position = DiallersPosition
    /\ answer # None => answer = AcceptorsPosition /\ told = received
    /\ ~SenderDials /\ (request.number > 0 \/ late.number > accepted) => told = received

\* What is on its way follows what has arrived, and what was written last follows that.
NothingLost ==
    /\ \A i \in DOMAIN data : data[i] = received + i - 1
    /\ received + Len(data) <= sent
    /\ SenderIsOn /\ ReceiverListens => written = received + Len(data)
    /\ SenderDials => (acceptor # "open" => data = <<>>) /\ (dialler = "dialling" /\ accepted = dialled => data = <<>>)
    /\ ~SenderDials => (~Reached => data = <<>>) /\ (dialler = "dialling" /\ accepted = dialled => feedback = <<>>)

\* The inbox holds the numbers from consumed to received: none is lost, doubled or overtaken.
InOrder ==
    /\ received = consumed + Len(inbox)
    /\ \A i \in DOMAIN inbox : inbox[i] = consumed + i - 1

\* A permit overtakes fewer than Every acknowledgements; and none that was written is forgotten while the connection holds.
PermitsInLine ==
    /\ sent <= returned + Window /\ returned - acked < Every
    /\ \A i \in DOMAIN feedback : feedback[i].returned - feedback[i].ack < Every
    /\ ReceiverIsOn /\ SenderListens =>
           granted = IF feedback = <<>> THEN returned ELSE feedback[Len(feedback)].returned

\* The permits bound what is sent and not consumed, as without cuts.
Bounded == sent - consumed <= Window

\* ... and they bound what the sender keeps.
KeptBounded == sent - acked <= Window + Every - 1

\* A sender that may not send will be told that it may send more, over a connection that holds.
NeverStarved ==
    (sent = returned + Window /\ consumed = sent /\ feedback = <<>> /\ SenderIsOn /\ ReceiverIsOn)
        => granted < consumed

\* Everything is consumed, though connections are cut.
EverythingConsumed == <>(consumed = Total)

\* An end that fails is no end for which the other one waits for ever.
FailureIsNoticed == (dialler = "failed" \/ acceptor = "failed") ~> (dialler = "failed" /\ acceptor = "failed")

\* False: the sender never keeps so much.
KeptLessProbe == sent - acked < Window + Every - 1

\* False: no connection is given up before its request arrives.
NoLateProbe == late.number <= accepted

\* False: an acceptor always notices the end of a connection before it accepts another one.
NoDisplacingProbe == request.number > 0 => acceptor # "open"
=============================================================================
