(* An independent reading of spec/input_gate/InputGate.tla with InputGateCredit and InputGateAlignment, written by hand:
   nothing here comes from the model or from the theorems for Z3.  All parameters, any number of inputs, queues of any
   length; coqc checks it without a solver.

   Left out: fairness, and what holds given fairness; the ranges and the order of epochs (InEpoch).  Epochs are here, as
   barriers are told apart by them, but whatever they are, the rest holds. *)

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

Lemma sum_at_most {A} (f g : A -> Z) items : (forall item, f item <= g item) -> sum f items <= sum g items.
Proof. intro Each. induction items as [| a others]; simpl; [lia | specialize (Each a); lia]. Qed.

Lemma sum_same {A} (f g : A -> Z) items : (forall item, f item = g item) -> sum f items = sum g items.
Proof. intro Each. induction items; simpl; congruence. Qed.

Lemma sum_of_none {A} (items : list A) : sum (fun _ => 0) items = 0.
Proof. induction items; simpl; lia. Qed.

Definition one (condition : bool) : Z := if condition then 1 else 0.

Inductive kind := Data | Barrier | Announcement.

Record item := Item { kind_of : kind; of_epoch : Z; backlog : Z }.

Definition is_data (i : item) := match kind_of i with Data => true | _ => false end.
Definition is_barrier (i : item) := match kind_of i with Barrier => true | _ => false end.

Definition data (queue : list item) : Z := sum (fun i => one (is_data i)) queue.
Definition barriers (queue : list item) : Z := sum (fun i => one (is_barrier i)) queue.

Definition RESUME := 0.
Definition REVOKE := -1.

Record channel := Channel {
  epoch : Z;             (* of the next offered item *)
  sent : Z;              (* of the next sent item *)
  waiting : list item;
  stopped : bool;
  announced : Z;
  credit : Z;
  wire : list item;
  inbox : list item;
  blocked : bool;
  released : bool;
  required : Z;
  free : Z;
  borrowed : Z;
  grants : list Z;
  closed : bool;
  over : bool
}.

Section Gate.

Variable name : Type.
Variable same : forall left right : name, {left = right} + {left <> right}.
Variable names : list name.
Variables Exclusive Floating Backlog Epochs Skip : Z.
Variables Revoke Ends Losses : bool.

Record assumption : Prop := Assumption {
  all_named : forall c, In c names;
  named_once : NoDup names;
  numbers : 0 <= Exclusive /\ 0 <= Floating /\ 0 <= Skip
}.

Record state := State { channels : name -> channel; pool : Z; gate_epoch : Z; failed : bool }.

Definition opened (with_credit : Z) (is_over : bool) : channel :=
  Channel 0 0 [] false 0 with_credit [] [] false false 0 0 0 [] is_over is_over.

Definition start : state := State (fun _ => opened Exclusive false) Floating 0 false.

Definition set (f : name -> channel) (c : name) (value : channel) : name -> channel :=
  fun d => if same d c then value else f d.

Definition counted (epochs : Z) : Z := if Epochs =? 0 then epochs else epochs mod Epochs.

Definition pipe (ch : channel) : list item := inbox ch ++ wire ch ++ waiting ch.

Definition takes_back : bool := Revoke || (Exclusive =? 0).

(* What may happen at one channel of a gate with this pool: what it becomes, and the pool. *)

Inductive offers (ch : channel) : channel -> Prop :=
| OfferData :
    closed ch = false -> data (pipe ch) + barriers (pipe ch) < Backlog ->
    offers ch
      (Channel (epoch ch) (sent ch) (waiting ch ++ [Item Data (epoch ch) 0]) (stopped ch) (announced ch) (credit ch)
         (wire ch) (inbox ch) (blocked ch) (released ch) (required ch) (free ch) (borrowed ch) (grants ch) (closed ch)
         (over ch))
| OfferBarrier skipped :   (* OfferNewerBarrier, if it skips some *)
    closed ch = false -> data (pipe ch) + barriers (pipe ch) < Backlog -> 0 <= skipped <= Skip ->
    Skip = 0 \/ Epochs = 0 \/ epoch ch + skipped + 1 < Epochs ->
    offers ch
      (Channel (counted (epoch ch + skipped + 1)) (sent ch) (waiting ch ++ [Item Barrier (epoch ch + skipped) 0])
         (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch) (blocked ch) (released ch) (required ch) (free ch)
         (borrowed ch) (grants ch) (closed ch) (over ch))
| OfferEnd :
    Ends = true -> closed ch = false ->
    offers ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch)
         (blocked ch) (released ch) (required ch) (free ch) (borrowed ch) (grants ch) true (over ch)).

(* At the sender. *)
Inductive sends (ch : channel) : channel -> Prop :=
| SendData head others :
    waiting ch = head :: others -> kind_of head = Data -> stopped ch = false -> credit ch > 0 ->
    sends ch
      (Channel (epoch ch) (sent ch) others (stopped ch) (data (waiting ch) - 1) (credit ch - 1)
         (wire ch ++ [Item Data (of_epoch head) (data (waiting ch) - 1)]) (inbox ch) (blocked ch) (released ch)
         (required ch) (free ch) (borrowed ch) (grants ch) (closed ch) (over ch))
| SendBarrier head others :
    waiting ch = head :: others -> kind_of head = Barrier -> stopped ch = false ->
    sends ch
      (Channel (epoch ch) (counted (of_epoch head + 1)) others true 0 (credit ch)
         (wire ch ++ [Item Barrier (of_epoch head) 0]) (inbox ch) (blocked ch) (released ch) (required ch) (free ch)
         (borrowed ch) (grants ch) (closed ch) (over ch))
| AnnounceBacklog :
    Exclusive = 0 -> stopped ch = false -> credit ch = 0 -> announced ch < data (waiting ch) ->
    sends ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (data (waiting ch)) (credit ch)
         (wire ch ++ [Item Announcement (sent ch) (data (waiting ch))]) (inbox ch) (blocked ch) (released ch)
         (required ch) (free ch) (borrowed ch) (grants ch) (closed ch) (over ch))
| AddCredit grant others :
    grants ch = grant :: others -> grant > 0 ->
    sends ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch + grant) (wire ch) (inbox ch)
         (blocked ch) (released ch) (required ch) (free ch) (borrowed ch) others (closed ch) (over ch))
| ResumeConsumption word others :
    grants ch = word :: others -> word <= RESUME ->
    sends ch
      (Channel (epoch ch) (sent ch) (waiting ch) false (announced ch) (if word =? REVOKE then 0 else credit ch) (wire ch)
         (inbox ch) (blocked ch) (released ch) (required ch) (free ch) (borrowed ch) others (closed ch) (over ch)).

Definition takes (message : item) : bool := is_barrier message && takes_back.

Definition kept (ch : channel) (message : item) : Z :=
  if takes message then Z.min (borrowed ch) (data (inbox ch)) else borrowed ch.

Definition home (ch : channel) : Z := if borrowed ch >? 0 then 1 else 0.

(* At the gate, with this pool, but for barriers. *)
Inductive takes_in (p : Z) (has_failed : bool) (ch : channel) : channel -> Z -> Prop :=
| Deliver message others :
    wire ch = message :: others ->
    takes_in p has_failed ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) others
         (match kind_of message with Announcement => inbox ch | _ => inbox ch ++ [message] end) (blocked ch)
         (released ch || takes message) (backlog message)
         (if takes message then Exclusive + kept ch message - data (inbox ch) else free ch) (kept ch message)
         (grants ch) (closed ch) (over ch))
      (p + borrowed ch - kept ch message)
| ConsumeData head others :
    has_failed = false -> inbox ch = head :: others -> kind_of head = Data -> blocked ch = false ->
    takes_in p has_failed ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) others (blocked ch)
         (released ch) (required ch) (free ch + 1 - home ch) (borrowed ch - home ch) (grants ch) (closed ch) (over ch))
      (p + home ch)
| Borrow :
    p > 0 -> released ch = false -> over ch = false -> borrowed ch - data (inbox ch) < required ch ->
    takes_in p has_failed ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch)
         (blocked ch) (released ch) (required ch) (free ch + 1) (borrowed ch + 1) (grants ch) (closed ch) (over ch))
      (p - 1)
| Grant :
    free ch > 0 -> released ch = false ->
    takes_in p has_failed ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch)
         (blocked ch) (released ch) (required ch) 0 (borrowed ch) (grants ch ++ [free ch]) (closed ch) (over ch))
      p
| ConsumeEnd :
    has_failed = false -> closed ch = true -> over ch = false -> pipe ch = [] -> stopped ch = false ->
    blocked ch = false ->
    takes_in p has_failed ch
      (Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch)
         (blocked ch) (released ch) (required ch) 0 0 (grants ch) (closed ch) true)
      (p + borrowed ch).

(* Behind its barrier; then told to go on. *)
Definition behind (ch : channel) (others : list item) : channel :=
  Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) others true (released ch)
    (required ch) (free ch) (borrowed ch) (grants ch) (closed ch) (over ch).

Definition resumed (ch : channel) : channel :=
  Channel (epoch ch) (sent ch) (waiting ch) (stopped ch) (announced ch) (credit ch) (wire ch) (inbox ch) false false
    (required ch) (free ch) (borrowed ch) (grants ch ++ [if released ch then REVOKE else RESUME]) (closed ch) (over ch).

Definition freed (ch : channel) : channel := if blocked ch then resumed ch else ch.

Definition pending (s : state) : Prop := exists c, blocked (channels s c) = true.

Definition joined (s : state) : Prop :=
  pending s /\ forall c, blocked (channels s c) = true \/ over (channels s c) = true.

Definition takes_barrier (s : state) (c : name) (head : item) (others : list item) : Prop :=
  failed s = false /\ inbox (channels s c) = head :: others /\ kind_of head = Barrier /\ blocked (channels s c) = false.

Inductive protocol (s : state) : state -> Prop :=
| AtSender c ch :
    sends (channels s c) ch -> protocol s (State (set (channels s) c ch) (pool s) (gate_epoch s) (failed s))
| AtGate c ch p :
    takes_in (pool s) (failed s) (channels s c) ch p ->
    protocol s (State (set (channels s) c ch) p (gate_epoch s) (failed s))
| ConsumeBarrier c head others :
    takes_barrier s c head others ->
    Skip = 0 \/ of_epoch head = gate_epoch s \/ (of_epoch head > gate_epoch s /\ ~ pending s) ->
    protocol s
      (State (set (channels s) c (behind (channels s c) others)) (pool s)
         (if Skip =? 0 then gate_epoch s else of_epoch head) (failed s))
| ConsumeNewerBarrier c head others :
    Skip > 0 -> takes_barrier s c head others -> of_epoch head > gate_epoch s -> pending s ->
    protocol s
      (State (set (fun d => freed (channels s d)) c (behind (channels s c) others)) (pool s) (of_epoch head) (failed s))
| ConsumeOlderBarrier c head others :
    Skip > 0 -> takes_barrier s c head others -> of_epoch head < gate_epoch s ->
    protocol s
      (State (set (channels s) c (resumed (behind (channels s c) others))) (pool s) (gate_epoch s) (failed s))
| Align :
    joined s ->
    protocol s (State (fun d => freed (channels s d)) (pool s) (counted (gate_epoch s + 1)) (failed s)).

Inductive environment (s : state) : state -> Prop :=
| AtApplication c ch :
    offers (channels s c) ch -> environment s (State (set (channels s) c ch) (pool s) (gate_epoch s) (failed s))
| LoseInput c now :   (* the next epoch, if an alignment is given up *)
    Losses = true -> over (channels s c) = false ->
    (pending s /\ now = counted (gate_epoch s + 1)) \/ (~ pending s /\ now = gate_epoch s) ->
    environment s
      (State (set (fun d => freed (channels s d)) c (opened 0 true)) (pool s + borrowed (channels s c)) now true).

Inductive reachable : state -> Prop :=
| Initially : reachable start
| ByEnvironment s t : reachable s -> environment s t -> reachable t
| ByProtocol s t : reachable s -> protocol s t -> reachable t.

(* What every channel satisfies. *)

(* The credit of a sender when all of this has arrived. *)
Fixpoint after (now : Z) (coming : list Z) : Z :=
  match coming with
  | [] => now
  | grant :: others => after (if grant =? REVOKE then 0 else now + grant) others
  end.

(* Credit that may still be used. *)
Definition valid (ch : channel) : Z := if released ch || over ch then 0 else after (credit ch) (grants ch).

Definition data_here (ch : channel) : Z := data (wire ch) + data (inbox ch).

Definition words (coming : list Z) : Z := sum (fun grant => one (grant <=? RESUME)) coming.

(* A barrier is the last one. *)
Fixpoint nothing_behind (stored : list item) : Prop :=
  match stored with
  | [] => True
  | i :: others => (is_barrier i = true -> others = []) /\ nothing_behind others
  end.

(* The backlog that the gate will know. *)
Fixpoint told (known : Z) (messages : list item) : Z :=
  match messages with
  | [] => known
  | message :: others => told (backlog message) others
  end.

(* Nobody tells of more than waits, or travels behind the message. *)
Fixpoint is_true (left : Z) (messages : list item) : Prop :=
  match messages with
  | [] => True
  | message :: others => 0 <= backlog message <= left + data others /\ is_true left others
  end.

Definition stays (i : item) : Prop := kind_of i <> Announcement.

Record lawful (has_failed : bool) (ch : channel) : Prop := Lawful {
  naturals : 0 <= announced ch /\ 0 <= credit ch /\ 0 <= required ch /\ 0 <= free ch /\ 0 <= borrowed ch;
  kinds : Forall stays (waiting ch) /\ Forall stays (inbox ch);
  granted : Forall (fun grant => REVOKE <= grant) (grants ch);
  conserved : valid ch + data_here ch + free ch = borrowed ch + (if over ch then 0 else Exclusive);
  stopped_by_barrier :
    one (stopped ch) = barriers (wire ch) + barriers (inbox ch) + one (blocked ch) + words (grants ch);
  barriers_last : nothing_behind (inbox ch ++ wire ch);
  blocked_empty : blocked ch = true -> inbox ch = [] /\ wire ch = [];
  after_end :
    over ch = true ->
    closed ch = true /\ inbox ch = [] /\ wire ch = [] /\ waiting ch = [] /\ blocked ch = false /\ borrowed ch = 0 /\
    free ch = 0;
  released_by_barrier : released ch = takes_back && (blocked ch || (barriers (inbox ch) >? 0));
  released_cold : released ch = true -> Exclusive = 0 -> free ch = 0;
  announced_waits : announced ch <= data (waiting ch);
  announced_told : announced ch = told (required ch) (wire ch);
  required_comes : required ch <= data (waiting ch) + data (wire ch);
  told_comes : is_true (data (waiting ch)) (wire ch);
  nothing_hoarded : valid ch + free ch <= Exclusive + data (waiting ch);
  loss_frees : has_failed = true -> blocked ch = false
}.

Record invariant (s : state) : Prop := Invariant {
  all_lawful : forall c, lawful (failed s) (channels s c);
  pool_counted : pool s + sum (fun c => borrowed (channels s c)) names = Floating;
  pool_natural : 0 <= pool s
}.

Hypothesis Assumed : assumption.

(* Queues. *)

Local Arguments data : simpl never.
Local Arguments barriers : simpl never.
Local Arguments words : simpl never.
Local Arguments Z.add : simpl never.
Local Arguments Z.sub : simpl never.

Lemma data_app left right : data (left ++ right) = data left + data right.
Proof. apply sum_app. Qed.

Lemma barriers_app left right : barriers (left ++ right) = barriers left + barriers right.
Proof. apply sum_app. Qed.

Lemma words_app left right : words (left ++ right) = words left + words right.
Proof. apply sum_app. Qed.

Lemma data_cons i others : data (i :: others) = one (is_data i) + data others.
Proof. reflexivity. Qed.

Lemma barriers_cons i others : barriers (i :: others) = one (is_barrier i) + barriers others.
Proof. reflexivity. Qed.

Lemma words_cons grant others : words (grant :: others) = one (grant <=? RESUME) + words others.
Proof. reflexivity. Qed.

Lemma one_range b : 0 <= one b <= 1.
Proof. destruct b; cbn [one]; lia. Qed.

Lemma of_nothing : data [] = 0 /\ barriers [] = 0 /\ words [] = 0.
Proof. auto. Qed.

Definition data_nil := proj1 of_nothing.
Definition barriers_nil := proj1 (proj2 of_nothing).
Definition words_nil := proj2 (proj2 of_nothing).

Local Hint Rewrite data_app barriers_app words_app data_cons barriers_cons words_cons data_nil barriers_nil words_nil : counts.

Ltac count := autorewrite with counts in *; cbn [one is_data is_barrier kind_of of_epoch backlog] in *.

Lemma data_natural queue : 0 <= data queue.
Proof. induction queue as [| i others]; [reflexivity | rewrite data_cons; pose proof (one_range (is_data i)); lia]. Qed.

Lemma barriers_natural queue : 0 <= barriers queue.
Proof.
  induction queue as [| i others]; [reflexivity | rewrite barriers_cons; pose proof (one_range (is_barrier i)); lia].
Qed.

Lemma words_natural coming : 0 <= words coming.
Proof.
  induction coming as [| g others]; [reflexivity | rewrite words_cons; pose proof (one_range (g <=? RESUME)); lia].
Qed.

Lemma nothing_behind_none left right : barriers left = 0 -> nothing_behind right -> nothing_behind (left ++ right).
Proof.
  induction left as [| i others IH]; simpl; auto. intros None Right. rewrite barriers_cons in None.
  pose proof (one_range (is_barrier i)). pose proof (barriers_natural others). split; [| apply IH; auto; lia].
  intro Is. rewrite Is in None. cbn [one] in None. lia.
Qed.

Lemma nothing_behind_parts left i right :
  nothing_behind (left ++ i :: right) -> barriers left = 0 /\ nothing_behind (i :: right).
Proof.
  induction left as [| j others IH]; intro All; [split; auto |]. destruct All as [Last All]. destruct (IH All) as [None Rest].
  split; auto. rewrite barriers_cons, None. destruct (is_barrier j); [| reflexivity].
  specialize (Last eq_refl). destruct others; discriminate.
Qed.

Lemma after_app coming now last :
  after now (coming ++ [last]) = if last =? REVOKE then 0 else after now coming + last.
Proof. revert now. induction coming; simpl; auto. Qed.

Lemma after_natural coming now : 0 <= now -> Forall (fun grant => REVOKE <= grant) coming -> 0 <= after now coming.
Proof.
  intros Now All. revert now Now. induction All as [| g others Some All IH]; simpl; auto.
  intros now Now. apply IH. destruct (Z.eqb_spec g REVOKE); [lia |]. unfold REVOKE in *. lia.
Qed.

Lemma after_less coming now : words coming = 0 -> after (now - 1) coming = after now coming - 1.
Proof.
  revert now. induction coming as [| g others IH]; simpl; auto. intros now None. rewrite words_cons in None.
  pose proof (one_range (g <=? RESUME)). pose proof (words_natural others).
  destruct (Z.leb_spec g RESUME); cbn [one] in None; [lia |]. unfold RESUME, REVOKE in *.
  destruct (Z.eqb_spec g (-1)); [lia |]. rewrite <- IH by lia. f_equal. lia.
Qed.

Lemma told_app known messages last : told known (messages ++ [last]) = backlog last.
Proof. revert known. induction messages; simpl; auto. Qed.

Lemma is_true_app left messages last :
  is_true left messages -> 0 <= backlog last <= left - one (is_data last) ->
  is_true (left - one (is_data last)) (messages ++ [last]).
Proof.
  intros All Last. induction messages as [| m others IH]; simpl in *; [count; lia |].
  destruct All as [Most All]. count. split; [lia | auto].
Qed.

Lemma is_true_more left more messages : left <= more -> is_true left messages -> is_true more messages.
Proof. intro More. induction messages; simpl; auto. intros [Most All]. split; [lia | auto]. Qed.

Lemma valid_natural has_failed ch : lawful has_failed ch -> 0 <= valid ch.
Proof.
  intros []. unfold valid. destruct (released ch || over ch); [lia | apply after_natural; tauto].
Qed.

Lemma lawful_opened has_failed : lawful has_failed (opened Exclusive false).
Proof.
  destruct Assumed as [_ _ [E [F _]]].
  constructor; unfold valid, data_here, data, barriers, words; simpl; auto; try lia; try discriminate.
Qed.

Lemma lawful_lost has_failed : lawful has_failed (opened 0 true).
Proof.
  destruct Assumed as [_ _ [E [F _]]].
  constructor; unfold valid, data_here, data, barriers, words; simpl; auto 10; try lia; try discriminate.
Qed.

(* One step at a channel keeps what every channel satisfies. *)

Lemma offers_keep has_failed ch next : lawful has_failed ch -> offers ch next -> lawful has_failed next.
Proof.
  intros [] Step. destruct Step as [Open Room | skipped Open Room Most Number | Ending Open].
  - constructor; simpl; auto.
    + destruct kinds0. split; auto. apply Forall_app. split; auto. constructor; [discriminate | constructor].
    + intro Over. destruct (after_end0 Over) as [Closed _]. congruence.
    + count. lia.
    + count. lia.
    + count. eapply is_true_more; [| eassumption]. lia.
    + unfold valid in *; simpl in *. count. lia.
  - constructor; simpl; auto.
    + destruct kinds0. split; auto. apply Forall_app. split; auto. constructor; [discriminate | constructor].
    + intro Over. destruct (after_end0 Over) as [Closed _]. congruence.
    + count. lia.
    + count. lia.
    + count. eapply is_true_more; [| eassumption]. lia.
    + unfold valid in *; simpl in *. count. lia.
  - constructor; simpl; auto.
    intro Over. destruct (after_end0 Over). auto.
Qed.

Lemma over_has_nothing has_failed ch : lawful has_failed ch -> waiting ch <> [] -> over ch = false.
Proof. intros [] Some. destruct (over ch) eqn:Over; auto. destruct after_end0; auto. tauto. Qed.

(* A sender that goes on has no word on its way to it, and no barrier at the gate. *)
Lemma going_on has_failed ch :
  lawful has_failed ch -> stopped ch = false ->
  barriers (wire ch) = 0 /\ barriers (inbox ch) = 0 /\ blocked ch = false /\ words (grants ch) = 0.
Proof.
  intros [] Goes. rewrite Goes in stopped_by_barrier0. cbn [one] in stopped_by_barrier0.
  pose proof (barriers_natural (wire ch)). pose proof (barriers_natural (inbox ch)).
  pose proof (one_range (blocked ch)). pose proof (words_natural (grants ch)).
  destruct (blocked ch); cbn [one] in *; repeat split; lia.
Qed.

Lemma not_released has_failed ch : lawful has_failed ch -> stopped ch = false -> released ch = false.
Proof.
  intros L Goes. destruct (going_on _ _ L Goes) as [_ [None [Free _]]]. destruct L.
  rewrite released_by_barrier0, Free, None. destruct takes_back; reflexivity.
Qed.

(* What of the next channel follows by counting, and what is as before. *)
Ltac settle :=
  unfold valid, data_here in *; simpl in *; count;
  rewrite ?told_app in *; cbn [backlog] in *; auto; try tauto; try lia; try discriminate; try congruence.

Lemma sends_keep has_failed ch next : lawful has_failed ch -> sends ch next -> lawful has_failed next.
Proof.
  intros L Step. pose proof (valid_natural _ _ L) as Natural. pose proof L as K. destruct K.
  destruct Step as
    [head others Head Kind Goes Some | head others Head Kind Goes | None Goes Cold Unknown
    | grant others Head Some | word others Head Word].
  - destruct (going_on _ _ L Goes) as [B1 [B2 [Free W]]]. pose proof (not_released _ _ L Goes) as Kept.
    assert (Live : over ch = false) by (apply (over_has_nothing _ _ L); rewrite Head; discriminate).
    assert (Is : is_data head = true) by (unfold is_data; rewrite Kind; reflexivity).
    rewrite Head, data_cons, Is in *. cbn [one] in *. pose proof (data_natural others).
    replace (1 + data others - 1) with (data others) by lia.
    constructor; unfold valid in *; simpl in *; rewrite ?Kept, ?Live in *; simpl in *; rewrite ?after_less by auto; settle.
    + destruct kinds0 as [Waits Inbox]. inversion Waits. auto.
    + rewrite app_assoc. apply nothing_behind_none; [count; lia | simpl; auto].
    + apply (is_true_app (1 + data others) _ (Item Data (of_epoch head) (data others))) in told_comes0; simpl in *;
        cbn [one] in *; [| lia]. replace (1 + data others - 1) with (data others) in told_comes0 by lia. assumption.
  - destruct (going_on _ _ L Goes) as [B1 [B2 [Free W]]]. pose proof (not_released _ _ L Goes) as Kept.
    assert (Live : over ch = false) by (apply (over_has_nothing _ _ L); rewrite Head; discriminate).
    assert (Is : is_data head = false) by (unfold is_data; rewrite Kind; reflexivity).
    rewrite Head, data_cons, Is in *. cbn [one] in *. pose proof (data_natural others).
    constructor; unfold valid in *; simpl in *; rewrite ?Kept, ?Live in *; simpl in *; settle.
    + destruct kinds0 as [Waits Inbox]. inversion Waits. auto.
    + rewrite Free. cbn [one]. lia.
    + rewrite app_assoc. apply nothing_behind_none; [count; lia | simpl; auto].
    + apply (is_true_app (0 + data others) _ (Item Barrier (of_epoch head) 0)) in told_comes0; simpl in *;
        cbn [one] in *; [| lia]. replace (0 + data others - 0) with (data others) in told_comes0 by lia. assumption.
  - destruct (going_on _ _ L Goes) as [B1 [B2 [Free W]]]. pose proof (not_released _ _ L Goes) as Kept.
    pose proof (data_natural (waiting ch)).
    assert (Live : over ch = false).
    { apply (over_has_nothing _ _ L). intro Empty. rewrite Empty in *. count. lia. }
    constructor; unfold valid in *; simpl in *; rewrite ?Kept, ?Live in *; simpl in *; settle.
    + rewrite app_assoc. apply nothing_behind_none; [count; lia | simpl; split; auto; discriminate].
    + apply (is_true_app (data (waiting ch)) _ (Item Announcement (sent ch) (data (waiting ch)))) in told_comes0;
        simpl in *; cbn [one] in *; [| lia]. rewrite Z.sub_0_r in told_comes0. assumption.
  - assert (Same : forall coming, after (credit ch) (grant :: coming) = after (credit ch + grant) coming).
    { intros. simpl. destruct (Z.eqb_spec grant REVOKE); [unfold REVOKE in *; lia | reflexivity]. }
    assert (NoWord : grant <=? RESUME = false) by (apply Z.leb_gt; unfold RESUME; lia).
    unfold valid in *. rewrite Head, ?words_cons, ?Same, ?NoWord in *. cbn [one] in *.
    constructor; settle. inversion granted0; auto.
  - inversion granted0 as [| ? ? Least Others Shape]; [rewrite Head in *; discriminate |]. rewrite Head in Shape.
    inversion Shape; subst. clear Shape.
    assert (Same : after (credit ch) (word :: others) = after (if word =? REVOKE then 0 else credit ch) others).
    { simpl. destruct (Z.eqb_spec word REVOKE); auto. f_equal. unfold RESUME, REVOKE in *. lia. }
    assert (IsWord : word <=? RESUME = true) by (apply Z.leb_le; assumption).
    unfold valid in *. rewrite Head, ?words_cons, ?Same, ?IsWord in *. cbn [one] in *.
    pose proof (barriers_natural (wire ch)). pose proof (barriers_natural (inbox ch)).
    pose proof (one_range (blocked ch)). pose proof (one_range (stopped ch)). pose proof (words_natural others).
    constructor; settle. destruct (word =? REVOKE); lia.
Qed.

(* A channel with a message on the wire: nothing stands before a barrier at the gate. *)
Lemma before_delivery has_failed ch message others :
  lawful has_failed ch -> wire ch = message :: others ->
  barriers (inbox ch) = 0 /\ nothing_behind (message :: others) /\ blocked ch = false /\ released ch = false /\
  over ch = false.
Proof.
  intros [] Head. rewrite Head in *. destruct (nothing_behind_parts _ _ _ barriers_last0) as [None Behind].
  assert (Free : blocked ch = false).
  { destruct (blocked ch); auto. destruct blocked_empty0 as [_ Empty]; [reflexivity | discriminate]. }
  repeat split; try apply Behind; auto.
  - rewrite released_by_barrier0, Free, None. destruct takes_back; reflexivity.
  - destruct (over ch); auto. destruct after_end0 as [_ [_ [Empty _]]]; [reflexivity | discriminate].
Qed.

Lemma takes_in_keeps has_failed ch next p q :
  lawful has_failed ch -> takes_in p has_failed ch next q -> lawful has_failed next.
Proof.
  intros L Step. pose proof (valid_natural _ _ L) as Natural. pose proof L as K. destruct K.
  pose proof (data_natural (inbox ch)). pose proof (data_natural (wire ch)). pose proof (data_natural (waiting ch)).
  pose proof (numbers Assumed).
  destruct Step as
    [message others Head | head others Works Head Kind Free | Some Kept Live Needs | Some Kept
    | Works Closed Live Empty Goes Free].
  - destruct (before_delivery _ _ _ _ L Head) as [None [Behind [Free [Kept Live]]]].
    unfold kept, takes, valid, data_here in *. rewrite Head in *. simpl in told_comes0, announced_told0. destruct told_comes0 as [Most Told].
    pose proof (data_natural others). destruct Behind as [Last Behind]. destruct kinds0 as [Waits Stays].
    destruct (is_barrier message) eqn:IsBarrier; simpl andb.
    + assert (Kind : kind_of message = Barrier) by (unfold is_barrier in IsBarrier; destruct (kind_of message); congruence).
      assert (NoData : is_data message = false) by (unfold is_data; rewrite Kind; reflexivity).
      rewrite (Last eq_refl) in *. rewrite Kind. unfold valid, data_here in *. rewrite Kept, Live, Free in *. simpl in *.
      count. rewrite NoData, IsBarrier in *. cbn [one] in *.
      destruct takes_back eqn:Takes; simpl orb in *.
      * constructor; unfold valid, data_here; simpl; rewrite ?Live, ?Free; simpl; count; rewrite ?NoData, ?IsBarrier;
          cbn [one] in *; auto; try tauto; try lia; try discriminate.
        -- split; auto. apply Forall_app. split; auto. constructor; auto. unfold stays. rewrite Kind. discriminate.
        -- rewrite app_nil_r. apply nothing_behind_none; auto. simpl. auto.
        -- rewrite Takes, None. reflexivity.
      * constructor; unfold valid, data_here; simpl; rewrite ?Live, ?Free, ?Kept; simpl; count;
          rewrite ?NoData, ?IsBarrier; cbn [one] in *; auto; try tauto; try lia; try discriminate.
        -- split; auto. apply Forall_app. split; auto. constructor; auto. unfold stays. rewrite Kind. discriminate.
        -- rewrite app_nil_r. apply nothing_behind_none; auto. simpl. auto.
        -- rewrite Takes. reflexivity.
    + unfold valid, data_here in *. rewrite Kept, Live, Free in *. simpl in *. count. rewrite IsBarrier in *.
      cbn [one] in *.
      assert (Cases : (kind_of message = Data /\ is_data message = true) \/
                      (kind_of message = Announcement /\ is_data message = false)).
      { unfold is_data, is_barrier in *. destruct (kind_of message); auto; discriminate. }
      destruct Cases as [[Kind IsData] | [Kind IsData]]; rewrite Kind; rewrite IsData in *; cbn [one] in *;
        constructor; unfold valid, data_here; simpl; rewrite ?Live, ?Free, ?Kept; simpl; count;
        rewrite ?IsData, ?IsBarrier; cbn [one] in *; auto; try tauto; try lia; try discriminate.
      * split; auto. apply Forall_app. split; auto. constructor; auto. unfold stays. rewrite Kind. discriminate.
      * rewrite <- app_assoc. simpl. assumption.
      * apply nothing_behind_none; auto.
  - assert (Live : over ch = false).
    { destruct (over ch); auto. destruct after_end0 as [_ [E _]]; [reflexivity | rewrite E in Head; discriminate]. }
    assert (IsData : is_data head = true) by (unfold is_data; rewrite Kind; reflexivity).
    assert (NoBarrier : is_barrier head = false) by (unfold is_barrier; rewrite Kind; reflexivity).
    unfold home, valid, data_here in *. rewrite Head, Live, Free in *. simpl in *. count.
    rewrite IsData, NoBarrier in *. cbn [one] in *. destruct barriers_last0 as [_ Behind]. destruct kinds0 as [Waits Stays].
    pose proof (data_natural others). rewrite orb_false_r in *.
    constructor; unfold valid, data_here; simpl; rewrite ?Live, ?Free, ?orb_false_r; cbn [one]; auto; try tauto;
      try discriminate; try (destruct (Z.gtb_spec (borrowed ch) 0); lia).
    + split; auto. inversion Stays; auto.
    + intros Released Cold. rewrite Released in *. specialize (released_cold0 eq_refl Cold).
      destruct (Z.gtb_spec (borrowed ch) 0); lia.
  - unfold valid, data_here in *. rewrite Kept, Live in *. simpl in *.
    constructor; unfold valid, data_here; simpl; rewrite ?Kept, ?Live; simpl; auto; try tauto; try lia; try discriminate.
  - assert (Live : over ch = false).
    { destruct (over ch); auto. destruct after_end0 as [_ [_ [_ [_ [_ [_ E]]]]]]; [reflexivity | lia]. }
    unfold valid, data_here in *. rewrite Kept, Live in *. simpl in *.
    assert (NoWord : free ch <=? RESUME = false) by (apply Z.leb_gt; unfold RESUME; lia).
    assert (NoRevoke : free ch =? REVOKE = false) by (apply Z.eqb_neq; unfold REVOKE; lia).
    constructor; unfold valid, data_here; simpl; rewrite ?Kept, ?Live; simpl; rewrite ?after_app, ?NoRevoke; count;
      rewrite ?NoWord; cbn [one]; auto; try tauto; try lia; try discriminate.
    apply Forall_app. split; auto. constructor; auto. unfold REVOKE. lia.
  - unfold pipe in Empty. destruct (inbox ch) eqn:Inbox; [| discriminate]. destruct (wire ch) eqn:Wire; [| discriminate].
    simpl in Empty. unfold valid, data_here in *. rewrite Empty, Live, Free in *. simpl in *. count.
    constructor; unfold valid, data_here; simpl; rewrite ?Inbox, ?Wire, ?Empty, ?Free, ?orb_true_r; simpl; count; auto 10;
      try tauto; try lia; try discriminate.
Qed.

Lemma behind_keeps ch head others :
  lawful false ch -> inbox ch = head :: others -> kind_of head = Barrier -> blocked ch = false ->
  lawful false (behind ch others).
Proof.
  intros L Head Kind Free. pose proof L as K. destruct K.
  assert (Live : over ch = false).
  { destruct (over ch); auto. destruct after_end0 as [_ [E _]]; [reflexivity | rewrite E in Head; discriminate]. }
  assert (NoData : is_data head = false) by (unfold is_data; rewrite Kind; reflexivity).
  assert (IsBarrier : is_barrier head = true) by (unfold is_barrier; rewrite Kind; reflexivity).
  unfold valid, data_here in *. rewrite Head, Live, Free in *. simpl in barriers_last0.
  destruct barriers_last0 as [Last _]. specialize (Last IsBarrier). apply app_eq_nil in Last. destruct Last as [Inbox Wire].
  rewrite Inbox, Wire in *. simpl in *. count. rewrite NoData, IsBarrier in *. cbn [one] in *. destruct kinds0.
  constructor; unfold valid, data_here; simpl; rewrite ?Live, ?Wire; simpl; count; cbn [one]; auto; try tauto; try lia;
    try discriminate.
Qed.

Lemma resumed_keeps has_failed ch : lawful false ch -> blocked ch = true -> lawful has_failed (resumed ch).
Proof.
  intros L Held. pose proof L as K. destruct K. destruct (blocked_empty0 Held) as [Inbox Wire].
  assert (Live : over ch = false).
  { destruct (over ch); auto. destruct after_end0 as [_ [_ [_ [_ [Free _]]]]]; [reflexivity | congruence]. }
  unfold valid, data_here in *. rewrite Inbox, Wire, Live, Held in *. simpl in *. count.
  constructor; unfold valid, data_here; simpl; rewrite ?Inbox, ?Wire, ?Live, ?after_app; simpl; count; cbn [one]; auto;
    try tauto; try lia; try discriminate.
  - apply Forall_app. split; auto. constructor; auto. destruct (released ch); unfold REVOKE, RESUME; lia.
  - destruct (released ch); simpl in *; unfold RESUME in *; lia.
  - destruct (released ch); cbn; lia.
  - destruct (released ch); simpl in *; unfold RESUME in *; lia.
Qed.

Lemma lawful_whatever has_failed other ch : lawful other ch -> blocked ch = false -> lawful has_failed ch.
Proof. intros [] Free. constructor; auto. Qed.

Lemma freed_keeps has_failed other ch : lawful other ch -> lawful has_failed (freed ch).
Proof.
  intro L. unfold freed. destruct (blocked ch) eqn:Held; [| eapply lawful_whatever; eauto].
  apply resumed_keeps; auto. destruct other; auto. pose proof (loss_frees _ _ L eq_refl). congruence.
Qed.

Lemma freed_borrowed ch : borrowed (freed ch) = borrowed ch.
Proof. unfold freed, resumed. destruct (blocked ch); reflexivity. Qed.

(* The pool. *)

Lemma sum_set f c value some :
  NoDup some ->
  sum (fun d => borrowed (set f c value d)) some =
  sum (fun d => borrowed (f d)) some + (if in_dec same c some then borrowed value - borrowed (f c) else 0).
Proof.
  induction 1 as [| d others Not Once IH]; [reflexivity |]. cbn [sum]. rewrite IH. unfold set at 1.
  destruct (same d c) as [E | Apart]; [subst d |].
  - destruct (in_dec same c others); [contradiction |]. destruct (in_dec same c (c :: others)) as [| No]; [lia |].
    exfalso. apply No. simpl. auto.
  - destruct (in_dec same c others) as [In | No]; destruct (in_dec same c (d :: others)) as [In2 | No2]; simpl in *;
      try lia; exfalso; intuition congruence.
Qed.

Lemma sum_at f c value :
  sum (fun d => borrowed (set f c value d)) names =
  sum (fun d => borrowed (f d)) names + borrowed value - borrowed (f c).
Proof.
  destruct Assumed as [All Once _]. rewrite sum_set by assumption. destruct (in_dec same c names) as [| No]; [lia |].
  exfalso. auto.
Qed.

Lemma sum_natural f some : (forall d : name, 0 <= f d) -> 0 <= sum f some.
Proof. intro Each. induction some as [| d others]; simpl; [lia | specialize (Each d); lia]. Qed.

Lemma lawful_set has_failed f c value :
  (forall d, lawful has_failed (f d)) -> lawful has_failed value -> forall d, lawful has_failed (set f c value d).
Proof. intros All Value d. unfold set. destruct (same d c); auto. Qed.

Lemma sends_borrow ch next : sends ch next -> borrowed next = borrowed ch.
Proof. destruct 1; reflexivity. Qed.

Lemma offers_borrow ch next : offers ch next -> borrowed next = borrowed ch.
Proof. destruct 1; reflexivity. Qed.

Lemma takes_in_borrows has_failed ch next p q :
  lawful has_failed ch -> 0 <= p -> takes_in p has_failed ch next q ->
  q + borrowed next = p + borrowed ch /\ 0 <= q.
Proof.
  intros L Natural Step. destruct L. destruct naturals0 as [_ [_ [_ [_ B]]]].
  destruct Step; simpl; try lia.
  - unfold kept. pose proof (data_natural (inbox ch)). destruct (takes message); lia.
  - unfold home. destruct (Z.gtb_spec (borrowed ch) 0); lia.
Qed.

Theorem invariant_at_start : invariant start.
Proof.
  destruct Assumed as [_ _ [E [F _]]]. constructor; simpl; auto using lawful_opened.
  rewrite sum_of_none. lia.
Qed.

Lemma environment_keeps s t : invariant s -> environment s t -> invariant t.
Proof.
  intros [All Pool Natural] Step. destruct Step as [c ch Step | c now _ Live _].
  - constructor; simpl; auto.
    + apply lawful_set; auto. eapply offers_keep; eauto.
    + rewrite sum_at, (offers_borrow _ _ Step). lia.
  - constructor; simpl.
    + apply lawful_set; [| apply lawful_lost]. intro d. eapply freed_keeps; eauto.
    + rewrite sum_at. simpl. rewrite freed_borrowed, (sum_same _ (fun d => borrowed (channels s d))); [lia |].
      intro; apply freed_borrowed.
    + destruct (All c). lia.
Qed.

Lemma protocol_keeps s t : invariant s -> protocol s t -> invariant t.
Proof.
  intros [All Pool Natural] Step.
  destruct Step as
    [c ch Step | c ch p Step | c head others [Works [Head [Kind Free]]] _
    | c head others _ [Works [Head [Kind Free]]] _ _ | c head others _ [Works [Head [Kind Free]]] _ | _].
  - constructor; simpl; auto.
    + apply lawful_set; auto. eapply sends_keep; eauto.
    + rewrite sum_at, (sends_borrow _ _ Step). lia.
  - destruct (takes_in_borrows _ _ _ _ _ (All c) Natural Step). constructor; simpl; auto.
    + apply lawful_set; auto. eapply takes_in_keeps; eauto.
    + rewrite sum_at. lia.
  - pose proof (All c) as L. rewrite Works in *. constructor; simpl; rewrite ?Works; auto.
    + apply lawful_set; auto. eapply behind_keeps; eauto.
    + rewrite sum_at. simpl. lia.
  - pose proof (All c) as L. rewrite Works in *. constructor; simpl; rewrite ?Works; auto.
    + apply lawful_set; [| eapply behind_keeps; eauto]. intro d. eapply freed_keeps; eauto.
    + rewrite sum_at. simpl. rewrite freed_borrowed, (sum_same _ (fun d => borrowed (channels s d))); [lia |].
      intro; apply freed_borrowed.
  - pose proof (All c) as L. rewrite Works in *. constructor; simpl; rewrite ?Works; auto.
    + apply lawful_set; auto. apply resumed_keeps; [eapply behind_keeps; eauto | reflexivity].
    + rewrite sum_at. simpl. lia.
  - constructor; simpl; auto.
    + intro d. eapply freed_keeps; eauto.
    + rewrite (sum_same _ (fun d => borrowed (channels s d))); [assumption | intro; apply freed_borrowed].
Qed.

Theorem invariant_always s : reachable s -> invariant s.
Proof. induction 1; [apply invariant_at_start | eapply environment_keeps | eapply protocol_keeps]; eauto. Qed.

(* No buffer is made and none is lost: of the pool, and of each channel. *)
Theorem conservation s :
  reachable s ->
  pool s + sum (fun c => borrowed (channels s c)) names = Floating /\
  forall c, let ch := channels s c in
    valid ch + data_here ch + free ch = borrowed ch + (if over ch then 0 else Exclusive).
Proof. intros R. destruct (invariant_always s R) as [All Pool _]. split; auto. intro c. apply (conserved _ _ (All c)). Qed.

(* The gate never stores more than it has buffers for. *)
Theorem bounded s :
  reachable s -> sum (fun c => Z.max 0 (data_here (channels s c) - Exclusive)) names <= Floating.
Proof.
  intros R. destruct (invariant_always s R) as [All Pool Natural].
  enough (sum (fun c => Z.max 0 (data_here (channels s c) - Exclusive)) names <=
          sum (fun c => borrowed (channels s c)) names) by lia.
  apply sum_at_most. intro c. pose proof (valid_natural _ _ (All c)). destruct (All c). destruct (numbers Assumed).
  destruct (over (channels s c)); lia.
Qed.

(* Nothing is sent or stored behind a barrier before it is aligned; a sender is stopped by one barrier. *)
Theorem behind_a_barrier s c :
  reachable s -> let ch := channels s c in
  nothing_behind (inbox ch ++ wire ch) /\ (blocked ch = true -> inbox ch = [] /\ wire ch = []) /\
  one (stopped ch) = barriers (wire ch) + barriers (inbox ch) + one (blocked ch) + words (grants ch).
Proof. intros R. destruct (invariant_always s R) as [All _ _]. destruct (All c). auto. Qed.

(* A channel has no floating buffer that its backlog does not need. *)
Theorem hoards_nothing s c :
  reachable s -> valid (channels s c) + free (channels s c) <= Exclusive + data (waiting (channels s c)).
Proof. intros R. destruct (invariant_always s R) as [All _ _]. destruct (All c). auto. Qed.

(* An alignment is given up where an input is lost: nobody stays behind a barrier. *)
Theorem losses_free s c : reachable s -> failed s = true -> blocked (channels s c) = false.
Proof. intros R. destruct (invariant_always s R) as [All _ _]. destruct (All c). auto. Qed.

(* Does something wait, an end included, that need not wait for an alignment? *)
Definition waits (ch : channel) : Prop :=
  (waiting ch <> [] \/ (closed ch = true /\ over ch = false)) /\ blocked ch = false.

Lemma some_or_none (p : name -> bool) : (exists c, p c = true) \/ (forall c, p c = false).
Proof.
  destruct (existsb p names) eqn:Found.
  - apply existsb_exists in Found. destruct Found as [c [_ Is]]. eauto.
  - right. intro c. destruct (p c) eqn:Is; auto.
    assert (existsb p names = true) by (apply existsb_exists; exists c; split; [apply (all_named Assumed) | auto]).
    congruence.
Qed.

(* At this channel the protocol cannot move: what that means. *)
Record still (ch : channel) : Prop := Still {
  no_wire : wire ch = [];
  no_grants : grants ch = [];
  no_inbox : inbox ch = [];
  kept_free : released ch = false -> free ch = 0
}.

Lemma moves_or_still s c :
  invariant s -> failed s = false -> (exists t, protocol s t) \/ still (channels s c).
Proof.
  intros I Works. destruct (all_lawful s I c).
  destruct (wire (channels s c)) as [| message others] eqn:Wire.
  2: { left. eexists. eapply AtGate. eapply Deliver; eauto. }
  destruct (grants (channels s c)) as [| grant others] eqn:Grants.
  2: { left. destruct (Z_gt_le_dec grant 0).
       - eexists. eapply AtSender. eapply AddCredit; eauto.
       - eexists. eapply AtSender. eapply ResumeConsumption; eauto. }
  destruct (inbox (channels s c)) as [| head others] eqn:Inbox.
  2: { left. destruct (blocked (channels s c)) eqn:Free; [destruct blocked_empty0; auto; discriminate |].
       destruct (kind_of head) eqn:Kind.
       - eexists. eapply AtGate. eapply ConsumeData; eauto.
       - assert (Taken : takes_barrier s c head others) by (repeat split; auto).
         destruct (Z.eq_dec Skip 0) as [None | Some]; [eexists; eapply ConsumeBarrier; eauto |].
         destruct (Z_lt_le_dec 0 Skip) as [More | Less].
         + destruct (Z_lt_le_dec (of_epoch head) (gate_epoch s)) as [Older | NotOlder].
           { eexists. eapply ConsumeOlderBarrier; eauto. lia. }
           destruct (Z.eq_dec (of_epoch head) (gate_epoch s)) as [Same | Newer].
           { eexists. eapply ConsumeBarrier; eauto. }
           destruct (some_or_none (fun d => blocked (channels s d))) as [Pending | NotPending].
           * eexists. eapply ConsumeNewerBarrier; eauto; lia.
           * eexists. eapply ConsumeBarrier; eauto. right. right. split; [lia |].
             intros [d Held]. specialize (NotPending d). simpl in NotPending. congruence.
         + exfalso. pose proof (numbers Assumed). lia.
       - destruct kinds0 as [_ Stays]. inversion Stays. contradiction. }
  destruct (Z_gt_le_dec (free (channels s c)) 0) as [Some | None].
  - destruct (released (channels s c)) eqn:Released; [right; constructor; auto; congruence |].
    left. eexists. eapply AtGate. eapply Grant; eauto.
  - right. constructor; auto. intros _. lia.
Qed.

(* A channel that is still, with data to send and no barrier in its way, is only stopped by want of credit. *)
Lemma sends_or_cold s c :
  invariant s -> still (channels s c) -> blocked (channels s c) = false -> waiting (channels s c) <> [] ->
  (exists t, protocol s t) \/
  (credit (channels s c) = 0 /\ borrowed (channels s c) = 0 /\ Exclusive = 0 /\ released (channels s c) = false /\
   over (channels s c) = false /\ 0 < data (waiting (channels s c))).
Proof.
  intros I [Wire Grants Inbox KeptFree] Free Some. pose proof (all_lawful s I c) as L.
  pose proof (over_has_nothing _ _ L Some) as Live. destruct L.
  assert (Kept : released (channels s c) = false).
  { rewrite released_by_barrier0, Free, Inbox. count. destruct takes_back; reflexivity. }
  specialize (KeptFree Kept).
  assert (Goes : stopped (channels s c) = false).
  { rewrite Wire, Inbox, Grants, Free in stopped_by_barrier0. count. destruct (stopped (channels s c)); auto.
    cbn [one] in *. lia. }
  destruct (waiting (channels s c)) as [| head others] eqn:Waiting; [contradiction |].
  destruct kinds0 as [Stays _]. destruct (kind_of head) eqn:Kind.
  - destruct (Z_gt_le_dec (credit (channels s c)) 0) as [Rich | Cold].
    { left. eexists. eapply AtSender. eapply SendData; eauto. }
    right. unfold valid, data_here in *. rewrite Kept, Live, Wire, Inbox, Grants, KeptFree in *. simpl in *.
    assert (IsData : is_data head = true) by (unfold is_data; rewrite Kind; reflexivity).
    count. rewrite IsData. cbn [one]. pose proof (data_natural others). destruct (numbers Assumed).
    repeat split; auto; lia.
  - left. eexists. eapply AtSender. eapply SendBarrier; eauto.
  - inversion Stays. contradiction.
Qed.

Lemma sum_at_least_one f some : sum f some > 0 -> exists d : name, f d > 0.
Proof.
  induction some as [| d others IH]; simpl; [lia |]. intro More. destruct (Z_gt_le_dec (f d) 0); [eauto | apply IH; lia].
Qed.

(* Where something waits and is not blocked, or nothing is waited for, the protocol can move, if there is a buffer. *)
Theorem never_stuck s :
  Exclusive > 0 \/ Floating > 0 -> reachable s -> failed s = false ->
  (exists c, blocked (channels s c) = true) /\ (forall c, blocked (channels s c) = true \/ over (channels s c) = true) \/
  (exists c, waits (channels s c)) ->
  exists t, protocol s t.
Proof.
  intros Buffers R Works [Joined | [c [Waits Free]]]; [eexists; apply Align; assumption |].
  pose proof (invariant_always s R) as I.
  destruct (moves_or_still s c I Works) as [| Still]; [assumption |].
  destruct (waiting (channels s c)) as [| head others] eqn:Waiting.
  - destruct Waits as [| [Closed Live]]; [contradiction |]. destruct Still. destruct (all_lawful s I c).
    eexists. eapply AtGate. eapply ConsumeEnd; eauto.
    + unfold pipe. rewrite no_inbox0, no_wire0, Waiting. reflexivity.
    + rewrite no_wire0, no_inbox0, no_grants0, Free in stopped_by_barrier0. count.
      destruct (stopped (channels s c)); auto. cbn [one] in *. lia.
  - destruct (sends_or_cold s c I Still Free) as [| [Cold [None [Bare [Kept [Live Some]]]]]];
      [rewrite Waiting; discriminate | assumption |].
    pose proof (all_lawful s I c) as L. destruct L. destruct Still.
    rewrite no_wire0 in announced_told0. simpl in announced_told0.
    assert (Goes : stopped (channels s c) = false).
    { rewrite no_wire0, no_inbox0, no_grants0, Free in stopped_by_barrier0. count.
      destruct (stopped (channels s c)); auto. cbn [one] in *. lia. }
    destruct (Z_lt_le_dec (announced (channels s c)) (data (waiting (channels s c)))) as [Untold | Told].
    { eexists. eapply AtSender. eapply AnnounceBacklog; eauto. }
    destruct (Z_gt_le_dec (pool s) 0) as [Left | Empty].
    { eexists. eapply AtGate. eapply Borrow; eauto. rewrite no_inbox0. count. lia. }
    pose proof (pool_counted s I). pose proof (pool_natural s I).
    destruct (sum_at_least_one (fun d => borrowed (channels s d)) names) as [d Holds]; [lia |].
    destruct (moves_or_still s d I Works) as [| StillToo]; [assumption |].
    pose proof (all_lawful s I d) as M. pose proof (valid_natural _ _ M). destruct StillToo. pose proof M as N. destruct N.
    assert (LiveToo : over (channels s d) = false).
    { destruct (over (channels s d)); auto. destruct after_end1 as [_ [_ [_ [_ [_ [E _]]]]]]; [reflexivity | lia]. }
    unfold data_here in *. rewrite no_wire1, no_inbox1, LiveToo in *. count.
    assert (KeptToo : released (channels s d) = false).
    { destruct (released (channels s d)) eqn:Released; auto. specialize (released_cold1 eq_refl Bare).
      unfold valid in *. rewrite Released in *. simpl in *. lia. }
    specialize (kept_free1 KeptToo).
    assert (FreeToo : blocked (channels s d) = false).
    { destruct (blocked (channels s d)); auto. rewrite KeptToo in released_by_barrier1. unfold takes_back in *.
      rewrite Bare in *. simpl in *. rewrite orb_true_r in *. discriminate. }
    destruct (sends_or_cold s d I) as [| [_ [Nothing _]]]; auto.
    + constructor; auto.
    + intro E. rewrite E in *. count. lia.
    + lia.
Qed.

End Gate.

Print Assumptions invariant_at_start.
Print Assumptions invariant_always.
Print Assumptions conservation.
Print Assumptions bounded.
Print Assumptions behind_a_barrier.
Print Assumptions hoards_nothing.
Print Assumptions losses_free.
Print Assumptions never_stuck.
