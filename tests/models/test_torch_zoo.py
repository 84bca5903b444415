"""torchvision's and torchaudio's own definitions of networks: C equals eager PyTorch.

Their packages are built for GPUs; on a computer without one, their own C++ does not load. The
networks need none of it, so what their `__init__` looks for is declared here, without a body.
"""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

import edgec  # noqa: E402

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore"),
]
#: Of the largest output: float32 sums in another order, through many layers.
TOLERANCE = 1e-5
IMAGES = {
    "mobilenet_v2": 32, "mobilenet_v3_small": 32, "squeezenet1_1": 64, "shufflenet_v2_x0_5": 32,
    "mnasnet0_5": 32, "resnet18": 32, "efficientnet_b0": 32, "googlenet": 32, "convnext_tiny": 32,
    "regnet_x_400mf": 32, "swin_t": 32,
}  # fmt: skip


@cache
def declared() -> Any:
    """torchvision's operators, which its own library would register; it has to be kept."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def image_network(name: str) -> Any:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    if "torchvision" not in sys.modules:
        declared()
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    return models.get_model(name, weights=None, num_classes=10)


def sound_networks() -> Any:
    extension = ModuleType("torchaudio._extension")
    extension.__getattr__ = lambda name: _absent(name)  # type: ignore[method-assign]
    sys.modules.setdefault("torchaudio._extension", extension)
    return pytest.importorskip("torchaudio.models", reason="torchaudio is not installed")


def _absent(name: str) -> Any:
    """What says that a part is missing decorates functions; the rest are flags."""
    if name.startswith("__"):
        raise AttributeError(name)
    return (lambda function: function) if name.startswith("fail") else False


def require_same(module: Any, shape: tuple[int, ...]) -> None:
    """C equals eager, statistics of normalizations being random numbers."""
    for layer in module.modules():
        if isinstance(layer, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        wanted = module.eval()(x).numpy()
    with edgec.from_torch(module, (x,)).build(board="host") as model:
        answer = model.run(x.numpy())
    assert np.abs(wanted).max() > 0
    np.testing.assert_allclose(answer, wanted, atol=TOLERANCE * np.abs(wanted).max())


@pytest.mark.parametrize("name", IMAGES)
def test_networks_of_torchvision(name: str) -> None:
    torch.manual_seed(0)
    require_same(image_network(name), (1, 3, IMAGES[name], IMAGES[name]))


@pytest.mark.parametrize("name", ["wav2letter", "deepspeech", "conv_tasnet"])
def test_networks_of_torchaudio(name: str) -> None:
    models = sound_networks()
    torch.manual_seed(0)
    if name == "wav2letter":
        require_same(models.Wav2Letter(10, "mfcc", 8), (1, 8, 120))
    elif name == "deepspeech":
        require_same(models.DeepSpeech(8, 16, 10), (1, 1, 12, 8))
    else:
        small = {"enc_kernel_size": 8, "enc_num_feats": 16, "msk_kernel_size": 3,
                 "msk_num_feats": 8, "msk_num_hidden_feats": 16, "msk_num_layers": 2,
                 "msk_num_stacks": 2}  # fmt: skip
        require_same(models.ConvTasNet(num_sources=2, **small), (1, 1, 96))


@pytest.mark.parametrize("name", ["MelSpectrogram", "MFCC", "Spectrogram", "GriffinLim"])
def test_transforms_of_torchaudio(name: str) -> None:
    sound_networks()
    transforms = pytest.importorskip("torchaudio.transforms")
    if name == "MFCC":
        shorter = {"n_fft": 64, "hop_length": 32, "n_mels": 12}
        return require_same(transforms.MFCC(16000, 8, melkwargs=shorter), (1, 400))
    if name == "MelSpectrogram":
        return require_same(transforms.MelSpectrogram(16000, 64, n_mels=12), (1, 400))
    if name == "Spectrogram":
        return require_same(transforms.Spectrogram(64, power=1), (1, 400))
    module = transforms.GriffinLim(64, n_iter=2, rand_init=False)
    return require_same(torch.nn.Sequential(transforms.Spectrogram(64), module), (1, 400))
