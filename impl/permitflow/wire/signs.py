"""Signs: a message of one alone asks whether the last message has come, or answers that it has."""

from permitflow.wire.v1 import exchange_pb2 as pb

ASK, ANSWER = (pb.FromUpstream(sign=sign).SerializeToString() for sign in (pb.SIGN_ASK, pb.SIGN_ANSWER))
SIGN_BYTES = len(ASK)
