"""Ways to capture a graph of a PyTorch program, each as its users use it, so that they can be compared by running."""
