"""What makes records: exploring, watching, comparison with eager, stock torch.compile, other capture methods, logs."""
