"""How a model is spread over ranks under PyTorch: DDP, FSDP, pipeline, stages, Keras replicas."""
