"""What was foretold to be cached against what a model server reports, replica by replica."""

from dataclasses import dataclass

from stepwell.prefix.placement.replicas import ReplicaName


@dataclass(frozen=True, slots=True)
class Agreement:
    """Sums over the requests that a replica reported on."""

    requests: int = 0
    prompt_tokens: int = 0
    foretold_tokens: int = 0
    reported_tokens: int = 0
    """Capped at each request's prompt: some servers count a token twice."""
    met_tokens: int = 0
    """Foretold and reported, request by request: what the foretelling was right about."""

    @property
    def cached_share(self) -> float:
        """Share of the prompts' tokens that was cached; 0 before the first report."""
        return self.reported_tokens / max(1, self.prompt_tokens)

    @property
    def met_share(self) -> float:
        """Share of the foretold tokens that was there; 1 while nothing was foretold."""
        return self.met_tokens / self.foretold_tokens if self.foretold_tokens else 1.0

    def plus(self, prompt: int, foretold: int, reported: int) -> "Agreement":
        """Return the sums with one more request."""
        return Agreement(
            self.requests + 1,
            self.prompt_tokens + prompt,
            self.foretold_tokens + foretold,
            self.reported_tokens + reported,
            self.met_tokens + min(foretold, reported),
        )


@dataclass(frozen=True, slots=True)
class SilentZero:
    """A replica reports nothing cached, again and again, where much was to be."""

    replica: ReplicaName
    reports: int
    foretold_tokens: int

    def __str__(self) -> str:
        return (
            f"Prefix caching looks off on replica {self.replica}: its last {self.reports} reports"
            f" say 0 cached tokens where {self.foretold_tokens} were sent to it before. Is prefix"
            " caching enabled there, does it get the same salt each time, and do prompts begin"
            " the same way once its template has been applied?"
        )


@dataclass(frozen=True, slots=True)
class FoundAgain:
    """A replica that had been silent reports cached tokens."""

    replica: ReplicaName

    def __str__(self) -> str:
        return f"Replica {self.replica} reports cached tokens again."


@dataclass(frozen=True, slots=True)
class Impossible:
    """A replica reports more cached tokens than the prompt has: its reports count something else.

    Said once for each replica, until it is forgotten.
    """

    replica: ReplicaName
    reported_tokens: int
    prompt_tokens: int

    def __str__(self) -> str:
        return (
            f"Replica {self.replica} reports {self.reported_tokens} cached tokens of a prompt of"
            f" {self.prompt_tokens}; counted as {max(0, self.prompt_tokens)}."
        )


Remark = SilentZero | FoundAgain | Impossible


@dataclass(slots=True)
class _Record:
    sums: Agreement = Agreement()
    zeros: int = 0
    zeros_foretold: int = 0
    silent: bool = False
    has_lied: bool = False


class Foretold:
    """Compares, and says when a replica does not do what everybody believes it does.

    One event loop; not thread-safe. Costs a microsecond a report; a few hundred bytes a replica.
    """

    def __init__(self, *, zero_reports: int = 5, certain_tokens: int = 256) -> None:
        """Start with no report.

        Args:
            zero_reports: So many reports of 0 in a row are no chance any more.
            certain_tokens: Only requests of which at least so many tokens were foretold count: a
                replica may well have evicted a few.
        """
        self._zero_reports = zero_reports
        self._certain_tokens = certain_tokens
        self._records: dict[ReplicaName, _Record] = {}

    def note(
        self,
        replica: ReplicaName,
        *,
        prompt_tokens: int,
        foretold_tokens: int,
        reported_tokens: int,
    ) -> Remark | None:
        """Take a replica's report on one request.

        Args:
            replica: Who reports.
            prompt_tokens: Of the request.
            foretold_tokens: What it was to have, without what only a reference promised.
            reported_tokens: ``cached_tokens`` as reported, whatever it is.

        Returns:
            What an operator should hear, at most once until it changes.
        """
        record = self._records.setdefault(replica, _Record())
        reported = min(max(0, reported_tokens), max(0, prompt_tokens))
        record.sums = record.sums.plus(prompt_tokens, foretold_tokens, reported)
        if reported_tokens > prompt_tokens and not record.has_lied:
            record.has_lied = True
            return Impossible(replica, reported_tokens, prompt_tokens)
        if reported > 0:
            return self._heard(replica, record)
        if foretold_tokens >= self._certain_tokens:
            return self._not_heard(replica, record, foretold_tokens)
        return None

    def agreement(self, replica: ReplicaName) -> Agreement:
        """Return the sums of a replica since it was last forgotten."""
        record = self._records.get(replica)
        return Agreement() if record is None else record.sums

    def forget(self, replica: ReplicaName) -> None:
        """Begin anew with a replica, as after its restart."""
        self._records.pop(replica, None)

    @staticmethod
    def _heard(replica: ReplicaName, record: _Record) -> Remark | None:
        record.zeros = record.zeros_foretold = 0
        if record.silent:
            record.silent = False
            return FoundAgain(replica)
        return None

    def _not_heard(self, replica: ReplicaName, record: _Record, foretold: int) -> Remark | None:
        record.zeros += 1
        record.zeros_foretold += foretold
        if record.zeros < self._zero_reports or record.silent:
            return None
        record.silent = True
        return SilentZero(replica, record.zeros, record.zeros_foretold)
