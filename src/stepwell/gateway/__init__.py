"""HTTP: routes, authentication, cache headers, admin. The walk itself is in `stepwell.pipeline`."""
