"""transformers.Trainer over an engine: everything but wrapping, backward, step and saving is
inherited."""

from __future__ import annotations

import functools
from typing import Any

import torch
import transformers
from torch import nn

from shardlight._errors import user_error
from shardlight.accelerate import Accelerator, split_choices
from shardlight.engine import Engine
from shardlight.transformers._checks import check_arguments, check_optimizer, check_version

# Replaced below; most are not part of what transformers promises to keep.
check_version(
    (
        "_build_accelerator_args",
        "create_accelerator_and_postprocess",
        "_wrap_model",
        "_clip_grad_norm",
        "_get_grad_norm",
        "_maybe_log_save_evaluate",
        "_save_checkpoint",
    )
)
_FROM_ARGUMENTS = {
    "accumulation": "TrainingArguments(gradient_accumulation_steps=…)",
    "clip_norm": "TrainingArguments(max_grad_norm=…)",
}


class Trainer(transformers.Trainer):
    """transformers.Trainer with the choices of `shardlight.Choices` as further keywords:

        Trainer(model, args, train_dataset=data, stage=3).train()

    `engine` is there from train() on, and stays until the program ends, so that the model can be
    evaluated and saved; trainer.engine.close() ends it before. Ranks are those of torchrun.
    Raises UserError for arguments that cannot be honoured yet. docs/python.md.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        args: transformers.TrainingArguments | None = None,
        *further: Any,
        **settings: Any,
    ) -> None:
        self._choices, settings = split_choices(settings)
        for name, allowed in _FROM_ARGUMENTS.items():
            if name in self._choices:
                raise user_error(name, "given", allowed)
        args = transformers.TrainingArguments("tmp_trainer") if args is None else args
        check_arguments(args)
        super().__init__(model, args, *further, **settings)
        if self.optimizer is None and self.optimizer_cls_and_kwargs is None:
            check_optimizer(args.optim)

    @property
    def engine(self) -> Engine:
        if self.accelerator.engine is None:
            raise user_error("trainer.engine", "read before train()", "after train() began")
        return self.accelerator.engine

    def _build_accelerator_args(self, **kwargs: Any) -> dict[str, Any]:
        self._accelerator_args = super()._build_accelerator_args(**kwargs)
        return self._accelerator_args

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        clip = self.args.max_grad_norm
        self.accelerator = Accelerator(
            **self._accelerator_args, **self._choices, clip_norm=clip if clip else None
        )
        self.accelerator.accumulation = self.args.gradient_accumulation_steps
        self.gather_function = functools.partial(
            self.accelerator.gather_for_metrics,
            use_gather_object=self.args.eval_use_gather_object,
        )

    def _wrap_model(
        self, model: nn.Module, training: bool = True, dataloader: Any = None
    ) -> nn.Module:
        return model

    def _clip_grad_norm(self, model: nn.Module) -> None:
        """The engine clips as it steps, without whole gradients in memory."""

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> None:
        """Known when the engine has stepped."""

    def _maybe_log_save_evaluate(
        self, tr_loss: torch.Tensor, grad_norm: Any, *further: Any, **named: Any
    ) -> None:
        report = getattr(self.optimizer, "report", None)
        norm = None if report is None else report.gradient_norm
        super()._maybe_log_save_evaluate(tr_loss, norm, *further, **named)

    def train(self, resume_from_checkpoint: Any = None, *further: Any, **named: Any) -> Any:
        if resume_from_checkpoint:
            raise user_error(
                "resume_from_checkpoint",
                str(resume_from_checkpoint),
                "None, as states cannot be loaded yet",
            )
        return super().train(None, *further, **named)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """For from_pretrained(); on all ranks. The main process alone holds the whole state."""
        if self.accelerator.engine is None:
            return super().save_model(output_dir, _internal_call)
        state = {}
        for name, tensor in self.engine.full_state():
            if self.args.should_save:
                state[name] = tensor
        self._save(output_dir, state_dict=state)
        if self.args.push_to_hub and not _internal_call:
            self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        raise user_error(
            "control.should_save",
            "True, as set by a callback",
            "False: states cannot be saved yet; trainer.save_model() saves the weights",
        )

    def hyperparameter_search(self, *args: Any, **kwargs: Any) -> Any:
        raise user_error(
            "hyperparameter_search()", "called", "a Trainer for each trial: the engine keeps one"
        )
