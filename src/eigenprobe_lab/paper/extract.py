"""Images -> features: one npz with ``features (n, d)``, ``labels (n,)``, ``classes`` and ``names``.

    image -> resize (shortest edge) -> centre crop -> (x/255 - mean)/std  (3, h, w) -> encoder ->
    feature (d,)

Encoders are frozen. CLIP gives its projected image embedding (512 for ViT-B/32), DINOv2 and others
the normalised class token (384 for small), which is what the paper uses. Preprocessing follows the
model's own ``preprocessor_config.json``, with the processors of transformers that need Pillow
alone.

Work is cut into chunks of ``CHUNK`` images. Each finished chunk is an npy file in ``<out>.parts``,
written whole or not at all, so an interrupted run goes on where it stopped; the folder disappears
when the npz is complete. A run whose npz exists and has the same key (model, preprocessing, images)
does nothing.
"""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from eigenprobe.errors import InputError, extra
from eigenprobe.host.device import resolved
from eigenprobe.host.files import atomic_path, reading_npz, write_npz
from eigenprobe.host.progress import Progress

from .datasets import ImageSet, Split, open_images

if TYPE_CHECKING:
    from PIL.Image import Image

MODELS = {
    "clip-vit-b32": "openai/clip-vit-base-patch32",
    "dinov2-small": "facebook/dinov2-small",
    "dinov2-base": "facebook/dinov2-base",
}
IMAGENET = {
    "image_mean": (0.485, 0.456, 0.406),
    "image_std": (0.229, 0.224, 0.225),
}  # where it is not CLIP


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
        features = output.image_embeds if self.clip else getattr(output, "pooler_output", None)
        return (output.last_hidden_state[:, 0] if features is None else features).float().cpu()


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
            f"the weights of {source!r} are not here: run `hf download {source}` on a machine with "
            f"a network, or give a folder that holds them (known names: {', '.join(MODELS)})"
        ) from error
    vision = getattr(config, "vision_config", config)
    size = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
    size = (
        size if clip else min(size, 224)
    )  # DINOv2 states 518, its pretraining crop, and is used at 224
    usual = {"size": {"shortest_edge": size}, "crop_size": size, **({} if clip else IMAGENET)}
    # Of its two names the first is that of newer versions, where the second asks for torchvision.
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    with suppress(OSError):  # a model without a configuration of its own
        usual |= kind.get_image_processor_dict(source)[0]
    return Encoder(source, model.eval().to(device), kind.from_dict(usual), clip)


WORKERS = 4  # threads that decode images
CHUNK = 256  # images, decoded ahead of the encoder: 150 MB


def run(
    images: Path,
    *,
    out: Path,
    model: str = "dinov2-small",
    split: Split = "all",
    batch_size: int = 64,
    device: str = "auto",
    limit: int | None = None,
) -> Path:
    """Extract features of ``images`` (a folder or official archive) into the npz ``out``; returns
    ``out``.

    ``limit`` keeps an evenly spread part of the images.
    """
    if out.suffix != ".npz":
        raise InputError(f"features are written to an .npz file, got {out.name}")
    if batch_size < 1 or (limit is not None and limit < 1):
        raise InputError(f"batch_size and limit must be positive, got {batch_size} and {limit}")
    found = open_images(images, split)
    device = str(resolved(device))
    encoder = load_encoder(model, device)
    count = min(limit or len(found), len(found))
    rows = np.linspace(0, len(found) - 1, count).round().astype(np.int64)
    key = _key(found, encoder, count)
    if _finished(out, key):
        return out
    parts = out.with_suffix(".parts")
    if not (parts / key).is_dir():
        shutil.rmtree(parts, ignore_errors=True)  # of another model or of other images
    arrays: dict[str, Any] = {"features": _encode(found, encoder, rows, parts / key, batch_size)}
    arrays |= {"names": np.array([found.names[i] for i in rows]), "key": np.array(key)}
    if found.labels is not None:
        arrays |= {"labels": found.labels[rows], "classes": np.array(found.classes)}
    write_npz(out, arrays)
    shutil.rmtree(parts, ignore_errors=True)
    return out


def _encode(
    found: ImageSet, encoder: Encoder, rows: np.ndarray, parts: Path, batch_size: int
) -> np.ndarray:
    """Features (n, d), chunk by chunk; a chunk that is on disk already is read."""
    features = []
    with Progress("features", total=len(rows)) as bar, ThreadPoolExecutor(WORKERS) as pool:
        for start in range(0, len(rows), CHUNK):
            chunk, part = rows[start : start + CHUNK], parts / f"{start // CHUNK:06d}.npy"
            if not part.is_file():
                pixels = pool.map(lambda row: encoder.preprocess(found.read(int(row))), chunk)
                batches = []
                while batch := list(islice(pixels, batch_size)):
                    batches.append(encoder(torch.stack(batch)))
                    bar.advance(len(batch))
                with atomic_path(part) as temporary:
                    np.save(temporary, torch.cat(batches).numpy())
            else:
                bar.advance(len(chunk))
            features.append(np.load(part))
    return np.concatenate(features)


def _finished(out: Path, key: str) -> bool:
    with (
        suppress(InputError),
        reading_npz(out) as stored,
    ):  # an error where it is not there, or not readable
        return str(stored["key"]) == key
    return False


def _key(found: ImageSet, encoder: Encoder, count: int) -> str:
    """Changes with the images, the weights or the preprocessing."""
    weights = next(iter(encoder.model.state_dict().values())).detach().float().cpu().numpy()
    text = f"{found.key} {encoder.name} {encoder.processor} {count}"
    return hashlib.sha256(text.encode() + weights.tobytes()).hexdigest()[:16]
