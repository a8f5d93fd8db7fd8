"""What a run of sync did."""

from dataclasses import dataclass, field

from stepwell.embedding.documents.sources import Unread


@dataclass(slots=True)
class Summary:
    """Counts of a run, while it goes on and in the end."""

    added: int = 0
    """Documents."""
    changed: int = 0
    """In their text."""
    annotated: int = 0
    """Changed in their metadata alone; nothing was embedded for that."""
    removed: int = 0
    unchanged: int = 0
    failed: list[Unread] = field(default_factory=list)
    """What could not be read, embedded, or put in; what is known of it stayed as it was."""
    chunks: int = 0
    """Of documents that were added or changed."""
    embedded: int = 0
    """Texts whose vectors were computed."""
    from_cache: int = 0
    """Texts whose vectors the embedding cache had. All other chunks were in the collection."""
    unfit: int = 0
    """Chunks that cannot be found, since they have no vector that means anything."""
    unforgotten: int = 0
    """Texts that no document has any more, and the embedding cache may still know."""
    seconds: float = 0.0

    @property
    def documents(self) -> int:
        """That were looked at in the source."""
        return self.added + self.changed + self.annotated + self.unchanged + len(self.failed)

    @property
    def wrote(self) -> bool:
        """Whether anything was changed."""
        return bool(self.added or self.changed or self.annotated or self.removed)
