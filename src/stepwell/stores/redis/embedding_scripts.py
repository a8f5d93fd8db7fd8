"""What must happen at once to a vector on a server, in its own language (Lua 5.1)."""

from stepwell.stores.redis.scripts import Script

DELETE = Script("""#!lua flags=allow-oom
-- KEYS: vector. ARGV: tombstone, seconds. Also when no memory is left: it takes less than it frees.
local size = redis.pcall('STRLEN', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return type(size) == 'number' and size > string.len(ARGV[1]) and 1 or 0
""")
