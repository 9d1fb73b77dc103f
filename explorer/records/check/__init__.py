"""Checks: runs any artifact eagerly to compare it, verifies artifacts, replays calls."""
