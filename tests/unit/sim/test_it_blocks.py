"""Guards and alignment checks change nothing that a program computes, IT blocks included.

Random programs of conditional loads and stores run over a buffer whose ends touch forbidden
memory, so that many legal accesses come near enough to a gap to call its hook.
"""

import random

import pytest

from edgec.sim.core import CoreSimulator

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

PROGRAMS = 60
BUFFER_BYTES = 24
REGISTERS = ("r2", "r3", "r4", "r5", "r6")
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "cs": "cc", "cc": "cs"}


def instruction(rng: random.Random, condition: str) -> str:
    """One instruction under `condition`, empty for always."""
    a, b = rng.sample(REGISTERS, 2)
    return rng.choice(
        [
            f"ldrb{condition} {a}, [r0, #{rng.randrange(BUFFER_BYTES)}]",
            f"ldrsh{condition} {a}, [r0, #{rng.randrange(BUFFER_BYTES - 1)}]",
            f"ldr{condition} {a}, [r0, #{rng.randrange(BUFFER_BYTES - 3)}]",
            f"ldrd{condition} {a}, {b}, [r0, #{4 * rng.randrange(BUFFER_BYTES // 4 - 1)}]",
            f"strb{condition} {a}, [r0, #{rng.randrange(BUFFER_BYTES)}]",
            f"add{condition} {a}, {a}, {b}",
            f"eor{condition}.w {a}, {a}, {b}",
        ]
    )


def it_block(rng: random.Random) -> list[str]:
    """A comparison and one to four conditional instructions, the last perhaps a branch."""
    condition = rng.choice(list(OPPOSITE))
    pattern = [rng.choice("te") for _ in range(rng.randrange(4))]
    conditions = [condition, *(condition if p == "t" else OPPOSITE[condition] for p in pattern)]
    lines = [f"cmp {rng.choice(REGISTERS)}, {rng.choice(REGISTERS)}"]
    lines += [f"it{''.join(pattern)} {condition}"]
    lines += [instruction(rng, condition) for condition in conditions[:-1]]
    if rng.random() < 0.5:
        return [*lines, instruction(rng, conditions[-1])]
    return [*lines, f"b{conditions[-1]} 1f", instruction(rng, ""), "1:"]


def program(rng: random.Random, name: str) -> str:
    """A C function in assembly that mixes five registers and a buffer into one number."""
    lines = ["push {r4-r6, lr}", *(f"mov {r}, #{7 * i}" for i, r in enumerate(REGISTERS))]
    for _ in range(20):
        lines += it_block(rng) if rng.random() < 0.75 else [instruction(rng, "")]
    lines += [f"add r2, {register}, r2, ror #3" for register in REGISTERS[1:]]
    body = "\\n".join([*lines, "mov r0, r2", "pop {r4-r6, pc}"])
    return f'__attribute__((naked, used)) uint32_t {name}(void *p) {{ __asm__("{body}"); }}\n'


@pytest.mark.parametrize("name", ["cortex-m3", "cortex-m4", "cortex-m33"])
def test_guards_change_no_result(firmware, name):
    rng = random.Random(name)
    source = "".join(program(rng, f"f{i}") for i in range(PROGRAMS))
    elf = firmware.build(source, name)
    with CoreSimulator(elf, name) as guarded, CoreSimulator(elf, name) as plain:
        span = guarded.allocate("buffer", BUFFER_BYTES)
        assert plain.allocate("buffer", BUFFER_BYTES).address == span.address
        for i in range(PROGRAMS):
            data = rng.randbytes(BUFFER_BYTES)
            results = []
            for core, allow in ((guarded, [span]), (plain, None)):
                core.write(span.address, data)
                result = core.call(
                    f"f{i}", span.address, allow=allow, check_alignment=allow is not None
                )
                results.append((result.value, result.instructions, core.read(span.address, 24)))
            assert results[0] == results[1], f"f{i}"
