# CUDA kernels: for GPUs by nvcc where it is found, and for tests as code of the processor (src/emulator).

file(GLOB_RECURSE SPARKPILOT_KERNEL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*.cu
     ${PROJECT_SOURCE_DIR}/src/sim/*.cu)

# sparkpilot_emulated_kernels(TARGET [CHECKED]): the object library TARGET of all kernels, compiled for the emulator; CHECKED:
# so that emulator/check.h sees every access. g++ alone can do that: clang's calls have no file of their own. They show nothing of
# themselves and lie at any address, because modules take them.
function(sparkpilot_emulated_kernels target)
  cmake_parse_arguments(ARG "CHECKED" "" "SOURCES" ${ARGN})
  set(sources ${SPARKPILOT_KERNEL_SOURCES} ${ARG_SOURCES})
  set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT ${sources})
  sparkpilot_flags(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
  # A GPU's fused multiply-adds are written as such; `#pragma unroll` is nvcc's. What belongs to a thread is reached without a call.
  # -O2 takes half again as long to compile, and the tests are a twentieth faster.
  target_compile_options(${target} PRIVATE -O1 -ffp-contract=off -Wno-unknown-pragmas -ftls-model=initial-exec)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -mfma)
  endif()
  if(ARG_CHECKED)
    target_compile_options(${target} PRIVATE -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -g1)
  endif()
endfunction()

# The emulator and its tests, which run kernels that are checked. Nothing of it is installed.
function(sparkpilot_emulator)
  if(NOT SPARKPILOT_TESTS OR SPARKPILOT_PLAIN OR SPARKPILOT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  sparkpilot_room(emulator PRECOMPILED precompiled_std LINK base ${CMAKE_DL_LIBS} APART memory.cc)
  target_compile_options(emulator PRIVATE -ffp-contract=off -ftls-model=initial-exec)  # threads' own things without a call
  file(GLOB kernel_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*_test.cc)
  target_sources(emulator_test PRIVATE ${kernel_tests})
  sparkpilot_emulated_kernels(kernels_checked CHECKED SOURCES ${PROJECT_SOURCE_DIR}/src/emulator/broken_test.cu)
  target_link_libraries(emulator_test PRIVATE kernels_checked)
endfunction()

# Tests named x_cuda_test.cc include headers of the CUDA toolkit, as code for the processor. Without them they are left out.
function(sparkpilot_toolkit_tests)
  find_path(CUDA_INCLUDE cuda_fp4.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(CUDA_INCLUDE)
  foreach(room IN ITEMS hw emulator comm)
    if(CUDA_INCLUDE AND TARGET ${room}_test AND NOT SPARKPILOT_PLAIN)
      file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*_cuda_test.cc)
      target_sources(${room}_test PRIVATE ${tests})
      set_source_files_properties(${tests} PROPERTIES COMPILE_OPTIONS "-isystem;${CUDA_INCLUDE}")
    endif()
  endforeach()
endfunction()

# Ranges for NVIDIA's profilers (runtime/nvtx.h) need NVTX's headers, which come with the CUDA toolkit, and no library. The tool that
# tests load in a profiler's place takes them down.
function(sparkpilot_nvtx target)
  find_path(NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(NVTX_INCLUDE)
  get_target_property(imported ${target} IMPORTED)
  if(NOT NVTX_INCLUDE OR imported)
    return()
  endif()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/runtime/nvtx.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_DEFINITIONS SPARKPILOT_NVTX COMPILE_OPTIONS "-isystem;${NVTX_INCLUDE}")
  target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS})
  if(SPARKPILOT_TESTS AND NOT SPARKPILOT_PLAIN)
    add_library(fake_nvtx MODULE ${PROJECT_SOURCE_DIR}/tests/fake_nvtx/tool.cc)
    target_compile_options(fake_nvtx PRIVATE ${SPARKPILOT_WARNINGS} -isystem ${NVTX_INCLUDE})
  endif()
endfunction()

# libcuda.so.1 on the emulator, in a folder of its own that tests put first in LD_LIBRARY_PATH. It shows nothing of itself but the
# driver's functions, and carries its own copies of what it uses: the program that loads it has the same classes.
function(sparkpilot_emulated_driver)
  if(NOT TARGET emulator)
    return()
  endif()
  sparkpilot_emulated_kernels(kernels_emulated)
  set(src ${PROJECT_SOURCE_DIR}/src)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/emulated_cuda/*.cc)
  # Of the room stack what needs no further library.
  add_library(driver_emulated OBJECT ${sources} ${src}/stack/fatbin.cc ${src}/stack/source.cc ${src}/stack/gpu.cc)
  sparkpilot_flags(driver_emulated)
  sparkpilot_precompiled(driver_emulated FROM precompiled_std)
  target_include_directories(driver_emulated PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(driver_emulated PRIVATE -ffp-contract=off -ftls-model=initial-exec)
  target_link_libraries(driver_emulated PRIVATE fmt::fmt OpenMP::OpenMP_CXX Threads::Threads)
  set(exports ${PROJECT_SOURCE_DIR}/tests/emulated_cuda/libcuda.map)
  add_library(emulated_cuda MODULE $<TARGET_OBJECTS:driver_emulated> $<TARGET_OBJECTS:kernels_emulated>)
  add_library(emulated_cuda_checked MODULE $<TARGET_OBJECTS:driver_emulated> $<TARGET_OBJECTS:kernels_checked>)
  foreach(target emulated_cuda emulated_cuda_checked)
    target_link_libraries(${target} PRIVATE emulator)
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic -Wl,-z,defs -Wl,--version-script=${exports})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1 LINKER_LANGUAGE CXX
                          LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${target})
  endforeach()
  # libnccl.so.2 for GPUs of that driver, which it finds in the process.
  add_library(emulated_nccl MODULE ${PROJECT_SOURCE_DIR}/tests/emulated_nccl/nccl.cc)
  sparkpilot_flags(emulated_nccl)
  target_link_libraries(emulated_nccl PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(emulated_nccl PRIVATE -Wl,-Bsymbolic -Wl,-z,defs)
  set_target_properties(emulated_nccl PROPERTIES PREFIX "" OUTPUT_NAME libnccl SUFFIX .so.2 CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/emulated_nccl)
endfunction()

# The GPU code inside the program: a fat binary of each source, for every architecture that this nvcc knows, made into an object.
# It does not depend on the processor, so a cross build carries the same. Without nvcc there is none.
function(sparkpilot_kernel_images target)
  find_program(NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(NVCC)
  set(folder ${PROJECT_BINARY_DIR}/generated/ops/cuda)
  set(declarations "")
  set(images "")
  set(assembly "")
  set(names "")
  if(NVCC)
    execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(version MATCHES "release ([0-9]+)\\.([0-9]+)" AND CMAKE_MATCH_1 LESS 12)
      message(WARNING "${NVCC} is of CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, and kernels need C++20, which 12.0 and newer compile: "
                      "this build holds no GPU code")
      set(NVCC "")
    endif()
  endif()
  if(NVCC)
    execute_process(COMMAND ${NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
    # Two readings of the source, as for 8.0 and as for 9.0, whose kernels wait for the one before them (device_gpu.cuh): machine
    # code of each further architecture is a tenth of a reading's time. PTX is for what is newer. Only the sources named below use what
    # some architectures have, and are read for each.
    set(by_architecture words e4m3_conv e4m3_gemm nvfp4_gemm quantize)
    set(numbers_80 "")
    set(numbers_90 "")
    set(each "")
    set(size "")
    foreach(number 80 89 90)
      if(known MATCHES "compute_${number}\n")
        if(number LESS 90)
          list(APPEND numbers_80 sm_${number})
        else()
          list(APPEND numbers_90 sm_${number})
        endif()
        list(APPEND each -gencode arch=compute_${number},code=sm_${number})
        string(APPEND names "\"sm_${number}\", ")
      endif()
    endforeach()
    if(known MATCHES "compute_121\n")  # 12.9 or newer
      set(size --compress-mode=size)  # a fifth of the default's bytes
      set_property(GLOBAL PROPERTY SPARKPILOT_IMAGES_BY_ZSTD TRUE)
      list(APPEND numbers_90 sm_120)  # runs on 12.1, too
      list(APPEND each -gencode arch=compute_120f,code=sm_120f)
      string(APPEND names "\"sm_120\", ")
    else()
      message(STATUS "${NVCC} does not know sm_120: GPUs of 12.x get PTX")
    endif()
    string(REPLACE ";" "," numbers_80 "${numbers_80}")
    string(REPLACE ";" "," numbers_90 "${numbers_90}")
    string(APPEND names "\"compute_90\"")
    foreach(source IN LISTS SPARKPILOT_KERNEL_SOURCES)
      get_filename_component(name ${source} NAME_WE)
      set(image ${folder}/${name}.fatbin)
      set(flags -gencode "arch=compute_80,code=[${numbers_80}]" -gencode "arch=compute_90,code=[${numbers_90},compute_90]")
      if(name IN_LIST by_architecture)
        set(flags ${each} -gencode arch=compute_90,code=compute_90)
      elseif(name STREQUAL worlds)
        list(APPEND flags -fmad=false)  # a world's roundings are those of its source (src/sim/number-inl.h)
      endif()
      # Names of what a source keeps to itself hold a hash of its path, which nvcc tells cicc; ours is the same wherever the sources
      # lie.
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
      add_custom_command(OUTPUT ${image} VERBATIM COMMENT "GPU code of ${name}.cu"
        COMMAND ${NVCC} -fatbin -Xcicc --orig_src_path_name,${path} -std=c++20 -O3 --Werror all-warnings
                -Xptxas -warn-spills,-warn-lmem-usage,-Werror ${size} ${flags}
                -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -MD -MF ${image}.d -o ${image} ${source}
        DEPENDS ${source} DEPFILE ${image}.d)
      list(APPEND files ${image})
      string(APPEND assembly ".globl sparkpilot_image_${name}\n.hidden sparkpilot_image_${name}\n.balign 16\n"
             "sparkpilot_image_${name}:\n.incbin \\\"${image}\\\"\n.globl sparkpilot_image_${name}_end\n"
             ".hidden sparkpilot_image_${name}_end\nsparkpilot_image_${name}_end:\n")
      string(APPEND declarations "extern const std::byte sparkpilot_image_${name}[], sparkpilot_image_${name}_end[];\n")
      string(APPEND images "    {\"${name}\", sparkpilot_image_${name}, sparkpilot_image_${name}_end},\n")
    endforeach()
  endif()
  string(REPLACE "\n" "\\n\"\n    \"" assembly "${assembly}")
  file(CONFIGURE OUTPUT ${folder}/image_table.cc @ONLY CONTENT [[// Made by cmake/cuda.cmake.
#include <array>

#include "ops/cuda/images.h"

asm(".section .rodata\n"
    "@assembly@"
    ".text\n");
extern "C" {
@declarations@}

namespace sparkpilot::cuda {

std::span<const Image> images() {
  static const std::vector<Image> table = {
@images@  };
  return table;
}
std::span<const std::string_view> image_targets() {
  static const std::vector<std::string_view> table = {@names@};
  return table;
}

}  // namespace sparkpilot::cuda
]])
  # Of its own: $<TARGET_OBJECTS> of a library leaves out what others compiled, and package.cmake asks for both.
  add_library(${target}_images OBJECT ${folder}/image_table.cc)
  sparkpilot_flags(${target}_images)
  target_link_libraries(${target}_images PRIVATE fmt::fmt)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_images>)
  set_source_files_properties(${folder}/image_table.cc PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()
