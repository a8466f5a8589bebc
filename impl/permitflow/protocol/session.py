"""One stream as each of its ends sees it: which frame may come when, and what it does.

Both methods of the exchange use these two machines; who dialled differs only until the agreement.  A session is fed
with frames, asked for the frames to write, and told when the peer has closed its half.  An error leaves it in the
state FAILED: the stream is dead, and nothing more may be fed in.
"""

from permitflow.protocol.downstream import DOWNSTREAM, DownstreamSession
from permitflow.protocol.lifecycle import State
from permitflow.protocol.upstream import UPSTREAM, UpstreamSession

__all__ = ["DOWNSTREAM", "UPSTREAM", "DownstreamSession", "State", "UpstreamSession"]
