"""THE page: which stage makes which artifact."""
