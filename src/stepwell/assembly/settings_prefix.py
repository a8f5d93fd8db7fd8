"""The table ``[prefix]`` of the settings."""

from stepwell.assembly.settings_base import Name, Seconds, Table, Text, check_distinct
from stepwell.policy.prompt_shape.reshaping import Rewrite


class WarmPrompt(Table, frozen=True):
    """One ``[[prefix.warm]]``: a system prompt that every replica reads before requests need it."""

    model: Text
    """The model's name, as requests give it."""
    system: Text | None = None
    """The system prompt, exactly as requests have it."""
    system_file: Text | None = None
    """A file with it, in place of ``system``; a relative path begins where the settings file is."""
    tools_file: Text | None = None
    """A JSON file with the list ``tools`` of those requests: most templates put it in front."""
    upstream: Name | None = None
    """Whose replicas; default: the upstream that serves the model."""
    tenant: Name | None = None
    """Whose requests (``auth.mode = "keys"``). Needed where ``prefix.salt`` keeps tenants apart:
    each has a copy of its own, by a table of its own."""
    every_seconds: Seconds = 0
    """How often it is read again, so that it is not evicted; 0: at start, and when a replica was
    lost."""

    pin_seconds: Seconds = 0
    """How long it may not be evicted, whatever else comes; read again in half that time. Of the
    engine whose KV is kept here (``kind = "torch"``) only."""
    public: bool = False
    """Whether all tenants go on from the one copy, though ``prefix.salt`` keeps them apart: they
    can find out by timing that it is there. Of such an engine only."""

    def __post_init__(self) -> None:
        if self.public and self.tenant is not None:
            raise ValueError("public and tenant do not go together")
        if (self.system is None) == (self.system_file is None):
            raise ValueError("needs exactly one of system and system_file")


class Prefix(Table, frozen=True):
    """``[prefix]``: what engines can reuse of earlier prompts."""

    rewrite: tuple[Rewrite, ...] = ()
    """Rewrites of requests, each named once, so that their prompts begin like the ones before. The
    model reads the rewritten prompt; answers of before are not served for it. ``timestamps``,
    ``ids``, ``counters``: sentences of the system prompt that say only such a thing move to the end
    of the last user message. ``tools``: tools are sorted by name. ``json``: so are the keys in
    them. ``whitespace``: no blanks at line ends of the system prompt, one empty line at most."""
    warm: tuple[WarmPrompt, ...] = ()
    """System prompts that replicas are to hold."""

    def __post_init__(self) -> None:
        check_distinct("rewrite", [one.value for one in self.rewrite])
