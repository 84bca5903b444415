"""The instructions and memory of quantized functions on a board, measured on real builds."""

from __future__ import annotations

from edgec.boards.board import Board
from edgec.build.staging import work_folder
from edgec.deploy.limits import build_within
from edgec.deploy.project import OverBudget
from edgec.errors import PlanError
from edgec.graph.ir import Function, Module
from edgec.options import Figures, Limits, Options
from edgec.pipeline import Compiled, compile_module
from edgec.quantizer.measure import GroupCost, Measured


class BoardMeasure:
    """An `edgec.quantizer.measure.Measure` that builds for a board, in temporary folders.

    limits: an arena is made smaller where its RAM limit asks for it, as `edgec build` does.
    """

    def __init__(self, board: Board, limits: Limits, options: Options | None = None) -> None:
        self.board, self.limits = board, limits
        self.options = options or Options()
        self.target = board.name

    def most(self, resource: str) -> int | None:
        room = {"RAM": self.board.ram_bytes, "flash": self.board.flash_bytes}
        return self.limits.of(resource) or room.get(resource)

    def costs(self, function: Function) -> tuple[GroupCost, ...]:
        module = _module(function)
        return _costs(compile_module(module, self.board.core, self.options, board=self.board))

    def build(self, function: Function) -> Measured:
        module = _module(function)
        try:
            compiled, figures = self._built(module, self.limits)
        except PlanError:
            if self.limits.ram_bytes is None:
                raise
            compiled, figures = self._built(module, Limits(instructions=self.limits.instructions))
        front = compiled.choice.front
        arena_bytes = compiled.program.arena_bytes
        least = min(arena_bytes, front[-1].need_bytes) if front else arena_bytes
        return Measured(figures, figures.ram_bytes - arena_bytes + least, _costs(compiled))

    def _built(self, module: Module, limits: Limits) -> tuple[Compiled, Figures]:
        options = self.options.with_limits(limits)
        with work_folder("measured") as folder:
            try:
                compiled, built = build_within(
                    module, self.board, self.board.core, options, folder / "project"
                )
            except OverBudget as error:
                return error.compiled, error.figures
        assert built.figures is not None
        return compiled, built.figures


def _module(function: Function) -> Module:
    return Module({"main": function}, source="model.onnx", format="onnx")


def _costs(compiled: Compiled) -> tuple[GroupCost, ...]:
    return tuple(
        GroupCost(
            tuple(node.name for node in lowered.group.nodes),
            variant.constant_bytes,
            variant.instructions,
        )
        for lowered, variant in zip(compiled.groups, compiled.chosen, strict=True)
    )
