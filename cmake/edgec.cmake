# include(edgec.cmake) gives a CMake project the function
#
#   edgec_add_model(<target> MODEL <file> (BOARD <board> | TARGET <core>)
#                   [NAME <name>] [OPTIONS <option>...])
#
# It compiles a TFLite or ONNX file to C whenever the file changes, and makes the static library
# <target> of it, whose include folder has <name>.h (by default <target>.h). TARGET host is this
# computer. With BOARD the code is for the board's core; toolchain, start-up and linker script are
# the project's own (`edgec build --board` makes a whole firmware instead). OPTIONS are those of
# `edgec build`, such as --optimize ram or --max-ram 64K: over a budget, the build fails.
#
# edgec itself is looked for on PATH and in .venv beside this folder; -DEDGEC_EXECUTABLE=... says
# where else.

get_filename_component(_edgec_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
find_program(EDGEC_EXECUTABLE edgec
  HINTS "${_edgec_root}/.venv/bin" "${_edgec_root}/.venv/Scripts"
  DOC "the program edgec")

function(_edgec_core_of_board board result)
  execute_process(COMMAND "${EDGEC_EXECUTABLE}" boards "${board}" --json
    OUTPUT_VARIABLE text ERROR_VARIABLE error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "edgec_add_model: ${error}")
  endif()
  if(NOT text MATCHES "\"core\": *\"([^\"]+)\"")
    message(FATAL_ERROR "edgec_add_model: `edgec boards ${board} --json` names no core")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

function(edgec_add_model target)
  cmake_parse_arguments(ARG "" "MODEL;BOARD;TARGET;NAME" "OPTIONS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "edgec_add_model: what is '${ARG_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT ARG_MODEL)
    message(FATAL_ERROR "edgec_add_model(${target}): MODEL is missing")
  endif()
  if((ARG_BOARD AND ARG_TARGET) OR NOT (ARG_BOARD OR ARG_TARGET))
    message(FATAL_ERROR "edgec_add_model(${target}): give either BOARD or TARGET")
  endif()
  if(NOT EDGEC_EXECUTABLE)
    message(FATAL_ERROR "edgec_add_model(${target}): edgec was not found; "
      "pip install it, or give -DEDGEC_EXECUTABLE=...")
  endif()
  if(NOT ARG_NAME)
    set(ARG_NAME "${target}")
  endif()
  if(ARG_BOARD)
    _edgec_core_of_board("${ARG_BOARD}" ARG_TARGET)
  endif()
  get_filename_component(model "${ARG_MODEL}" ABSOLUTE)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/edgec/${target}")
  set(sources "${folder}/${ARG_NAME}.c" "${folder}/${ARG_NAME}_weights.c")

  add_custom_command(
    OUTPUT ${sources} "${folder}/${ARG_NAME}.h"
    COMMAND "${EDGEC_EXECUTABLE}" build "${model}" --target "${ARG_TARGET}" --name "${ARG_NAME}"
      -o "${folder}" ${ARG_OPTIONS}
    DEPENDS "${model}"
    COMMENT "Compiling ${ARG_MODEL} for ${ARG_TARGET}"
    VERBATIM)
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC "${folder}")
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    # -ffp-contract=off: floating point gives the same bits on every target.
    target_compile_options(${target} PRIVATE
      -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections)
  endif()
endfunction()
