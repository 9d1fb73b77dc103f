"""The shared base, which depends on no stage: origins, text with origins, stages, rules, reasons."""
