"""A file of audio features as a front end that runs frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from edgec.boards.board import Board, load_board
from edgec.deploy.project import deploy
from edgec.errors import EdgecError
from edgec.frontends.features import FrontEnd
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.runners.engine import open_session
from edgec.runners.inputs import Port, describe_port
from edgec.runners.media_files import Sound, read_sound, stored

#: Engines that run the front end as the model's own. Elsewhere this computer runs it, to the bit.
EMULATED = ("core", "qemu")


@dataclass(frozen=True)
class Heard:
    """frames: how many were computed. instructions: of one frame, None where nobody counts."""

    engine: str
    board: str
    frames: int
    instructions: int | None


class Listener:
    """A front end that is ready to run; a context manager. `heard` is its last result."""

    def __init__(self, front: FrontEnd, board: Board, engine: str, folder: Path) -> None:
        self.front, self.heard = front, Heard(engine, board.name, 0, None)
        self.engine = engine if engine in EMULATED else "host"
        self.board = board if engine in EMULATED else load_board("host")
        compiled = compile_module(front.module, self.board.core, Options(), board=self.board)
        self._session = open_session(self.engine, deploy(compiled, self.board, folder))

    def __enter__(self) -> Listener:
        self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._session.__exit__(kind, error, trace)

    def hear(
        self, path: Path, port: Port, steps: int, progress: Callable[[int, int], None] | None = None
    ) -> Any:
        """The features of a WAV file as a model's input, with a first axis of steps if several.

        A sound that is too short is continued by silence. progress: is called with the frames that
        are done and all of them. Raises EdgecError for another rate, and for a sound or an input
        that does not fit the features.
        """
        sound = read_sound(path)
        if sound.rate != self.front.rate:
            raise EdgecError(
                f"{path} has {sound.rate:,} samples per second, but the features need "
                f"{self.front.rate:,}",
                hint=f"for example: ffmpeg -i {path} -ar {self.front.rate} resampled.wav",
            )
        (answer,) = self._session.manifest.answers
        row = int(np.prod(answer.shape, dtype=np.int64))
        size = steps * int(np.prod(port.shape, dtype=np.int64))
        if size % row:
            raise EdgecError(
                f"frames have {row} features, {describe_port(port)} is not a whole number of frames"
            )
        samples = self._samples(path, sound, size // row)
        rows = self._rows(samples, size // row, progress)
        if answer.dtype != port.dtype:
            scale, zero = (*answer.scale, 1.0)[0], (*answer.zero_point, 0)[0]
            rows = stored((rows.astype(np.float64) - zero) * scale, port, path)
        return rows.reshape(port.shape if steps == 1 else (steps, *port.shape))

    def _samples(self, path: Path, sound: Sound, frames: int) -> Any:
        """int16 samples of this number of frames. Raises EdgecError if the sound has many more."""
        front = self.front
        wanted = front.window + (frames - 1) * front.step
        samples = sound.samples
        if len(samples) >= wanted + front.step:
            seconds = wanted / front.rate
            raise EdgecError(
                f"{path} has {len(samples):,} samples, {frames:,} frames take {wanted:,}",
                hint=f"cut it to {seconds:.3f} s, or run a model that listens on with --steps",
            )
        most = float(np.abs(samples).max(initial=0.0))
        factor = 32767 / most if front.peak and most else 32768
        whole = np.zeros(wanted, np.int16)
        part = np.clip(np.rint(samples[:wanted] * factor), -32768, 32767)
        whole[: len(part)] = part
        return whole

    def _rows(self, samples: Any, frames: int, progress: Callable[[int, int], None] | None) -> Any:
        front, rows, instructions = self.front, [], None
        shape = self._session.manifest.inputs[0].shape
        if self._session.manifest.state_bytes:
            self._session.reset()
        for number in range(frames):
            frame = samples[number * front.step :][: front.window]
            result = self._session.run([frame.reshape(shape)])
            rows.append(result.outputs[0].reshape(-1))
            instructions = result.instructions
            if progress is not None:
                progress(number + 1, frames)
        self.heard = Heard(self.engine, self.board.name, frames, instructions)
        return np.concatenate(rows)
