(* An independent reading of spec/mute/Mute.tla, written by hand: nothing here comes from the model or from the theorems
   for Z3.  Nodes are any finite sort and hops any graph over it, even with cycles, which the specification forbids.

   Left out: fairness and what holds given fairness, and the constants that give published faults.  So a node remembers
   epochs, newcomers learn who mutes, a sink that leaves unmutes, a sink looks at its marks when its queue was dropped,
   and a new connection tells the epochs again. *)

From Coq Require Import ZArith List Lia Bool.
Import ListNotations.
Open Scope Z_scope.

Inductive part := Sink | Relay | Source.

Section Graph.

Variable node : Type.
Variable same : forall left right : node, {left = right} + {left <> right}.
Variable nodes : list node.
Variable part_of : node -> part.
Variable hop : node -> node -> bool.  (* upstream, downstream *)
Variables Low High Supply Remakes : Z.
Variable joined_at_start : node -> bool.
Variables Disposals Clears : Prop.

Record assumption : Prop := Assumption {
  finite : forall n, In n nodes;
  sinks_end : forall up down, hop up down = true -> part_of up <> Sink /\ part_of down <> Source;
  marks_apart : 0 <= Low <= High
}.

(* A muter and its epoch. *)
Definition signal : Type := node * Z.

Record state := State {
  joined : node -> bool;
  left : node -> Z;
  holds : node -> node -> Z;     (* of a source: the mutes that hold it, by muter *)
  gone : node -> bool;
  wire : node -> Z;
  inbox : node -> Z;
  heard : node -> node -> Z;     (* of a node: the newest epoch of each muter *)
  signals : node -> node -> list signal;   (* up to the first, from the second *)
  remade : Z
}.

Definition set {A : Type} (f : node -> A) (at_node : node) (value : A) : node -> A :=
  fun n => if same n at_node then value else f n.

Definition set2 {A : Type} (f : node -> node -> A) (first second : node) (value : A) : node -> node -> A :=
  set f first (set (f first) second value).

Definition is_mute (epoch : Z) : bool := Z.odd epoch.

Definition is_here (s : state) (n : node) : bool :=
  match part_of n with Source => joined s n | _ => true end.

Definition is_muted (s : state) (n : node) : Prop := exists m, holds s n m > 0.

Inductive reaches : node -> node -> Prop :=
| Arrived m : part_of m = Sink -> reaches m m
| Through up down m : hop up down = true -> reaches down m -> reaches up m.

Definition start : state :=
  State joined_at_start (fun _ => Supply) (fun _ _ => 0) (fun _ => false) (fun _ => 0) (fun _ => 0) (fun _ _ => 0)
    (fun _ _ => []) 0.

(* The signals in flight when a node has told all nodes upstream. *)
Definition forwarded (s : state) (queues : node -> node -> list signal) (down : node) (told : signal) :=
  fun u d => if same d down then if hop u d && is_here s u then queues u d ++ [told] else queues u d else queues u d.

(* The newest signals that a node knows. *)
Definition newest (s : state) (n : node) : list signal :=
  filter (fun told => 0 <? snd told) (map (fun m => (m, heard s n m)) nodes).

Definition with_epoch (s : state) (m : node) (epoch : Z) : state :=
  State (joined s) (left s) (holds s) (gone s) (wire s) (inbox s) (set2 (heard s) m m epoch)
    (forwarded s (signals s) m (m, epoch)) (remade s).

Definition begin_epoch (s : state) (m : node) : state := with_epoch s m (heard s m m + 1).

Definition must_turn (s : state) (m : node) : bool :=
  if is_mute (heard s m m) then inbox s m <=? Low else inbox s m >? High.

(* A sink mutes or unmutes, if its marks say so. *)
Definition evaluate (s : state) (m : node) : state := if must_turn s m then begin_epoch s m else s.

Definition with_sink (s : state) (m : node) (leaves : bool) (on_wire in_queue : Z) : state :=
  State (joined s) (left s) (holds s) (set (gone s) m leaves) (set (wire s) m on_wire) (set (inbox s) m in_queue)
    (heard s) (signals s) (remade s).

Definition with_signals (s : state) (up down : node) (queue : list signal) : state :=
  State (joined s) (left s) (holds s) (gone s) (wire s) (inbox s) (heard s) (set2 (signals s) up down queue)
    (remade s + 1).

(* What a newcomer learns of a muter from the nodes downstream. *)
Definition learned (s : state) (n m : node) : Z :=
  fold_right (fun d most => if hop n d then Z.max (heard s d m) most else most) (heard s n m) nodes.

Definition after_join (s : state) (n : node) : state :=
  State (set (joined s) n true) (left s) (set (holds s) n (fun m => learned s n m mod 2)) (gone s) (wire s) (inbox s)
    (set (heard s) n (learned s n)) (signals s) (remade s).

Definition after_signal (s : state) (up down : node) (told : signal) (others : list signal) : state :=
  let (m, epoch) := told in
  let is_news := epoch >? heard s up m in
  let rest := set2 (signals s) up down others in
  State (joined s) (left s)
    (match part_of up with Source => if is_news then set2 (holds s) up m (epoch mod 2) else holds s | _ => holds s end)
    (gone s) (wire s) (inbox s)
    (if is_news then set2 (heard s) up m epoch else heard s)
    (match part_of up with Relay => if is_news then forwarded s rest up told else rest | _ => rest end)
    (remade s).

Inductive environment (s : state) : state -> Prop :=
| Join n : part_of n = Source -> joined s n = false -> environment s (after_join s n)
| Dispose m :
    Disposals -> part_of m = Sink -> gone s m = false ->
    environment s (let t := with_sink s m true 0 0 in if is_mute (heard s m m) then begin_epoch t m else t)
| Clear m :
    Clears -> part_of m = Sink -> inbox s m > 0 ->
    environment s (evaluate (with_sink s m (gone s m) (wire s m) 0) m)
| Reconnect up down :
    remade s < Remakes -> signals s up down <> [] -> environment s (with_signals s up down (newest s down))
| DuplicateSignal up down told others :
    remade s < Remakes -> signals s up down = told :: others ->
    environment s (with_signals s up down (signals s up down ++ [told])).

Inductive protocol (s : state) : state -> Prop :=
| Send n m :
    part_of n = Source -> joined s n = true -> ~ is_muted s n -> left s n > 0 -> reaches n m -> gone s m = false ->
    protocol s
      (State (joined s) (set (left s) n (left s n - 1)) (holds s) (gone s) (set (wire s) m (wire s m + 1)) (inbox s)
         (heard s) (signals s) (remade s))
| Deliver m :
    part_of m = Sink -> wire s m > 0 ->
    protocol s (evaluate (with_sink s m (gone s m) (wire s m - 1) (inbox s m + 1)) m)
| Consume m :
    part_of m = Sink -> inbox s m > 0 ->
    protocol s (evaluate (with_sink s m (gone s m) (wire s m) (inbox s m - 1)) m)
| ReceiveSignal up down told others :
    signals s up down = told :: others -> protocol s (after_signal s up down told others).

Inductive reachable : state -> Prop :=
| Initially : reachable start
| ByEnvironment s t : reachable s -> environment s t -> reachable t
| ByProtocol s t : reachable s -> protocol s t -> reachable t.

(* A sink mutes above its high mark, and unmutes at its low mark: its epoch is odd in between. *)
Definition marked (s : state) (m : node) : Prop :=
  (if is_mute (heard s m m) then gone s m = false /\ inbox s m > Low else inbox s m <= High) /\
  (gone s m = true -> wire s m = 0 /\ inbox s m = 0).

(* What a node has heard, the node upstream has heard, too, or it is on its way. *)
Definition on_its_way (s : state) (up down m : node) : Prop :=
  heard s up m >= heard s down m \/ exists epoch, In (m, epoch) (signals s up down) /\ epoch >= heard s down m.

Record invariant (s : state) : Prop := Invariant {
  counted : forall m, 0 <= wire s m /\ 0 <= inbox s m;
  marks : forall m, part_of m = Sink -> marked s m;
  heard_counted : forall n m, 0 <= heard s n m;
  heard_in_order : forall n m, heard s n m <= heard s m m;
  heard_from : forall n m, heard s n m <> 0 -> reaches n m;
  along_hops : forall up down, signals s up down <> [] -> hop up down = true;
  told_in_order : forall up down m epoch, In (m, epoch) (signals s up down) -> epoch <= heard s down m;
  all_on_way : forall up down m, hop up down = true -> is_here s up = true -> on_its_way s up down m;
  held_as_heard : forall n m, part_of n = Source -> holds s n m = heard s n m mod 2
}.

Hypothesis Assumed : assumption.

Lemma holds_at_start : invariant start.
Proof.
  destruct Assumed. constructor; simpl; intros; auto; try lia; try contradiction.
  - unfold marked; simpl. split; [lia | discriminate].
  - left; simpl; lia.
Qed.

Ltac look :=
  repeat match goal with
  | |- context [same ?a ?b] => destruct (same a b); subst
  | H : context [same ?a ?b] |- _ => destruct (same a b); subst
  end.

(* The invariant without the marks and the queues: what signals do. *)
Record traffic (s : state) : Prop := Traffic {
  t_heard_counted : forall n m, 0 <= heard s n m;
  t_heard_in_order : forall n m, heard s n m <= heard s m m;
  t_heard_from : forall n m, heard s n m <> 0 -> reaches n m;
  t_along_hops : forall up down, signals s up down <> [] -> hop up down = true;
  t_told_in_order : forall up down m epoch, In (m, epoch) (signals s up down) -> epoch <= heard s down m;
  t_all_on_way : forall up down m, hop up down = true -> is_here s up = true -> on_its_way s up down m;
  t_held_as_heard : forall n m, part_of n = Source -> holds s n m = heard s n m mod 2
}.

Lemma traffic_of_epoch s m : part_of m = Sink -> traffic s -> traffic (begin_epoch s m).
Proof.
  intros Is [C O F A T W H]. destruct Assumed as [_ Ends _].
  constructor; unfold begin_epoch, with_epoch, set2, set, forwarded; simpl.
  - intros; look; auto. specialize (C m m); lia.
  - intros n k. pose proof (O n k). pose proof (O k k). look; try congruence; try lia.
  - intros n k. look; auto. intros _. constructor; assumption.
  - intros up down. look; auto. destruct (hop up m) eqn:Hop; simpl; intros; [reflexivity | rewrite <- Hop; auto].
  - intros up down k epoch In. look.
    + destruct (hop up m && is_here s up); [apply in_app_or in In; destruct In as [In | [E | []]] |];
        try (apply T in In; lia). inversion E; lia.
    + destruct (hop up m && is_here s up); [apply in_app_or in In; destruct In as [In | [E | []]] |];
        try (apply T in In; lia). inversion E; congruence.
    + apply T in In; lia.
  - intros up down k Hop Here. change (is_here s up = true) in Here.
    unfold on_its_way; simpl; unfold set2, set, forwarded.
    destruct (Ends _ _ Hop) as [NotSink _].
    destruct (same up m) as [E | _]; [subst; congruence |].
    destruct (W up down k Hop Here) as [Old | [epoch [In Old]]].
    + look; auto. rewrite Hop, Here; simpl. right. exists (heard s m m + 1).
      split; [apply in_or_app; simpl; auto | lia].
    + look.
      * rewrite Hop, Here; simpl. right. exists (heard s m m + 1). split; [apply in_or_app; simpl; auto | lia].
      * rewrite Hop, Here; simpl. right. exists epoch. split; [apply in_or_app; auto | assumption].
      * right. exists epoch. auto.
  - intros n k Src. destruct (same n m); [subst; congruence | auto].
Qed.

Lemma traffic_of_sink s m leaves on_wire in_queue : traffic s -> traffic (with_sink s m leaves on_wire in_queue).
Proof. intros [C O F A T W H]. constructor; auto. Qed.

Lemma traffic_evaluated s m : part_of m = Sink -> traffic s -> traffic (evaluate s m).
Proof. intros. unfold evaluate. destruct (must_turn s m); auto using traffic_of_epoch. Qed.

Lemma learned_more s n m : heard s n m <= learned s n m.
Proof. unfold learned. induction nodes; simpl; [lia | destruct (hop n a); lia]. Qed.

Lemma learned_from_all s n d m : hop n d = true -> heard s d m <= learned s n m.
Proof.
  intro Hop. unfold learned. generalize (finite Assumed d). induction nodes as [| a others]; simpl; [tauto |].
  intros [E | In]; [subst; rewrite Hop; lia | specialize (IHothers In); destruct (hop n a); lia].
Qed.

Lemma learned_from s n m :
  learned s n m = heard s n m \/ exists d, hop n d = true /\ learned s n m = heard s d m.
Proof.
  unfold learned. induction nodes as [| a others]; simpl; auto.
  destruct (hop n a) eqn:Hop; auto.
  destruct (Z.max_spec (heard s a m)
    (fold_right (fun d most => if hop n d then Z.max (heard s d m) most else most) (heard s n m) others)) as [[_ E] | [_ E]];
    rewrite E; eauto.
Qed.

Lemma traffic_of_join s n : part_of n = Source -> traffic s -> traffic (after_join s n).
Proof.
  intros Src [C O F A T W H]. destruct Assumed as [_ Ends _].
  constructor; unfold after_join, set; simpl; auto.
  - intros k m. look; auto. pose proof (learned_more s n m). specialize (C n m). lia.
  - intros k m. 
    assert (Most : learned s n m <= heard s m m) by (destruct (learned_from s n m) as [E | [d [_ E]]]; rewrite E; auto).
    pose proof (learned_more s n m). specialize (O k m). look; try lia; subst; lia.
  - intros k m. look; auto. intro Some. destruct (learned_from s n m) as [E | [d [Hop E]]]; rewrite E in Some; auto.
    eapply Through; eauto.
  - intros up down m epoch In. apply T in In. look; [pose proof (learned_more s n m) |]; lia.
  - intros up down m Hop Here. unfold on_its_way; simpl; unfold set.
    destruct (Ends _ _ Hop) as [_ NotSource].
    destruct (same down n) as [E | _]; [subst; congruence |].
    destruct (same up n) as [E | Other].
    + subst. left. pose proof (learned_from_all s n down m Hop). lia.
    + apply W; auto. unfold is_here in *; simpl in *; unfold set in Here.
      destruct (part_of up); auto. destruct (same up n); [contradiction | assumption].
  - intros k m Is. look; auto.
Qed.

Lemma told_when_known s n m : heard s n m > 0 -> In (m, heard s n m) (newest s n).
Proof.
  intro Some. unfold newest. apply filter_In. split; [| apply Z.ltb_lt; simpl; lia].
  apply in_map_iff. exists m. split; [reflexivity | apply (finite Assumed)].
Qed.

Lemma traffic_of_connection s up down queue :
  traffic s -> hop up down = true ->
  (forall m epoch, In (m, epoch) queue -> epoch <= heard s down m) ->
  (is_here s up = true ->
   forall m, heard s up m >= heard s down m \/ exists epoch, In (m, epoch) queue /\ epoch >= heard s down m) ->
  traffic (with_signals s up down queue).
Proof.
  intros [C O F A T W H] Hop In All.
  constructor; unfold with_signals, set2, set; simpl; auto.
  - intros u d. look; auto.
  - intros u d m epoch. look; eauto.
  - intros u d m Hops Here. unfold on_its_way; simpl; unfold set2, set. look; try apply W; auto.
Qed.

(* What was on its way still is, or has been heard. *)
Lemma on_way_after s up down m epoch others u d k now :
  signals s up down = (m, epoch) :: others -> epoch > heard s up m -> on_its_way s u d k ->
  (forall e, In (k, e) (set2 (signals s) up down others u d) -> In (k, e) now) ->
  set2 (heard s) up m epoch u k >= heard s d k \/ exists e, In (k, e) now /\ e >= heard s d k.
Proof.
  intros Queue News Was Kept.
  assert (Grows : heard s u k <= set2 (heard s) up m epoch u k) by (unfold set2, set; look; lia).
  destruct Was as [Was | [e [In Was]]]; [left; lia |].
  unfold set2 at 1, set in Kept.
  destruct (same u up); [subst; destruct (same d down); [subst |] |]; eauto.
  rewrite Queue in In. destruct In as [Head | In]; eauto.
  inversion Head; subst. left. unfold set2, set. look; congruence || lia.
Qed.

Lemma traffic_of_signal s up down told others :
  signals s up down = told :: others -> traffic s -> traffic (after_signal s up down told others).
Proof.
  intros Queue [C O F A T W H]. destruct Assumed as [_ Ends _]. destruct told as [m epoch].
  assert (Hop : hop up down = true) by (apply A; rewrite Queue; discriminate).
  assert (Told : epoch <= heard s down m) by (apply (T up); rewrite Queue; simpl; auto).
  assert (Tail : forall k e, In (k, e) others -> e <= heard s down k)
    by (intros k e In; apply (T up); rewrite Queue; simpl; auto).
  destruct (Ends _ _ Hop) as [NotSink NotSource].
  unfold after_signal. destruct (Z.gtb_spec epoch (heard s up m)) as [News | Old].
  - pose proof (O down m) as Least. pose proof (C up m) as Some.
    assert (Other : up <> m) by (intro; subst; lia).
    assert (From : reaches down m) by (apply F; lia).
    constructor; simpl.
    + intros; unfold set2, set; look; auto; lia.
    + intros n k. pose proof (O n k). unfold set2, set. look; try congruence; try lia.
    + intros n k. unfold set2, set. look; auto. intros _. eapply Through; eauto.
    + intros u d. destruct (part_of up); unfold forwarded, set2, set; look; auto.
      all: match goal with |- context [if (hop ?a ?b && _) then _ else _] => destruct (hop a b) eqn:E end;
        simpl; intros; try reflexivity; rewrite <- E; auto.
    + intros u d k e.
      assert (Rest : In (k, e) (set2 (signals s) up down others u d) -> e <= heard s d k)
        by (unfold set2, set; look; eauto).
      assert (Grows : heard s d k <= set2 (heard s) up m epoch d k) by (unfold set2, set; look; lia).
      destruct (part_of up); [intro In; apply Rest in In; lia | | intro In; apply Rest in In; lia].
      unfold forwarded. destruct (same d up) as [E | _]; [| intro In; apply Rest in In; lia].
      destruct (hop u d && is_here s u); [| intro In; apply Rest in In; lia].
      intro In. apply in_app_or in In. destruct In as [In | [E2 | []]]; [apply Rest in In; lia |].
      inversion E2; subst. unfold set2, set. look; lia || congruence.
    + intros u d k Hops Here. change (is_here s u = true) in Here.
      destruct (Ends _ _ Hops) as [_ DownNotSource]. unfold on_its_way; simpl.
      match goal with |- context [exists e, In (k, e) ?queue /\ _] => set (now := queue) end.
      assert (Kept : forall e, In (k, e) (set2 (signals s) up down others u d) -> In (k, e) now).
      { intros e In. unfold now. destruct (part_of up); auto. unfold forwarded. look; auto.
        all: match goal with |- context [if ?b then _ else _] => destruct b end; auto; apply in_or_app; auto. }
      destruct (same d up) as [E | Apart]; [destruct (same k m) as [E2 | Apart] |].
      * subst d k. right. exists epoch. split; [| unfold set2, set; look; congruence || lia].
        unfold now. destruct (part_of up) eqn:Part; try congruence. unfold forwarded.
        destruct (same up up); [| congruence]. rewrite Hops, Here. apply in_or_app; simpl; auto.
      * assert (Same : set2 (heard s) up m epoch d k = heard s d k) by (unfold set2, set; look; congruence).
        rewrite Same. eapply on_way_after; eauto; lia.
      * assert (Same : set2 (heard s) up m epoch d k = heard s d k) by (unfold set2, set; look; congruence).
        rewrite Same. eapply on_way_after; eauto; lia.
    + intros n k Src. pose proof (H n k Src). unfold set2, set. destruct (part_of up) eqn:Part; look; auto; congruence.
  - assert (Same : match part_of up with
                   | Relay => set2 (signals s) up down others
                   | _ => set2 (signals s) up down others
                   end = set2 (signals s) up down others) by (destruct (part_of up); reflexivity).
    constructor; simpl; rewrite ?Same; auto.
    + intros u d. unfold set2, set. look; auto.
    + intros u d k e. unfold set2, set. look; eauto.
    + intros u d k Hops Here. unfold on_its_way; simpl; rewrite ?Same.
      destruct (W u d k Hops Here) as [Was | [e [In Was]]]; auto.
      unfold set2, set. destruct (same u up); [subst; destruct (same d down); [subst |] |]; eauto.
      rewrite Queue in In. destruct In as [Head | In]; eauto. inversion Head; subst. left; lia.
    + destruct (part_of up); auto.
Qed.

Lemma traffic_of s : invariant s -> traffic s.
Proof. intros []. constructor; auto. Qed.

Lemma invariant_of s :
  traffic s -> (forall m, 0 <= wire s m /\ 0 <= inbox s m) -> (forall m, part_of m = Sink -> marked s m) -> invariant s.
Proof. intros []. constructor; auto. Qed.

Lemma next_epoch epoch : is_mute (epoch + 1) = negb (is_mute epoch).
Proof. unfold is_mute. rewrite Z.odd_add. destruct (Z.odd epoch); reflexivity. Qed.

Lemma counted_evaluated s m :
  (forall k, 0 <= wire s k /\ 0 <= inbox s k) -> forall k, 0 <= wire (evaluate s m) k /\ 0 <= inbox (evaluate s m) k.
Proof. intros Counted. unfold evaluate. destruct (must_turn s m); auto. Qed.

(* Whatever a sink has in its queue: when it has looked at its marks, they hold. *)
Lemma marked_evaluated s m on_wire in_queue :
  (forall k, part_of k = Sink -> marked s k) -> gone s m = false ->
  forall k, part_of k = Sink -> marked (evaluate (with_sink s m (gone s m) on_wire in_queue) m) k.
Proof.
  intros Marks Here k Is. specialize (Marks k Is). destruct Assumed as [_ _ Apart].
  unfold evaluate, must_turn, marked, begin_epoch, with_epoch, with_sink, set2, set in *; simpl in *.
  destruct (same m m); [| congruence].
  destruct (is_mute (heard s m m)) eqn:Mute.
  - destruct (Z.leb_spec in_queue Low); simpl; unfold set; destruct (same k m); subst; simpl;
      rewrite ?next_epoch, ?Mute in *; simpl; auto; rewrite ?Here; split; try split; try congruence; try lia; auto.
    all: destruct (same m m); try congruence; rewrite ?next_epoch, ?Mute; simpl; lia.
  - destruct (Z.gtb_spec in_queue High); simpl; unfold set; destruct (same k m); subst; simpl;
      rewrite ?next_epoch, ?Mute in *; simpl; auto; rewrite ?Here; split; try split; try congruence; try lia; auto.
    all: destruct (same m m); try congruence; rewrite ?next_epoch, ?Mute; simpl; lia || (split; [reflexivity | lia]).
Qed.

Lemma environment_keeps s t : invariant s -> environment s t -> invariant t.
Proof.
  intros I Step. pose proof (traffic_of s I) as Traffic. pose proof I as [Counted Marks C O F A T W H].
  destruct Step as [n Src | m _ Is Here | m _ Is Some | up down _ Some | up down told others _ Queue].
  - apply invariant_of; auto using traffic_of_join.
    intros m Is. specialize (Marks m Is). unfold marked, after_join, set in *; simpl.
    destruct (same m n); [congruence | assumption].
  - destruct (is_mute (heard s m m)) eqn:Mute; apply invariant_of; auto using traffic_of_epoch, traffic_of_sink.
    1, 3: intro k; simpl; unfold set; destruct (same k m); auto; lia.
    all: intros k Isk; specialize (Marks k Isk); destruct Assumed as [_ _ Apart];
      unfold marked, begin_epoch, with_epoch, with_sink, set2, set in *; simpl; destruct (same k m); auto; subst;
      try (destruct (same m m); [| congruence]); rewrite ?next_epoch, ?Mute; simpl; split; auto; lia.
  - assert (Here : gone s m = false).
    { destruct (Marks m Is) as [_ Gone]. destruct (gone s m); auto. specialize (Gone eq_refl). lia. }
    apply invariant_of.
    + auto using traffic_evaluated, traffic_of_sink.
    + apply counted_evaluated. intro k; simpl; unfold set; destruct (same k m); auto. split; [apply Counted | lia].
    + apply marked_evaluated; auto.
  - apply invariant_of; auto. apply traffic_of_connection; auto.
    + intros m epoch In. apply filter_In in In. destruct In as [In _]. apply in_map_iff in In.
      destruct In as [k [E _]]. inversion E; subst. lia.
    + intros _ m. destruct (Z_gt_le_dec (heard s down m) 0) as [Known | None].
      * right. exists (heard s down m). split; [apply told_when_known; assumption | lia].
      * left. specialize (C up m). lia.
  - assert (Hop : hop up down = true) by (apply A; rewrite Queue; discriminate).
    apply invariant_of; auto. apply traffic_of_connection; auto.
    + intros m epoch In. apply (T up). apply in_app_or in In. destruct In as [In | [E | []]]; auto.
      rewrite Queue, E. simpl; auto.
    + intros Here m. destruct (W up down m Hop Here) as [Was | [e [In Was]]]; auto.
      right. exists e. split; [apply in_or_app; auto | assumption].
Qed.

Lemma protocol_keeps s t : invariant s -> protocol s t -> invariant t.
Proof.
  intros I Step. pose proof (traffic_of s I) as Traffic. pose proof I as [Counted Marks C O F A T W H].
  destruct Step as [n m Src Joined _ _ _ Here | m Is Some | m Is Some | up down told others Queue].
  - apply invariant_of; [constructor; auto | |].
    + intro k; simpl; unfold set. specialize (Counted k). destruct (same k m); auto; subst; lia.
    + intros k Is. specialize (Marks k Is). unfold marked, set in *; simpl. destruct (same k m); auto; subst.
      destruct Marks as [Mark _]. split; [assumption | congruence].
  - assert (Here : gone s m = false).
    { destruct (Marks m Is) as [_ Gone]. destruct (gone s m); auto. specialize (Gone eq_refl). lia. }
    pose proof (Counted m). apply invariant_of.
    + auto using traffic_evaluated, traffic_of_sink.
    + apply counted_evaluated. intro k; simpl; unfold set; destruct (same k m); auto. lia.
    + apply marked_evaluated; auto.
  - assert (Here : gone s m = false).
    { destruct (Marks m Is) as [_ Gone]. destruct (gone s m); auto. specialize (Gone eq_refl). lia. }
    pose proof (Counted m). apply invariant_of.
    + auto using traffic_evaluated, traffic_of_sink.
    + apply counted_evaluated. intro k; simpl; unfold set; destruct (same k m); auto. lia.
    + apply marked_evaluated; auto.
  - assert (Hop : hop up down = true) by (apply A; rewrite Queue; discriminate).
    destruct (sinks_end Assumed _ _ Hop) as [NotSink _].
    apply invariant_of; [eapply traffic_of_signal; eauto | |].
    + destruct told. exact Counted.
    + intros k Is. specialize (Marks k Is). destruct told as [m epoch]. unfold marked, after_signal in *; simpl.
      destruct (epoch >? heard s up m); auto. unfold set2, set. destruct (same k up); [congruence | assumption].
Qed.

Theorem invariant_always s : reachable s -> invariant s.
Proof. induction 1; [apply holds_at_start | eapply environment_keeps | eapply protocol_keeps]; eauto. Qed.

(* No node has heard more than the muter has told, and none tells more than it has heard. *)
Theorem in_order s :
  reachable s ->
  (forall n m, heard s n m <= heard s m m) /\
  (forall up down m epoch, In (m, epoch) (signals s up down) -> epoch <= heard s down m).
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Theorem marks_kept s m : reachable s -> part_of m = Sink -> marked s m.
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Theorem always_on_its_way s up down m :
  reachable s -> hop up down = true -> is_here s up = true -> on_its_way s up down m.
Proof. intros R. destruct (invariant_always s R). auto. Qed.

Lemma held_if_mute s n m :
  reachable s -> part_of n = Source -> (holds s n m > 0 <-> is_mute (heard s n m) = true).
Proof.
  intros R Src. rewrite (held_as_heard s (invariant_always s R) n m Src). unfold is_mute.
  rewrite Zmod_odd. destruct (Z.odd (heard s n m)); split; intro; try lia; congruence.
Qed.

(* A source does not read if the newest epoch that it has heard of some sink is a mute. *)
Theorem no_early_unmute s n m :
  reachable s -> part_of n = Source -> is_mute (heard s n m) = true -> holds s n m > 0.
Proof. intros. apply held_if_mute; auto. Qed.

Definition quiet (s : state) : Prop := forall up down, signals s up down = [].

Lemma all_heard s n m : reachable s -> quiet s -> reaches n m -> is_here s n = true -> heard s n m = heard s m m.
Proof.
  intros R Quiet Path. pose proof (invariant_always s R) as I.
  induction Path as [m Is | up down m Hop Path IH]; intro Here; auto.
  assert (Down : is_here s down = true).
  { destruct (sinks_end Assumed _ _ Hop). unfold is_here. destruct (part_of down); congruence. }
  specialize (IH Down). pose proof (heard_in_order s I up m).
  destruct (all_on_way s I up down m Hop Here) as [Was | [e [In _]]]; [lia |].
  rewrite Quiet in In. contradiction.
Qed.

(* When nothing is in flight, each source is held by the sinks that mute, and by no other. *)
Theorem settled s n m :
  reachable s -> quiet s -> part_of n = Source -> is_here s n = true -> reaches n m ->
  (holds s n m > 0 <-> is_mute (heard s m m) = true).
Proof. intros. rewrite <- (all_heard s n m); auto. apply held_if_mute; auto. Qed.

(* Has a source something to send, and a sink for it? *)
Definition has_work (s : state) (n : node) : Prop :=
  part_of n = Source /\ joined s n = true /\ left s n > 0 /\ exists m, reaches n m /\ gone s m = false.

Lemma some_or_none (p : node -> bool) : (exists n, p n = true) \/ (forall n, p n = false).
Proof.
  destruct (existsb p nodes) eqn:Found.
  - apply existsb_exists in Found. destruct Found as [n [_ Is]]. eauto.
  - right. intro n. destruct (p n) eqn:Is; auto.
    assert (existsb p nodes = true) by (apply existsb_exists; exists n; split; [apply finite|]; auto). congruence.
Qed.

Lemma reached_is_sink n m : reaches n m -> part_of m = Sink.
Proof. induction 1; auto. Qed.

(* As long as a source has something for a sink, something moves: a mute is undone. *)
Theorem never_stuck s : reachable s -> (exists n, has_work s n) -> exists t, protocol s t.
Proof.
  intros R [n [Src [Joined [Left [m [Path Here]]]]]]. pose proof (invariant_always s R) as I.
  destruct (some_or_none (fun up => existsb (fun down => match signals s up down with [] => false | _ => true end) nodes))
    as [[up Some] | Quiet].
  { apply existsb_exists in Some. destruct Some as [down [_ Some]].
    destruct (signals s up down) as [| told others] eqn:Queue; [discriminate |]. eexists. eapply ReceiveSignal; eauto. }
  assert (Still : quiet s).
  { intros up down. destruct (signals s up down) eqn:Queue; auto. specialize (Quiet up).
    exfalso. rewrite <- not_true_iff_false in Quiet. apply Quiet. apply existsb_exists. exists down.
    rewrite Queue. split; [apply finite|]; auto. }
  destruct (some_or_none (fun k => match part_of k with Sink => 0 <? inbox s k | _ => false end)) as [[k Some] | Empty].
  { destruct (part_of k) eqn:Is; try discriminate. apply Z.ltb_lt in Some. eexists. apply (Consume s k); [auto | lia]. }
  eexists. apply (Send s n m); auto. intros [k Holds].
  apply held_if_mute in Holds; auto.
  assert (Known : reaches n k).
  { apply (heard_from s I). intro None. rewrite None in Holds. discriminate. }
  assert (There : is_here s n = true) by (unfold is_here; rewrite Src; assumption).
  rewrite (all_heard s n k) in Holds; auto. pose proof (reached_is_sink n k Known) as Is.
  specialize (Empty k). rewrite Is in Empty. apply Z.ltb_ge in Empty.
  destruct (marks s I k Is) as [Mark _]. rewrite Holds in Mark. destruct (marks_apart Assumed). lia.
Qed.

End Graph.

Print Assumptions invariant_always.
Print Assumptions in_order.
Print Assumptions marks_kept.
Print Assumptions always_on_its_way.
Print Assumptions no_early_unmute.
Print Assumptions settled.
Print Assumptions never_stuck.
