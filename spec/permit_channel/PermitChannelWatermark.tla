----------------------- MODULE PermitChannelWatermark -----------------------
(***************************************************************************)
(* A watermark says something about what was offered before it, so it must *)
(* not overtake that.  PermitChannel only counts these messages; this      *)
(* module remembers which they are, and compares.  Needs Tags > 1.         *)
(*                                                                         *)
(* (Chunks and barriers offered later may overtake a watermark whose       *)
(* permit is away: nobody waits for one, and a late one is still true.)    *)
(***************************************************************************)
EXTENDS PermitChannel

VARIABLE
    before             \* numbers of the messages that waited when the newest watermark came, and still wait

watermarkVars == <<vars, before>>

Numbers(messages) == {messages[i].id : i \in DOMAIN messages}

InitWatermark == Init /\ before = {}

Announce == OfferWatermark /\ before' = Numbers(waiting)

Other ==
    /\ \/ \E rows \in Sizes : OfferChunk(rows)
       \/ OfferBarrier \/ WithdrawChunk \/ WithdrawBarrier \/ Protocol
    /\ before' = before \intersect Numbers(waiting')

SpecWatermark == InitWatermark /\ [][Announce \/ Other]_watermarkVars

-----------------------------------------------------------------------------

WatermarkOvertakesNothing ==
    [][(watermarkPending >= 0 /\ watermarkPending' = -1) => before = {}]_watermarkVars
=============================================================================
