"""Stock torch.compile, shown beside our own compiler. The only folder that names torch._dynamo and torch._inductor."""
