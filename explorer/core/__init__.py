"""What every stage shares and that knows no stage: origins, text with origins, stages, rules, reasons."""
