"""Symbolic values: what stands on the evaluator's stack. Stock counterpart: torch/_dynamo/variables."""
