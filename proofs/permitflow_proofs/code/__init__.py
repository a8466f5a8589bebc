"""The running code as the subject of proofs: each guard and update refines its model's actions."""
