(* An independent reading of spec/permit_channel/PermitChannel.tla, written by hand: nothing here comes from the model
   or from the theorems for Z3.  All parameters, all states, queues of any length; coqc checks it without a solver.

   Left out: fairness, and what holds given fairness. *)

From Coq Require Import ZArith List Lia Bool.
Import ListNotations.
Open Scope Z_scope.

Fixpoint sum {A : Type} (f : A -> Z) (items : list A) : Z :=
  match items with
  | [] => 0
  | item :: others => f item + sum f others
  end.

Lemma sum_app {A} (f : A -> Z) left right : sum f (left ++ right) = sum f left + sum f right.
Proof. induction left; simpl; lia. Qed.

Lemma sum_at_least {A} (f g : A -> Z) items :
  Forall (fun item => f item <= g item) items -> sum f items <= sum g items.
Proof. induction 1; simpl; lia. Qed.

Lemma sum_of_ones {A} (items : list A) : sum (fun _ => 1) items = Z.of_nat (length items).
Proof. induction items; cbn [sum length]; [reflexivity | rewrite IHitems; lia]. Qed.

Lemma sum_not_negative {A} (f : A -> Z) items : Forall (fun item => 0 <= f item) items -> 0 <= sum f items.
Proof. induction 1; simpl; lia. Qed.

Lemma sum_of_sums {A} (f g : A -> Z) items : sum (fun item => f item + g item) items = sum f items + sum g items.
Proof. induction items; simpl; lia. Qed.

Inductive kind := Chunk | Barrier | Watermark.

Record message := Message { kind_of : kind; id : Z; rows : Z; cost : Z }.

(* Permits of the three classes. *)
Record amount := Permits { of_rows : Z; of_barriers : Z; of_watermarks : Z }.

Definition plus (p q : amount) :=
  Permits (of_rows p + of_rows q) (of_barriers p + of_barriers q) (of_watermarks p + of_watermarks q).

(* What a message holds while it is in the channel. *)
Definition held (m : message) : amount :=
  match kind_of m with
  | Chunk => Permits (cost m) 0 0
  | Barrier => Permits 0 (cost m) 0
  | Watermark => Permits 0 0 (cost m)
  end.

Inductive news := Pending | Sent | Heard.

Record state := State {
  offered : Z;
  consumed : Z;
  waiting : list message;
  watermark_pending : Z;
  newest_watermark : news;
  permits : amount;
  wire : list message;
  inbox : list message;
  unreturned : Z;
  grants : list amount
}.

Section Channel.

Variables RowPermits InitialPermits PermitBatch MaxChunkCost BarrierPermits Waiters Tags : Z.
Variable Sizes : Z -> Prop.
Variables Watermarks FlushIdle Withdrawals : Prop.

Record assumption : Prop := Assumption {
  some_rows : 0 < RowPermits;
  some_initial : 0 <= InitialPermits <= RowPermits;
  some_batch : 0 < PermitBatch;
  some_cost : 0 < MaxChunkCost;
  some_barriers : 0 <= BarrierPermits
}.

Definition cost_of (size : Z) := if size <? 1 then 1 else if size >? MaxChunkCost then MaxChunkCost else size.

Definition successor (number : Z) := (number + 1) mod Tags.

Definition withheld := RowPermits - InitialPermits.

Definition start : state :=
  State 0 0 [] (-1) Heard (Permits InitialPermits BarrierPermits 1) [] [] 0
    (if withheld >? 0 then [Permits withheld 0 0] else []).

(* The place of a pending watermark when the oldest message has left, ... *)
Definition one_less (pending : Z) := if pending >? 0 then pending - 1 else pending.

(* ... and when the newest of so many messages is withdrawn. *)
Definition not_behind (pending : Z) (messages : list message) :=
  if pending =? Z.of_nat (length messages) then pending - 1 else pending.

Definition next_sent (number : Z) (messages : list message) :=
  match messages with [] => number | m :: _ => id m end.

Definition if_heard (w : news) := match w with Sent => Heard | other => other end.

Inductive environment : state -> state -> Prop :=
| OfferChunk o c w n s p wi i u g size :
    Sizes size -> Z.of_nat (length w) < Waiters ->
    environment (State o c w n s p wi i u g)
                (State (successor o) c (w ++ [Message Chunk o size (cost_of size)]) n s p wi i u g)
| OfferBarrier o c w n s p wi i u g :
    0 < BarrierPermits -> Z.of_nat (length w) < Waiters ->
    environment (State o c w n s p wi i u g)
                (State (successor o) c (w ++ [Message Barrier o 0 1]) n s p wi i u g)
| OfferWatermark o c w n s p wi i u g :
    Watermarks ->
    environment (State o c w n s p wi i u g) (State o c w (Z.of_nat (length w)) Pending p wi i u g)
| Withdraw o c w m n s p wi i u g :
    Withdrawals -> kind_of m <> Watermark ->
    environment (State o c (w ++ [m]) n s p wi i u g)
                (State (id m) c w (not_behind n (w ++ [m])) s p wi i u g).

Inductive protocol : state -> state -> Prop :=
| SendChunk o c m w n s r b k wi i u g :
    kind_of m = Chunk -> cost m <= r ->
    protocol (State o c (m :: w) n s (Permits r b k) wi i u g)
             (State o c w (one_less n) s (Permits (r - cost m) b k) (wi ++ [m]) i u g)
| SendBarrier o c m w n s r b k wi i u g :
    kind_of m = Barrier -> 1 <= b ->
    protocol (State o c (m :: w) n s (Permits r b k) wi i u g)
             (State o c w (one_less n) s (Permits r (b - 1) k) (wi ++ [m]) i u g)
| SendWatermark o c w s r b k wi i u g :
    1 <= k ->
    protocol (State o c w 0 s (Permits r b k) wi i u g)
             (State o c w (-1) Sent (Permits r b (k - 1)) (wi ++ [Message Watermark (next_sent o w) 0 1]) i u g)
| Deliver o c w n s p m wi i u g :
    protocol (State o c w n s p (m :: wi) i u g) (State o c w n s p wi (i ++ [m]) u g)
| ConsumeAndReturn o c w n s p wi m i u g :
    kind_of m = Chunk -> u + cost m >= PermitBatch ->
    protocol (State o c w n s p wi (m :: i) u g)
             (State o (successor c) w n s p wi i 0 (g ++ [Permits (u + cost m) 0 0]))
| ConsumeAndKeep o c w n s p wi m i u g :
    kind_of m = Chunk -> u + cost m < PermitBatch ->
    protocol (State o c w n s p wi (m :: i) u g) (State o (successor c) w n s p wi i (u + cost m) g)
| ConsumeBarrier o c w n s p wi m i u g :
    kind_of m = Barrier ->
    protocol (State o c w n s p wi (m :: i) u g) (State o (successor c) w n s p wi i u (g ++ [held m]))
| ConsumeWatermark o c w n s p wi m i u g :
    kind_of m = Watermark ->
    protocol (State o c w n s p wi (m :: i) u g) (State o c w n (if_heard s) p wi i u (g ++ [held m]))
| Flush o c w n s p wi u g :
    FlushIdle -> u > 0 ->
    protocol (State o c w n s p wi [] u g) (State o c w n s p wi [] 0 (g ++ [Permits u 0 0]))
| AddPermits o c w n s p wi i u a g :
    protocol (State o c w n s p wi i u (a :: g)) (State o c w n s (plus p a) wi i u g).

Inductive reachable : state -> Prop :=
| Initially : reachable start
| ByEnvironment s t : reachable s -> environment s t -> reachable t
| ByProtocol s t : reachable s -> protocol s t -> reachable t.

(* Numbers of chunks and barriers: the next one behind a message, behind a queue, and all in order. *)
Definition behind (m : message) (number : Z) :=
  match kind_of m with Watermark => number | _ => successor number end.

Fixpoint after (number : Z) (queue : list message) : Z :=
  match queue with [] => number | m :: others => after (behind m number) others end.

Fixpoint in_order (number : Z) (queue : list message) : Prop :=
  match queue with [] => True | m :: others => id m = number /\ in_order (behind m number) others end.

Lemma after_app number left right : after number (left ++ right) = after (after number left) right.
Proof. revert number; induction left; simpl; auto. Qed.

Lemma in_order_app number left right :
  in_order number (left ++ right) <-> in_order number left /\ in_order (after number left) right.
Proof. revert number; induction left; simpl; intros; [tauto | rewrite IHleft; tauto]. Qed.

Definition is_message (m : message) : Prop :=
  match kind_of m with
  | Chunk => cost m = cost_of (rows m) /\ Sizes (rows m)
  | Barrier => rows m = 0 /\ cost m = 1 /\ 0 < BarrierPermits
  | Watermark => rows m = 0 /\ cost m = 1
  end.

Definition may_wait (m : message) : Prop := is_message m /\ kind_of m <> Watermark.

Definition is_grant (a : amount) : Prop :=
  0 <= of_rows a /\ 0 <= of_barriers a /\ 0 <= of_watermarks a /\
  1 <= of_rows a + of_barriers a + of_watermarks a /\
  (of_rows a = 0 \/ of_rows a = withheld \/ of_rows a >= PermitBatch \/ FlushIdle).

Definition in_channel (s : state) (f : amount -> Z) : Z :=
  sum (fun m => f (held m)) (wire s) + sum (fun m => f (held m)) (inbox s).

Record invariant (s : state) : Prop := Invariant {
  all_waiting : Forall may_wait (waiting s);
  all_wire : Forall is_message (wire s);
  all_inbox : Forall is_message (inbox s);
  all_grants : Forall is_grant (grants s);
  no_debt : 0 <= of_rows (permits s) /\ 0 <= of_barriers (permits s) /\ 0 <= of_watermarks (permits s);
  residue : 0 <= unreturned s < PermitBatch;
  place : -1 <= watermark_pending s <= Z.of_nat (length (waiting s));
  rows_kept :
    of_rows (permits s) + in_channel s of_rows + unreturned s + sum of_rows (grants s) = RowPermits;
  barriers_kept :
    of_barriers (permits s) + in_channel s of_barriers + sum of_barriers (grants s) = BarrierPermits;
  watermarks_kept : of_watermarks (permits s) + in_channel s of_watermarks + sum of_watermarks (grants s) = 1;
  numbers : in_order (consumed s) (inbox s ++ wire s ++ waiting s);
  next_number : offered s = after (consumed s) (inbox s ++ wire s ++ waiting s);
  newest_pending : newest_watermark s = Pending <-> watermark_pending s >= 0;
  newest_sent : newest_watermark s = Sent -> in_channel s of_watermarks = 1
}.

Hypothesis Assumed : assumption.

Lemma cost_in_range size : 1 <= cost_of size <= MaxChunkCost.
Proof.
  destruct Assumed. unfold cost_of. destruct (Z.ltb_spec size 1); [lia |].
  destruct (Z.gtb_spec size MaxChunkCost); lia.
Qed.

Lemma message_in_range m :
  is_message m ->
  0 <= of_rows (held m) /\ 0 <= of_barriers (held m) /\ 0 <= of_watermarks (held m) /\
  1 <= of_rows (held m) + of_barriers (held m) + of_watermarks (held m).
Proof.
  unfold is_message, held. pose proof (cost_in_range (rows m)).
  destruct (kind_of m); simpl; intuition lia.
Qed.

Lemma all_in_range messages (f : amount -> Z) :
  f = of_rows \/ f = of_barriers \/ f = of_watermarks ->
  Forall is_message messages -> 0 <= sum (fun m => f (held m)) messages.
Proof.
  intros Class All. apply sum_not_negative. eapply Forall_impl; [| exact All].
  intros m Is. apply message_in_range in Is. intuition (subst; tauto).
Qed.

Lemma grants_in_range returned (f : amount -> Z) :
  f = of_rows \/ f = of_barriers \/ f = of_watermarks -> Forall is_grant returned -> 0 <= sum f returned.
Proof.
  intros Class All. apply sum_not_negative. eapply Forall_impl; [| exact All].
  unfold is_grant. intuition (subst; tauto).
Qed.

(* Each message holds a permit, and each return brings one. *)
Lemma messages_counted messages :
  Forall is_message messages ->
  Z.of_nat (length messages) <=
    sum (fun m => of_rows (held m)) messages + sum (fun m => of_barriers (held m)) messages +
    sum (fun m => of_watermarks (held m)) messages.
Proof.
  intros All. rewrite <- !sum_of_sums, <- sum_of_ones. apply sum_at_least.
  eapply Forall_impl; [| exact All]. intros m Is. simpl. apply message_in_range in Is. tauto.
Qed.

Lemma grants_counted returned :
  Forall is_grant returned ->
  Z.of_nat (length returned) <= sum of_rows returned + sum of_barriers returned + sum of_watermarks returned.
Proof.
  intros All. rewrite <- !sum_of_sums, <- sum_of_ones. apply sum_at_least.
  eapply Forall_impl; [| exact All]. intros a Is. simpl. unfold is_grant in Is. tauto.
Qed.

Lemma holds_at_start : invariant start.
Proof.
  destruct Assumed. unfold start, withheld.
  destruct (Z.gtb_spec (RowPermits - InitialPermits) 0);
    constructor; unfold in_channel; simpl; auto; try lia; try (split; [discriminate | lia]); try discriminate.
  repeat constructor; simpl; unfold withheld; lia.
Qed.

Ltac open_up :=
  unfold in_channel in *; simpl in *;
  repeat match goal with
  | H : Forall _ (_ :: _) |- _ => apply Forall_cons_iff in H; destruct H
  | H : Forall _ (_ ++ _) |- _ => apply Forall_app in H; destruct H
  | H : may_wait _ |- _ => destruct H
  | H : _ /\ _ |- _ => destruct H
  end;
  repeat rewrite ?sum_app, ?app_length, ?Nat2Z.inj_add, ?in_order_app, ?after_app in *; simpl in *;
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

Lemma environment_keeps s t : invariant s -> environment s t -> invariant t.
Proof.
  intros [W WI I G D R P RK BK WK N NN NP NS] Step.
  destruct Step; open_up; constructor; open_up; unfold not_behind;
    repeat rewrite ?app_length, ?Nat2Z.inj_add; simpl length;
    repeat match goal with |- Forall _ (_ ++ _) => apply Forall_app; split end;
    try match goal with |- context [?a =? ?b] => destruct (Z.eqb_spec a b) end;
    try assumption; try lia; try (intuition (try discriminate; lia)).
  all: try (repeat constructor; unfold may_wait, is_message; simpl; auto; discriminate).
  all: try (unfold behind; simpl; congruence).
  split; intro; [lia | apply NP; lia].
Qed.

(* What a message of a known kind holds. *)
Ltac know_kind :=
  try match goal with
  | K : kind_of ?m = _, Is : is_message ?m |- _ =>
      let Holds := fresh "Holds" in
      pose proof (message_in_range m Is);
      assert (Holds : held m = held m) by reflexivity; unfold held at 2 in Holds; rewrite K in Holds;
      rewrite Holds in *; simpl in *;
      let Exact := fresh "Exact" in
      pose proof Is as Exact; unfold is_message in Exact; rewrite K in Exact
  end.

Lemma length_of_more {A} (items : list A) : Z.pos (Pos.of_succ_nat (length items)) = Z.of_nat (length items) + 1.
Proof. lia. Qed.

Lemma protocol_keeps s t : invariant s -> protocol s t -> invariant t.
Proof.
  intros [W WI I G D R P RK BK WK N NN NP NS] Step. destruct Assumed.
  destruct Step; open_up; know_kind; constructor; open_up; auto; unfold one_less, behind in *;
    repeat match goal with |- Forall _ (_ ++ _) => apply Forall_app; split end;
    repeat match goal with |- Forall _ [_] => constructor; [| constructor] end;
    try match goal with |- context [?a >? ?b] => destruct (Z.gtb_spec a b) end;
    try rewrite length_of_more in *;
    try match goal with K : kind_of ?m = _ |- _ => rewrite K in * end;
    simpl in *; auto; try lia; try (intuition (try discriminate; lia)).
  all: try (match goal with Holds : held ?m = _ |- _ => rewrite Holds; simpl; lia end).
  all: try (match goal with Holds : held ?m = _ |- _ => rewrite Holds; simpl; intuition lia end).
  all: try (unfold is_message; simpl; auto; fail).
  all: try (match goal with Is : is_grant _ |- _ => destruct Is as (? & ? & ? & ? & ?); lia end).
  all: try (unfold is_grant; simpl; intuition lia).
  all: try (destruct s; simpl; intuition (try discriminate; lia)).
  - split; intro; [lia | apply NP; lia].
  - split; intro; [lia | apply NP; lia].
  - destruct w; simpl in *; intuition congruence.
  - intros _. pose proof (all_in_range wi of_watermarks ltac:(auto) WI).
    pose proof (all_in_range i of_watermarks ltac:(auto) I).
    pose proof (grants_in_range g of_watermarks ltac:(auto) G). lia.
Qed.

Theorem invariant_always s : reachable s -> invariant s.
Proof. induction 1; [apply holds_at_start | eapply environment_keeps | eapply protocol_keeps]; eauto. Qed.

(* Permits circulate: none is created, none is lost.  [invariant] says it of each class. *)
Theorem conservation s :
  reachable s ->
  of_rows (permits s) + in_channel s of_rows + unreturned s + sum of_rows (grants s) = RowPermits /\
  of_barriers (permits s) + in_channel s of_barriers + sum of_barriers (grants s) = BarrierPermits /\
  of_watermarks (permits s) + in_channel s of_watermarks + sum of_watermarks (grants s) = 1.
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Ltac ranges :=
  repeat match goal with
  | All : Forall is_message ?q |- _ =>
      pose proof (all_in_range q of_rows ltac:(auto) All);
      pose proof (all_in_range q of_barriers ltac:(auto) All);
      pose proof (all_in_range q of_watermarks ltac:(auto) All);
      pose proof (messages_counted q All); revert All
  | All : Forall is_grant ?q |- _ =>
      pose proof (grants_in_range q of_rows ltac:(auto) All);
      pose proof (grants_in_range q of_barriers ltac:(auto) All);
      pose proof (grants_in_range q of_watermarks ltac:(auto) All);
      pose proof (grants_counted q All); revert All
  end; intros.

(* The channel never holds more than it has permits for, in any class. *)
Theorem bounded s :
  reachable s ->
  in_channel s of_rows <= RowPermits /\
  in_channel s of_barriers <= BarrierPermits /\
  in_channel s of_watermarks <= 1.
Proof. intros R. destruct (invariant_always s R). ranges. lia. Qed.

(* Rows, not permits: an oversize chunk is admitted whole and exceeds its cost. *)
Definition most_rows (largest : Z) : Z :=
  RowPermits + (if largest >? MaxChunkCost then RowPermits / MaxChunkCost * (largest - MaxChunkCost) else 0).

(* Is it an oversize chunk? *)
Definition oversize (m : message) : Z := if rows m >? MaxChunkCost then 1 else 0.

Lemma rows_in_queue largest messages :
  MaxChunkCost <= largest -> (forall size, Sizes size -> size <= largest) -> Forall is_message messages ->
  sum rows messages <=
    sum (fun m => of_rows (held m)) messages + (largest - MaxChunkCost) * sum oversize messages /\
  MaxChunkCost * sum oversize messages <= sum (fun m => of_rows (held m)) messages.
Proof.
  intros Above Most. induction 1 as [| m others Is _ IH]; simpl; [lia |].
  destruct Assumed.
  assert (rows m <= of_rows (held m) + (largest - MaxChunkCost) * oversize m /\
          MaxChunkCost * oversize m <= of_rows (held m)).
  { unfold is_message, held, oversize, cost_of in *. destruct (kind_of m); simpl in *.
    - destruct Is as [Cost Offered]. specialize (Most _ Offered). rewrite Cost.
      destruct (Z.gtb_spec (rows m) MaxChunkCost), (Z.ltb_spec (rows m) 1); lia.
    - destruct (Z.gtb_spec (rows m) MaxChunkCost); lia.
    - destruct (Z.gtb_spec (rows m) MaxChunkCost); lia. }
  rewrite !Z.mul_add_distr_l. lia.
Qed.

Theorem row_bound s largest :
  (forall size, Sizes size -> size <= largest) -> reachable s ->
  sum rows (wire s) + sum rows (inbox s) <= most_rows largest.
Proof.
  intros Most R. pose proof (bounded s R) as [Bound _]. destruct (invariant_always s R). unfold in_channel in *.
  assert (0 < MaxChunkCost) by (destruct Assumed; assumption).
  unfold most_rows. destruct (Z.gtb_spec largest MaxChunkCost).
  - destruct (rows_in_queue largest (wire s)) as [W1 W2]; auto; [lia |].
    destruct (rows_in_queue largest (inbox s)) as [I1 I2]; auto; [lia |].
    set (k := sum oversize (wire s) + sum oversize (inbox s)).
    assert (k <= RowPermits / MaxChunkCost) by (apply Z.div_le_lower_bound; unfold k; lia).
    assert ((largest - MaxChunkCost) * k <= (largest - MaxChunkCost) * (RowPermits / MaxChunkCost))
      by (apply Z.mul_le_mono_nonneg_l; lia).
    unfold k in *. lia.
  - assert (Small : forall size, Sizes size -> size <= MaxChunkCost) by (intros size Is; specialize (Most size Is); lia).
    destruct (rows_in_queue MaxChunkCost (wire s)) as [W1 _]; auto; [lia |].
    destruct (rows_in_queue MaxChunkCost (inbox s)) as [I1 _]; auto; [lia |]. lia.
Qed.

(* Each message holds a permit, or brings one back. *)
Theorem messages_bounded s :
  reachable s ->
  Z.of_nat (length (wire s)) + Z.of_nat (length (inbox s)) + Z.of_nat (length (grants s))
    <= RowPermits + BarrierPermits + 1.
Proof. intros R. destruct (invariant_always s R). ranges. unfold in_channel in *. lia. Qed.

(* Chunks and barriers leave in the order in which they were offered, each once; watermarks keep their place. *)
Theorem exactly_once_in_order s :
  reachable s ->
  in_order (consumed s) (inbox s ++ wire s ++ waiting s) /\
  offered s = after (consumed s) (inbox s ++ wire s ++ waiting s).
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Theorem newest_watermark_kept s :
  reachable s ->
  (newest_watermark s = Pending <-> watermark_pending s >= 0) /\
  (newest_watermark s = Sent -> in_channel s of_watermarks = 1).
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Theorem grants_batched s :
  reachable s ->
  unreturned s < PermitBatch /\
  (~ FlushIdle ->
   Forall (fun a => of_rows a = 0 \/ of_rows a = withheld \/ of_rows a >= PermitBatch) (grants s)).
Proof.
  intros R. destruct (invariant_always s R). split; [lia |]. intro Never.
  eapply Forall_impl; [| exact all_grants0]. unfold is_grant. simpl. tauto.
Qed.

Definition can_move (s : state) : Prop := exists t, protocol s t.

(* Somebody waits, and nothing that the protocol can do will ever change that. *)
Definition stuck (s : state) : Prop := waiting s <> [] /\ ~ can_move s.

(* A residue is below the batch: so a chunk that costs no more than the rest never waits for it. *)
Theorem never_stuck s :
  MaxChunkCost <= RowPermits - PermitBatch + 1 \/ (FlushIdle /\ MaxChunkCost <= RowPermits) ->
  reachable s -> waiting s <> [] -> can_move s.
Proof.
  intros Fits R Somebody. destruct (invariant_always s R).
  destruct s as [o c w n v [r b k] wi i u g]. unfold in_channel in *; simpl in *.
  destruct g as [| a g]; [| eexists; apply AddPermits].
  destruct wi as [| m wi]; [| eexists; apply Deliver].
  destruct i as [| m i].
  2: { destruct (kind_of m) eqn:Kind.
       - destruct (Z_lt_ge_dec (u + cost m) PermitBatch); eexists; [apply ConsumeAndKeep | apply ConsumeAndReturn]; auto.
       - eexists; apply ConsumeBarrier; auto.
       - eexists; apply ConsumeWatermark; auto. }
  simpl in *. destruct w as [| m w]; [congruence |].
  apply Forall_cons_iff in all_waiting0. destruct all_waiting0 as [[Is Kind] _]. unfold is_message in Is.
  destruct (kind_of m) eqn:K; [| | congruence].
  - pose proof (cost_in_range (rows m)).
    destruct Fits as [Fits | [Flushes Fits]].
    + eexists; apply SendChunk; [assumption | lia].
    + destruct (Z_gt_le_dec u 0).
      * eexists; apply Flush; assumption.
      * eexists; apply SendChunk; [assumption | lia].
  - eexists; apply SendBarrier; [assumption | lia].
Qed.

(* With the idle flush, a channel in which nothing can move holds all its permits again. *)
Theorem whole_when_idle s :
  FlushIdle -> reachable s -> ~ can_move s -> permits s = Permits RowPermits BarrierPermits 1.
Proof.
  intros Flushes R Still. destruct (invariant_always s R).
  destruct s as [o c w n v [r b k] wi i u g]. unfold in_channel in *; simpl in *.
  destruct g as [| a g]; [| destruct Still; eexists; apply AddPermits].
  destruct wi as [| m wi]; [| destruct Still; eexists; apply Deliver].
  destruct i as [| m i].
  2: { destruct Still. destruct (kind_of m) eqn:Kind.
       - destruct (Z_lt_ge_dec (u + cost m) PermitBatch); eexists; [apply ConsumeAndKeep | apply ConsumeAndReturn]; auto.
       - eexists; apply ConsumeBarrier; auto.
       - eexists; apply ConsumeWatermark; auto. }
  simpl in *. destruct (Z_gt_le_dec u 0).
  - destruct Still. eexists; apply Flush; assumption.
  - f_equal; lia.
Qed.

End Channel.

Print Assumptions invariant_always.
Print Assumptions conservation.
Print Assumptions bounded.
Print Assumptions row_bound.
Print Assumptions messages_bounded.
Print Assumptions exactly_once_in_order.
Print Assumptions newest_watermark_kept.
Print Assumptions grants_batched.
Print Assumptions never_stuck.
Print Assumptions whole_when_idle.
