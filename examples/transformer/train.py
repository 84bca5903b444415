"""A small transformer reads digits row by row: trained, quantized, run on an emulated STM32."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import edgec

WIDTH, HEADS, EPOCHS, BATCH = 16, 2, 30, 50


class Block(nn.Module):
    """Attention among the rows, then two layers for each row; both add to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(2, (3, HEADS, WIDTH // HEADS))
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # each [batch, heads, rows, width of a head]
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 10)
        self.place = nn.Parameter(torch.randn(8, WIDTH) / 4)
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:  # [batch, 8 rows, 8 pixels]
        return self.head(self.blocks(self.embed(rows) + self.place).mean(1))


def share(answers: np.ndarray, labels: np.ndarray) -> str:
    right = (answers.argmax(1) == labels[: len(answers)]).mean()
    return f"{100 * right:.1f} % of {len(answers)} digits"


torch.manual_seed(0)
torch.set_num_threads(1)
images, digits = load_digits(return_X_y=True)
images = (images.reshape(-1, 8, 8) / 16).astype(np.float32)
x, x_test, y, y_test = train_test_split(images, digits, test_size=450, random_state=0)
data, net = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), Reader()
optimizer = torch.optim.Adam(net.parameters(), 4e-3)
for _ in range(EPOCHS):
    for rows, labels in torch.utils.data.DataLoader(data, BATCH, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
net.eval()
print("float, PyTorch:", share(net(torch.tensor(x_test)).detach().numpy(), y_test))

most = int(sys.argv[1]) if len(sys.argv) > 1 else len(x_test)
model = edgec.from_torch(net, (torch.tensor(x[:1]),)).quantize([(rows[None],) for rows in x[:100]])
with model.build(board="stm32") as board:
    answers = np.concatenate([board.run(rows[None]) for rows in x_test[:most]])
    print(f"int8, {board.board.title}:", share(answers, y_test))
