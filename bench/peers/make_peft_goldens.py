#!/usr/bin/env python3
"""Writes tests/reference/peft: adapters that Hugging Face's PEFT trained for a small model, and the model's results.

  .venv/bin/python -m pip install torch==2.15.0 peft==0.21.2
  .venv/bin/python bench/peers/make_peft_goldens.py

base.safetensors holds the base's weights, the inputs x and y, and, for each adapter in a folder beside it, the results
<adapter>.linear and <adapter>.conv. src/adapters/peft_test.cc builds the same model from it.
"""
import pathlib

import peft
import torch
from safetensors.torch import save_file
from torch import nn

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/reference/peft"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3, bias=False))
        self.stem = nn.Conv2d(3, 6, (3, 2), stride=2, padding=(1, 0))
        self.point = nn.Conv2d(6, 4, 1)

    def forward(self, x, y):
        return self.body(x), self.point(torch.tanh(self.stem(y)))


def train(model, x, y):
    """Some steps towards random targets, so that nothing of the adapter is as it was made."""
    targets = [torch.randn_like(result) for result in model(x, y)]
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        sum(((result - target) ** 2).mean() for result, target in zip(model(x, y), targets)).backward()
        optimizer.step()


torch.manual_seed(7)
torch.set_num_threads(1)
base = Model()
x, y = torch.randn(4, 7), torch.randn(2, 3, 9, 8)
tensors = {"x": x, "y": y, **{name: value.clone() for name, value in base.state_dict().items()}}
kinds = {
    "lora": dict(r=2, lora_alpha=4),
    "rslora": dict(r=3, lora_alpha=4, use_rslora=True),
    "dora": dict(r=2, lora_alpha=3, use_dora=True, rank_pattern={"stem": 4}, alpha_pattern={"stem": 2, "body.0": 8}),
}
for kind, settings in kinds.items():
    model = Model()
    model.load_state_dict(base.state_dict())
    config = peft.LoraConfig(target_modules=["body.0", "body.2", "stem", "point"], **settings)
    adapted = peft.get_peft_model(model, config)
    train(adapted, x, y)
    adapted.eval()
    with torch.no_grad():
        linear, conv = adapted(x, y)
    tensors[f"{kind}.linear"], tensors[f"{kind}.conv"] = linear.contiguous(), conv.contiguous()
    adapted.save_pretrained(OUT / kind)
    (OUT / kind / "README.md").unlink(missing_ok=True)
save_file(tensors, OUT / "base.safetensors", metadata={"made_by": f"torch {torch.__version__}, peft {peft.__version__}"})
