"""Frozen image encoders: CLIP and DINOv2 through transformers, without torchvision.

    image -> resize (shortest edge) -> centre crop -> (x/255 - mean)/std  (3, h, w) -> encoder -> feature (d,)

CLIP gives its projected image embedding (512 for ViT-B/32), DINOv2 and other encoders the normalised class token (384
for small), which is what the paper uses. Preprocessing follows the model's own ``preprocessor_config.json``, with
Pillow: the image processors of transformers want torchvision.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, extra

if TYPE_CHECKING:
    from PIL.Image import Image

MODELS = {
    "clip-vit-b32": "openai/clip-vit-base-patch32",
    "dinov2-small": "facebook/dinov2-small",
    "dinov2-base": "facebook/dinov2-base",
}
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocess:
    """Pillow preprocessing; ``resize`` is the shortest edge, or (height, width) where the model squashes."""

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resample: int = 3  # bicubic
    scale: float = 1 / 255

    @classmethod
    def from_config(cls, config: dict[str, Any], image_size: int, clip: bool) -> Preprocess:
        """Read a ``preprocessor_config.json``; what it leaves out takes the family's usual value."""
        size, crop = config.get("size", image_size), config.get("crop_size", image_size)
        if isinstance(size, dict):
            size = size.get("shortest_edge") or (size["height"], size["width"])
        crop = (crop["height"], crop["width"]) if isinstance(crop, dict) else (crop, crop)
        return cls(
            resize=size if config.get("do_resize", True) else None,
            crop=crop if config.get("do_center_crop", True) else None,
            mean=tuple(config.get("image_mean", CLIP_MEAN if clip else IMAGENET_MEAN)),
            std=tuple(config.get("image_std", CLIP_STD if clip else IMAGENET_STD)),
            resample=int(config.get("resample", 3)),
            scale=float(config.get("rescale_factor", 1 / 255)),
        )

    def __call__(self, image: Image) -> Tensor:
        """One RGB image as ``(3, h, w)`` float32."""
        from PIL.Image import Resampling

        if self.resize is not None:
            if isinstance(self.resize, tuple):
                height, width = self.resize
            else:
                ratio = self.resize / min(image.size)
                width, height = (max(self.resize, int(side * ratio)) for side in image.size)
            image = image.resize((width, height), Resampling(self.resample))
        if self.crop is not None:
            height, width = self.crop
            left, top = (image.width - width) // 2, (image.height - height) // 2
            image = image.crop((left, top, left + width, top + height))  # outside the image is black, as in the models
        pixels = torch.from_numpy(np.asarray(image, np.float32).copy()) * self.scale
        return ((pixels - torch.tensor(self.mean)) / torch.tensor(self.std)).permute(2, 0, 1)


@dataclass
class Encoder:
    """A frozen model and its preprocessing."""

    name: str
    model: Any
    preprocess: Preprocess
    clip: bool

    @torch.inference_mode()
    def __call__(self, pixels: Tensor) -> Tensor:
        """Features ``(b, d)`` float32 of images ``(b, 3, h, w)``; half precision on a GPU."""
        device = next(self.model.parameters()).device
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            output = self.model(pixel_values=pixels.to(device, non_blocking=True))
        if self.clip:
            features = output.image_embeds
        elif getattr(output, "pooler_output", None) is not None:
            features = output.pooler_output
        else:
            features = output.last_hidden_state[:, 0]
        return features.float().cpu()


def load_encoder(name: str, device: str | torch.device = "cpu") -> Encoder:
    """``dinov2-small``, ``clip-vit-b32``, a hub id or a folder of weights, ready to encode."""
    transformers = extra("transformers")
    source = MODELS.get(name, name)
    if Path(source).exists() and not (Path(source) / "config.json").is_file():
        raise InputError(f"{source} should be a folder with config.json and model.safetensors")
    try:
        config = transformers.AutoConfig.from_pretrained(source)
        clip = config.model_type in ("clip", "clip_vision_model")
        kind = transformers.CLIPVisionModelWithProjection if clip else transformers.AutoModel
        model = kind.from_pretrained(source, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"the weights of {source!r} are not here: run `hf download {source}` on a machine with a network, "
            f"or give a folder that holds them (known names: {', '.join(MODELS)})"
        ) from error
    vision = getattr(config, "vision_config", config)
    size = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
    size = size if clip else min(size, 224)  # DINOv2 states 518, its pretraining crop, and is used at 224
    preprocess = Preprocess.from_config(_preprocessor_config(source), size, clip)
    return Encoder(source, model.eval().to(device), preprocess, clip)


def _preprocessor_config(source: str) -> dict[str, Any]:
    """The model's ``preprocessor_config.json``, from its folder or from the hub; empty where it has none."""
    path = Path(source) / "preprocessor_config.json"
    if not Path(source).exists():
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        try:
            path = Path(hf_hub_download(source, path.name))  # from its cache without a network
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
            return {}
    return json.loads(path.read_text()) if path.is_file() else {}
