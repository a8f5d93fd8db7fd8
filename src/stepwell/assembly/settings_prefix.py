"""The table ``[prefix]`` of the settings."""

from stepwell.assembly.settings_base import Table
from stepwell.policy.prompt_shape.reshaping import Rewrite


class Prefix(Table, frozen=True):
    """``[prefix]``: what engines can reuse of earlier prompts."""

    rewrite: tuple[Rewrite, ...] = ()
    """Rewrites of requests, so that their prompts begin like the ones before. The model reads the
    rewritten prompt; answers of before are not served for it. ``timestamps``, ``ids``,
    ``counters``: sentences of the system prompt that say only such a thing move to the end of the
    last user message. ``tools``: tools are sorted by name. ``json``: so are the keys in them.
    ``whitespace``: no blanks at line ends of the system prompt, one empty line at most."""
