(* Twins of InputGate.v: what does not hold with a buffer less, or of an input that is blocked. *)

From Coq Require Import ZArith List Bool.
From Permitflow Require Import InputGate.
Import ListNotations.
Open Scope Z_scope.

(* Each case of a step from a state that is written out. *)
Ltac no_move :=
  intros [t Step];
  destruct Step as
    [c ch Step | c ch p Step | c head others [_ [Inbox _]] _ | c head others _ [_ [Inbox _]] _ _
    | c head others _ [_ [Inbox _]] _ | [[c Held] All]];
  try destruct Step; try destruct c; cbn in *; try discriminate;
  try (match goal with Same : [_] = _ :: _ |- _ => injection Same; intros; subst; discriminate end).

(* One input without buffers of its own. *)
Section One.

Definition same_unit (left right : unit) : {left = right} + {left <> right}.
Proof. decide equality. Defined.

Variable floating : Z.

Definition reached := reachable unit same_unit 0 floating 1 1 0 false false false.
Definition moves := protocol unit same_unit 0 1 0 false.
Definition with_input (s : state unit) (ch : channel) (p : Z) :=
  State unit (set unit same_unit (channels unit s) tt ch) p (gate_epoch unit s) (failed unit s).

Lemma offered s ch : reached s -> offers 1 1 0 false (channels unit s tt) ch -> reached (with_input s ch (pool unit s)).
Proof. intros R Step. eapply ByEnvironment; [exact R | apply AtApplication; exact Step]. Qed.

Lemma moved s ch : reached s -> sends 0 1 (channels unit s tt) ch -> reached (with_input s ch (pool unit s)).
Proof. intros R Step. eapply ByProtocol; [exact R | apply AtSender; exact Step]. Qed.

Lemma taken s ch p :
  reached s -> takes_in 0 false (pool unit s) (failed unit s) (channels unit s tt) ch p -> reached (with_input s ch p).
Proof. intros R Step. eapply ByProtocol; [exact R | apply AtGate; exact Step]. Qed.

Definition item_of_data := Item Data 0 0.
Definition told_of := Item Announcement 0 1.
Definition with_waiting := Channel 0 0 [item_of_data] false 0 0 [] [] false false 0 0 0 [] false false.
Definition with_news := Channel 0 0 [item_of_data] false 1 0 [told_of] [] false false 0 0 0 [] false false.
Definition with_known := Channel 0 0 [item_of_data] false 1 0 [] [] false false 1 0 0 [] false false.
Definition waiting_state := with_input (start unit 0 floating) with_waiting floating.
Definition known_state := with_input (with_input waiting_state with_news floating) with_known (floating + 0 - 0).

Lemma known_reached : reached known_state.
Proof.
  apply taken; [apply (moved waiting_state); [apply (offered (start unit 0 floating)); [apply Initially |] |] |].
  - exact (OfferData 1 1 0 false (opened 0 false) eq_refl eq_refl).
  - exact (AnnounceBacklog 0 1 with_waiting eq_refl eq_refl eq_refl eq_refl).
  - exact (Deliver 0 false floating false with_news told_of [] eq_refl).
Qed.

End One.

(* [never_stuck] needs a buffer: without any, data waits for ever. *)
Theorem stuck_without_buffers :
  exists s, reached 0 s /\ failed unit s = false /\ waits (channels unit s tt) /\ ~ exists t, moves s t.
Proof.
  exists (known_state 0). split; [apply known_reached | split; [reflexivity | split]].
  - split; [left; discriminate | reflexivity].
  - no_move.
Qed.

(* The gate may store as much as its pool has, and a channel may have all of it. *)
Theorem bound_is_reached : exists s, reached 1 s /\ data_here (channels unit s tt) - 0 = 1.
Proof.
  pose (lent := Channel 0 0 [item_of_data] false 1 0 [] [] false false 1 1 1 [] false false).
  pose (granted := Channel 0 0 [item_of_data] false 1 0 [] [] false false 1 0 1 [1] false false).
  pose (heard := Channel 0 0 [item_of_data] false 1 1 [] [] false false 1 0 1 [] false false).
  pose (sent := Channel 0 0 [] false 0 0 [Item Data 0 0] [] false false 1 0 1 [] false false).
  exists (with_input (with_input (with_input (with_input (known_state 1) lent 0) granted 0) heard 0) sent 0).
  split; [| reflexivity].
  apply (moved 1 (with_input (with_input (with_input (known_state 1) lent 0) granted 0) heard 0));
    [apply (moved 1 (with_input (with_input (known_state 1) lent 0) granted 0));
     [apply taken; [apply taken; [apply known_reached |] |] |] |].
  - exact (Borrow 0 false 1 false with_known eq_refl eq_refl eq_refl eq_refl).
  - exact (Grant 0 false 0 false lent eq_refl eq_refl).
  - exact (AddCredit 0 1 granted 1 [] eq_refl eq_refl).
  - exact (SendData 0 1 heard item_of_data [] eq_refl eq_refl eq_refl eq_refl).
Qed.

(* Two inputs with a buffer each. *)
Section Two.

Let reached := reachable bool bool_dec 1 0 2 1 0 false false false.
Let moves := protocol bool bool_dec 1 1 0 false.
Let with_first (s : state bool) (ch : channel) :=
  State bool (set bool bool_dec (channels bool s) true ch) (pool bool s) (gate_epoch bool s) (failed bool s).

(* [never_stuck] is about inputs that are not blocked: one that has data behind its barrier waits for the others. *)
Theorem blocked_input_waits :
  exists s, reached s /\ waiting (channels bool s true) <> [] /\ blocked (channels bool s true) = true /\
    ~ exists t, moves s t.
Proof.
  pose (barrier := Item Barrier 0 0).
  pose (offered := Channel 0 0 [barrier] false 0 1 [] [] false false 0 0 0 [] false false).
  pose (sent := Channel 0 0 [] true 0 1 [barrier] [] false false 0 0 0 [] false false).
  pose (arrived := Channel 0 0 [] true 0 1 [] [barrier] false false 0 0 0 [] false false).
  pose (held := Channel 0 0 [] true 0 1 [] [] true false 0 0 0 [] false false).
  pose (more := Channel 0 0 [Item Data 0 0] true 0 1 [] [] true false 0 0 0 [] false false).
  pose (before := with_first (with_first (with_first (start bool 1 0) offered) sent) arrived).
  exists (with_first (with_first before held) more). split; [| split; [discriminate | split; [reflexivity |]]].
  - eapply (ByEnvironment _ _ _ _ _ _ _ _ _ _ (with_first before held)); [| apply AtApplication].
    + eapply (ByProtocol _ _ _ _ _ _ _ _ _ _ before).
      * eapply (ByProtocol _ _ _ _ _ _ _ _ _ _ (with_first (with_first (start bool 1 0) offered) sent)); [| apply AtGate].
        { eapply (ByProtocol _ _ _ _ _ _ _ _ _ _ (with_first (start bool 1 0) offered)); [| apply AtSender].
          - eapply ByEnvironment; [apply Initially | apply AtApplication].
            exact (OfferBarrier 2 1 0 false (opened 1 false) 0 eq_refl eq_refl (conj (Z.le_refl 0) (Z.le_refl 0)) (or_introl eq_refl)).
          - exact (SendBarrier 1 1 offered barrier [] eq_refl eq_refl eq_refl). }
        exact (Deliver 1 false 0 false sent barrier [] eq_refl).
      * exact (ConsumeBarrier _ _ _ _ _ _ before true barrier [] (conj eq_refl (conj eq_refl (conj eq_refl eq_refl)))
          (or_introl eq_refl)).
    + exact (OfferData 2 1 0 false held eq_refl eq_refl).
  - no_move. destruct (All false); discriminate.
Qed.

End Two.

Print Assumptions stuck_without_buffers.
Print Assumptions bound_is_reached.
Print Assumptions blocked_input_waits.
