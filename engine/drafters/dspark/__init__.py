"""DSpark drafters: real checkpoints in DeepSpec's and vLLM speculators' packings.

`config` reads what a checkpoint is, `load` its tensors, `model` and `heads` compute, `drafter`
proposes for the rows of a batch.
"""
