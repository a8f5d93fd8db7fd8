"""Shipped test tools: contract checks for your own stores and policies, fakes, a fake upstream."""
