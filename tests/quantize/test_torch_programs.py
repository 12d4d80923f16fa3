"""PyTorch's modules and exported programs, quantized: real torch where it is installed; and what is refused without."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.errors import FloatModelError, NoTorchError, QuantizeSpecError, UntrustedProgramError
from tests.support.models.float_models import pictures, run, sqnr_db
from tests.support.program.cli_program import in_process


def test_a_program_is_not_loaded_unless_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04")
    np.save(tmp_path / "s.npy", pictures(2))
    words = ("quantize", tmp_path / "m.pt2", "--data", tmp_path / "s.npy", "-o", tmp_path / "q.onnx")
    refused = in_process(*words)
    assert (refused.code, len(refused.errors)) == (1, 1)
    assert "add --trust" in refused.err
    with pytest.raises(UntrustedProgramError, match=r"to load a .pt2 file is to run what is in it, .*m.pt2"):
        it.profile(tmp_path / "m.pt2", pictures(2))
    with pytest.raises(FloatModelError, match="no such file"):
        it.sensitivity(tmp_path / "none.pt2", pictures(2))


@pytest.mark.parametrize("missing", ["torch", "onnxscript"])
def test_what_is_to_be_installed_is_said(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "torch", None)
    if missing == "onnxscript":
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(NoTorchError, match="not installed: "):
        it.quantize(tmp_path / "m.pt2", pictures(2), trust=True)
    np.save(tmp_path / "s.npy", pictures(2))
    words = ("quantize", tmp_path / "m.pt2", "--data", tmp_path / "s.npy", "-o", tmp_path / "q.onnx", "--trust")
    refused = in_process(*words)
    assert (refused.code, len(refused.errors)) == (1, 1)
    assert "pip install torch onnxscript" in refused.err


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip(
        "onnxscript", reason="needs torch and onnxscript, which no extra has: pip install torch onnxscript"
    )
    return pytest.importorskip(
        "torch", reason="needs torch and onnxscript, which no extra has: pip install torch onnxscript"
    )


def network(torch: Any) -> Any:
    """Two convolutions, one with BatchNormalization, an addition, and a dense layer: [n, 3, 8, 8] to [n, 5]."""

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8)
            self.body, self.dense = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Linear(8, 5)

        def forward(self, pixels: Any) -> Any:
            first = torch.relu(self.norm(self.stem(pixels)))
            return self.dense(torch.relu(self.body(first) + first).mean((2, 3)))

    torch.manual_seed(0)
    return Network()


def test_a_module_is_quantized_as_it_is_in_evaluation(torch: Any, tmp_path: Path) -> None:
    module, samples = network(torch), pictures(40)
    module.stem.eval()
    made = it.quantize(module, torch.from_numpy(samples), tmp_path / "q.onnx")
    assert (module.training, module.stem.training, module.norm.training) == (True, False, True)
    right = module.eval()(torch.from_numpy(samples)).detach().numpy()
    assert sqnr_db(right, run(made.proto, samples)) > 25
    assert {"stem.weight", "body.weight", "dense.weight"} <= {
        tensor.name.removesuffix("_quantized") for tensor in made.proto.graph.initializer
    }
    assert not [node for node in made.proto.graph.node if len(node.metadata_props)]
    assert len(it.layers(tmp_path / "q.onnx", target="generic").layers) == 3
    named = it.quantize(module, {"pixels": samples}, equalize=False, round_weights=False)
    assert named.proto.graph.input[0].name == "pixels"


def test_a_program_and_its_file_give_the_same(torch: Any, tmp_path: Path) -> None:
    samples = pictures(8)
    examples = (torch.from_numpy(samples[:2]),)
    program = torch.export.export(network(torch).eval(), examples, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, tmp_path / "m.pt2")
    np.save(tmp_path / "s.npy", samples)
    words = ("quantize", tmp_path / "m.pt2", "--data", tmp_path / "s.npy", "-o", tmp_path / "q.onnx", "--trust")
    assert in_process(*words).code == 0
    right = run(tmp_path / "q.onnx", samples)
    np.testing.assert_array_equal(run(it.quantize(program, samples).proto, samples), right)
    found = it.profile(tmp_path / "m.pt2", samples, trust=True).ranges
    assert found.model == str(tmp_path / "m.pt2")
    assert found.tensors["pixels"].producer == "input"


def test_a_module_of_one_size_takes_a_sample_at_a_time(torch: Any) -> None:
    class Fixed(torch.nn.Module):  # type: ignore[misc]
        def forward(self, values: Any) -> Any:
            return torch.relu(values.reshape(1, 2, 2))

    made = it.quantize(Fixed(), np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32))
    assert made.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


def test_what_is_no_model_of_pytorch_is_refused(torch: Any) -> None:
    with pytest.raises(QuantizeSpecError, match="a model is a file, a module or an exported program of PyTorch's: int"):
        it.quantize(3, pictures(2))
    with pytest.raises(QuantizeSpecError, match="samples of a module must be an array"):
        it.quantize(network(torch), "s.npz")
    with pytest.raises(FloatModelError, match="Network: PyTorch can't export it: "):
        it.quantize(network(torch), np.zeros((4, 7), np.float32))


class Harm:
    """Something whose pickle makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_program_that_does_harm_is_not_run(torch: Any, tmp_path: Path) -> None:
    program = torch.export.export(network(torch).eval(), (torch.zeros(2, 3, 8, 8),))
    torch.export.save(program, tmp_path / "good.pt2")
    torch.save({"harm": Harm(tmp_path / "harm")}, tmp_path / "harm.pt")
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        for name in good.namelist():
            is_inputs = name.endswith("sample_inputs/model.pt")
            bad.writestr(name, (tmp_path / "harm.pt").read_bytes() if is_inputs else good.read(name))
    with pytest.raises(UntrustedProgramError):
        it.quantize(tmp_path / "bad.pt2", pictures(2))
    assert not (tmp_path / "harm").exists()
    # Trusted, it is run: what is refused is no empty fear.
    with pytest.raises(FloatModelError):
        it.quantize(tmp_path / "bad.pt2", pictures(2), trust=True)
    assert (tmp_path / "harm").exists()


# PyTorch warns of itself.
@pytest.mark.filterwarnings("ignore")
def test_what_pt2e_quantized_compiles(torch: Any, tmp_path: Path) -> None:
    reason = "needs torchao, which no extra has: pip install torchao"
    steps = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason=reason)
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer

    quantizer = x86_inductor_quantizer.X86InductorQuantizer()
    quantizer.set_global(x86_inductor_quantizer.get_default_x86_inductor_quantization_config())
    samples = torch.from_numpy(pictures(2))
    prepared = steps.prepare_pt2e(torch.export.export(network(torch).eval(), (samples,)).module(), quantizer)
    prepared(samples)
    program = torch.export.export(steps.convert_pt2e(prepared), (samples,))
    torch.onnx.export(program, dynamo=True, verbose=False).save(tmp_path / "q.onnx")
    found = it.accuracy(tmp_path / "q.onnx", count=10, results=tmp_path / "none", target="generic")
    assert found.int8_share == 1
    assert [output.sqnr_db is None or output.sqnr_db > 100 for output in found.outputs] == [True]
