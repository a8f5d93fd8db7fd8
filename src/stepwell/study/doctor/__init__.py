"""The prefix doctor: where the prompts of a log part, and what that costs."""
