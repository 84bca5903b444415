"""Files of features: MFCC as others define them, the same bits everywhere, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.fft

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.frontends.features import read_features
from edgec.graph.interpret import Interpretation
from edgec.ops.audio_features import Features, cosines, mel_weights
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.runners.engine import open_session

REPO_ROOT = Path(__file__).resolve().parents[3]
#: As MLPerf Tiny prepares what its keyword spotter hears.
KWS = """
kind = "mfcc"
rate = 16000
window_ms = 30
step_ms = 20
bands = 40
low_hz = 20
high_hz = 4000
coefficients = 10
normalize = "peak"
"""
MEL = 'kind = "log-mel"\nrate = 8000\nwindow_ms = 16\nstep_ms = 8\nbands = 20\nunit = "dB"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "features.toml"
    path.write_text(text)
    return path


def test_the_features_that_mlperf_tiny_computed(tmp_path: Path, shared_dir: Path) -> None:
    """Its float features, by TensorFlow, of clips whose samples are known."""
    clips = np.load(shared_dir / "data" / "speechcmd_v2_test_dev_wav360.npz")
    theirs = np.load(shared_dir / "data" / "speechcmd_v2_test_dev_mfcc49x10.npz")
    front = read_features(written(tmp_path, KWS))
    place = {str(name): k for k, name in enumerate(theirs["names"])}
    run = Interpretation(front.module.main).run
    for clip in (3, 131, 242):
        samples = clips["pcm16"][clip].astype(np.float64)
        wanted = theirs["mfcc"][place[str(clips["names"][clip])]]
        whole = np.clip(np.rint(samples * (32767 / samples.max())), -32768, 32767)
        frames = [whole[320 * k : 320 * k + 480].astype(np.int16)[None] for k in range(0, 49, 6)]
        found = np.concatenate([run([frame])[0] for frame in frames])
        # The range of these numbers is from -70 to 30; the spectrum is computed in 16 bits.
        assert np.abs(found - wanted[::6]).mean() < 0.12


@pytest.mark.parametrize("board", ["host", "sim_m0"])
def test_a_tone_is_heard_where_it_is(board: str, tmp_path: Path) -> None:
    """Twice the amplitude is 6 dB more; the C of every board has the interpreter's bits."""
    front = read_features(written(tmp_path, MEL))
    assert (front.window, front.step, front.rate, front.peak) == (128, 64, 8000, False)
    engine = "host" if board == "host" else "core"
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    chosen = load_board(board)
    compiled = compile_module(front.module, chosen.core, Options(), board=chosen)
    reference, loudest = Interpretation(front.module.main), []
    with open_session(engine, deploy(compiled, chosen, tmp_path / "out")) as session:
        for amplitude in (4000, 8000):
            turn = 2 * np.pi * 1000 / 8000 * np.arange(128)
            frame = np.rint(amplitude * np.sin(turn)).astype(np.int16)[None]
            (found,) = session.run([frame]).outputs
            np.testing.assert_array_equal(found, reference.run([frame])[0])
            loudest.append((int(found.argmax()), float(found.max())))
    edges = 700 * np.expm1(np.linspace(*(np.log1p(f / 700) for f in (20, 4000)), 22))
    band = loudest[0][0]
    assert edges[band] < 1000 < edges[band + 2] and band == loudest[1][0]
    assert loudest[1][1] - loudest[0][1] == pytest.approx(20 * np.log10(2), abs=0.05)


def test_triangles_and_cosines() -> None:
    features = Features(16000, 400, 160, 512, 23, 20.0, 8000.0, 13, triangles="hertz",
                        orthonormal=True)  # fmt: skip
    edges = 700 * np.expm1(np.linspace(*(np.log1p(f / 700) for f in (20, 8000)), 25))
    hertz = np.arange(257) * (16000 / 512)
    wanted = [np.interp(hertz, edges[k : k + 3], [0, 1, 0], 0, 0) for k in range(23)]
    np.testing.assert_allclose(mel_weights(features), wanted, atol=1e-12)
    rows = np.random.default_rng(3).normal(size=(4, 23))
    np.testing.assert_allclose(
        rows @ cosines(features).T, scipy.fft.dct(rows, type=2, norm="ortho")[:, :13], atol=1e-12
    )


@pytest.mark.parametrize(("old", "new", "said"), [
    ("rate = 16000", "rate = 16000.5", "not a whole number from 100"),
    ("rate = 16000", "", "lacks rate"),
    ("rate = 16000", "rat = 16000", "near it: rate"),
    ('"mfcc"', '"fft"', "kind = 'fft' is not mfcc or log-mel"),
    ('"mfcc"', '"log-mel"', "coefficients are for the kind mfcc"),
    ("high_hz = 4000", "high_hz = 9000", "half of the rate, 8000"),
    ("window_ms = 30", "window_ms = 300", "needs an fft"),
    ("bands = 40", "bands = 5", "10 coefficients of 5 bands"),
    ("bands = 40", "bands = true", "not a whole number"),
    ("bands = 40", "bands = ", "is not TOML"),
    ('kind = "mfcc"', 'model = "other.toml"', "the key window_ms is unknown"),
])  # fmt: skip
def test_what_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_model(written(tmp_path, KWS.replace(old, new)))
    assert said in refused.value.render()


def test_a_model_that_is_no_front_end(tmp_path: Path) -> None:
    digits = REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"
    text = f'model = "{digits}"\nrate = 8000\nstep_ms = 10\n'
    with pytest.raises(ImportFailed, match="is not a front end"):
        import_model(written(tmp_path, text))
