"""Foreign names become C identifiers, here and nowhere else.

A model file may call a tensor anything: a path, a keyword, a digit, an emoji, nothing at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from edgec.codegen.program import Program
from edgec.errors import BuildFailed

MAX_LENGTH = 40  # C99 guarantees 63 significant characters; prefixes and suffixes need room

_RESERVED = frozenset(
    # C99 and later, C++, and names that common C libraries and compilers take
    re.findall(
        r"\w+",
        """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while asm typeof bool true false nullptr constexpr
    alignas alignof static_assert thread_local and and_eq bitand bitor catch class compl
    concept const_cast const_eval consteval constinit decltype delete dynamic_cast explicit
    export friend mutable namespace new noexcept not not_eq operator or or_eq private protected
    public reinterpret_cast requires static_cast template this throw try typeid typename
    using virtual wchar_t xor xor_eq char8_t char16_t char32_t co_await co_return co_yield
    main errno assert offsetof va_list va_arg signbit isnan NULL EOF linux unix
    i386 arm mips sun vax memcpy memmove memset memcmp exp exp2 log pow sqrt sin cos tan
    tanh floor ceil round abs fabs fmin fmax index y0 y1 yn j0 j1 jn gamma
        """,
    )
)
#: Headers of C libraries: a model's own header of that name would be read in their place.
_HEADERS = frozenset(
    re.findall(
        r"\w+",
        """
    alloca complex ctype dirent dlfcn elf endian err errno fcntl features fenv float ftw getopt
    glob grp inttypes iso646 langinfo libgen limits link locale malloc math memory monetary netdb
    paths poll pthread pwd regex sched search semaphore setjmp signal spawn stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings syslog termios tgmath
    threads time uchar ulimit unistd utime values wchar wctype wordexp newlib reent picolibc
        """,
    )
)
#: Windows has devices of these names, whatever their suffix: it cannot hold a file `con.c`.
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10)))
)
_RESERVED_PREFIX = re.compile(r"ec_|int\d+_t$|uint\d+_t$|EC_")


def identifier(name: str, *, fallback: str = "v") -> str:
    """Turn any text into a legal, portable, lower-risk C identifier of at most 40 characters.

    Not injective: pass the results of one name space to `unique`. The end of a long name is kept,
    since it is the most specific part of a path. fallback: the prefix if the text has no legal
    start.
    """
    text = unicodedata.normalize("NFKD", name)
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")
    if not text:
        return fallback
    text = _end_of(text, MAX_LENGTH)
    if text[0].isdigit():
        text = f"{fallback}_{_end_of(text, MAX_LENGTH - len(fallback) - 1)}"
    if text in _RESERVED or text.lower() in _RESERVED or _RESERVED_PREFIX.match(text):
        text = f"{fallback}_{text}"[:MAX_LENGTH]
    return text


def _end_of(text: str, room: int) -> str:
    """The last words of a name that fit, joined by underscores; part of a word if it is long."""
    if len(text) <= room:
        return text
    is_cut = text[-room - 1] != "_"
    end = text[-room:].lstrip("_")
    _, _, words = end.partition("_")
    return words if is_cut and 2 * len(words) >= room else end


def unique(names: Iterable[str], *, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Make identifiers different, also when compared without case, by appending _2, _3, ...

    The first use of a name keeps it. `taken` are names that none of them may have.
    """
    used = {name.lower() for name in taken}
    result = []
    for name in names:
        candidate, count = name, 1
        while candidate.lower() in used:
            count += 1
            candidate = f"{name}_{count}"
        used.add(candidate.lower())
        result.append(candidate)
    return tuple(result)


def model_identifier(name: str) -> str:
    """The prefix of a model's public C names, from its file's name (the suffix is dropped)."""
    stem = re.split(r"[\\/]", name)[-1]
    stem = re.sub(r"\.(tflite|onnx|pt2|pte|pt|toml)$", "", stem, flags=re.IGNORECASE)
    return _model_name(stem).lower()


def _model_name(text: str) -> str:
    name = identifier(text, fallback="model")
    return f"model_{name}" if name.lower() in _HEADERS | _DEVICES | {"ec"} else name


def checked_model_name(name: str) -> str:
    """The name, if it may be the prefix of a model's C names and files; BuildFailed if not."""
    legal = _model_name(name)
    if legal == name:
        return name
    raise BuildFailed(
        f"{name!r} cannot name a model: files, functions and macros of the C code begin with it",
        hint=f"{legal!r} would do",
    )


def port_names(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Identifiers of the inputs and of the outputs; unique over both.

    None is `count`: the header has <MODEL>_INPUT_COUNT and <MODEL>_OUTPUT_COUNT.
    """
    ports = (*program.inputs, *program.outputs)
    raw = [
        port.c_name
        or identifier(port.name, fallback="input" if i < len(program.inputs) else "output")
        for i, port in enumerate(ports)
    ]
    names = unique(raw, taken=("count",))
    return names[: len(program.inputs)], names[len(program.inputs) :]
