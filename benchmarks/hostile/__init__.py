"""Records and logs as a stranger might make them, and what the explorer does with each."""
