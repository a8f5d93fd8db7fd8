"""Reads a log, compares each prompt with the earlier ones, and counts what parts them."""

from collections.abc import Callable, Collection

from stepwell.core.errors import ConfigError
from stepwell.core.names import Endpoint
from stepwell.policy.prompt_shape.pieces import PieceCutter
from stepwell.policy.prompt_shape.prompt import Prompt, read_prompt
from stepwell.policy.prompt_shape.reshaping import Rewrite, reshape
from stepwell.policy.prompt_shape.risks import risks_of
from stepwell.policy.prompt_shape.tokens import CountTokens, estimated_tokens
from stepwell.study.analysis.shapes import GatewayLine, LoggedRequest, NoRequest, read_line
from stepwell.study.doctor.comparing import Comparison, compare
from stepwell.study.doctor.findings import Findings
from stepwell.study.doctor.memory import Beginnings, Memory
from stepwell.study.lines import LineFile
from stepwell.study.requests import endpoint_or_chat

MIN_TOKENS = 16
"""A break that costs less is none: engines share whole blocks."""

_SHOWN_EVERY = 64


class Doctor:
    """Reads one log. Not thread-safe.

    Memory is bounded, however long the log is and however many prompts in it have nothing in
    common: what was not met for long is forgotten, and then costs nothing.
    """

    def __init__(
        self,
        rewrites: Collection[Rewrite],
        *,
        tenant_field: str,
        count_tokens: CountTokens = estimated_tokens,
        memory: Memory | None = None,
    ) -> None:
        """Have read nothing.

        Args:
            rewrites: Whose effect is tried.
            tenant_field: The log's field that says whose a request is; prompts of two tenants are
                not compared.
            count_tokens: How many tokens a text is. Where the log says a prompt's tokens, counts
                are scaled to that.
            memory: Of earlier prompts; by default as much as the module's bounds allow.
        """
        self.findings = Findings(frozenset(rewrites))
        self._tenant_field = tenant_field
        self._cutter = PieceCutter(count_tokens)
        self._memory = Memory() if memory is None else memory
        self._today = Beginnings()
        self._reshaped = Beginnings()

    def read(self, file: LineFile, on_progress: Callable[[int], None]) -> None:
        """Read a file to its end, or to where it breaks off."""
        try:
            for line in file:
                self._line(line)
                if self.findings.lines % _SHOWN_EVERY == 0:
                    on_progress(self.findings.lines)
        except ConfigError as error:
            # What could be read counts all the same.
            self.findings.broken_files.append(str(error))

    def _line(self, line: bytes | None) -> None:
        self.findings.lines += 1
        match read_line(line, self._tenant_field):
            case LoggedRequest() as logged:
                self.take(logged)
            case GatewayLine():
                self.findings.unusable["Stepwell's own log, which has no words"] += 1
            case NoRequest(why):
                self.findings.unusable[why] += 1
            case None:
                pass

    def take(self, logged: LoggedRequest) -> None:
        """Take the next request of the log."""
        findings, body = self.findings, dict(logged.body)
        endpoint = endpoint_or_chat(body)
        scope = hash((str(body.get("model")), logged.tenant, endpoint))
        prompt = read_prompt(endpoint, body, self._cutter)
        tokens = prompt.tokens
        scale = 1.0
        if logged.usage is not None and logged.usage.prompt_tokens and tokens:
            scale = logged.usage.prompt_tokens / tokens
        else:
            findings.estimated += 1
        findings.requests += 1
        findings.prompt_tokens += tokens * scale
        shared = self._today.take(scope, prompt)
        findings.shared_tokens += shared * scale
        after = self._rewritten(endpoint, body, prompt)
        findings.reshaped_prompt_tokens += after.tokens * scale
        findings.reshaped_tokens += self._reshaped.take(scope, after) * scale
        self._compare(scope, prompt, shared, scale)
        # Nothing to compare with: a look at the request itself must do.
        findings.risks = risks_of(endpoint, body) if findings.requests == 1 else None

    def _rewritten(self, endpoint: Endpoint, body: dict[str, object], prompt: Prompt) -> Prompt:
        after = reshape(endpoint, body, self.findings.rewrites)
        if not after.what:
            return prompt
        self.findings.reshaped += 1
        return read_prompt(endpoint, after.body, self._cutter)

    def _compare(self, scope: int, prompt: Prompt, shared: float, scale: float) -> None:
        compared = [compare(prompt, other) for other in self._memory.near(scope, prompt)]
        if compared:
            best = max(compared, key=lambda found: (found.common_tokens, found.same_tokens))
            self._count(best, shared, scale)

    def _count(self, found: Comparison, shared: float, scale: float) -> None:
        # What another prompt shares word for word is not lost, wherever this one parts.
        free = max(0.0, shared - found.same_tokens)
        for number, part in enumerate(found.breaks):
            lost = max(0.0, part.tokens - free)
            free = max(0.0, free - part.tokens)
            if lost >= MIN_TOKENS:
                self.findings.add(part, lost * scale, is_first=number == 0)
