"""KV blocks as files, one each, that several processes share. Needs `xxhash`."""
