----------------------- MODULE PermitChannelWatermark -----------------------
(***************************************************************************)
(* A watermark says something about the chunks that were offered before    *)
(* it, so it must not overtake them.  PermitChannel only counts them; this *)
(* module remembers which they are, and compares.  Needs Tags > 1.         *)
(*                                                                         *)
(* (Chunks offered later may overtake a watermark whose permit is away:    *)
(* nobody waits for a watermark, and a late one is still true.)            *)
(***************************************************************************)
EXTENDS PermitChannel

VARIABLE
    before             \* numbers of the chunks that waited when the newest watermark came, and still wait

watermarkVars == <<vars, before>>

Numbers(chunks) == {chunks[i].id : i \in DOMAIN chunks}

InitWatermark == Init /\ before = {}

Announce == OfferWatermark /\ before' = Numbers(waiting)

Other ==
    /\ \/ \E rows \in Sizes : OfferChunk(rows)
       \/ OfferBarrier \/ WithdrawChunk \/ WithdrawBarrier \/ Protocol
    /\ before' = before \intersect Numbers(waiting')

SpecWatermark == InitWatermark /\ [][Announce \/ Other]_watermarkVars

-----------------------------------------------------------------------------

WatermarkOvertakesNoChunk ==
    [][(watermarkPending >= 0 /\ watermarkPending' = -1) => before = {}]_watermarkVars
=============================================================================
