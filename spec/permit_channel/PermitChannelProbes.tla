------------------------- MODULE PermitChannelProbes -------------------------
(***************************************************************************)
(* Statements that are false, each for a reason worth knowing.  TLC must   *)
(* violate every one of them: it shows that the situations which the       *)
(* properties of PermitChannel speak about do occur.                       *)
(***************************************************************************)
EXTENDS PermitChannel

InChannel == wire \o inbox

ChunkIsBlocked == waiting # <<>> /\ Head(waiting).kind = "chunk" /\ Head(waiting).cost > permits.rows

\* Back-pressure happens: a chunk waits because permits are short.
SenderNeverWaitsProbe == ~ChunkIsBlocked

\* All permits can be in use: Bounded is attained.
PermitsNeverUsedUpProbe == permits.rows > 0

\* The receiver may be slower than the wire.
NeverTwoInInboxProbe == Len(inbox) < 2

\* The whole residue is returned, not one PermitBatch of it.
GrantNeverAboveBatchProbe == \A i \in DOMAIN grants : grants[i].rows <= PermitBatch

\* No term of the conservation equation is always 0, even at one moment.
PermitsNeverEverywhereProbe ==
    ~ (permits.rows > 0 /\ wire # <<>> /\ inbox # <<>> /\ unreturned > 0 /\ grants # <<>>)

\* Without the idle flush an idle channel keeps a residue (see WholeWhenIdle).
WholeWithoutFlushProbe == ~ ENABLED Protocol => permits = Total

\* Oversize chunks, admitted whole, exceed RowPermits rows ...
RowPermitsNeverExceededProbe == SumRows(InChannel) <= RowPermits

\* ... and RowBound is attained.
RowBoundNeverReachedProbe == SumRows(InChannel) < MostRows

\* An empty chunk holds a permit all the same.
EmptyChunkFreeProbe == SumHeld(InChannel).rows <= SumRows(InChannel)

BarrierWaits == \E i \in DOMAIN waiting : waiting[i].kind = "barrier"

\* A barrier keeps its place: it waits behind a chunk, though its own permit is there ...
BarrierNeverWaitsForRowsProbe == (BarrierWaits /\ permits.barriers > 0) => ~ChunkIsBlocked

\* ... so it is stuck where that chunk is.
BarrierNeverStuckProbe == BarrierWaits => ENABLED Protocol

\* A watermark can be pending while the one watermark permit is away: then it is conflated.
WatermarkNeverConflatedProbe == watermarkPending >= 0 => permits.watermarks = 1

\* "PendingPermits + PermitsInFlight = Buf + InFlight", as E. Varga's mail "back pressure" of 2014 has it: a wrong sign.
MailWrongSignProbe == permits.rows + SumPermits(grants).rows = RowPermits + SumHeld(wire).rows

\* "Permits + InFlight = Buf", from the same mail: chunks that wait to be consumed are forgotten.
MailWithoutPendingProbe == permits.rows + SumPermits(grants).rows + SumHeld(wire).rows = RowPermits

\* Weak fairness does not do for SendWatermark: chunks that keep coming disable it again and again.
WeakWatermarkSpec == Spec /\ WF_vars(SendWatermark)
=============================================================================
