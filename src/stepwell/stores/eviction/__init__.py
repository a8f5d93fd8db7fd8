"""Eviction policies, one module each, behind `stepwell.core.ports.EvictionPolicy`.

| module | what leaves first | when to choose it |
|---|---|---|
| `lru` | what was read longest ago | the plain baseline |
| `lfu` | what was read least often lately | traffic whose hot set hardly moves |
| `adaptive` | as the better of three plans says, by trial on the traffic itself | the default |

Figures and reasons: `design/0003-eviction.md`. Every policy counts entries, not bytes: the
store asks for victims until its own bounds hold, and `adaptive` learns from that how many
entries fit. Test your own with `stepwell.testing.policy_contract`.
"""
