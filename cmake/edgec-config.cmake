# find_package(edgec) finds this file where `edgec cmake-dir` says that it lies:
#   cmake -B build -Dedgec_DIR="$(edgec cmake-dir)"
include("${CMAKE_CURRENT_LIST_DIR}/edgec.cmake")
