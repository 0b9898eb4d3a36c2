"""The project's own promises: set-up, laziness of imports, house style."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import eigenprobe

ROOT = Path(__file__).resolve().parent.parent
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_torchvision_is_not_needed() -> None:
    if importlib.util.find_spec("torchvision") is not None:
        pytest.skip(
            "torchvision is installed here: whether everything works without it cannot be seen"
        )
    assert "torchvision" not in PINS


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {_normal(re.match(r"[\w.-]+", line)[0]) for group in groups for line in group} - {
        "eigenprobe"
    }
    assert names <= {_normal(name) for name in PINS}


def test_pins_carry_no_build_tags_and_no_compromised_release() -> None:
    assert not [version for version in PINS.values() if "+" in version or "/" in version]
    assert PINS["lightning"] not in {"2.6.2", "2.6.3"}
    assert PINS["pytorch-lightning"] not in {"2.6.2", "2.6.3"}


def test_the_public_list_resolves() -> None:
    for name in eigenprobe.__all__:
        assert getattr(eigenprobe, name) is not None, name
    assert callable(eigenprobe.decompose)  # the function, not the module of that name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = eigenprobe.nonsense


def _loaded(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src"
    )
    return set(done.stdout.split())


def _modules_after(statement: str) -> set[str]:
    return {name.split(".")[0] for name in _loaded(statement)}


def test_imports_are_lazy() -> None:
    assert not {"torch", "scipy", "numpy"} & _modules_after("import eigenprobe")
    # Core, networks, training and procedural shapes run on machines that have torch, Lightning and
    # scikit-learn only.
    heavy = {"trimesh", "igl", "plotly", "umap", "openTSNE", "transformers", "cyclopts"}
    core = "import eigenprobe as ep; ep.decompose, ep.Basis, ep.Probes"
    assert not {"lightning", "sklearn", "matplotlib", *heavy} & _modules_after(core)
    assert not {"matplotlib", *heavy} & _modules_after(
        "import eigenprobe_lab.shapes, eigenprobe.networks"
    )


def test_shipped_weights_do_not_load_the_compiler_of_torch() -> None:
    """It takes more than a second: several times the first decomposition itself."""
    code = "import eigenprobe as ep; from eigenprobe.cloud.edges import shipped"
    assert "torch._dynamo" not in _loaded(
        f"{code}; shipped(); ep.SpectralModel.from_pretrained('surface')"
    )


def test_the_version_is_the_same_everywhere() -> None:
    version = eigenprobe.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == version and "Unreleased" not in headings


def test_packaging_is_complete() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = {"3.11", "3.12", "3.13"}
    named = {each.rpartition(" ")[2] for each in settings["project"]["classifiers"]}
    assert versions <= named
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert len(packages) == 2 and all((ROOT / each / "py.typed").is_file() for each in packages)
    sources = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"CHANGELOG.md", "CITATION.cff"} <= set(sources)
    assert all((ROOT / each).exists() for each in sources)


def test_the_workflow_runs_the_two_commands_on_each_version() -> None:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    runs = [step.get("run") for step in jobs["test"]["steps"]]
    assert {"make test-all", "make demo"} <= set(runs)
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
