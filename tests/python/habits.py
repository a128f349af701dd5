"""A rank's part of test_habits.py: what loops already do, on a GPT-2 at stage 3 beside a plain
process. Words: names of functions below."""

import copy
import io
import os
import sys
import tempfile

import models
import shardlight
import torch
import transformers
from twins import Twin, adamw, draws, expect_same_state, run_words, same_bits

CASE = models.cases()[0]
assert CASE.name == "GPT-2"


def start(optimizer=adamw, **choices):
    """An engine, its model, and the twin."""
    model = CASE.make()
    choices = {"stage": 3, "unit_bytes": 16 << 10, **choices}
    return shardlight.Engine(model, optimizer(model), **choices), model, Twin(CASE, optimizer)


def loss_of(engine, model, step=0):
    return CASE.loss(model, draws(step, engine.rank))


def whole_state(engine, model, twin):
    """state_dict() has whole values wherever it goes, and tied parameters stay one tensor."""
    state = model.state_dict()
    expect_same_state(state, twin.model, "state_dict()")
    tied = state["lm_head.weight"], state["transformer.wte.weight"]
    assert tied[0].data_ptr() == tied[1].data_ptr()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    expect_same_state(torch.load(file), twin.model, "torch.save")
    expect_same_state(copy.deepcopy(model).state_dict(), twin.model, "deepcopy")
    block, expected = model.transformer.h[1].state_dict(), twin.model.transformer.h[1].state_dict()
    assert all(same_bits(block[name], expected[name]) for name in expected)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = transformers.GPT2LMHeadModel.from_pretrained(folder)
        expect_same_state(loaded.state_dict(), twin.model, "save_pretrained()")


def saving():
    engine, model, twin = start()
    with engine:
        whole_state(engine, model, twin)
        before = model.state_dict()
        engine.backward(loss_of(engine, model))
        engine.step()
        twin.step(0, engine.world)
        whole_state(engine, model, twin)
        changed = model.state_dict()
        assert not any(same_bits(changed[name], before[name]) for name in changed)


def copying_twice():
    """What a caller does to a state is not in the next one."""
    engine, model, twin = start()
    with engine:
        first = model.state_dict()
        for value in first.values():
            value.zero_()
        expect_same_state(model.state_dict(), twin.model, "a second state_dict()")


def hooks():
    engine, model, _ = start()
    ran = []
    engine.optimizer.register_step_pre_hook(lambda *_: ran.append("before"))
    engine.optimizer.register_step_post_hook(lambda *_: ran.append("after"))
    with engine:
        for step in (engine.step, engine.optimizer.step):
            loss_of(engine, model).backward()
            step()
            assert ran == ["before", "after"], ran
            ran.clear()


def forking():
    """A child that ends as Python ends leaves its parent's engine alone."""
    engine, model, _ = start()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    engine.backward(loss_of(engine, model))
    engine.step()
    engine.close()


def loading():
    engine, model, twin = start()
    state = {name: value + 1 for name, value in twin.model.state_dict().items()}
    twin.model.load_state_dict(state)
    with engine:
        assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
        expect_same_state(model.state_dict(), twin.model, "load_state_dict()")
        engine.backward(loss_of(engine, model))
        engine.step()
        twin.step(0, engine.world)
        expect_same_state(engine.state_dict(), twin.model, "a step after load_state_dict()")


def schedulers():
    def momentum(model):
        decay = [p for name, p in model.named_parameters() if "ln" not in name]
        rest = [p for name, p in model.named_parameters() if "ln" in name]
        groups = [{"params": rest, "weight_decay": 0.0, "lr": 0.5}, {"params": decay}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.1, fused=True)

    engine, model, twin = start(momentum)
    cycles = [
        torch.optim.lr_scheduler.OneCycleLR(optimizer, [1.0, 0.2], total_steps=6)
        for optimizer in (engine.optimizer, twin.optimizer)
    ]
    with engine:
        for step in range(4):
            loss_of(engine, model, step).backward()
            engine.optimizer.step()
            engine.optimizer.zero_grad()
            twin.step(step, engine.world)
            for cycle in cycles:
                cycle.step()
        expect_same_state(engine.state_dict(), twin.model, "under OneCycleLR")


def scaler():
    engine, model, twin = start()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    with engine:
        for step in range(3):
            # At first one rank's gradient overflows, and no rank steps.
            factor = float("inf") if (step, engine.rank) == (0, 1) else 1.0
            scaler.scale(factor * loss_of(engine, model, step)).backward()
            if step == 2:  # as loops do that clip
                scaler.unscale_(engine.optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            scaler.step(engine.optimizer)
            scaler.update()
            engine.optimizer.zero_grad()
            if step > 0:
                twin.step(step, engine.world)
        expect_same_state(engine.state_dict(), twin.model, "under GradScaler")
    assert scaler.get_scale() == 2.0**11  # halved once, doubled twice


def clipping():
    engine, model, twin = start()
    plain = twin.optimizer.step

    def clipped():
        twin.norm = torch.nn.utils.clip_grad_norm_(twin.model.parameters(), 0.1)
        plain()

    twin.optimizer.step = clipped
    with engine:
        engine.backward(loss_of(engine, model))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        engine.step()
        twin.step(0, engine.world)
        assert same_bits(norm, twin.norm)
        expect_same_state(engine.state_dict(), twin.model, "after clip_grad_norm_()")


def checkpointing():
    for reentrant in (False, True):
        engine, model, twin = start()
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        with engine:
            engine.backward(loss_of(engine, model))
            engine.step()
            twin.step(0, engine.world)
            expect_same_state(engine.state_dict(), twin.model, f"{reentrant=}")


def evaluation():
    engine, model, twin = start()
    with engine:
        prompt = torch.arange(3, 9)[None]

        def losses():
            return loss_of(engine, model), CASE.loss(twin.model, draws(0, engine.rank))

        for scope in (torch.no_grad, torch.inference_mode):
            with scope():
                assert same_bits(*losses())
        words = {"max_new_tokens": 2 + 5 * engine.rank, "do_sample": False, "pad_token_id": 0}
        assert same_bits(model.generate(prompt, **words), twin.model.generate(prompt, **words))
        with torch.autocast("cpu", torch.bfloat16):
            assert same_bits(*losses())


def averaging():
    engine, model, twin = start()
    mean = torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    with engine:
        averages = [
            torch.optim.swa_utils.AveragedModel(one, multi_avg_fn=mean)
            for one in (model, twin.model)
        ]
        for step in range(2):
            engine.backward(loss_of(engine, model, step))
            engine.step()
            twin.step(step, engine.world)
            averages[0].update_parameters(model)
            averages[1].update_parameters(twin.model)
        expect_same_state(averages[0].module.state_dict(), averages[1].module, "the average")


if __name__ == "__main__":
    run_words(globals())
