"""Records made from logs that stock torch.compile left on another machine. Reads text and runs nothing."""
