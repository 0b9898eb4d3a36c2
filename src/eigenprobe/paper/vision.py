"""Frozen image encoders: CLIP and DINOv2 through transformers, without torchvision.

    image -> resize (shortest edge) -> centre crop -> (x/255 - mean)/std  (3, h, w) -> encoder -> feature (d,)

CLIP gives its projected image embedding (512 for ViT-B/32), DINOv2 and other encoders the normalised class token (384
for small), which is what the paper uses. Preprocessing follows the model's own ``preprocessor_config.json``, with the
processors of transformers that need Pillow alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}  # where it is not CLIP


@dataclass
class Encoder:
    """A frozen model and its preprocessing."""

    name: str
    model: Any
    processor: Any
    clip: bool

    def preprocess(self, image: Image) -> Tensor:
        """One RGB image as ``(3, h, w)`` float32."""
        return self.processor(image, return_tensors="pt")["pixel_values"][0]

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
    usual = {"size": {"shortest_edge": size}, "crop_size": size, **({} if clip else IMAGENET)}
    # Of its two names the first is that of newer versions, where the second asks for torchvision.
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor = kind.from_dict(usual | _preprocessor_config(source))
    return Encoder(source, model.eval().to(device), processor, clip)


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
