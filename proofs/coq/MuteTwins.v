(* Twins of Mute.v: with marks that are one closer than they may be, a sink mutes that is not above its
   low mark; what else does not hold. *)

From Coq Require Import ZArith List Lia.
From Permitflow Require Import Mute.
Import ListNotations.
Open Scope Z_scope.

(* A source and a sink. *)
Section Twins.

Inductive name := Tap | Drain.

Definition same_name (left right : name) : {left = right} + {left <> right}.
Proof. decide equality. Defined.

Let part_of (n : name) := match n with Tap => Source | Drain => Sink end.
Let hop (up down : name) := match up, down with Tap, Drain => true | _, _ => false end.
Let reached_with (low high : Z) := reachable name same_name [Tap; Drain] part_of hop low high 1 0 (fun _ => true) False False.

Ltac one_arrives :=
  eapply ByProtocol;
  [ eapply ByProtocol; [apply Initially | eapply Send with (n := Tap) (m := Drain)]
  | eapply Deliver with (m := Drain) ];
  try reflexivity;
  [ intros [m Held]; simpl in Held; lia
  | eapply Through with (down := Drain); [reflexivity | constructor; reflexivity] ].

(* [marks_kept] needs Low <= High: with Low = High + 1, a sink that mutes is not above its low mark. *)
Theorem marks_break_with_one_more :
  exists s, reached_with 1 0 s /\ ~ marked name 1 0 s Drain.
Proof.
  eexists. split; [one_arrives |].
  unfold marked. intros [Mark _]. vm_compute in Mark. destruct Mark as [_ Above]. discriminate.
Qed.

(* A queue that mutes is above its high mark: the mark alone bounds no queue. *)
Theorem queue_grows_above_high_mark :
  exists s, reached_with 0 0 s /\ inbox name s Drain = 0 + 1.
Proof. eexists. split; [one_arrives | reflexivity]. Qed.

(* A source reads while a sink mutes, because the signal is on its way: [settled] needs that nothing is in flight. *)
Theorem held_too_late :
  exists s, reached_with 0 0 s /\ is_mute (heard name s Drain Drain) = true /\ holds name s Tap Drain = 0.
Proof. eexists. split; [one_arrives | split; reflexivity]. Qed.

End Twins.

Print Assumptions marks_break_with_one_more.
Print Assumptions queue_grows_above_high_mark.
Print Assumptions held_too_late.
