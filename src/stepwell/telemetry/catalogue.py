"""Every metric there is: the one list that counting, exposition and the reference page share."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a metric's value does over time, in Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric as declared below. Compared and hashed by identity: there is one of each."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, inclusive, ascending, without +Inf."""


CALLER_LABELS = frozenset({"model"})
"""Labels whose values come from callers, so that their number has no bound of its own."""

OTHER = "other"
"""Stands for all label values beyond the bound."""

MAX_LABEL_VALUES = 200
"""Distinct values of one label; what comes later is counted under `OTHER`."""

_REQUEST_BUCKETS = (
    *(5e-05, 1e-04, 2.5e-04, 5e-04, 1e-03, 2.5e-03, 5e-03, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
_UPSTREAM_BUCKETS = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
_STAGE_BUCKETS = (
    *(1e-06, 2.5e-06, 5e-06, 1e-05, 2.5e-05, 5e-05, 1e-04, 2.5e-04, 5e-04),
    *(1e-03, 2.5e-03, 5e-03, 0.01, 0.05, 0.25, 1.0, 5.0),
)

_SIMILARITY_BUCKETS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0)

REQUESTS = Metric(
    "stepwell_requests_total",
    Kind.COUNTER,
    "Requests that are over, each counted once, by how they ended and which layer answered.",
    ("outcome", "layer", "class"),
)
REQUEST_SECONDS = Metric(
    "stepwell_request_seconds",
    Kind.HISTOGRAM,
    "From a request's last byte to the reply's last byte handed to the transport.",
    ("outcome",),
    _REQUEST_BUCKETS,
)
FIRST_BYTE_SECONDS = Metric(
    "stepwell_first_byte_seconds",
    Kind.HISTOGRAM,
    "From a request's last byte to the first byte of a streamed reply.",
    ("outcome",),
    _REQUEST_BUCKETS,
)
STAGE_SECONDS = Metric(
    "stepwell_stage_seconds",
    Kind.HISTOGRAM,
    "Time spent in one stage of a request, where stages are timed.",
    ("stage",),
    _STAGE_BUCKETS,
)
UPSTREAM_SECONDS = Metric(
    "stepwell_upstream_seconds",
    Kind.HISTOGRAM,
    "Time a model server took for a complete answer.",
    ("upstream",),
    _UPSTREAM_BUCKETS,
)
UPSTREAM_FIRST_BYTE_SECONDS = Metric(
    "stepwell_upstream_first_byte_seconds",
    Kind.HISTOGRAM,
    "Time a model server took until the first byte of a complete answer.",
    ("upstream",),
    _UPSTREAM_BUCKETS,
)
UPSTREAM_ERRORS = Metric(
    "stepwell_upstream_errors_total",
    Kind.COUNTER,
    "Calls to a model server that failed, or were answered with an error status.",
    ("upstream", "kind"),
)
SEMANTIC_LOOKUPS = Metric(
    "stepwell_semantic_lookups_total",
    Kind.COUNTER,
    "Lookups of other words, by what came of them: a match, or what refused the nearest question.",
    ("outcome", "level"),
)
SEMANTIC_SECONDS = Metric(
    "stepwell_semantic_lookup_seconds",
    Kind.HISTOGRAM,
    "Time a lookup of other words took: embedding, search, judging.",
    (),
    _STAGE_BUCKETS,
)
SEMANTIC_SIMILARITY = Metric(
    "stepwell_semantic_similarity",
    Kind.HISTOGRAM,
    "Cosine similarity of the match, or of the nearest question where there was none.",
    ("outcome",),
    _SIMILARITY_BUCKETS,
)
JUDGED = Metric(
    "stepwell_semantic_judged_total",
    Kind.COUNTER,
    "Answers to other words of which somebody said whether they were right.",
    ("verdict", "by", "class"),
)
NOT_JUDGED = Metric(
    "stepwell_semantic_not_judged_total",
    Kind.COUNTER,
    "Answers to other words that were to be judged, and why they were not.",
    ("why", "by", "class"),
)
WITHHELD = Metric(
    "stepwell_semantic_withheld_total",
    Kind.COUNTER,
    "Matches that shadow mode kept from being served; the lookups count them as matches too.",
    ("class",),
)
PRECISION = Metric(
    "stepwell_semantic_precision",
    Kind.GAUGE,
    "Share of right answers among those judged, of a sample or in shadow mode, and the 95 % "
    "interval of it (Wilson). Over all runs, not this one alone: a restart does not begin it anew, "
    "stepwell stats --judge-anew does.",
    ("class", "by", "bound"),
)
SEMANTIC_POINTS = Metric(
    "stepwell_semantic_points",
    Kind.GAUGE,
    "Questions that can be found by meaning, summed over workers, of which each sees about all.",
)
SAVED_TOKENS = Metric(
    "stepwell_saved_tokens_total",
    Kind.COUNTER,
    "Tokens that no model server had to read (prompt) or write (completion).",
    ("kind", "layer", "model"),
)
SAVED_SECONDS = Metric(
    "stepwell_saved_seconds_total",
    Kind.COUNTER,
    "Seconds of model server time not spent: what the answers took when they were made.",
    ("layer", "class"),
)
SAVED_MONEY = Metric(
    "stepwell_saved_money_total",
    Kind.COUNTER,
    "Price of the saved tokens, at the price table in force when they were saved.",
    ("currency", "layer"),
)
SPENT_TOKENS = Metric(
    "stepwell_spent_tokens_total",
    Kind.COUNTER,
    "Tokens that model servers read (prompt) or wrote (completion).",
    ("kind", "model"),
)
SPENT_MONEY = Metric(
    "stepwell_spent_money_total",
    Kind.COUNTER,
    "Price of the spent tokens, at the price table in force when they were spent.",
    ("currency",),
)
PREFIX_TOKENS = Metric(
    "stepwell_prefix_tokens_total",
    Kind.COUNTER,
    "Prompt tokens that model servers read, by what they say of their own prefix cache: taken out"
    " of it (cached), or not (computed); unsaid where a server does not say.",
    ("kind", "upstream"),
)
REPLICA_REQUESTS = Metric(
    "stepwell_replica_requests_total",
    Kind.COUNTER,
    "Calls that were placed on a replica, by what decided.",
    ("upstream", "replica", "why"),
)
FORETOLD_TOKENS = Metric(
    "stepwell_prefix_foretold_tokens_total",
    Kind.COUNTER,
    "Prompt tokens of calls whose replica reported on its prefix cache: the whole prompts (prompt),"
    " what was to be cached (foretold), what was, as reported (cached), and what was both (met).",
    ("upstream", "replica", "kind"),
)
WARMED_TOKENS = Metric(
    "stepwell_warmed_tokens_total",
    Kind.COUNTER,
    "Prompt tokens that model servers read after answers from the cache, so that the next turn"
    " finds them: those they had already (cached), and the others (computed; or unsaid).",
    ("kind", "upstream"),
)
NOT_WARMED = Metric(
    "stepwell_not_warmed_total",
    Kind.COUNTER,
    "Answers from the cache after which a model server was to be warmed, and why it was not.",
    ("why", "upstream"),
)
WARM_UPS = Metric(
    "stepwell_warm_ups_total",
    Kind.COUNTER,
    "System prompts of the settings that replicas have read so that requests find them.",
    ("upstream", "replica"),
)
REPLICAS_READY = Metric(
    "stepwell_replicas_ready",
    Kind.GAUGE,
    "1 for each worker that gives a replica work.",
    ("upstream", "replica"),
)
REPLICA_LOAD = Metric(
    "stepwell_replica_load",
    Kind.GAUGE,
    "Requests in flight at a replica, those with much to prefill counted more; 0: idle, as far as"
    " these gateways know.",
    ("upstream", "replica"),
)
UNPRICED_TOKENS = Metric(
    "stepwell_unpriced_tokens_total",
    Kind.COUNTER,
    "Tokens saved or spent on models the price table does not name: no money is counted for them.",
    ("account",),
)
LEADERS_LOST = Metric(
    "stepwell_leaders_lost_total",
    Kind.COUNTER,
    "Calls made by another worker or machine, and read here too, whose maker was lost: before"
    " anything of the reply was handed on, or midway. Others went on with them.",
    ("when",),
)
STORED = Metric(
    "stepwell_stored_total",
    Kind.COUNTER,
    "Answers stored.",
    ("class",),
)
STORED_BYTES = Metric(
    "stepwell_stored_bytes_total",
    Kind.COUNTER,
    "Bytes of the answers stored.",
    ("class",),
)
FILL_REFUSED = Metric(
    "stepwell_fill_refused_total",
    Kind.COUNTER,
    "Answers not stored, by the gate that refused them.",
    ("gate", "class"),
)
EVICTIONS = Metric(
    "stepwell_evictions_total",
    Kind.COUNTER,
    "Entries a tier let go.",
    ("tier", "reason"),
)
EVICTED_BYTES = Metric(
    "stepwell_evicted_bytes_total",
    Kind.COUNTER,
    "Bytes of the entries a tier let go.",
    ("tier", "reason"),
)
FAILURES = Metric(
    "stepwell_failures_total",
    Kind.COUNTER,
    "Failures that no caller saw: the cache did less than it should.",
    ("component",),
)
ENTRIES = Metric(
    "stepwell_entries",
    Kind.GAUGE,
    "Entries a tier holds; memory is the sum over workers, disk is shared by them.",
    ("tier",),
)
BYTES = Metric(
    "stepwell_bytes",
    Kind.GAUGE,
    "Bytes a tier holds; memory is the sum over workers, disk is shared by them.",
    ("tier",),
)
EMBEDDING_TEXTS = Metric(
    "stepwell_embedding_texts_total",
    Kind.COUNTER,
    "Texts whose vectors were asked for, by where those came from: a tier (its hits; its misses are"
    " what came from all further ones), another's call at the same time (shared), or a call"
    " (origin). Equal texts of a request count once.",
    ("source",),
)
EMBEDDING_COMPUTED = Metric(
    "stepwell_embedding_computed_total",
    Kind.COUNTER,
    "Texts sent to model servers for their vectors, each time.",
    ("model",),
)
EMBEDDING_INVALID = Metric(
    "stepwell_embedding_invalid_total",
    Kind.COUNTER,
    "Stored vectors that were damaged, or of another kind: taken for misses.",
    ("tier",),
)
EMBEDDING_NOT_KEPT = Metric(
    "stepwell_embedding_not_kept_total",
    Kind.COUNTER,
    "Vectors that were computed and not kept: too many waited for a store that fails (crowded), or"
    " there are as many versions as there may be (versions).",
    ("why",),
)
EMBEDDING_VECTORS = Metric(
    "stepwell_embedding_vectors",
    Kind.GAUGE,
    "Vectors a tier holds; memory is the sum over workers, other tiers are shared by them.",
    ("tier",),
)
EMBEDDING_BYTES = Metric(
    "stepwell_embedding_bytes",
    Kind.GAUGE,
    "Bytes of vectors a tier holds, as above.",
    ("tier",),
)
EMBEDDING_PENDING = Metric(
    "stepwell_embedding_pending_writes",
    Kind.GAUGE,
    "Vectors that wait to be written.",
)
EMBEDDING_DRIFTED = Metric(
    "stepwell_embedding_drifted",
    Kind.GAUGE,
    "Versions whose model server has changed its model under its name, summed over workers: their"
    " vectors are neither served nor kept until the settings name a new revision.",
)
DEGRADED = Metric(
    "stepwell_degraded",
    Kind.GAUGE,
    "1 while a part is bypassed because it fails, summed over workers; else 0.",
    ("part",),
)
IN_FLIGHT = Metric(
    "stepwell_in_flight",
    Kind.GAUGE,
    "Requests being answered now.",
)
WORKERS = Metric(
    "stepwell_workers",
    Kind.GAUGE,
    "Worker processes whose counts these are.",
)
BUILD_INFO = Metric(
    "stepwell_build_info",
    Kind.GAUGE,
    "Always 1; the labels say what runs.",
    ("version", "python"),
)

CATALOGUE = (
    *(REQUESTS, REQUEST_SECONDS, FIRST_BYTE_SECONDS, STAGE_SECONDS, IN_FLIGHT),
    *(SAVED_TOKENS, SAVED_SECONDS, SAVED_MONEY, SPENT_TOKENS, SPENT_MONEY, UNPRICED_TOKENS),
    *(PREFIX_TOKENS, FORETOLD_TOKENS, REPLICA_REQUESTS, REPLICAS_READY, REPLICA_LOAD),
    *(WARMED_TOKENS, NOT_WARMED, WARM_UPS),
    *(SEMANTIC_LOOKUPS, SEMANTIC_SECONDS, SEMANTIC_SIMILARITY, SEMANTIC_POINTS),
    *(JUDGED, NOT_JUDGED, WITHHELD, PRECISION),
    *(EMBEDDING_TEXTS, EMBEDDING_COMPUTED, EMBEDDING_INVALID, EMBEDDING_NOT_KEPT),
    *(EMBEDDING_VECTORS, EMBEDDING_BYTES, EMBEDDING_PENDING, EMBEDDING_DRIFTED),
    *(UPSTREAM_SECONDS, UPSTREAM_FIRST_BYTE_SECONDS, UPSTREAM_ERRORS, LEADERS_LOST),
    *(ENTRIES, BYTES, STORED, STORED_BYTES, FILL_REFUSED, EVICTIONS, EVICTED_BYTES),
    *(FAILURES, DEGRADED, WORKERS, BUILD_INFO),
)
"""In the order of the reference page and of `/metrics`."""
