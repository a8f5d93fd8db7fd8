"""What must happen at once on a server, in its own language (Lua 5.1).

Each script touches the names it is given and no others, all in one slot.
"""

from dataclasses import dataclass, field
from hashlib import sha1
from typing import Protocol

from stepwell.stores.redis.link import Refused, Reply, Word


class Asked(Protocol):
    """The part of the servers this needs."""

    async def ask(self, key: bytes, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """Send a command to the server that has ``key``."""
        ...


@dataclass(frozen=True, slots=True)
class Script:
    """One script."""

    text: str
    name: str = field(init=False)
    """By which a server knows it: its SHA-1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", sha1(self.text.encode()).hexdigest())  # noqa: S324

    async def run(
        self,
        servers: Asked,
        keys: tuple[bytes, ...],
        *arguments: Word,
        timeout_seconds: float | None = None,
    ) -> Reply:
        """Run it; send its text first to a server that does not know it yet.

        Raises:
            StoreError: As `Asked.ask`.
        """
        words = (len(keys), *keys, *arguments)
        try:
            return await servers.ask(
                keys[0], "EVALSHA", self.name, *words, timeout_seconds=timeout_seconds
            )
        except Refused as error:
            if error.code != "NOSCRIPT":
                raise
        return await servers.ask(
            keys[0], "EVAL", self.text, *words, timeout_seconds=timeout_seconds
        )


FULL = "FULL"
"""Code of the error if there is no room for one more."""

JUMP = 1_000_000
"""By how much the position leaps where changes may have been lost: above what anybody has seen."""

KEPT_CHANGES = 10_000
MAX_EPOCHS = 50_000
MAX_JUDGEMENTS = 100_000
MAX_SOURCES = 10_000
MAX_ALL_SOURCES = 100_000
KEPT_ARRIVALS = 100_000

_WHEN_FULL = "#!lua flags=allow-oom"
"""Also when no memory is left: what these write is bounded, and few bytes. An answer can wait; that
one is gone cannot."""

_CHECK = """
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then
  return redis.error_reply('GONE the store has been emptied')
end
"""

_APPEND = f"""
local function append(message)
  local position = redis.call('HINCRBY', KEYS[1], 'position', 1)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', {KEPT_CHANGES},
    string.format('%.0f-0', position), 'change', message)
  return position
end
"""

OPEN = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes. ARGV: the caller's position, a new generation, the server's history.
local generation = redis.call('HGET', KEYS[1], 'generation')
local mine = tonumber(ARGV[1])
local position
if not generation then
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  position = math.max(mine, last and tonumber(string.match(last[1], '^%d+')) or 0)
  if position > 0 then position = position + {JUMP} end
  generation = ARGV[2]
  redis.call('HSET', KEYS[1], 'generation', generation, 'history', ARGV[3],
    'floor', string.format('%.0f', position))
else
  position = tonumber(redis.call('HGET', KEYS[1], 'position') or '0')
  if redis.call('HGET', KEYS[1], 'history') ~= ARGV[3] then
    position = math.max(mine, position) + {JUMP}
    redis.call('HSET', KEYS[1], 'history', ARGV[3])
  elseif mine > position then
    position = mine + {JUMP}
  end
end
redis.call('HSET', KEYS[1], 'position', string.format('%.0f', position))
return {{generation, string.format('%.0f', position), redis.call('HGET', KEYS[1], 'floor')}}
""")

REPLACED = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes. ARGV: generation, message.
{_CHECK}{_APPEND}
return append(ARGV[2])
""")

INVALIDATED = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes, epochs. ARGV: generation, message.
{_CHECK}{_APPEND}
local position = append(ARGV[2])
redis.call('ZADD', KEYS[3], position, ARGV[2])
if redis.call('ZCARD', KEYS[3]) > {MAX_EPOCHS} then
  redis.call('HSET', KEYS[1], 'floor', redis.call('ZPOPMIN', KEYS[3])[2])
end
return position
""")

SWEPT = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes, epochs. ARGV: generation, position until which all is removed.
{_CHECK}
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[2])
local position = redis.call('HINCRBY', KEYS[1], 'position', 1)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', {KEPT_CHANGES},
  string.format('%.0f-0', position), 'swept', ARGV[2])
return position
""")

MOVED = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes, sources. ARGV: generation, message, namespace, name, everyone.
{_CHECK}{_APPEND}
local field = ARGV[3] .. ARGV[4]
local old = redis.call('HGET', KEYS[3], field)
local own = 0
local same = 0
if ARGV[3] == ARGV[5] or not old then
  for _, other in ipairs(redis.call('HKEYS', KEYS[3])) do
    if ARGV[3] == ARGV[5] and other ~= field and string.sub(other, 17) == ARGV[4] then
      own = own + redis.call('HDEL', KEYS[3], other)
    elseif string.sub(other, 1, 16) == ARGV[3] then
      same = same + 1
    end
  end
end
if old == ARGV[2] and own == 0 then return 0 end
if not old and same >= {MAX_SOURCES} then
  return redis.error_reply('FULL a namespace can have {MAX_SOURCES} sources')
end
if not old and ARGV[3] ~= ARGV[5] and redis.call('HLEN', KEYS[3]) >= {MAX_ALL_SOURCES} then
  return redis.error_reply('FULL all namespaces can have {MAX_ALL_SOURCES} sources together')
end
redis.call('HSET', KEYS[3], field, ARGV[2])
return append(ARGV[2])
""")

JUDGED = Script(f"""{_WHEN_FULL}
-- KEYS: meta, changes, judgements, judged. ARGV: generation, message, pair, 1 if wrong.
{_CHECK}{_APPEND}
local position = append(ARGV[2])
redis.call('HSET', KEYS[3], ARGV[3], string.format('%.0f:', position) .. ARGV[2])
redis.call('ZADD', KEYS[4], position + tonumber(ARGV[4]) * 2^52, ARGV[3])
if redis.call('ZCARD', KEYS[4]) > {MAX_JUDGEMENTS} then
  redis.call('HDEL', KEYS[3], redis.call('ZPOPMIN', KEYS[4])[1])
end
return position
""")

ARRIVED = Script(f"""
-- KEYS: meta, arrivals. ARGV: generation, entry.
{_CHECK}
local number = redis.call('HINCRBY', KEYS[1], 'came', 1)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', {KEPT_ARRIVALS},
  string.format('%.0f-0', number), 'entry', ARGV[2])
return number
""")

LATE, FENCED, OUTDATED = -1, -2, -3
"""What `PUT` says when it did not write."""

PUT = Script(f"""
-- KEYS: entry, lease. ARGV: value, milliseconds to live, second by which it must be written, the
-- caller's token or nothing.
-- What the caller knows of invalidations is of a certain moment; it may have slept since.
if tonumber(redis.call('TIME')[1]) > tonumber(ARGV[3]) then return {LATE} end
local there = redis.call('GETRANGE', KEYS[1], 0, 5)
if ARGV[4] ~= '' then
  -- Who lost its lease must not write over what others wrote, or are about to.
  local held = redis.call('GET', KEYS[2])
  if held ~= ARGV[4] and (held or there ~= '') then return {FENCED} end
end
local own = string.sub(ARGV[1], 1, 6)
if there ~= own and #there == 6 and string.sub(there, 1, 3) == 'SWF' then
  local facets, record = struct.unpack('<BH', there, 4)
  local own_facets, own_record = struct.unpack('<BH', own, 4)
  if facets > own_facets or facets == own_facets and record > own_record then return {OUTDATED} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return there == '' and 0 or 1
""")

REMOVE = Script("""
-- KEYS: entry. ARGV: how it begins: another may have taken its place.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")

LEASE = Script(f"""{_WHEN_FULL}
-- KEYS: lease. ARGV: whose, milliseconds. Who has it may take it for longer.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")

CLAIM = Script("""
-- KEYS: lease, entry. ARGV: token, milliseconds.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('EXISTS', KEYS[2])
""")

RENEW = Script("""
-- KEYS: lease, entry. ARGV: token, milliseconds.
-- One that ran out is taken again, unless another may have come and gone meanwhile.
local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] and (held or redis.call('EXISTS', KEYS[2]) == 1) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")

MAX_LETTERS = 1_000

DELIVER = Script(f"""
-- KEYS: inbox. ARGV: letter, milliseconds to live.
if redis.call('LLEN', KEYS[1]) >= {MAX_LETTERS} then
  return redis.error_reply('FULL a gateway does not read its letters')
end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

RELEASE = Script("""
-- KEYS: lease. ARGV: whose.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")
