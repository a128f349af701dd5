"""Hugging Face's Trainer, whose model is trained by an engine."""

from shardlight.transformers.trainer import Trainer

__all__ = ["Trainer"]
