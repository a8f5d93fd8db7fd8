"""What can be told of an upstream's replicas to an operator."""

from stepwell.core.steering import Agreed, ReplicaReport, Wanted
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.steering.placement import Knowledge
from stepwell.prefix.steering.servers import Replicas


def report_on(
    upstream: str, replica: ReplicaName, replicas: Replicas, known: Knowledge
) -> ReplicaReport:
    """Return how a replica is, and what is believed of it. Some 2 us.

    Args:
        upstream: The upstream's name in the settings.
        replica: One of ``replicas``.
        replicas: Who can be reached.
        known: What was learned of them.
    """
    agreement = known.foretold.agreement(replica)
    return ReplicaReport(
        upstream=upstream,
        replica=replica,
        wanted=Wanted.DRAINING if replicas.is_draining(replica) else Wanted.SERVING,
        condition=replicas.condition(replica),
        down_seconds=replicas.down_seconds(replica),
        load=known.loads.of(replica),
        held_tokens=known.residency.believed_tokens(replica),
        losses=known.residency.losses(replica),
        agreed=Agreed(
            requests=agreement.requests,
            prompt_tokens=agreement.prompt_tokens,
            foretold_tokens=agreement.foretold_tokens,
            cached_tokens=agreement.reported_tokens,
            met_tokens=agreement.met_tokens,
        ),
    )
