------------------------------- MODULE Squelch -------------------------------
(***************************************************************************)
(* An optimistic technique: the sender sends until it is told to stop.     *)
(*                                                                         *)
(*      sender                                         receiver            *)
(*    waiting ----Send----> wire ---Deliver---> inbox ---Consume--> (done) *)
(*    heard <--ReceiveSignal-- signals <--SendXoff, SendXon--- told        *)
(*                                                                         *)
(* With more than High messages in its inbox the receiver tells the sender *)
(* to stop, with no more than Low to go on.  Until the sender hears that   *)
(* it must stop, it sends at its rate, and what is in flight arrives all   *)
(* the same: above High there must be places for                           *)
(*                                                                         *)
(*      Rate * (SignalDelay + DataDelay) + Losses * Repeat                 *)
(*                                                                         *)
(* messages.  Time is counted in ticks.  In a tick, messages and signals   *)
(* that are due arrive before anything is sent; both may arrive earlier.   *)
(*                                                                         *)
(* Source: XON/XOFF of serial lines, and PAUSE of IEEE 802.3x.             *)
(* Not modelled: rates that vary, senders that do not obey.                *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Waiters,      \* messages that may wait at once
    High,         \* with more messages than this in the inbox the sender is told to stop
    Low,          \* with no more messages than this in the inbox the sender is told to go on
    Capacity,     \* messages for which the receiver has places
    Rate,         \* the most messages that leave in a tick
    SignalDelay,  \* the most ticks from the moment a signal is due until the sender hears it
    DataDelay,    \* the most ticks in which a message is in flight
    Repeat,       \* after this many more messages the sender is told again to stop
    Losses,       \* signals that may be lost
    Reminders,    \* does the receiver tell again, after a time-out, that the sender may go on?
    Fair          \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ {Waiters, Rate, DataDelay, Repeat} \subseteq Nat \ {0}
    /\ {Low, SignalDelay, Losses} \subseteq Nat
    /\ High \in Nat /\ High >= Low /\ Capacity \in Nat /\ Capacity >= High
    /\ Reminders \in BOOLEAN
    /\ Fair \subseteq {"Deliver", "Consume", "SendXon", "ReceiveSignal", "ResendXon"}

VARIABLES
    waiting,      \* messages that wait
    heard,        \* the newest signal that has arrived at the sender
    sent,         \* messages sent in this tick
    recent,       \* messages sent in each of the last ticks, oldest first: DataDelay ticks with this one
    wire,         \* messages in flight
    inbox,        \* messages received, not yet consumed
    told,         \* the newest signal of the receiver
    since,        \* messages that have come since the sender was told to stop
    signals,      \* signals in flight, oldest first, each with the ticks from the one before until it
    age,          \* ticks since the newest signal in flight was told
    lost          \* signals that were lost

vars == <<waiting, heard, sent, recent, wire, inbox, told, since, signals, age, lost>>

\* The two signals.
On == 0
Off == 1

Init ==
    /\ waiting = 0 /\ heard = On /\ sent = 0 /\ recent = <<>>
    /\ wire = 0 /\ inbox = 0
    /\ told = On /\ since = 0 /\ signals = <<>> /\ age = 0 /\ lost = 0

-----------------------------------------------------------------------------

Sum[i \in Nat] == IF i = 0 THEN 0 ELSE recent[i] + Sum[i - 1]

\* Messages that were sent so lately that they may still be in flight when something is sent.
SentLately == Sum[Len(recent)] + sent

\* Must the receiver tell the sender to stop?
IsOffDue == IF told = Off THEN since >= Repeat /\ inbox > Low ELSE inbox > High

\* Must the receiver tell the sender to go on?
IsOnDue == told = Off /\ inbox <= Low

Gaps[i \in Nat] == IF i = 0 THEN 0 ELSE signals[i].gap + Gaps[i - 1]

\* Ticks since the oldest signal in flight was told.
OldestAge == age + Gaps[Len(signals)] - signals[1].gap

\* Must a message arrive, or a signal be told or heard, before anything is sent?
IsLate ==
    \/ wire > SentLately
    \/ signals # <<>> /\ OldestAge >= SignalDelay
    \/ SignalDelay = 0 /\ (IsOffDue \/ IsOnDue)

\* The receiver tells the sender something.
Signal(word) ==
    /\ told' = word
    /\ signals' = Append(signals, [word |-> word, gap |-> age])
    /\ age' = 0

\* The oldest signal is no longer in flight.
TakeSignal ==
    /\ signals' = Tail(signals)
    /\ age' = IF Len(signals) = 1 THEN 0 ELSE age

-----------------------------------------------------------------------------

\* The application wants to send a message.
Offer ==
    /\ waiting < Waiters
    /\ waiting' = waiting + 1
    /\ UNCHANGED <<heard, sent, recent, wire, inbox, told, since, signals, age, lost>>

\* The application gives up waiting with its newest message.
Withdraw ==
    /\ waiting > 0
    /\ waiting' = waiting - 1
    /\ UNCHANGED <<heard, sent, recent, wire, inbox, told, since, signals, age, lost>>

\* Time passes; nothing is late, and the receiver has told what is due.
Tick ==
    /\ ~IsLate /\ ~IsOffDue /\ ~IsOnDue
    /\ recent' = LET longer == Append(recent, sent)
                 IN  IF Len(longer) >= DataDelay THEN Tail(longer) ELSE longer
    /\ sent' = 0
    /\ age' = IF signals = <<>> THEN 0 ELSE age + 1
    /\ UNCHANGED <<waiting, heard, wire, inbox, told, since, signals, lost>>

\* A signal is lost.
LoseSignal ==
    /\ lost < Losses /\ signals # <<>>
    /\ lost' = lost + 1
    /\ TakeSignal
    /\ UNCHANGED <<waiting, heard, sent, recent, wire, inbox, told, since>>

\* The sender was not told to stop, as far as it has heard: a message leaves.
Send ==
    /\ waiting > 0 /\ heard = On /\ sent < Rate /\ ~IsLate
    /\ waiting' = waiting - 1
    /\ sent' = sent + 1
    /\ wire' = wire + 1
    /\ UNCHANGED <<heard, recent, inbox, told, since, signals, age, lost>>

\* A message arrives at the receiver; nothing keeps it out.
Deliver ==
    /\ wire > 0
    /\ wire' = wire - 1
    /\ inbox' = inbox + 1
    /\ since' = IF told = Off THEN since + 1 ELSE 0
    /\ UNCHANGED <<waiting, heard, sent, recent, told, signals, age, lost>>

\* The application has consumed a message.
Consume ==
    /\ inbox > 0
    /\ inbox' = inbox - 1
    /\ UNCHANGED <<waiting, heard, sent, recent, wire, told, since, signals, age, lost>>

\* The receiver tells the sender to stop: for the first time, or again because messages keep coming.
SendXoff ==
    /\ IsOffDue
    /\ since' = IF told = Off THEN since - Repeat ELSE inbox - High - 1
    /\ Signal(Off)
    /\ UNCHANGED <<waiting, heard, sent, recent, wire, inbox, lost>>

\* The receiver tells the sender to go on.
SendXon ==
    /\ IsOnDue
    /\ since' = 0
    /\ Signal(On)
    /\ UNCHANGED <<waiting, heard, sent, recent, wire, inbox, lost>>

\* A signal arrives at the sender.
ReceiveSignal ==
    /\ signals # <<>>
    /\ heard' = signals[1].word
    /\ TakeSignal
    /\ UNCHANGED <<waiting, sent, recent, wire, inbox, told, since, lost>>

\* After a time-out, with nothing in flight, the receiver tells again that the sender may go on.
\* What would change nothing is left out.
ResendXon ==
    /\ Reminders /\ told = On /\ heard = Off
    /\ wire = 0 /\ signals = <<>> /\ ~IsOffDue
    /\ Signal(On)
    /\ UNCHANGED <<waiting, heard, sent, recent, wire, inbox, since, lost>>

Environment == Offer \/ Withdraw \/ Tick \/ LoseSignal

Protocol == Send \/ Deliver \/ Consume \/ SendXoff \/ SendXon \/ ReceiveSignal \/ ResendXon

Next == Environment \/ Protocol

Fairness ==
    /\ "Deliver" \in Fair => WF_vars(Deliver)
    /\ "Consume" \in Fair => WF_vars(Consume)
    /\ "SendXon" \in Fair => WF_vars(SendXon)
    /\ "ReceiveSignal" \in Fair => WF_vars(ReceiveSignal)
    /\ "ResendXon" \in Fair => WF_vars(ResendXon)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

TypeOK ==
    /\ waiting \in 0 .. Waiters /\ {heard, told} \subseteq {On, Off}
    /\ sent \in 0 .. Rate /\ Len(recent) < DataDelay
    /\ {wire, inbox, since, age} \subseteq Nat /\ lost \in 0 .. Losses
    /\ \A i \in DOMAIN signals : signals[i].word \in {On, Off} /\ signals[i].gap \in Nat

\* The receiver never holds more messages than it has places for.
Bounded == inbox <= Capacity

\* The newest signal in flight is what was told; it was heard, if none is in flight and none was lost.
LastWord ==
    IF signals = <<>>
    THEN lost > 0 \/ heard = told
    ELSE signals[Len(signals)].word = told

\* A message that waits can still be served, in the next tick if not in this one.
NeverStuck == waiting > 0 => sent >= Rate \/ ENABLED Protocol

\* A sender that was stopped goes on again and again.
Resumed == (heard = Off) ~> (heard = On)

\* False: messages come after the receiver has told the sender to stop.
WithinHighProbe == inbox <= High

\* False: the receiver has told the sender to stop, and it does not know.
SilentWhileOffProbe == told = Off => heard = Off
=============================================================================
