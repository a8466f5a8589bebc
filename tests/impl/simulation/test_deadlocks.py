"""A simulated channel gets stuck exactly if the proofs say that it may, and the chunks that it takes do come."""

from functools import cache

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from permitflow.protocol.frames import StatedParameters
from permitflow.protocol.parameters import Oversize
from permitflow.simulation.chunk_sizes import ConstantSize, WeightedSizes
from permitflow.simulation.run import RunLength, simulate
from permitflow.simulation.setting import Setting, costs_of, largest_cost, most_outstanding
from permitflow_proofs import decide

# So small a channel goes through all its residues in such a run, many times.
LONG = RunLength(warm_up_rows=0, measured_rows=6_000)


@st.composite
def ends(draw: st.DrawFn, oversize: Oversize = Oversize.WHOLE) -> Setting:
    """Two ends that may have been configured by different people."""
    row_count = draw(st.integers(2, 10))
    sizes = draw(st.sets(st.integers(1, 12), min_size=1, max_size=3))
    return Setting(
        upstream=StatedParameters(
            row_permits=row_count,
            permit_batch=draw(st.integers(1, row_count)),
            max_chunk_cost=draw(st.integers(1, row_count + 2)),
            oversize=oversize,
        ),
        downstream=StatedParameters(permit_batch=draw(st.integers(1, row_count + 2))),
        chunks=WeightedSizes(sorted(sizes)),
        flush_idle=draw(st.booleans()),
        forward_seconds=draw(st.sampled_from([0.0, 0.02, 1.0])),
        return_seconds=draw(st.sampled_from([0.0, 0.03, 0.5])),
        producer_rate=draw(st.sampled_from([50.0, 200.0])),
        consumer_rate=draw(st.sampled_from([50.0, 200.0])),
    )


# A proof takes a tenth of a second, and shrinking asks for the same ones again and again.
proved = cache(decide)


def may_get_stuck(setting: Setting) -> bool:
    """What the theorems say of the sender's window and clamp and of the receiver's batch."""
    return not proved(
        setting.sender.row_permits,
        setting.receiver.permit_batch,
        largest_cost(setting),
        sizes=costs_of(setting),
        flush_idle=setting.flush_idle,
    ).is_live


def gets_stuck(setting: Setting) -> bool:
    return simulate(setting, length=LONG).verdict == "deadlock"


@settings(max_examples=40)
@given(ends())
@example(
    Setting(
        upstream=StatedParameters(row_permits=8, permit_batch=4),
        downstream=StatedParameters(permit_batch=6),
        chunks=WeightedSizes([1, 4]),
        consumer_rate=50,
    )
)
def test_it_gets_stuck_if_and_only_if_the_proofs_say_so(setting: Setting) -> None:
    assert gets_stuck(setting) == may_get_stuck(setting)


@settings(max_examples=10)
@given(ends(oversize=Oversize.SPLIT))
def test_with_slices_it_gets_stuck_only_if_the_proofs_say_so(setting: Setting) -> None:
    """Not the other way round: slices do not come in any order, as the costs of the theorem do."""
    assert may_get_stuck(setting) or not gets_stuck(setting)


@settings(max_examples=15)
@given(ends(), st.integers(2, 12))
def test_a_receiver_with_a_window_of_its_own_refuses_exactly_what_may_exceed_it(setting: Setting, window: int) -> None:
    down = setting.downstream._replace(row_permits=window, max_chunk_cost=1)
    # Nothing is consumed before all permits have left; by slices in whatever order, they need not all leave.
    slow = Setting(
        upstream=setting.upstream, downstream=down, chunks=setting.chunks, forward_seconds=100, consumer_rate=1000
    )
    assume(not may_get_stuck(slow))
    run = simulate(slow, length=RunLength(0, 500))
    assert (run.verdict == "overspend") == (most_outstanding(slow) > window)


def test_equal_chunks_may_be_lucky_above_the_threshold() -> None:
    stated = StatedParameters(row_permits=2048, permit_batch=256, max_chunk_cost=2048)
    lucky = Setting(upstream=stated, chunks=ConstantSize(2048), consumer_rate=1000)
    assert simulate(lucky).verdict == "flows"
    assert not may_get_stuck(lucky)
