"""What is said to the server about vectors. Nothing in these texts is a caller's."""

from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema

KEPT_DELETED_SECONDS = 3_600
"""How long it is known of a digest that it was deleted. What began longer ago is refused."""

_OVER_AT_ONCE = 256


def get(schema: EmbeddingSchema, version: str) -> str:
    """$1: digests. In one snapshot: a row that is there, or none, and the deletions so far."""
    return f"""
        SELECT deletions, digest, value FROM {schema.deletions}
        LEFT JOIN {schema.partition(version)} ON digest = ANY($1)
    """  # noqa: S608


def put(schema: EmbeddingSchema, version: str) -> str:
    """$1: version. $2, $3, $4: digests, values, texts. $5: deletions. $6: today.

    Under the version's lock, shared. In the order of digests: two that write the same vectors wait
    for each other in one direction only. Returns what is refused.
    """
    return f"""
        WITH given AS (SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[])
            AS given (digest, value, text)),
        known AS (SELECT number FROM {schema.versions} WHERE name = $1 AND since <= $5
            AND $5 >= (SELECT floor FROM {schema.deletions})),
        late AS (SELECT digest FROM {schema.deleted} AS it JOIN known ON it.version = known.number
            WHERE it.number > $5 AND digest = ANY($2)),
        kept AS (INSERT INTO {schema.partition(version)} (version, digest, value, text, used_day)
            SELECT known.number, digest, value, text, $6 FROM given, known
            WHERE NOT EXISTS (SELECT FROM late WHERE late.digest = given.digest)
            ORDER BY digest ON CONFLICT DO NOTHING)
        SELECT digest FROM given
        WHERE NOT EXISTS (SELECT FROM known)
            OR EXISTS (SELECT FROM late WHERE late.digest = given.digest)
    """  # noqa: S608


def delete(schema: EmbeddingSchema, version: str) -> str:
    """$1: version. $2: distinct digests. Under the version's lock. Returns how many there were."""
    return f"""
        WITH counted AS (UPDATE {schema.deletions} SET deletions = deletions + 1
            RETURNING deletions),
        gone AS (DELETE FROM {schema.partition(version)} WHERE digest = ANY($2) RETURNING 1),
        noted AS (INSERT INTO {schema.deleted}
            SELECT known.number, digest, deletions, now()
            FROM {schema.versions} AS known, counted, unnest($2::bytea[]) AS digest
            WHERE known.name = $1
            ON CONFLICT (version, digest) DO UPDATE
            SET number = excluded.number, deleted_at = excluded.deleted_at)
        SELECT count(*) FROM gone
    """  # noqa: S608


def forget_deleted(schema: EmbeddingSchema) -> str:
    """Forget the oldest deletions; what began before them is refused from now on.

    A deletion is forgotten whole: the floor is below those that are known.
    """
    return f"""
        WITH old AS (SELECT max(number) AS number FROM
            (SELECT number, deleted_at FROM {schema.deleted}
             ORDER BY number LIMIT {_OVER_AT_ONCE}) AS oldest
            WHERE deleted_at < now() - interval '{KEPT_DELETED_SECONDS} seconds'),
        gone AS (DELETE FROM {schema.deleted} USING old WHERE {schema.deleted}.number <= old.number)
        UPDATE {schema.deletions} SET floor = greatest(floor, old.number) FROM old
        WHERE old.number IS NOT NULL
    """  # noqa: S608


def note_uses(schema: EmbeddingSchema, version: str) -> str:
    """$1: digests. $2: the day. Rows that another is about to note are left to it."""
    partition = schema.partition(version)
    return f"""
        UPDATE {partition} SET used_day = $2 WHERE digest IN (
            SELECT digest FROM {partition} WHERE digest = ANY($1) AND used_day < $2
            FOR NO KEY UPDATE SKIP LOCKED)
    """  # noqa: S608


def sample(schema: EmbeddingSchema, version: str) -> str:
    """$1: where to begin. $2: how many. Neighbours, since digests are random."""
    partition = schema.partition(version)
    return f"""
        (SELECT digest FROM {partition} WHERE digest >= $1 ORDER BY digest LIMIT $2)
        UNION ALL
        (SELECT digest FROM {partition} WHERE digest < $1 ORDER BY digest LIMIT $2)
        LIMIT $2
    """  # noqa: S608


def unfilled(schema: EmbeddingSchema, old: str, new: str | None) -> str:
    """$1: how many. Texts of ``old`` without a vector in ``new``; ``None``: all."""
    is_there = (
        "false"
        if new is None
        else f"EXISTS (SELECT FROM {schema.partition(new)} AS filled"
        " WHERE filled.digest = it.digest)"
    )
    return f"""
        SELECT digest, text, used_day FROM {schema.partition(old)} AS it
        WHERE text IS NOT NULL AND NOT {is_there}
        ORDER BY used_day DESC LIMIT $1
    """  # noqa: S608


def covered(schema: EmbeddingSchema, old: str, new: str) -> str:
    """Count texts of ``old`` that have a vector in ``new``."""
    return f"""
        SELECT count(*) FROM {schema.partition(old)} AS it WHERE text IS NOT NULL
        AND EXISTS (SELECT FROM {schema.partition(new)} AS filled WHERE filled.digest = it.digest)
    """  # noqa: S608


def deleted(schema: EmbeddingSchema) -> str:
    """$1: version. $2: how many."""
    return f"""
        SELECT digest FROM {schema.deleted} AS it
        JOIN {schema.versions} AS known ON it.version = known.number
        WHERE known.name = $1 ORDER BY it.number DESC LIMIT $2
    """  # noqa: S608


def figures(schema: EmbeddingSchema, version: str, share: float) -> str:
    """Count a share of a version's pages, from 0 to 1."""
    partition = schema.partition(version)
    return f"""
        SELECT count(*), count(text), max(used_day), pg_total_relation_size('{partition}')
        FROM {partition} TABLESAMPLE SYSTEM ({share * 100})
    """  # noqa: S608


def claim(schema: EmbeddingSchema) -> str:
    """$1: version. $2: digests. $3: holder. $4: milliseconds. Returns what the holder has now."""
    return f"""
        WITH over AS (DELETE FROM {schema.claims} WHERE ctid IN (
            SELECT ctid FROM {schema.claims} WHERE ends_at < now() - interval '1 minute'
            LIMIT {_OVER_AT_ONCE} FOR UPDATE SKIP LOCKED))
        INSERT INTO {schema.claims} AS held
        SELECT $1, digest, $3, now() + $4 * interval '1 millisecond'
        FROM unnest($2::bytea[]) AS digest ORDER BY digest
        ON CONFLICT (version, digest) DO UPDATE
            SET holder = excluded.holder, ends_at = excluded.ends_at
            WHERE held.ends_at < now() OR held.holder = excluded.holder
        RETURNING digest
    """  # noqa: S608


def release(schema: EmbeddingSchema) -> str:
    """$1: version. $2: digests. $3: holder."""
    return f"""
        DELETE FROM {schema.claims} WHERE version = $1 AND digest IN (
            SELECT digest FROM {schema.claims}
            WHERE version = $1 AND digest = ANY($2) AND holder = $3 FOR UPDATE SKIP LOCKED)
    """  # noqa: S608
