(* Twins of PermitChannel.v: each bound, made smaller by one, is refuted by a run. *)

From Coq Require Import ZArith List Lia.
From Permitflow Require Import PermitChannel.
Import ListNotations.
Open Scope Z_scope.

(* Four permits, returned in twos. *)
Section Twins.

Let largest := 4 - 2 + 1 + 1.
Let sizes (size : Z) := size = 1 \/ size = 4.
Let reached := reachable 4 4 2 largest 0 1 1 sizes False False False.

Lemma twins_are_assumed : assumption 4 4 2 largest 0.
Proof. constructor; unfold largest; lia. Qed.

Ltac offers size residue :=
  eapply ByEnvironment;
  [ eassumption
  | apply (OfferChunk largest 0 1 1 sizes False False 0 0 [] (-1) Heard _ [] [] residue [] size);
    [unfold sizes; lia | reflexivity] ].
Ltac moves := eapply ByProtocol; [eassumption |].

(* A chunk of one permit is consumed and kept, and a chunk of four waits for ever. *)
Theorem stuck_with_one_more : exists s, reached s /\ stuck 2 1 False s.
Proof.
  pose (one := Message Chunk 0 1 1). pose (four := Message Chunk 0 4 4).
  assert (Now : reached (State 0 0 [] (-1) Heard (Permits 4 0 1) [] [] 0 [])) by exact (Initially _ _ _ _ _ _ _ _ _ _ _).
  assert (Next : reached (State 0 0 [one] (-1) Heard (Permits 4 0 1) [] [] 0 [])) by offers 1 0.
  clear Now; rename Next into Now.
  assert (Next : reached (State 0 0 [] (-1) Heard (Permits 3 0 1) [one] [] 0 [])).
  { moves. apply (SendChunk 2 1 False 0 0 one [] (-1) Heard 4 0 1); [reflexivity | simpl; lia]. }
  clear Now; rename Next into Now.
  assert (Next : reached (State 0 0 [] (-1) Heard (Permits 3 0 1) [] [one] 0 [])).
  { moves. apply (Deliver 2 1 False). }
  clear Now; rename Next into Now.
  assert (Next : reached (State 0 0 [] (-1) Heard (Permits 3 0 1) [] [] 1 [])).
  { moves. apply (ConsumeAndKeep 2 1 False 0 0 [] (-1) Heard _ [] one []); [reflexivity | simpl; lia]. }
  clear Now; rename Next into Now.
  exists (State 0 0 [four] (-1) Heard (Permits 3 0 1) [] [] 1 []). split; [offers 4 1 |].
  split; [discriminate |]. intros [t Step]. inversion Step; subst; simpl in *; try discriminate; try lia; contradiction.
Qed.

(* A channel may hold all its permits. *)
Theorem bound_is_reached : exists s, reached s /\ in_channel s of_rows = 4.
Proof.
  pose (four := Message Chunk 0 4 4).
  assert (Now : reached (State 0 0 [] (-1) Heard (Permits 4 0 1) [] [] 0 [])) by exact (Initially _ _ _ _ _ _ _ _ _ _ _).
  assert (Next : reached (State 0 0 [four] (-1) Heard (Permits 4 0 1) [] [] 0 [])) by offers 4 0.
  clear Now; rename Next into Now.
  exists (State 0 0 [] (-1) Heard (Permits 0 0 1) [four] [] 0 []). split; [| reflexivity].
  moves. apply (SendChunk 2 1 False 0 0 four [] (-1) Heard 4 0 1); [reflexivity | simpl; lia].
Qed.

End Twins.

Print Assumptions twins_are_assumed.
Print Assumptions stuck_with_one_more.
Print Assumptions bound_is_reached.
