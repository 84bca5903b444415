"""Each package is taken by its ecosystem's own builder or validator, or by stubs of them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from package_commands import edgec, run
from tflite_builder import TfliteBuilder

from edgec.cli.export import FORMAT_NAMES
from edgec.errors import BuildFailed, EdgecError
from edgec.exporters.formats import FORMATS, Labels
from edgec.exporters.library import Library, read_library
from edgec.exporters.package import check_labels, export

ARM = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
LABELS = Labels("1.2.3", "acme", "https://example.org/acme")
MODEL_FILES = (
    "digits.c", "digits.h", "digits_runtime.h", "digits_weights.c", "digits_weights.h",
    "ec_status.h",
)  # fmt: skip


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Library:
    """A model in C that every processor can run."""
    folder = tmp_path_factory.mktemp("library") / "digits"
    model = repo_root / "examples" / "digits" / "digits_int8.onnx"
    assert edgec("build", model, "--target", "host", "--name", "digits", "-o", folder) == 0
    return read_library(folder)


@pytest.fixture(scope="module")
def wake_word(tmp_path_factory: pytest.TempPathFactory, sample_model: object) -> Library:
    """A second model, which has state."""
    folder = tmp_path_factory.mktemp("library") / "wake"
    model = sample_model("mww_vad_int8.tflite")  # type: ignore[operator]
    assert edgec("build", model, "--target", "host", "--name", "wake", "-o", folder) == 0
    library = read_library(folder)
    assert library.manifest.state_bytes
    return library


def packaged(library: Library, name: str, tmp_path: Path) -> Path:
    folder = tmp_path / name / library.name
    export(library, name, folder, LABELS)
    return folder


def tool(name: str) -> str:
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    found = beside or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_the_command_knows_every_format() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES


@pytest.mark.parametrize("name", FORMATS)
def test_the_library_is_the_same_bytes_in_all(name: str, digits: Library, tmp_path: Path) -> None:
    folder = packaged(digits, name, tmp_path)
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if name == "python-wheel":
        return  # has a shared library instead: test_wheel
    for path in folder.rglob("*.pack"):
        with zipfile.ZipFile(path) as archive:
            files |= {Path(each).name: archive.read(each) for each in archive.namelist()}
    for path in folder.rglob("*.tar"):
        with tarfile.open(path) as archive:
            for entry in archive:
                stream = archive.extractfile(entry)
                assert stream is not None
                files[Path(entry.name).name] = stream.read()
    wanted = {**digits.sources, **digits.headers}
    assert set(wanted) == set(MODEL_FILES)
    assert {each: files[each] for each in wanted} == wanted


@pytest.mark.parametrize("name", FORMATS)
def test_twice_is_the_same(name: str, digits: Library, tmp_path: Path) -> None:
    hashes = []
    for copy in ("one", "two"):
        folder = packaged(digits, name, tmp_path / copy)
        hashes.append({
            path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()
        })  # fmt: skip
    assert hashes[0] == hashes[1]


def test_cmake(digits: Library, wake_word: Library, tmp_path: Path) -> None:
    prefix = tmp_path / "installed"
    for library in (digits, wake_word):
        folder, build = packaged(library, "cmake", tmp_path), tmp_path / f"build_{library.name}"
        run("cmake", "-S", folder, "-B", build, cwd=tmp_path)
        run("cmake", "--build", build, cwd=tmp_path)
        assert "100% tests passed" in run("ctest", "--test-dir", build, cwd=tmp_path)
        run("cmake", "--install", build, "--prefix", prefix, cwd=tmp_path)
    application = tmp_path / "application"
    application.mkdir()
    calls = " && ".join(f"{each}_run != 0" for each in ("digits", "wake"))
    (application / "main.c").write_text(
        f'#include "digits.h"\n#include "wake.h"\nint main(void) {{ return {calls} ? 0 : 1; }}\n'
    )
    (application / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(application C)\n"
        "find_package(digits 1.2 REQUIRED)\nfind_package(wake 1.2 REQUIRED)\n"
        "add_executable(application main.c)\n"
        "target_link_libraries(application PRIVATE digits::digits wake::wake)\n"
    )
    run("cmake", "-S", application, "-B", application / "b", f"-DCMAKE_PREFIX_PATH={prefix}",
        cwd=tmp_path)  # fmt: skip
    run("cmake", "--build", application / "b", cwd=tmp_path)
    run(application / "b" / "application", cwd=tmp_path)


def test_conan(digits: Library, tmp_path: Path) -> None:
    conan, home = tool("conan"), str(tmp_path / "home")
    run(conan, "profile", "detect", cwd=tmp_path, CONAN_HOME=home)
    folder = packaged(digits, "conan", tmp_path)
    assert "self-test passed" in run(conan, "create", ".", cwd=folder, CONAN_HOME=home)


ZEPHYR_STUBS = """
cmake_minimum_required(VERSION 3.13)
project(stubs C)
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
endmacro()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
  include_directories(${ARGN})
endfunction()
set(CONFIG_DIGITS y)
include(@MODULE@/zephyr/CMakeLists.txt)
add_executable(app @MODULE@/samples/digits/src/main.c)
target_include_directories(app PRIVATE stubs)
target_link_libraries(app digits)
"""
ZEPHYR_KEYS = """
type: map
mapping:
  name: {type: str}
  build:
    type: map
    mapping:
      cmake: {type: str}
      kconfig: {type: str}
  samples: {type: seq, sequence: [{type: str}]}
"""


def test_zephyr(digits: Library, tmp_path: Path) -> None:
    kconfiglib = pytest.importorskip("kconfiglib")
    core = pytest.importorskip("pykwalify.core")
    folder = packaged(digits, "zephyr", tmp_path)
    (tmp_path / "keys.yaml").write_text(ZEPHYR_KEYS)
    core.Core(
        source_file=str(folder / "zephyr" / "module.yml"),
        schema_files=[str(tmp_path / "keys.yaml")],
    ).validate()
    symbols = kconfiglib.Kconfig(str(folder / "zephyr" / "Kconfig")).syms
    settings = (folder / "samples" / "digits" / "prj.conf").read_text().splitlines()
    assert "DIGITS" in symbols and "CONFIG_DIGITS=y" in settings
    core.Core(
        source_file=str(folder / "samples" / "digits" / "sample.yaml"),
        schema_data={"type": "map", "mapping": {
            "sample": {"type": "map", "mapping": {
                "name": {"type": "str"}, "description": {"type": "str"}}},
            "tests": {"type": "map", "mapping": {"regex;(sample[.].*)": {"type": "any"}}},
        }},
    ).validate()  # fmt: skip
    stubs = tmp_path / "cmake" / "stubs" / "zephyr" / "sys"
    stubs.mkdir(parents=True)
    (stubs / "printk.h").write_text("#include <stdio.h>\n#define printk printf\n")
    (stubs.parent / "kernel.h").write_text("")
    (tmp_path / "cmake" / "CMakeLists.txt").write_text(
        ZEPHYR_STUBS.replace("@MODULE@", str(folder))
    )
    run("cmake", "-B", "b", ".", cwd=tmp_path / "cmake")
    run("cmake", "--build", "b", cwd=tmp_path / "cmake")
    assert "self-test passed" in run("./b/app", cwd=tmp_path / "cmake")


ARDUINO_H = """
#include <stdint.h>
struct SerialPort {
  void begin(long); operator bool() const;
  void print(const char *); void print(int); void println(unsigned long);
};
extern SerialPort Serial;
unsigned long millis(); unsigned long micros();
"""


def test_arduino(digits: Library, tmp_path: Path) -> None:
    tool(ARM[0])
    folder = packaged(digits, "arduino", tmp_path)
    lines = (folder / "library.properties").read_text().splitlines()
    keys = dict(line.split("=", 1) for line in lines)
    assert all(keys[key] for key in (
        "name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url",
        "architectures", "includes",
    ))  # fmt: skip
    (tmp_path / "Arduino.h").write_text(ARDUINO_H)
    for source in sorted((folder / "src").glob("*.c")):
        run(*ARM, "-std=gnu11", "-Os", "-Wall", "-c", source, "-o", tmp_path / f"{source.stem}.o",
            cwd=tmp_path)  # fmt: skip
    sketch = folder / "examples" / "SelfTest" / "SelfTest.ino"
    run(ARM[0].replace("gcc", "g++"), *ARM[1:], "-std=gnu++14", "-Wall", "-Wextra", "-Werror", "-c",
        "-I", folder / "src", "-include", tmp_path / "Arduino.h", "-x", "c++", sketch,
        "-o", "sketch.o", cwd=tmp_path)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """One layer: it fits the 8 KB of RAM of the Arduino Mega."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 8), "int8", scale=0.05, zero_point=3)
    w = model.tensor("w", (4, 8), "int8", scale=0.01, data=np.arange(-16, 16, dtype=np.int8))
    b = model.tensor("b", (4,), "int32", scale=0.0005, data=np.arange(4, dtype="<i4"))
    y = model.tensor("y", (1, 4), "int8", scale=0.1, zero_point=-3)
    model.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    folder = tmp_path_factory.mktemp("library")
    (folder / "small.tflite").write_bytes(model.build([x], [y]))
    project = folder / "small"
    assert edgec("build", folder / "small.tflite", "--target", "host", "-o", project) == 0
    return read_library(project)


def test_arduinos_own_builder_makes_a_sketch(small: Library, tmp_path: Path) -> None:
    builder, hardware = tool("arduino-builder"), Path("/usr/share/arduino/hardware")
    if not (hardware / "arduino" / "avr").is_dir():
        pytest.skip("arduino-core-avr is not installed")
    folder = packaged(small, "arduino", tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "build").mkdir()
    run(builder, "-compile", "-hardware", "/usr/share/arduino-builder", "-hardware", hardware,
        "-tools", tmp_path / "tools", "-prefs=runtime.tools.avr-gcc.path=/usr",
        # Debian's avr-gcc has a <float.h> without it, and Arduino's WString.cpp needs it.
        "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=17",
        "-built-in-libraries", hardware / "arduino" / "avr" / "libraries",
        "-libraries", tmp_path / "arduino", "-fqbn", "arduino:avr:mega:cpu=atmega2560",
        "-build-path", tmp_path / "build", folder / "examples" / "SelfTest" / "SelfTest.ino",
        cwd=tmp_path)  # fmt: skip
    assert (tmp_path / "build" / "libraries" / "small" / "small.c.o").is_file()
    assert (tmp_path / "build" / "SelfTest.ino.hex").read_text("ascii").startswith(":")


#: PlatformIO's program, which here does not fetch the names of licenses from the web.
PIO = """
import json, sys
from packaging.licenses._spdx import LICENSES
from platformio.__main__ import main
from platformio.package.manifest import schema
names = {"licenses": [{"licenseId": each["id"]} for each in LICENSES.values()]}
schema.fetch_remote_content = lambda url: json.dumps(names)
sys.exit(main())
"""


def test_platformio(digits: Library, tmp_path: Path) -> None:
    folder = packaged(digits, "platformio", tmp_path)
    about = json.loads((folder / "library.json").read_text())
    assert about["version"] == "1.2.3" and about["license"] == "Apache-2.0"
    archive = tmp_path / "packed.tar.gz"
    pytest.importorskip("platformio", reason="platformio is not installed")
    pytest.importorskip("packaging.licenses", reason="an old packaging, without SPDX's names")
    run(sys.executable, "-c", PIO, "pkg", "pack", "-o", archive, ".", cwd=folder,
        PLATFORMIO_CORE_DIR=str(tmp_path / "core"))  # fmt: skip
    with tarfile.open(archive) as packed:
        assert {"src/digits.c", "include/digits.h", "library.json"} <= set(packed.getnames())


ESP_IDF_STUBS = """
cmake_minimum_required(VERSION 3.16)
project(stubs C)
function(idf_component_register)
  cmake_parse_arguments(A "" "" "SRCS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  set(COMPONENT_LIB component PARENT_SCOPE)
  list(TRANSFORM A_SRCS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  add_library(component STATIC ${A_SRCS})
  target_include_directories(component PUBLIC ${A_INCLUDE_DIRS})
endfunction()
add_subdirectory(@COMPONENT@ component)
add_executable(app @COMPONENT@/examples/selftest/main/main.c start.c)
target_link_libraries(app component)
"""


def test_esp_idf(digits: Library, tmp_path: Path) -> None:
    folder = packaged(digits, "esp-idf", tmp_path)
    run(tool("compote"), "component", "pack", "--name", "digits", "--dest-dir", tmp_path / "packed",
        cwd=folder)  # fmt: skip
    assert (tmp_path / "packed" / "digits_1.2.3.tgz").is_file()
    shutil.rmtree(folder / "dist", ignore_errors=True)
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "CMakeLists.txt").write_text(ESP_IDF_STUBS.replace("@COMPONENT@", str(folder)))
    (stubs / "start.c").write_text(
        "void app_main(void);\nint main(void) { app_main(); return 0; }\n"
    )
    run("cmake", "-B", "b", ".", cwd=stubs)
    run("cmake", "--build", "b", cwd=stubs)
    assert "self-test passed" in run("./b/app", cwd=stubs)
    compiler = tool("riscv64-unknown-elf-gcc")
    run("cmake", "-B", "r", ".", "-DCMAKE_SYSTEM_NAME=Generic", f"-DCMAKE_C_COMPILER={compiler}",
        "-DCMAKE_C_FLAGS=-march=rv32imc -mabi=ilp32 -ffreestanding -Wall -Werror",
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", cwd=stubs)  # fmt: skip
    run("cmake", "--build", "r", "--target", "component", cwd=stubs)


def test_the_manifest_of_a_component_follows_its_schema(digits: Library, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    told = run(tool("compote"), "manifest", "schema", cwd=tmp_path)
    manifest = yaml.safe_load(
        (packaged(digits, "esp-idf", tmp_path) / "idf_component.yml").read_text()
    )
    jsonschema.validate(manifest, json.loads(told[told.index("{") : told.rindex("}") + 1]))
    assert manifest["version"] == "1.2.3"


def test_cmsis_pack(digits: Library, tmp_path: Path, shared_dir: Path) -> None:
    etree = pytest.importorskip("lxml.etree")
    archive = packaged(digits, "cmsis-pack", tmp_path) / "acme.digits.1.2.3.pack"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "pack")
    document = etree.parse(str(tmp_path / "pack" / "acme.digits.pdsc"))
    schema = etree.XMLSchema(etree.parse(str(shared_dir / "pack" / "PACK.xsd")))
    assert schema.validate(document), schema.error_log
    listed = [each.get("name") for each in document.iter("file")]
    assert len(listed) == 9 and all((tmp_path / "pack" / name).exists() for name in listed)


@pytest.mark.parametrize("name", ["cmake", "conan", "esp-idf", "zephyr"])
def test_gcc_must_not_take_stores_for_pure(name: str, digits: Library, tmp_path: Path) -> None:
    files = packaged(digits, name, tmp_path).rglob("CMakeLists.txt")
    text = next(t for t in (file.read_text() for file in files) if "-ffp-contract" in t)
    assert "$<$<C_COMPILER_ID:GNU>:-fno-ipa-pure-const>" in text
    assert "VERSION_GREATER_EQUAL:$<C_COMPILER_VERSION>,11>>:-fno-ipa-modref>" in text


@pytest.mark.parametrize("name", ["arduino", "cubeide", "cmsis-pack", "platformio", "rust"])
def test_the_c_itself_says_so_where_no_build_file_can(
    name: str, digits: Library, tmp_path: Path
) -> None:
    found = packaged(digits, name, tmp_path)
    for archive in found.glob("*.pack"):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(found)
    (text,) = {file.read_text() for file in found.rglob("*_runtime.h")}
    assert '#pragma GCC optimize("no-ipa-pure-const", "no-ipa-modref")' in text


def test_cubeide(digits: Library, tmp_path: Path) -> None:
    folder = packaged(digits, "cubeide", tmp_path)
    text = (folder / ".extSettings").read_text()
    sources = [word.strip() for word in text.partition("Middlewares/digits=")[2].split(";")]
    names = [each.removeprefix("$PROJ_DIR$/") for each in sources if each]
    assert len(names) == 2 and all((folder / name).is_file() for name in names)
    tool(ARM[0])
    for source in (*names, "example/main.c"):
        run(*ARM, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-c",
            "-I", "Middlewares/digits/Inc", source, "-o", tmp_path / "o.o", cwd=folder)  # fmt: skip


@pytest.mark.parametrize("name", ["digits", "wake_word"])
def test_rust(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    library = request.getfixturevalue(name)
    folder = packaged(library, "rust", tmp_path)
    told = run(tool("cargo"), "test", "--offline", cwd=folder, CARGO_TARGET_DIR=str(tmp_path / "t"))
    assert "the_selftest_passes ... ok" in told


RUST_FIRMWARE = """
#![no_std]
use digits::{Memory, Model};
static mut MEMORY: Memory = Memory::new();
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
#[no_mangle]
pub extern "C" fn firmware() -> i32 {
    let mut model = Model::new(unsafe { &mut MEMORY }).unwrap();
    if model.selftest().is_ok() { 42 } else { 1 }
}
"""
RUST_PACKAGE = """
[package]
name = "firmware"
version = "0.1.0"
edition = "2021"
[lib]
path = "lib.rs"
crate-type = ["staticlib"]
[dependencies]
digits = { path = "rust/digits" }
[profile.release]
panic = "abort"
"""
#: Starts on a Cortex-M4, and ends QEMU with what the firmware says, by semihosting.
START = """
int firmware(void);
void reset(void);
__attribute__((section(".vectors"))) const void *const vectors[] = {(void *)0x20400000, reset};
void reset(void) {
    *(volatile unsigned *)0xE000ED88 |= 0xFu << 20; /* the floating-point unit */
    unsigned block[] = {0x20026, (unsigned)firmware()};
    register unsigned number __asm__("r0") = 0x20;
    register void *given __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : : "r"(number), "r"(given) : "memory");
}
"""
THUMB = "thumbv7em-none-eabihf"


def rust_with_sources() -> tuple[str, str, Path]:
    """rustc and cargo, and the folder of that rustc's library, where its sources are installed."""
    for folder in (Path(tool("rustc")).parent, Path("/usr/bin")):
        rustc, cargo = folder / "rustc", folder / "cargo"
        if rustc.is_file() and cargo.is_file():
            root = run(rustc, "--print", "sysroot", cwd=folder).strip()
            library = Path(root) / "lib" / "rustlib" / "src" / "rust" / "library"
            if library.is_dir():
                return str(rustc), str(cargo), library
    pytest.skip("rustc's sources are not installed (Debian: apt install rust-src)")


@pytest.mark.full
def test_rust_on_an_emulated_cortex_m4(digits: Library, tmp_path: Path) -> None:
    """Rust's `core` is built from its sources once; no prebuilt one is in Debian."""
    rustc, cargo, library = rust_with_sources()
    emulator = tool("qemu-system-arm")
    packaged(digits, "rust", tmp_path)
    built = tmp_path / "sysroot" / "lib" / "rustlib" / THUMB / "lib"
    built.mkdir(parents=True)
    stub = tmp_path / "stub.rs"  # of Rust's own helpers; what the compiler calls is in libgcc
    stub.write_text("#![feature(compiler_builtins)]\n#![no_std]\n#![compiler_builtins]\n")
    for name, source in (("core", library / "core/src/lib.rs"), ("compiler_builtins", stub)):
        run(rustc, "--edition", "2021", "--crate-type", "rlib", "--crate-name", name,
            "--target", THUMB, "-Copt-level=1", "-Cpanic=abort", "--cap-lints", "allow",
            "--sysroot", tmp_path / "sysroot", "--out-dir", built, source, cwd=tmp_path,
            RUSTC_BOOTSTRAP="1")  # fmt: skip
    for file, text in (
        ("lib.rs", RUST_FIRMWARE), ("Cargo.toml", RUST_PACKAGE), ("start.c", START),
    ):  # fmt: skip
        (tmp_path / file).write_text(text)
    run(cargo, "build", "--offline", "--release", "--target", THUMB, cwd=tmp_path, RUSTC=rustc,
        RUSTFLAGS=f"--sysroot {tmp_path / 'sysroot'}")  # fmt: skip
    run(*ARM, "-nostartfiles", "-Wl,-n,--gc-sections,-u,vectors,--section-start=.vectors=0",
        "-Wl,-Ttext=0x400,-Tdata=0x20000000,-e,reset", "start.c",
        f"target/{THUMB}/release/libfirmware.a", "-o", "firmware.elf", cwd=tmp_path)  # fmt: skip
    done = subprocess.run(
        [emulator, "-M", "mps2-an386", "-nographic", "-semihosting", "-kernel", "firmware.elf"],
        cwd=tmp_path, timeout=60, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 42, done.stderr


WHEEL_CHECK = """
import sys; sys.path.insert(0, sys.argv[1])
import numpy as np, {name} as package
model = package.Model(); model.selftest()
data = [np.full(shape, 3, dtype) for _, dtype, shape in package.INPUTS]
first = model.run(*data); model.run(*data); model.reset(); again = model.run(*data)
assert all((a == b).all() for a, b in zip(first, again)), "reset does not reset"
for bad, kind in ((data[:-1], TypeError), ([x.astype("float16") for x in data], TypeError),
                  ([x[..., :-1] for x in data], ValueError)):
    try: model.run(*bad)
    except kind: pass
    else: raise AssertionError(kind)
np.save(sys.argv[2], first[0])
"""


@pytest.mark.parametrize("name", ["digits", "wake_word"])
def test_wheel(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    library = request.getfixturevalue(name)
    (wheel,) = packaged(library, "python-wheel", tmp_path).glob("*.whl")
    installed = tmp_path / "installed"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target",
        installed, wheel, cwd=tmp_path)  # fmt: skip
    assert {path.name for path in installed.iterdir()} == {
        library.name, f"{library.name}-1.2.3.dist-info",
    }  # fmt: skip
    out = tmp_path / "out.npy"
    run(sys.executable, "-c", WHEEL_CHECK.format(name=library.name), installed, out, cwd=tmp_path)
    assert out.is_file()


def test_mlf(digits: Library, tmp_path: Path) -> None:
    with tarfile.open(packaged(digits, "mlf", tmp_path) / "digits.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    memory = metadata["modules"]["digits"]["memory"]["functions"]["main"][0]
    assert memory["workspace_size_bytes"] == digits.manifest.arena_bytes
    assert memory["inputs"] == {"image": {"size": 256, "dtype": "float32"}}
    sources = sorted((tmp_path / "codegen" / "host" / "src").glob("*.c"))
    run("cc", "-std=c99", "-Icodegen/host/include", *sources, "example/main.c", "-o", "app",
        cwd=tmp_path)  # fmt: skip
    assert "self-test passed" in run("./app", cwd=tmp_path)


def test_a_wheel_is_for_this_computer(tmp_path: Path, repo_root: Path) -> None:
    model = repo_root / "examples" / "digits" / "digits_int8.onnx"
    words = ("--target", "cortex-m4", "--format", "python-wheel", "-o", tmp_path / "w")
    assert edgec("export", model, *words) == 1
    assert not (tmp_path / "w").exists()


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="not an edgec project"):
        read_library(tmp_path)


@pytest.mark.parametrize(
    "labels", [Labels(version="1.2"), Labels(vendor="a b"), Labels(url="https://x/<script>")]
)
def test_labels_that_an_ecosystem_would_refuse(labels: Labels) -> None:
    with pytest.raises(EdgecError):
        check_labels(labels)


def test_options_of_the_compiler_need_a_model_file(digits: Library, tmp_path: Path) -> None:
    words = ("--format", "cmake", "--optimize", "size", "-o", tmp_path / "o")
    assert edgec("export", tmp_path, *words) == 2
