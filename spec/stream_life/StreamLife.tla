----------------------------- MODULE StreamLife -----------------------------
(***************************************************************************)
(* The life of a stream: who may write what, in which state of both ends,  *)
(* and what each end is told at last.                                      *)
(*                                                                         *)
(*   upstream                                              downstream      *)
(*   Offer, EndStream  --> messages, end, abort     -->  Consume, Cancel   *)
(*                     <-- permits, cancel, consumed <--                   *)
(*                                                                         *)
(* One end dials: its request comes first, and it closes its half behind   *)
(* its last frame (close).  The other one accepts: it agrees, and has the  *)
(* last word, the status (ok, error), when both have said all.             *)
(*                                                                         *)
(* Either end may break off (failure) and wait a short time for the last   *)
(* word; or leave, or lose the connection, and then the other end notices  *)
(* the end of the connection (gone), at once or after a silence.  A stream *)
(* that resumes is suspended by a cut, and goes on if the dialler comes    *)
(* again with the stream's token before an end gives up.                   *)
(*                                                                         *)
(* Source: docs/protocols/wire.md.                                         *)
(* Not modelled: what is agreed upon; chunks, barriers and watermarks, and *)
(* what permits they cost (PermitChannel); how positions are found after a *)
(* cut (Resume); peers that break the rules.                               *)
(***************************************************************************)
EXTENDS Integers, Sequences

CONSTANTS
    Window,          \* messages that may be sent and not be consumed
    Total,           \* messages that the upstream's application offers at most
    UpstreamDials,   \* does the upstream dial?  If not, the downstream does
    Faults,          \* may ends leave or break off, and may the connection be cut?
    Resumes,         \* does the stream survive its connection?
    Fair             \* names of the actions that are weakly fair

ASSUME Assumption ==
    /\ Window \in Nat \ {0} /\ Total \in Nat
    /\ {UpstreamDials, Faults, Resumes} \subseteq BOOLEAN
    /\ Fair \subseteq {"Hear", "LosePatience", "GiveUp"}

VARIABLES
    upstream,        \* the end that sends: Init says what it consists of
    downstream,      \* the end that consumes
    toDownstream,    \* what the upstream has written, and has not arrived
    toUpstream,      \* what the downstream has written
    isCut            \* is the connection lost?

vars == <<upstream, downstream, toDownstream, toUpstream, isCut>>

Lives == {"waiting", "asking", "deciding", "open", "ended", "breaking", "broken", "closed", "failed"}

Frame(word, count) == [word |-> word, number |-> count]

Word(word) == <<Frame(word, 0)>>

\* Permits that return together, or messages that leave together.
Some(word, count) == IF count > 0 THEN <<Frame(word, count)>> ELSE <<>>

Init ==
    /\ upstream =
        [life     |-> IF UpstreamDials THEN "asking" ELSE "waiting",
         offered  |-> 0,        \* messages that its application has offered
         waiting  |-> 0,        \* ... that wait for permits
         sent     |-> 0,        \* ... that have left
         returned |-> 0,        \* permits that came back
         hasEnded |-> FALSE,    \* is End behind them?
         outcome  |-> "none"]   \* what it has heard of the messages: "consumed" or "cancelled"
    /\ downstream =
        [life          |-> IF UpstreamDials THEN "waiting" ELSE "asking",
         came          |-> 0,       \* messages that arrived
         inbox         |-> 0,       \* ... and were not consumed or discarded
         consumed      |-> 0,       \* ... that its application has consumed
         isCancelled   |-> FALSE,   \* does its application need no more?
         end           |-> "none",  \* what came behind the messages: "end" or "abort"
         hasAnswered   |-> FALSE,   \* did it answer End?
         hasHeardClose |-> FALSE]   \* has the dialler closed its half?
    /\ toDownstream = IF UpstreamDials THEN Word("request") ELSE <<>>
    /\ toUpstream = IF UpstreamDials THEN <<>> ELSE Word("request")
    /\ isCut = FALSE

IsOver(end) == end.life \in {"closed", "failed"}

\* Nobody reads it where the other end is over, or the connection lost.
Down(frames) == IF IsOver(downstream) \/ (isCut /\ ~Resumes) THEN toDownstream ELSE toDownstream \o frames

Up(frames) == IF IsOver(upstream) \/ (isCut /\ ~Resumes) THEN toUpstream ELSE toUpstream \o frames

\* Behind its last frame a dialler closes its half.
CloseDown == IF UpstreamDials THEN Word("close") ELSE <<>>

CloseUp == IF UpstreamDials THEN <<>> ELSE Word("close")

\* At last a dialler hangs up; an acceptor says how the stream has ended.
LastWord(life, dials) == Word(IF dials THEN "gone" ELSE IF life = "closed" THEN "ok" ELSE "error")

\* An end is over, behind these frames.  What was kept for another connection goes with one that fails.
UpstreamOver(life, frames) ==
    LET last == frames \o LastWord(life, UpstreamDials)
    IN /\ upstream' = [upstream EXCEPT !.life = life, !.waiting = 0]
       /\ toUpstream' = <<>>
       /\ toDownstream' = IF isCut /\ Resumes /\ life = "failed" /\ ~IsOver(downstream)
                          THEN LastWord(life, UpstreamDials) ELSE Down(last)

\* Likewise the downstream, which has become like this.
DownstreamOver(like, life, frames) ==
    LET last == frames \o LastWord(life, ~UpstreamDials)
    IN /\ downstream' = [like EXCEPT !.life = life]
       /\ toDownstream' = <<>>
       /\ toUpstream' = IF isCut /\ Resumes /\ life = "failed" /\ ~IsOver(upstream)
                        THEN LastWord(life, ~UpstreamDials) ELSE Up(last)

\* An upstream like this: what waits leaves as far as permits go, and End behind it.
Advance(like) ==
    LET room == Window - (like.sent - like.returned)
        count == IF like.waiting < room THEN like.waiting ELSE room
        isLast == like.hasEnded /\ like.waiting = count
        end == IF isLast THEN Word("end") \o CloseDown ELSE <<>>
    IN /\ upstream' = [like EXCEPT !.sent = @ + count, !.waiting = @ - count, !.life = IF isLast THEN "ended" ELSE @]
       /\ toDownstream' = Down(Some("messages", count) \o end)

\* A downstream like this, behind these frames: it answers End once everything is consumed.
AnswerIfDue(like, frames) ==
    LET answers == like.life = "ended" /\ like.end = "end" /\ like.inbox = 0 /\ ~like.hasAnswered
        after == [like EXCEPT !.hasAnswered = @ \/ answers]
        answer == IF answers THEN Word(IF like.isCancelled THEN "cancelled" ELSE "consumed") \o CloseUp ELSE <<>>
    IN IF answers /\ like.hasHeardClose
       THEN DownstreamOver(after, "closed", frames \o answer)
       ELSE downstream' = after /\ toUpstream' = Up(frames \o answer) /\ UNCHANGED toDownstream

-----------------------------------------------------------------------------

\* The applications.

Done ==
    /\ IsOver(upstream) /\ IsOver(downstream) /\ downstream.inbox = 0
    /\ UNCHANGED vars

\* The acceptor agrees.
Agree ==
    /\ IF UpstreamDials
       THEN /\ downstream.life = "deciding"
            /\ downstream' = [downstream EXCEPT !.life = "open"]
            /\ toUpstream' = Up(Word("agreement"))
            /\ UNCHANGED <<upstream, toDownstream>>
       ELSE /\ upstream.life = "deciding"
            /\ upstream' = [upstream EXCEPT !.life = "open"]
            /\ toDownstream' = Down(Word("agreement"))
            /\ UNCHANGED <<downstream, toUpstream>>
    /\ UNCHANGED isCut

\* A message leaves, or waits for a permit.
Offer ==
    /\ upstream.life = "open" /\ ~upstream.hasEnded /\ upstream.offered < Total
    /\ Advance([upstream EXCEPT !.offered = @ + 1, !.waiting = @ + 1])
    /\ UNCHANGED <<downstream, toUpstream, isCut>>

\* End leaves behind all that waits.
EndStream ==
    /\ upstream.life = "open" /\ ~upstream.hasEnded
    /\ Advance([upstream EXCEPT !.hasEnded = TRUE])
    /\ UNCHANGED <<downstream, toUpstream, isCut>>

\* What came is incomplete: nothing that waits leaves.
Abort ==
    /\ upstream.life = "open"
    /\ upstream' = [upstream EXCEPT !.life = "ended", !.waiting = 0, !.hasEnded = FALSE]
    /\ toDownstream' = Down(Word("abort") \o CloseDown)
    /\ UNCHANGED <<downstream, toUpstream, isCut>>

\* A message is consumed: its permit returns, if the stream still lives.
Consume ==
    /\ downstream.inbox > 0
    /\ LET like == [downstream EXCEPT !.inbox = @ - 1, !.consumed = @ + 1]
       IN IF downstream.life \in {"open", "ended"}
          THEN AnswerIfDue(like, Some("permits", 1))
          ELSE downstream' = like /\ UNCHANGED <<toUpstream, toDownstream>>
    /\ UNCHANGED <<upstream, isCut>>

OwesAnswer ==
    \/ downstream.life = "open"
    \/ downstream.life = "ended" /\ downstream.end = "end" /\ ~downstream.hasAnswered

\* No more is needed: what is here, and what still comes, is discarded, and its permits return.
Cancel ==
    /\ ~downstream.isCancelled /\ OwesAnswer
    /\ AnswerIfDue(
        [downstream EXCEPT !.isCancelled = TRUE, !.inbox = 0], Word("cancel") \o Some("permits", downstream.inbox))
    /\ UNCHANGED <<upstream, isCut>>

\* Something is wrong: the upstream says what, while it can, and waits a short time for the last word.
BreakOffUpstream ==
    /\ Faults
    /\ upstream.life = "open" \/ (upstream.life = "asking" /\ UpstreamDials)
    /\ upstream' = [upstream EXCEPT !.life = "breaking", !.waiting = 0]
    /\ toDownstream' = Down(Word("failure") \o CloseDown)
    /\ UNCHANGED <<downstream, toUpstream, isCut>>

\* Likewise the downstream, until it has answered End.
BreakOffDownstream ==
    /\ Faults
    /\ OwesAnswer \/ (downstream.life = "asking" /\ ~UpstreamDials)
    /\ LET failure == Word("failure") \o CloseUp
       IN IF downstream.hasHeardClose
          THEN DownstreamOver(downstream, "failed", failure)
          ELSE /\ downstream' = [downstream EXCEPT !.life = "breaking"]
               /\ toUpstream' = Up(failure)
               /\ UNCHANGED toDownstream
    /\ UNCHANGED <<upstream, isCut>>

\* The upstream is closed, refuses, or its process ends: nothing more is said but that.
LeaveUpstream ==
    /\ Faults /\ ~IsOver(upstream)
    /\ UpstreamOver("failed", <<>>)
    /\ UNCHANGED <<downstream, isCut>>

\* Likewise the downstream: what is in its inbox is lost.
LeaveDownstream ==
    /\ Faults /\ ~IsOver(downstream)
    /\ DownstreamOver([downstream EXCEPT !.inbox = 0], "failed", <<>>)
    /\ UNCHANGED <<upstream, isCut>>

\* The connection is lost, or an end gives no sign of life: what is on its way does not arrive, unless it is kept.
Cut ==
    /\ Faults /\ ~isCut /\ ~(IsOver(upstream) /\ IsOver(downstream))
    /\ isCut' = TRUE
    /\ IF Resumes THEN UNCHANGED <<toDownstream, toUpstream>>
       ELSE /\ toDownstream' = IF IsOver(downstream) THEN <<>> ELSE Word("gone")
            /\ toUpstream' = IF IsOver(upstream) THEN <<>> ELSE Word("gone")
    /\ UNCHANGED <<upstream, downstream>>

OwnToken == 1

\* The dialler comes again, with a token; that of another stream is refused.
ComeAgain(token) ==
    /\ Resumes /\ isCut /\ token = OwnToken
    /\ ~IsOver(IF UpstreamDials THEN upstream ELSE downstream)
    /\ isCut' = FALSE
    /\ UNCHANGED <<upstream, downstream, toDownstream, toUpstream>>

-----------------------------------------------------------------------------

\* Time-outs: an end has waited for another connection for long enough.
GiveUpUpstream ==
    /\ Resumes /\ isCut /\ ~IsOver(upstream)
    /\ UpstreamOver("failed", <<>>)
    /\ UNCHANGED <<downstream, isCut>>

GiveUpDownstream ==
    /\ Resumes /\ isCut /\ ~IsOver(downstream)
    /\ DownstreamOver(downstream, "failed", <<>>)
    /\ UNCHANGED <<upstream, isCut>>

\* ... it has broken off, and no last word comes.
LosePatienceUpstream ==
    /\ upstream.life = "breaking"
    /\ UpstreamOver("failed", <<>>)
    /\ UNCHANGED <<downstream, isCut>>

LosePatienceDownstream ==
    /\ downstream.life = "breaking"
    /\ DownstreamOver(downstream, "failed", <<>>)
    /\ UNCHANGED <<upstream, isCut>>

\* What was written first arrives.

Suspended == isCut /\ Resumes

LastWords == {"close", "ok", "error", "gone"}

\* A status or the close of a half ends it in good order if it has said and heard all.
Closes(life, word) == IF life = "ended" /\ word \in {"close", "ok"} THEN "closed" ELSE "failed"

UpstreamBecomes(like, frames) == upstream' = like /\ toDownstream' = Down(frames) /\ toUpstream' = Tail(toUpstream)

\* Only an open stream goes on.
UpstreamGoesOn(like) ==
    IF like.life = "open" THEN Advance(like) /\ toUpstream' = Tail(toUpstream) ELSE UpstreamBecomes(like, <<>>)

HearUpstream ==
    /\ ~Suspended /\ toUpstream # <<>>
    /\ LET frame == Head(toUpstream)
           word == frame.word
           life == upstream.life
           cancelled == [upstream EXCEPT !.waiting = 0, !.hasEnded = TRUE, !.outcome = "cancelled"]
       IN IF word \in LastWords THEN UpstreamOver(Closes(life, word), <<>>)
          \* Who has broken off has its reason, and hears nothing but the last word.
          ELSE IF life = "breaking" THEN UpstreamBecomes(upstream, <<>>)
          ELSE CASE word = "request" -> UpstreamBecomes([upstream EXCEPT !.life = "deciding"], <<>>)
            [] word = "agreement" -> UpstreamBecomes([upstream EXCEPT !.life = "open"], <<>>)
            [] word = "permits" -> UpstreamGoesOn([upstream EXCEPT !.returned = @ + frame.number])
            \* What waits is withdrawn, and End leaves.  Behind Abort it changes nothing.
            [] word = "cancel" -> UpstreamGoesOn(IF life = "open" \/ upstream.hasEnded THEN cancelled ELSE upstream)
            [] word \in {"consumed", "cancelled"} -> UpstreamBecomes([upstream EXCEPT !.outcome = word], <<>>)
            [] word = "failure" ->
                UpstreamBecomes(
                    [upstream EXCEPT !.life = "broken", !.waiting = 0], IF life = "ended" THEN <<>> ELSE CloseDown)
    /\ UNCHANGED <<downstream, isCut>>

DownstreamBecomes(like, frames) ==
    downstream' = like /\ toUpstream' = Up(frames) /\ toDownstream' = Tail(toDownstream)

HearMessages(count) ==
    LET like == [downstream EXCEPT !.came = @ + count]
    IN IF downstream.isCancelled
       THEN DownstreamBecomes(like, Some("permits", count))
       ELSE DownstreamBecomes([like EXCEPT !.inbox = @ + count], <<>>)

\* It is answered at once if everything is consumed.
HearEnd ==
    LET answer == IF downstream.inbox > 0 THEN <<>>
                  ELSE Word(IF downstream.isCancelled THEN "cancelled" ELSE "consumed") \o CloseUp
    IN DownstreamBecomes(
        [downstream EXCEPT !.life = "ended", !.end = "end", !.hasAnswered = downstream.inbox = 0], answer)

HearDownstream ==
    /\ ~Suspended /\ toDownstream # <<>>
    /\ LET frame == Head(toDownstream)
           word == frame.word
           life == downstream.life
           hasClosedHalf == downstream.hasAnswered \/ downstream.end = "abort"
       IN \* The dialler has closed its half: the answer waits for the application.
          IF word = "close" /\ life = "ended" /\ ~hasClosedHalf
          THEN DownstreamBecomes([downstream EXCEPT !.hasHeardClose = TRUE], <<>>)
          ELSE IF word \in LastWords THEN DownstreamOver(downstream, Closes(life, word), <<>>)
          ELSE IF life = "breaking" THEN DownstreamBecomes(downstream, <<>>)
          ELSE CASE word = "request" -> DownstreamBecomes([downstream EXCEPT !.life = "deciding"], <<>>)
            [] word = "agreement" -> DownstreamBecomes([downstream EXCEPT !.life = "open"], <<>>)
            [] word = "messages" -> HearMessages(frame.number)
            [] word = "end" -> HearEnd
            [] word = "abort" ->
                DownstreamBecomes([downstream EXCEPT !.life = "ended", !.end = "abort", !.inbox = 0], CloseUp)
            [] word = "failure" ->
                DownstreamBecomes([downstream EXCEPT !.life = "broken"], IF hasClosedHalf THEN <<>> ELSE CloseUp)
    /\ UNCHANGED <<upstream, isCut>>

Environment ==
    \/ Done \/ Agree \/ Offer \/ EndStream \/ Abort \/ Consume \/ Cancel
    \/ BreakOffUpstream \/ BreakOffDownstream \/ LeaveUpstream \/ LeaveDownstream
    \/ Cut \/ \E token \in 1 .. 2 : ComeAgain(token)

Protocol ==
    \/ GiveUpUpstream \/ GiveUpDownstream \/ LosePatienceUpstream \/ LosePatienceDownstream
    \/ HearUpstream \/ HearDownstream

Next == Environment \/ Protocol

\* However often the connection is lost, something arrives in between, sooner or later.
Fairness ==
    /\ "Hear" \in Fair => SF_vars(HearUpstream \/ HearDownstream)
    /\ "LosePatience" \in Fair => WF_vars(LosePatienceUpstream \/ LosePatienceDownstream)
    /\ "GiveUp" \in Fair => WF_vars(GiveUpUpstream \/ GiveUpDownstream)

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------

Words ==
    LastWords \cup
    {"request", "agreement", "messages", "end", "abort", "permits", "cancel", "consumed", "cancelled", "failure"}

IsFrame(frame) == frame.word \in Words /\ (frame.number > 0 <=> frame.word \in {"messages", "permits"})

TypeOK ==
    /\ {upstream.life, downstream.life} \subseteq Lives
    /\ upstream.waiting \in Nat /\ 0 <= upstream.returned /\ upstream.returned <= upstream.sent
    /\ upstream.sent + upstream.waiting <= upstream.offered /\ upstream.offered <= Total
    /\ downstream.consumed \in Nat /\ downstream.inbox \in Nat
    /\ downstream.consumed + downstream.inbox <= downstream.came
    /\ \A i \in DOMAIN toDownstream : IsFrame(toDownstream[i])
    /\ \A i \in DOMAIN toUpstream : IsFrame(toUpstream[i])

\* What each end takes in each state; whatever else comes is an error of the other end.
UpstreamTakes ==
    [waiting |-> {"request", "gone"}, asking |-> {"agreement", "error", "gone"}, deciding |-> {"failure", "gone"},
     open |-> {"permits", "cancel", "failure", "error", "gone"},
     ended |-> {"permits", "cancel", "consumed", "cancelled", "failure"} \cup LastWords,
     breaking |-> Words, broken |-> LastWords, closed |-> {}, failed |-> {}]

DownstreamTakes ==
    [waiting |-> {"request", "gone"}, asking |-> {"agreement", "error", "gone"}, deciding |-> {"failure", "gone"},
     open |-> {"messages", "end", "abort", "failure", "error", "gone"}, ended |-> LastWords,
     breaking |-> Words, broken |-> LastWords, closed |-> {}, failed |-> {}]

\* No end ever gets what it does not take.
Expected ==
    /\ toUpstream # <<>> => Head(toUpstream).word \in UpstreamTakes[upstream.life]
    /\ toDownstream # <<>> => Head(toDownstream).word \in DownstreamTakes[downstream.life]

RECURSIVE CountOf(_, _)
CountOf(frames, word) ==
    IF frames = <<>> THEN 0
    ELSE (IF Head(frames).word = word THEN Head(frames).number ELSE 0) + CountOf(Tail(frames), word)

\* Permits bound what is on its way and waits.
Bounded ==
    /\ upstream.sent - upstream.returned <= Window
    /\ CountOf(toDownstream, "messages") + downstream.inbox <= Window

\* Nothing comes that was not sent, and no permit returns of what was not consumed or discarded.
NothingInvented ==
    /\ downstream.came + CountOf(toDownstream, "messages") <= upstream.sent
    /\ upstream.returned + CountOf(toUpstream, "permits") <= downstream.came - downstream.inbox

\* An application that is told the end has consumed everything that was offered.
EndIsTrue ==
    (downstream.end = "end" /\ ~downstream.isCancelled) => upstream.hasEnded /\ downstream.came = upstream.offered

\* One that is told that everything was consumed, or cancelled, is told the truth.
OutcomeIsTrue ==
    CASE upstream.outcome = "consumed" -> ~downstream.isCancelled /\ downstream.consumed = upstream.offered
      [] upstream.outcome = "cancelled" -> downstream.isCancelled
      [] upstream.outcome = "none" -> TRUE

\* ... and what was aborted is not an end.
NoEndOfAborted == downstream.end = "abort" => ~upstream.hasEnded

\* Who has cancelled gets nothing more, and an upstream that has heard Cancel has ended: until then it is on its way, or
\* the other end is lost.
CancelHeeded ==
    downstream.isCancelled =>
        /\ downstream.inbox = 0
        /\ upstream.life \in {"asking", "open"} =>
            (isCut /\ ~Resumes) \/ IsOver(downstream) \/ \E i \in DOMAIN toUpstream : toUpstream[i].word = "cancel"

\* An end without an error: the other one has ended the stream likewise, and every permit has come back.
ClosedTogether ==
    /\ upstream.life = "closed" =>
        /\ downstream.end = IF upstream.hasEnded THEN "end" ELSE "abort"
        /\ upstream.hasEnded => upstream.outcome # "none" /\ upstream.returned = upstream.sent
    /\ downstream.life = "closed" =>
        /\ downstream.end # "none" /\ downstream.inbox = 0
        /\ upstream.life \in {"ended", "closed", "failed"}

\* The last word is the acceptor's: a dialler ends without an error only behind it.
AcceptorLast ==
    IF UpstreamDials
    THEN upstream.life = "closed" => downstream.life = "closed"
    ELSE downstream.life = "closed" => upstream.life = "closed"

EndsWithLastWord(frames) == frames # <<>> /\ frames[Len(frames)].word \in LastWords

\* When one end is over, the last word is on its way to the other one, or nothing comes until that gives up.
Noticed ==
    /\ (IsOver(upstream) /\ ~IsOver(downstream)) => Suspended \/ EndsWithLastWord(toDownstream)
    /\ (IsOver(downstream) /\ ~IsOver(upstream)) => Suspended \/ EndsWithLastWord(toUpstream)

\* Where nothing is on its way, an application is waited for: the acceptor's, or both, or one that consumes.
WaitsForApplication ==
    \/ isCut \/ toUpstream # <<>> \/ toDownstream # <<>> \/ (IsOver(upstream) /\ IsOver(downstream))
    \/ {upstream.life, downstream.life} = {"asking", "deciding"}
    \/ upstream.life = "open" /\ downstream.life = "open"
    \/ upstream.life = "ended" /\ downstream.life = "ended" /\ downstream.inbox > 0

\* No end waits for ever once the other one is over.
OverTogether == (IsOver(upstream) \/ IsOver(downstream)) ~> (IsOver(upstream) /\ IsOver(downstream))

\* Who breaks off does not wait for ever, also for a peer that hears nothing.
BreakingEnds == (upstream.life = "breaking" ~> IsOver(upstream)) /\ (downstream.life = "breaking" ~> IsOver(downstream))

\* False: what the producer is told is what the consumer has done.  Its error says nothing of that.
UpstreamKnowsProbe == ~(downstream.hasAnswered /\ ~downstream.isCancelled /\ upstream.life = "failed")

\* False: a consumer that has read to the end hears no error.
EndWithoutErrorProbe ==
    ~(downstream.end = "end" /\ downstream.inbox = 0 /\ ~downstream.isCancelled /\ downstream.life = "failed")

\* False: Cancel comes to an upstream that has not ended.
CancelInTimeProbe == toUpstream # <<>> => ~(Head(toUpstream).word = "cancel" /\ upstream.life = "ended")

\* False: only one end breaks off.
OneBreaksOffProbe == ~(upstream.life = "breaking" /\ downstream.life = "breaking")
=============================================================================
