"""What must happen at once to a point on a server, in its own language (Lua 5.1)."""

from stepwell.stores.redis.scripts import Script

ADD = Script("""
-- KEYS: point. ARGV: position, expiry, milliseconds to live, then fields and values.
local held = redis.call('HMGET', KEYS[1], 'position', 'expires')
if held[1] then
  local position, mine = tonumber(held[1]), tonumber(ARGV[1])
  if position > mine then return 0 end
  if position == mine and tonumber(held[2]) >= tonumber(ARGV[2]) then return 0 end
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
""")

REMOVE_OLDER = Script("""
-- KEYS: point. ARGV: position of the invalidation: a newer point may have taken its place.
local position = tonumber(redis.call('HGET', KEYS[1], 'position') or '')
if not position or position >= tonumber(ARGV[1]) then return 0 end
return redis.call('DEL', KEYS[1])
""")
