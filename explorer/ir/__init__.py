"""The nouns: one frozen artifact a file, each with its printer. Verbs live in the folder of their stage."""
