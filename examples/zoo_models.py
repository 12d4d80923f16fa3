"""The models of `zoo.py`, built by torchvision, timm and transformers with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

# Of most pictures, in pixels.
SIDE = 64
CALIBRATION_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the zoo.

    Attributes:
        family: `cnn`, `transformer`, `dense` (segmentation, detection and other outputs per pixel) or `audio`.
        make: builds it; modules are imported there.
        shape: of its input; token numbers where `tokens` are said.
        tokens: the size of its vocabulary, 0 where its input are numbers.
    """

    family: str
    make: Callable[[], Any]
    shape: tuple[int, ...] = (1, 3, SIDE, SIDE)
    tokens: int = 0


def torchvision(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        from torchvision.models import get_model

        return get_model(name, weights=None, **options)

    return make


def timm(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        from timm import create_model

        return create_model(name, pretrained=False, **options)

    return make


def transformers(name: str, **config: Any) -> Callable[[], Any]:
    """A model as `NameConfig` and `NameModel` of the package make it, of the published size where `config` is empty."""

    def make() -> Any:
        import transformers as package

        made = getattr(package, f"{name}Config")(attn_implementation="eager", **config)
        return getattr(package, f"{name}Model")(made)

    return make


CNNS = [
    "alexnet vgg11_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 mobilenet_v2 mobilenet_v3_small",
    "mobilenet_v3_large efficientnet_b0 efficientnet_v2_s mnasnet0_5 mnasnet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0",
    "squeezenet1_0 squeezenet1_1 densenet121 regnet_y_400mf regnet_x_400mf convnext_tiny",
]
OF_TIMM = [
    "efficientnet_lite0 mobilenetv4_conv_small tf_mixnet_s ghostnet_100 repvgg_a0 hardcorenas_a fbnetc_100",
    "spnasnet_100 rexnet_100 resnest14d res2net50_26w_4s seresnet18 skresnet18 dla34 hrnet_w18_small",
    "cspresnet50 darknet53 vovnet39a selecsls42b dpn48b xception41 tresnet_m gernet_s nf_regnet_b0",
    "convnext_atto convnextv2_atto edgenext_xx_small mobileone_s0 fastvit_t8 inception_v4 lcnet_050 tinynet_e",
    "regnetz_005 resnetv2_50",
]
TRANSFORMERS_OF_TIMM = (
    "vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 gmlp_ti16_224 pit_ti_224 poolformerv2_s12 levit_128s"
    " tiny_vit_5m_224 swin_tiny_patch4_window7_224 mobilevit_xxs efficientformer_l1 cait_xxs24_224 xcit_nano_12_p16_224"
)
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TOKENS = (1, 32)


def entries(side: int = SIDE) -> Iterator[tuple[str, Entry]]:
    """All models by name, those of pictures of `SIDE` for ones of that side."""
    for name, entry in _entries():
        yield name, replace(entry, shape=tuple(side if extent == SIDE else extent for extent in entry.shape))


def _entries() -> Iterator[tuple[str, Entry]]:
    for name in " ".join(CNNS).split():
        yield name, Entry("cnn", torchvision(name))
    yield "googlenet", Entry("cnn", torchvision("googlenet", aux_logits=False, init_weights=False))
    yield (
        "inception_v3",
        Entry("cnn", torchvision("inception_v3", aux_logits=False, init_weights=False), (1, 3, 96, 96)),
    )
    for name in " ".join(OF_TIMM).split():
        yield name, Entry("cnn", timm(name))
    for name in TRANSFORMERS_OF_TIMM.split():
        yield name, Entry("transformer", timm(name), (1, 3, 224, 224))
    yield "vit_b_16", Entry("transformer", torchvision("vit_b_16"), (1, 3, 224, 224))
    yield "vit_base_patch16_224", Entry("transformer", transformers("ViT"), (1, 3, 224, 224))
    yield "swin_v2_t", Entry("transformer", torchvision("swin_v2_t"))
    yield "maxvit_t", Entry("transformer", torchvision("maxvit_t"), (1, 3, 224, 224))
    for name in ("Bert", "Roberta", "Electra", "MPNet"):
        yield name.lower(), Entry("transformer", transformers(name, **SMALL), TOKENS, tokens=1000)
    yield "bert_base", Entry("transformer", transformers("Bert"), (1, 128), tokens=30522)
    small = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
    yield "distilbert", Entry("transformer", transformers("DistilBert", **small), TOKENS, tokens=1000)
    yield "gpt2", Entry("transformer", transformers("GPT2", n_embd=64, n_layer=2, n_head=4), TOKENS, tokens=1000)
    for name in ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large", "fcn_resnet50"):
        yield name, Entry("dense", torchvision(name, weights_backbone=None), (1, 3, 96, 96))
    yield "unet_mobilenet", Entry("dense", unet)
    yield "espcn", Entry("dense", super_resolution, (1, 1, 48, 48))
    audio = {**SMALL, "conv_dim": (32,) * 3, "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2)}
    more = {"num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    yield "wav2vec2", Entry("audio", transformers("Wav2Vec2", **audio, **more), (1, 4000))
    yield "kws_ds_cnn", Entry("audio", keyword_spotting, (1, 1, 49, 10))
    yield "tcn", Entry("audio", temporal_convolutions, (1, 40, 98))


def unet() -> Any:
    import torch
    from torch import nn

    def block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.down, self.deep, self.up = block(3, 16), block(16, 32), nn.ConvTranspose2d(32, 16, 2, stride=2)
            self.last, self.pool = nn.Sequential(block(32, 16), nn.Conv2d(16, 4, 1)), nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            wide = self.down(x)
            return self.last(torch.cat([wide, self.up(self.deep(self.pool(wide)))], 1))

    return UNet()


def super_resolution() -> Any:
    from torch import nn

    first = [nn.Conv2d(1, 32, 5, padding=2), nn.PReLU(32), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*first, nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3))


def keyword_spotting() -> Any:
    from torch import nn

    layers: list[nn.Module] = [nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


def temporal_convolutions() -> Any:
    from torch import nn

    layers: list[nn.Module] = []
    for index, width in enumerate((40, 48, 48)):
        layers += [nn.Conv1d(width, 48, 9, padding=4 << index, dilation=1 << index), nn.BatchNorm1d(48), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 12))
