"""Image data sets in their authors' layouts, and features of tiny randomly initialised CLIP and
DINOv2 models.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe_lab.paper import extract
from eigenprobe_lab.paper.datasets import open_images
from eigenprobe_lab.paper.extract import IMAGENET, load_encoder

pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from transformers import (
        CLIPVisionConfig,
        CLIPVisionModelWithProjection,
        Dinov2Config,
        Dinov2Model,
    )

    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    root = tmp_path_factory.mktemp("models")
    CLIPVisionModelWithProjection(
        CLIPVisionConfig(**shape, intermediate_size=64, projection_dim=16)
    ).save_pretrained(root / "clip")
    Dinov2Model(Dinov2Config(**shape)).save_pretrained(root / "dinov2")
    config = {
        "size": {"shortest_edge": 32},
        "crop_size": {"height": 28, "width": 28},
        "resample": 2,
    }
    (root / "dinov2" / "preprocessor_config.json").write_text(json.dumps(config))
    return {"clip": root / "clip", "dinov2": root / "dinov2"}


@pytest.mark.parametrize(("name", "width"), [("clip", 16), ("dinov2", 32)])
def test_features_of_a_folder(
    tmp_path: Path, photos: Path, models: dict[str, Path], name: str, width: int
) -> None:
    out = extract.run(
        photos, model=str(models[name]), out=tmp_path / "f.npz", batch_size=3, device="cpu"
    )
    with np.load(out) as stored:
        assert stored["features"].shape == (10, width)
        assert np.isfinite(stored["features"]).all()
        assert stored["labels"].tolist() == [0] * 5 + [1] * 5
        assert stored["classes"].tolist() == ["cats", "dogs"]
        first = stored["features"][0]
    encoder = load_encoder(str(models[name]))
    images = open_images(photos)
    alone = encoder(encoder.preprocess(images.read(0))[None])[0].numpy()
    np.testing.assert_allclose(first, alone, atol=1e-5)  # a feature does not depend on its batch


def test_preprocessing_follows_the_model(
    tmp_path: Path, models: dict[str, Path], photos: Path
) -> None:
    encoder, image = load_encoder(str(models["dinov2"])), open_images(photos).read(0)
    mean, std = (np.array(IMAGENET[name])[:, None, None] for name in ("image_mean", "image_std"))
    ratio = 32 / min(image.size)  # the shortest edge is 32, then the middle
    width, height = (int(side * ratio) for side in image.size)
    left, top = (width - 28) // 2, (height - 28) // 2
    small = image.resize((width, height), Image.Resampling.BILINEAR).crop(
        (left, top, left + 28, top + 28)
    )
    expected = (np.asarray(small, float).transpose(2, 0, 1) / 255 - mean) / std
    np.testing.assert_allclose(encoder.preprocess(image).numpy(), expected, atol=1e-5)
    config = {"size": {"height": 20, "width": 24}, "do_center_crop": False}  # squashed
    squashing = shutil.copytree(models["clip"], tmp_path / "clip")
    (squashing / "preprocessor_config.json").write_text(json.dumps(config))
    grey = load_encoder(str(squashing)).preprocess(Image.new("RGB", (50, 60), (128, 128, 128)))
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]  # CLIP's
    assert grey.shape == (3, 20, 24)
    np.testing.assert_allclose(
        grey.mean((1, 2)).numpy(), (128 / 255 - np.array(mean)) / np.array(std), rtol=1e-5
    )


def test_interrupted_extraction_resumes(
    tmp_path: Path, photos: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "CHUNK", 4)
    options = {
        "model": str(models["dinov2"]),
        "out": tmp_path / "f.npz",
        "batch_size": 2,
        "device": "cpu",
    }
    reads: list[str] = []
    original = extract.open_images

    def watched(path: Path, split: str) -> object:
        found = original(path, split)

        def read(index: int) -> object:
            if len(reads) == 7:
                raise KeyboardInterrupt
            reads.append(found.names[index])
            return found.read(index)

        return type(found)(found.names, found.labels, found.classes, read, found.key)

    monkeypatch.setattr(extract, "open_images", watched)
    with pytest.raises(KeyboardInterrupt):
        extract.run(photos, **options)
    assert not (tmp_path / "f.npz").exists()
    assert len(list((tmp_path / "f.parts").rglob("*.npy"))) == 1
    reads.clear()
    reads.append("one already")  # seven reads are fatal: only the six missing images may be read
    extract.run(photos, **options)
    assert len(reads) == 7
    assert not (tmp_path / "f.parts").exists()
    reads.clear()
    extract.run(photos, **options)  # complete: nothing is read again
    assert not reads
    whole = extract.run(photos, **{**options, "out": tmp_path / "g.npz", "limit": 4})
    with np.load(whole) as part, np.load(tmp_path / "f.npz") as stored:
        np.testing.assert_allclose(part["features"], stored["features"][[0, 3, 6, 9]], atol=1e-5)
