"""Boards with several memories: the same bits wherever things lie, and they lie where they should.

Addresses come from the ELF's symbols; the boards are emulated ones with other memory sizes.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, REPO_ROOT
from stateful_functions import in_place, module_of

from edgec.boards.board import Board, load_board
from edgec.build.elf import Elf, read_elf
from edgec.build.stack import is_veneer
from edgec.cli.main import main
from edgec.deploy.limits import build_within
from edgec.deploy.project import Built, deploy
from edgec.errors import DoesNotFit, EdgecError, PlanError
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.memory.check import check_plan
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module, read_model
from edgec.runners.engine import open_session, require_engine
from edgec.runners.samples import generate_inputs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "passes"))
from test_stream_groups import mobile

pytestmark = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None,
    reason="arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)",
)


def board_like(name: str, folder: Path, *changes: tuple[str, str], more: str = "") -> Board:
    """A shipped board with some of its file's text changed, and more of it at the end."""
    text = (REPO_ROOT / "boards" / f"{name}.toml").read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / f"{name}_like.toml"
    path.write_text(text + more, "utf-8")
    return load_board(path)


def slow(region: str, origin: str) -> tuple[str, str]:
    """The change that gives a region of a board's file wait states and half the width."""
    head = f"[memory.{region}]\norigin = {origin}\n"
    return head, head + "wait_states = 3\nwidth_bits = 16\n"


SLOW_SRAM = slow("sram", "0x2000_0000")
SLOW_PSRAM = slow("psram", "0x2100_0000")


@dataclass
class Placed:
    """A build and its ELF."""

    board: Board
    compiled: Compiled
    built: Built
    elf: Elf

    def region_of(self, symbol: str) -> str:
        """The board's region that holds a symbol, whole."""
        found = [s for s in self.elf.symbols if s.name.split(".")[0] == symbol]
        assert found, symbol
        region = self.board.region_at(found[0].address, found[0].length)
        assert region is not None, symbol
        return region.name

    def weights_of(self, part: str) -> set[str]:
        """The regions of all constants with this part in their names."""
        placed, usual = self.compiled.program.regions.constants, self.board.code
        names = [name for name in self.compiled.program.constants if part in name]
        assert names, part
        regions = {placed.get(name, "") for name in names}
        for region in regions:
            symbol = "digits_int8_weights" + (f"_{region}" if region else "")
            assert self.region_of(symbol) == (region or usual)
        return {region or usual for region in regions}

    def regions_of(self, part: str) -> set[str]:
        """The regions of all symbols with this part in their names."""
        found = {s.name for s in self.elf.symbols if part in s.name and not is_veneer(s)}
        return {self.region_of(name.split(".")[0]) for name in found}


def build(model: Path, board: Board, out: Path, **options: object) -> Placed:
    given = Options(**options)  # type: ignore[arg-type]
    module = read_model(model, given)
    compiled, built = build_within(module, board, board.core, given, out, traced=True)
    check_plan(compiled.problem, compiled.plan.offsets, compiled.plan.region_of)
    assert built.artefact is not None
    return Placed(board, compiled, built, read_elf(built.artefact))


def outputs(placed: Placed, engine: str) -> bytes:
    """The self-test must pass, and two runs equal the reference."""
    types = [(port.shape, port.dtype) for port in placed.built.manifest.inputs]
    found = b""
    with open_session(engine, placed.built) as session:
        assert session.selftest() == 0
        for seed in (1, 2):
            inputs = generate_inputs(seed, types)
            result = session.run(inputs)
            for got, want in zip(result.outputs, placed.compiled.reference(inputs), strict=True):
                assert got.tobytes() == want.tobytes(), (engine, seed)
            found += b"".join(a.tobytes() for a in result.outputs)
    return found


def emulators(board: Board) -> list[str]:
    """The engines that can run the board here."""
    engines = []
    try:
        require_engine("core", board)
        engines.append("core")
    except EdgecError:  # no simulator, or not of this core
        pass
    if board.qemu is not None and shutil.which("qemu-system-arm"):
        engines.append("qemu")
    if not engines:
        pytest.skip("neither unicorn nor QEMU is installed")
    return engines


def status(arguments: list[str]) -> object:
    """The exit status of the command line."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def same_everywhere(placed: Placed, plain: Placed) -> None:
    """All engines give what the build without any placing gives."""
    for engine in emulators(placed.board):
        assert outputs(placed, engine) == outputs(plain, engine), engine


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", ["mps2_an386", "mps2_an500"])
def test_everything_placed(name: str, compiler: str, tmp_path: Path) -> None:
    if compiler == "clang":
        pytest.importorskip("ziglang", reason="clang is not installed (edgec[toolchain])")
    board = load_board(name)
    placements = (("arena", "psram"), ("weights", "psram"), ("code", "sram"))
    placed = build(DIGITS, board, tmp_path / "placed", placements=placements, compiler=compiler)
    plain = build(DIGITS, board, tmp_path / "plain", compiler=compiler)
    assert placed.region_of("ec_main_arena_psram") == "psram"
    assert placed.weights_of("") == {"psram"}
    assert placed.region_of("digits_int8_conv2d") == "sram"
    assert placed.region_of("digits_int8_run") == "flash"
    assert placed.compiled.program.arena_bytes == 0
    assert plain.region_of("digits_int8_conv2d") == "flash"
    image, usual = placed.built.image, plain.built.image
    assert image is not None and usual is not None
    # Veneers hide no callee from the bound of the stack; copies count as RAM.
    assert image.stack_bytes is not None and usual.stack_bytes is not None
    assert image.stack_bytes >= usual.stack_bytes
    assert image.ram_bytes > usual.ram_bytes + image.weights_bytes
    same_everywhere(placed, plain)


def test_code_on_a_core_without_long_branches(tmp_path: Path) -> None:
    board = board_like("sim_m0", tmp_path, more="""
[memory.sram2]
origin = 0x2100_0000
length = "64K"
kind   = "ram"
""")  # fmt: skip
    placements = (("code", "sram2"), ("arena", "sram2"))
    placed = build(DIGITS, board, tmp_path / "placed", placements=placements)
    plain = build(DIGITS, board, tmp_path / "plain")
    assert placed.region_of("digits_int8_dense") == "sram2"
    assert placed.region_of("ec_main_arena_sram2") == "sram2"
    same_everywhere(placed, plain)


def test_patterns_place_single_things(tmp_path: Path) -> None:
    board = load_board("mps2_an386")
    placements = (
        ("weights:*stem*", "psram"), ("tensor:image*", "psram"), ("code:digits_int8_dense", "sram"),
        ("weights:*stem_bias", "flash"),
    )  # fmt: skip
    placed = build(DIGITS, board, tmp_path / "placed", placements=placements)
    assert placed.weights_of("1_stem_w") == {"psram"}
    assert placed.weights_of("1_stem_bias") == {"flash"}  # the later entry
    assert placed.weights_of("7_logits_") == {"flash"}
    assert placed.region_of("digits_int8_dense") == "sram"
    assert placed.region_of("digits_int8_conv2d") == "flash"
    regions = placed.compiled.plan.region_of
    assert set(regions.values()) == {"arena", "psram"}
    assert placed.region_of("ec_main_arena") == "sram"
    same_everywhere(placed, build(DIGITS, board, tmp_path / "plain"))


def test_faster_memory_is_chosen(tmp_path: Path) -> None:
    """By the cost model alone: buffers go where they need not wait, and `time` copies weights."""
    plain = build(DIGITS, load_board("mps2_an386"), tmp_path / "plain")
    for number, (change, home) in enumerate(((SLOW_SRAM, "psram"), (SLOW_PSRAM, "arena"))):
        board = board_like("mps2_an386", tmp_path, change)
        placed = build(DIGITS, board, tmp_path / f"placed{number}")
        assert set(placed.compiled.plan.region_of.values()) == {home}
        assert placed.compiled.plan.certificate.cost == 0.0
        assert placed.compiled.plan.certificate.is_cheapest
        assert placed.weights_of("") == {"flash"}
        same_everywhere(placed, plain)
    board = board_like("mps2_an386", tmp_path, slow("flash", "0x0000_0000"), SLOW_PSRAM)
    placed = build(DIGITS, board, tmp_path / "copied", optimize="time")
    assert placed.weights_of("") == {"sram"}
    same_everywhere(placed, plain)


FETCHED_SLOWLY = ("[memory.flash]\n", "[memory.flash]\nfetch_wait_states = 4\nwait_states = 0\n")


@pytest.mark.parametrize(
    ("length", "compiler"),
    [("16M", "gcc"), pytest.param("16M", "clang", marks=pytest.mark.full), ("700", "gcc")],
)
def test_hot_code_runs_from_faster_memory(length: str, compiler: str, tmp_path: Path) -> None:
    """Where all of it does not fit, what most instructions are spent in."""
    if compiler == "clang":
        pytest.importorskip("ziglang", reason="clang is not installed (edgec[toolchain])")
    board = board_like(
        "mps2_an386", tmp_path, FETCHED_SLOWLY,
        ('length = "16M"', f'length = "{length}"'),
        ("[memory.sram]\n", '[memory.sram]\naccess = "rw"\n'),
    )  # fmt: skip
    options = {"optimize": "time", "compiler": compiler}
    placed = build(DIGITS, board, tmp_path / "placed", **options)
    functions = placed.regions_of("digits_int8_conv2d") | placed.regions_of("digits_int8_dense")
    kernels = placed.regions_of("_s8_dsp")
    if length == "16M":
        assert functions == kernels == {"psram"}
    else:
        assert "psram" in kernels and "flash" in functions | kernels
    assert placed.region_of("digits_int8_run") == "flash"
    same_everywhere(placed, build(DIGITS, load_board("mps2_an386"), tmp_path / "plain", **options))
    # Another preference leaves RAM alone.
    usual = build(DIGITS, board, tmp_path / "usual", compiler=compiler)
    assert usual.regions_of("digits_int8_conv2d") == {"flash"}


def test_a_small_fast_memory_holds_what_gains_most(tmp_path: Path) -> None:
    board = board_like(
        "mps2_an386", tmp_path, SLOW_SRAM, ('length = "16M"', "length = 600")
    )  # fmt: skip
    placed = build(DIGITS, board, tmp_path / "placed")
    certificate = placed.compiled.plan.certificate
    assert set(placed.compiled.plan.region_of.values()) == {"psram", "arena"}
    assert 0 < certificate.region("psram").peak_bytes <= 600
    fast = {n for n, r in placed.compiled.plan.region_of.items() if r == "psram"}
    waits = {b.name: b.cost_in("arena") for b in placed.compiled.problem.buffers}
    assert certificate.cost == sum(w for n, w in waits.items() if n not in fast)
    assert "waiting for memories: about" in certificate.text()
    same_everywhere(placed, build(DIGITS, load_board("mps2_an386"), tmp_path / "plain"))


def test_too_small_a_region_of_variables_spills(tmp_path: Path) -> None:
    """Stack and variables leave the arena no room there; the plan knows it, or a build tells it."""
    for length in ("18K", "17K"):
        change = ('length = "4M"\nkind   = "ram"', f'length = "{length}"\nkind   = "ram"')
        board = board_like("mps2_an386", tmp_path, change)
        placed = build(DIGITS, board, tmp_path / length)
        assert "psram" in placed.compiled.plan.region_of.values()
        same_everywhere(placed, build(DIGITS, load_board("mps2_an386"), tmp_path / "plain"))


def test_weights_fill_several_memories(tmp_path: Path) -> None:
    """The flash of the program cannot hold all weights: the rest goes to the other."""
    board = board_like("mps3_an547", tmp_path, ('length = "512K"\nkind   = "flash"',
                                                'length = "24K"\nkind   = "flash"'))  # fmt: skip
    placed = build(DIGITS, board, tmp_path / "placed")
    assert placed.weights_of("") == {"flash", "fpga_sram"}
    same_everywhere(placed, build(DIGITS, load_board("mps3_an547"), tmp_path / "plain"))


def test_inputs_of_the_caller(tmp_path: Path) -> None:
    board = load_board("mps2_an386")
    placements = (("arena", "psram"), ("weights", "sram"))
    placed = build(DIGITS, board, tmp_path / "placed", io="caller", placements=placements)
    for engine in emulators(board):
        types = [(port.shape, port.dtype) for port in placed.built.manifest.inputs]
        inputs = generate_inputs(5, types)
        with open_session(engine, placed.built) as session:
            (got,) = session.run(inputs).outputs
        (want,) = placed.compiled.reference(inputs)
        assert got.tobytes() == want.tobytes()


def test_inputs_fed_by_rows(tmp_path: Path) -> None:
    board = load_board("mps2_an386")
    options = Options(io="rows", optimize="ram", placements=(("arena", "psram"), ("code", "sram")))
    compiled = compile_module(Module({"main": mobile()}, source="net.onnx"), board.core, options,
                              board=board)  # fmt: skip
    built = deploy(compiled, board, tmp_path / "placed")
    assert built.artefact is not None
    placed = Placed(board, compiled, built, read_elf(built.artefact))
    assert placed.region_of("ec_main_arena_psram") == "psram"
    assert placed.regions_of("_row") - {"sram"} == {"flash"}  # net_feed_row, of the interface
    x = compiled.module.main.params[0].type
    for engine in emulators(board):
        with open_session(engine, built) as session:
            for seed in (1, 2):
                inputs = generate_inputs(seed, [(x.shape, x.dtype)])
                (want,) = compiled.reference(inputs)
                assert session.run(inputs).outputs[0].tobytes() == want.tobytes()


def test_states_lie_where_they_are_placed(tmp_path: Path) -> None:
    board = load_board("mps2_an386")
    options = Options(placements=(("state", "psram"), ("arena", "psram")))
    compiled = compile_module(module_of(in_place), board.core, options, board=board)
    built = deploy(compiled, board, tmp_path / "placed")
    assert built.artefact is not None
    placed = Placed(board, compiled, built, read_elf(built.artefact))
    assert placed.region_of("ec_main_state") == "psram"
    assert placed.region_of("ec_main_context") == "sram"
    function = compiled.imported.main
    types = [(v.type.shape, v.type.dtype) for v in function.inputs]
    for engine in emulators(board):
        reference = Interpretation(function)
        with open_session(engine, built) as session:
            for seed in range(1, 4):
                inputs = generate_inputs(seed, types)
                (want,) = reference.run(inputs)
                assert session.run(inputs).outputs[0].tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("change", "placements", "kind", "words"),
    [
        (None, (("weights", "moon"),), PlanError, "no region 'moon'"),
        (None, (("arena", "flash"),), PlanError, "flash is flash, but data that changes needs ram"),
        (None, (("tensor:nothing*", "psram"),), PlanError, "no part of that name"),
        (None, (("code:nothing*", "psram"),), PlanError, "no part of that name"),
        (None, (("cheese", "psram"),), PlanError, "'cheese' cannot be placed"),
        (("16M", "512"), (("arena", "psram"),), PlanError, "region psram has 512 bytes"),
        (("16M", "8K"), (("weights", "psram"),), PlanError, "placed in region psram needs 11,000"),
        (("16M", "1K"), (("code", "psram"),), DoesNotFit, "exceeds psram by"),
    ],
)
def test_one_clear_error(
    change: tuple[str, str] | None,
    placements: tuple[tuple[str, str], ...],
    kind: type[EdgecError],
    words: str,
    tmp_path: Path,
) -> None:
    board = board_like("mps2_an386", tmp_path, *([change] if change else []))
    with pytest.raises(kind, match=words):
        build(DIGITS, board, tmp_path / "out", placements=placements)
    assert not (tmp_path / "out").exists()


def test_placements_of_the_command_line_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "placements.toml").write_text(
        '[place]\nweights = "psram"\narena = "psram"\n', "utf-8"
    )
    board_like("mps2_an386", tmp_path, more='\n[place]\narena = "sram"\ncode = "sram"\n')
    args = ["build", str(DIGITS), "--board", "mps2_an386_like.toml", "-o", "out"]
    assert status([*args, "--place", "placements.toml", "--place", "weights:*_w=flash"]) == 0
    assert "arena in psram" in capsys.readouterr().out
    board = load_board("mps2_an386_like.toml")
    elf = read_elf(tmp_path / "out" / "build" / "firmware.elf")
    placed = Placed(board, None, None, elf)  # type: ignore[arg-type]
    assert placed.region_of("ec_main_arena_psram") == "psram"  # the file is stronger than the board
    assert placed.region_of("digits_int8_conv2d") == "sram"  # of the board alone
    # The command line places the matrices, the file all other weights.
    assert placed.region_of("digits_int8_weights") == "flash"
    assert placed.region_of("digits_int8_weights_psram") == "psram"
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    parts = ("arena", "weights_in_ram", "code_in_ram", "stack", "state", "variables")
    used = sum(report[f"{part}_bytes"] for part in parts) + report["areas"][0]["bytes"]
    assert report["ram_bytes"] == used and 0 < report["variables_bytes"] < 2048
    assert report["options"]["placements"][-1] == "weights:*_w=flash"
    assert status([*args, "--place", "weights"]) == 2
    assert "is not a placement" in capsys.readouterr().err
    (tmp_path / "bad.toml").write_text("[places]\n", "utf-8")
    assert status([*args, "--place", "bad.toml"]) == 1
    assert "is not a file of placements" in capsys.readouterr().err
    host = ["build", str(DIGITS), "--board", "host", "-o", "h", "--place", "arena=sram"]
    assert status(host) == 1
    assert "no board with regions" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["kws", pytest.param("sww", marks=pytest.mark.full)])
def test_sample_models(name: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    model = sample_model(MODELS[name])
    board = board_like("mps2_an386", tmp_path, SLOW_SRAM, ("16M", "6K"))
    placed = build(model, board, tmp_path / "placed")
    assert set(placed.compiled.plan.region_of.values()) == {"psram", "arena"}
    same_everywhere(placed, build(model, load_board("mps2_an386"), tmp_path / "plain"))
