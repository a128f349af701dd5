"""A loop of Accelerate's users, for shardlight.accelerate.Accelerator and for accelerate's own."""

import torch
from torch.utils.data import DataLoader


def loop(accelerator, model, rows, clips=True, epochs=2) -> list[dict]:
    """Accumulates, clips by the accelerator or not, schedules; what each step had."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=12)
    loader = DataLoader(rows, batch_size=2)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    seen, losses = [], []
    for _ in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                losses.append(loss.item())
                norm = None
                if accelerator.sync_gradients and clips:
                    norm = accelerator.clip_grad_norm_(model.parameters(), 0.5).item()
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                rate = optimizer.param_groups[0]["lr"]
                seen.append({"losses": losses, "grad_norm": norm, "learning_rate": rate})
                losses = []
    return seen
