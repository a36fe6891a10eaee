#!/usr/bin/env python3
"""Losses and their gradients by PyTorch, in float64, for src/train/losses_test.cc.

    python tests/reference/losses_torch.py > src/train/losses_golden.json

Element i of an input is scale * sin(1.7 i + seed), which the test computes too. The losses are written from the
formulas of src/train/losses.h, and by PyTorch's own functions where it has them.
"""

import json
import math

import torch
import torch.nn.functional as F


def wave(shape, seed, scale=1.0):
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(1.7 * i + seed)).reshape(shape)


def laplacian(mean, log_scale, target):
    error = (mean - target).abs()
    bounded = torch.maximum(log_scale, torch.log(1e-6 + error / 1000))
    return error * torch.exp(-bounded) + torch.clamp(log_scale, min=math.log(1e-3))


def laplacian_nll(raw, target, weight=None):
    n = raw.shape[1] // 2
    losses = laplacian(raw[:, :n], raw[:, n:], target)
    return ((losses if weight is None else losses * weight).sum(1)).mean()


def gaussian_nll(raw, target):
    n = raw.shape[1] // 2
    return F.gaussian_nll_loss(raw[:, :n], target, torch.exp(2 * raw[:, n:]), reduction="none").sum(1).mean()


def laplacian_nll_of_best(raw, target, count, selections, weight=None):
    batch, n = raw.shape[0], (raw.shape[1] // count - selections) // 2
    raw = raw.reshape(batch, count, -1)
    target = target.reshape(batch, selections, n)
    total = torch.zeros((), dtype=raw.dtype)
    for entry in range(batch):
        for s in range(selections):
            losses = torch.stack(
                [laplacian(raw[entry, k, :n], raw[entry, k, n : 2 * n], target[entry, s]).sum() for k in range(count)]
            )
            best = int(losses.argmin())
            others = losses.sum() - losses[best]
            choice = F.cross_entropy(raw[entry, :, 2 * n + s][None], torch.tensor([best]))
            part = losses[best] + 1e-6 * others + choice
            total = total + (part if weight is None else part * weight[entry, s])
    return total / batch


def kl(student, teacher, temperature):
    return F.kl_div(
        F.log_softmax(student / temperature, -1).reshape(-1, student.shape[-1]),
        F.softmax(teacher / temperature, -1).reshape(-1, student.shape[-1]),
        reduction="batchmean",
    ) * temperature**2


def relative(student, teacher):
    return 2 * (student - teacher).square().sum() / (student.square().sum() + teacher.square().sum() + 1e-12)


CASES = {
    "laplacian": lambda: ((x := wave((3, 14), 0.1, 2)), laplacian_nll(x.requires_grad_(), wave((3, 7), 2, 3))),
    "laplacian_weighted": lambda: (
        (x := wave((3, 14), 0.1, 2)),
        laplacian_nll(x.requires_grad_(), wave((3, 7), 2, 3), wave((3, 7), 0.4).abs()),
    ),
    "laplacian_limits": lambda: ((x := wave((2, 10), 0.3, 9)), laplacian_nll(x.requires_grad_(), wave((2, 5), 1, 60))),
    "gaussian": lambda: ((x := wave((3, 14), 0.1, 2)), gaussian_nll(x.requires_grad_(), wave((3, 7), 2, 3))),
    "best_of_5": lambda: (
        (x := wave((4, 5 * 9), 0.7)),
        laplacian_nll_of_best(x.requires_grad_(), wave((4, 4), 3, 2), 5, 1),
    ),
    "best_of_2_for_3": lambda: (
        (x := wave((2, 2 * 11), 0.7)),
        laplacian_nll_of_best(x.requires_grad_(), wave((2, 12), 3, 2), 2, 3, wave((2, 3), 0.2).abs()),
    ),
    "binary_cross_entropy": lambda: (
        (x := wave((3, 5), 0.2, 6)),
        F.binary_cross_entropy_with_logits(x.requires_grad_(), torch.sigmoid(wave((3, 5), 1, 2))),
    ),
    "cross_entropy": lambda: (
        (x := wave((3, 8), 0.2, 3)),
        F.cross_entropy(x.requires_grad_(), F.softmax(wave((3, 8), 1, 2), -1)),
    ),
    "kl_4": lambda: ((x := wave((3, 8), 0.2, 5)), kl(x.requires_grad_(), wave((3, 8), 1, 6), 4.0)),
    "kl_of_hypotheses": lambda: (
        (x := wave((2, 3, 5), 0.2, 2)),
        kl(x.requires_grad_(), wave((2, 3, 5), 1, 3), 1.0),
    ),
    "cosine": lambda: (
        (x := wave((3, 8), 0.2, 3)),
        (1 - F.cosine_similarity(x.requires_grad_(), wave((3, 8), 1, 2), dim=-1)).mean(),
    ),
    "l2": lambda: ((x := wave((3, 8), 0.2, 3)), F.mse_loss(x.requires_grad_(), wave((3, 8), 1, 2))),
    "relative": lambda: ((x := wave((3, 8), 0.2, 3)), relative(x.requires_grad_(), wave((3, 8), 1, 2))),
}

golden = {"made_by": f"tests/reference/losses_torch.py, PyTorch {torch.__version__}, float64", "cases": {}}
for name, make in CASES.items():
    x, loss = make()
    loss.backward()
    golden["cases"][name] = {"loss": loss.item(), "gradient": x.grad.reshape(-1).tolist()}
text = json.dumps(golden, indent=1)
# One line a list.
import re

print(re.sub(r"\[\s+([^\]]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text))
