# CUDA kernels: for GPUs by nvcc where it is found, and for tests as code of the processor (src/emulator).

file(GLOB_RECURSE SPARKPILOT_KERNEL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*.cu)

# sparkpilot_emulated_kernels(TARGET [CHECKED]): the object library TARGET of all kernels, compiled for the emulator; CHECKED:
# so that emulator/check.h sees every access. g++ alone can do that: clang's calls have no file of their own.
function(sparkpilot_emulated_kernels target)
  cmake_parse_arguments(ARG "CHECKED" "" "SOURCES" ${ARGN})
  set(sources ${SPARKPILOT_KERNEL_SOURCES} ${ARG_SOURCES})
  set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT ${sources})
  sparkpilot_flags(${target})
  # A GPU's fused multiply-adds are written as such; `#pragma unroll` is nvcc's.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wno-unknown-pragmas)
  if(ARG_CHECKED)
    target_compile_options(${target} PRIVATE -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -g1)
  endif()
endfunction()

# The emulator and its tests, which run kernels that are checked. Nothing of it is installed.
function(sparkpilot_emulator)
  if(NOT SPARKPILOT_TESTS OR SPARKPILOT_PLAIN OR SPARKPILOT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  sparkpilot_room(emulator PRECOMPILED precompiled_std LINK base ${CMAKE_DL_LIBS})
  target_compile_options(emulator PRIVATE -ffp-contract=off)
  file(GLOB kernel_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*_test.cc)
  target_sources(emulator_test PRIVATE ${kernel_tests})
  sparkpilot_emulated_kernels(kernels_checked CHECKED SOURCES ${PROJECT_SOURCE_DIR}/src/emulator/broken_test.cu)
  target_link_libraries(emulator_test PRIVATE kernels_checked)
  # As code for the processor, these headers are all of the toolkit that is needed.
  find_path(CUDA_INCLUDE cuda_fp4.h HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
  if(CUDA_INCLUDE)
    target_include_directories(emulator_test SYSTEM PRIVATE ${CUDA_INCLUDE})
  else()
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/emulator/number_cuda_test.cc PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()
