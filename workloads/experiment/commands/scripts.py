"""Lua that commands bring along: some of it wrong."""

from __future__ import annotations

SCRIPTS = (
    "return redis.call('GET', KEYS[2])",
    "return redis.pcall('TYPE', KEYS[1])",
    "return redis.call('SET', KEYS[2], ARGV[1])",
    "redis.call('SELECT', 1); return redis.call('GET', KEYS[2])",
    "for i = 1, 300 do redis.call('SET', KEYS[2], i); redis.call('GET', KEYS[2]) end return 1",
    "for i = 1, 30 do redis.call('RPUSH', KEYS[3], i) end return redis.call('LLEN', KEYS[3])",
    "return {redis.pcall('LPOP', KEYS[3]), redis.pcall('HGET', KEYS[1], ARGV[2])}",
    "redis.call('DEL', KEYS[1]); return redis.error_reply('wanted')",
    "return redis.call('EXPIRE', KEYS[2], 100000)",
    "redis.pcall('INCRBY', KEYS[2], ARGV[1]); return redis.sha1hex(ARGV[1])",
    "return cjson.encode({KEYS, ARGV})",
    "return cmsgpack.unpack(cmsgpack.pack(ARGV[1]))",
    "return redis.call('NOSUCH')",
    "return not a script",
    "error('wanted')",
)

LIBRARY = """#!lua name=library
redis.register_function{function_name='reads', flags={'no-writes'}, callback=function(keys, args)
  return {redis.pcall('GET', keys[2]), redis.pcall('TYPE', keys[1])} end}
redis.register_function('writes', function(keys, args)
  return redis.call('SET', keys[#keys], args[1] or 'x') end)
"""
