"""What a person sees, made from record data alone."""
